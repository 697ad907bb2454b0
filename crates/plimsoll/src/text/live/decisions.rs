//! The latest decisions of a server, one line each.

use plimsoll_api::rows::{DecisionRow, Time};

use super::{gpus, memory};
use crate::text::age::ago;
use crate::text::or_else;
use crate::text::page::{BAD, FAINT, GOOD, PLAIN, Page};
use crate::text::table::{Align, Table};

/// Prints the decisions, and the reason of every rejection.
pub(crate) fn decisions(page: &mut Page, rows: &[DecisionRow], now: Time) {
    if rows.is_empty() {
        return page.styled(0, FAINT, "no decisions");
    }
    let mut table = Table::new(&[
        ("DECISION", Align::Left),
        ("AGE", Align::Right),
        ("MODEL", Align::Left),
        ("SLOT", Align::Left),
        ("OUTCOME", Align::Left),
        ("RUNNER", Align::Left),
        ("GPUS", Align::Left),
        ("MEMORY", Align::Right),
    ]);
    for row in rows {
        let allocation = row.gpu_allocation.as_ref();
        let outcome = if row.placed { (GOOD, "placed") } else { (BAD, "rejected") };
        table.styled_row([
            (PLAIN, or_else(row.id.as_ref(), "-")),
            (PLAIN, ago(row.created, now)),
            (PLAIN, row.model.clone()),
            (PLAIN, or_else(row.slot_id.as_ref(), "-")),
            (outcome.0, outcome.1.to_string()),
            (PLAIN, or_else(row.runner_id.as_ref().filter(|_| row.placed), "-")),
            (PLAIN, gpus(allocation)),
            (PLAIN, memory(allocation)),
        ]);
    }
    table.print(page, 0);
    rejected(page, rows);
}

/// Prints the reasons of rejections, equal ones once: a pending slot is decided again at every
/// change, mostly with the same answer.
fn rejected(page: &mut Page, rows: &[DecisionRow]) {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows.iter().filter(|row| !row.placed) {
        let (id, why) = (row.id.as_deref().unwrap_or(&row.model), row.why());
        match reasons.iter_mut().find(|(other, _)| *other == why) {
            Some((_, ids)) => ids.push(id),
            None => reasons.push((why, vec![id])),
        }
    }
    if !reasons.is_empty() {
        page.heading("Rejected");
    }
    for (reason, ids) in reasons {
        page.pieces(2, &[(BAD, &ids.join(", ")), (PLAIN, ": "), (PLAIN, reason)]);
    }
}
