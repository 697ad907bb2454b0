//! The last decisions of a server, one line each.

use super::{ago, gpus, memory, or_none};
use crate::client::rows::{DecisionRow, Moment};
use crate::text::page::{BAD, FAINT, GOOD, PLAIN, Page};
use crate::text::table::{Align, Table};

/// The table of decisions, and the sentence of every refusal.
pub(crate) fn decisions(page: &mut Page, rows: &[DecisionRow], now: Moment) {
    if rows.is_empty() {
        return page.styled(0, FAINT, "there are no decisions");
    }
    let mut table = Table::new(&[
        ("DECISION", Align::Left),
        ("AGO", Align::Right),
        ("MODEL", Align::Left),
        ("SLOT", Align::Left),
        ("ANSWER", Align::Left),
        ("RUNNER", Align::Left),
        ("GPUS", Align::Left),
        ("MEMORY", Align::Right),
    ]);
    for row in rows {
        let allocation = row.gpu_allocation.as_ref();
        let runner = row.runner_id.as_deref().filter(|_| row.placed);
        table.styled_row([
            (PLAIN, or_none(row.id.as_deref())),
            (PLAIN, ago(row.created, now)),
            (PLAIN, row.model.clone()),
            (PLAIN, or_none(row.slot_id.as_deref())),
            if row.placed { (GOOD, "placed".to_string()) } else { (BAD, "refused".to_string()) },
            (PLAIN, or_none(runner)),
            (PLAIN, gpus(allocation)),
            (PLAIN, memory(allocation)),
        ]);
    }
    table.print(page, 0);
    refused(page, rows);
}

/// Why those were refused that were. One who waits is decided anew at every change, mostly with the same answer.
fn refused(page: &mut Page, rows: &[DecisionRow]) {
    let mut answers: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows.iter().filter(|row| !row.placed) {
        let (id, why) = (row.id.as_deref().unwrap_or(&row.model), row.why());
        match answers.iter_mut().find(|(other, _)| *other == why) {
            Some((_, ids)) => ids.push(id),
            None => answers.push((why, vec![id])),
        }
    }
    if !answers.is_empty() {
        page.heading("Refused");
    }
    for (summary, ids) in answers {
        page.pieces(2, &[(BAD, &ids.join(", ")), (PLAIN, ": "), (PLAIN, summary)]);
    }
}
