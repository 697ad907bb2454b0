//! Who waits at a server, in turn, and why.

use super::{ago, or_unknown};
use crate::client::rows::{Moment, QueueRow};
use crate::text::page::{BAD, FAINT, GOOD, PLAIN, Page};
use crate::text::table::{Align, Table};

/// Prints the pending entries, and the reason for each.
pub(crate) fn queue(page: &mut Page, rows: &[QueueRow], now: Moment) {
    if rows.is_empty() {
        return page.styled(0, GOOD, "nothing is pending");
    }
    let mut table = Table::new(&[
        ("POSITION", Align::Right),
        ("PENDING", Align::Left),
        ("MODEL", Align::Left),
        ("RESERVATIONS", Align::Right),
        ("PRIORITY", Align::Right),
        ("AGE", Align::Right),
        ("DEADLINE", Align::Left),
    ]);
    for row in rows {
        table.row([
            or_unknown(row.position),
            row.id.clone(),
            row.model.clone(),
            or_unknown(row.reservations),
            or_unknown(row.priority),
            ago(row.created, now),
            row.deadline.map_or("-".to_string(), |deadline| format!("in {}", deadline.ahead(now))),
        ]);
    }
    table.print(page, 0);
    page.heading("Why");
    for row in rows {
        page.pieces(2, &[(BAD, &row.id), (PLAIN, ": "), (PLAIN, &why(row))]);
        for line in besides(row, now) {
            page.styled(4, FAINT, &line);
        }
    }
}

/// One who waits, and all that is known of it.
pub(crate) fn waiting(page: &mut Page, row: &QueueRow, now: Moment) {
    let kind = match row.kind.as_deref() {
        Some("slot") => "a slot that waits for a GPU",
        Some("reservation") => "a reservation that waits for a slot",
        _ => "somebody who waits",
    };
    let deadline =
        row.deadline.map_or(String::new(), |at| format!(", gives up in {}", at.ahead(now)));
    page.line(1, &format!("{kind}: model {}, for {}{deadline}", row.model, ago(row.created, now)));
    let (reservations, priority) = (or_unknown(row.reservations), or_unknown(row.priority));
    page.line(
        1,
        &format!(
            "position {}, reservations {reservations}, priority {priority}",
            or_unknown(row.position)
        ),
    );
    page.styled(1, BAD, &why(row));
    for line in besides(row, now) {
        page.line(1, &line);
    }
}

/// Why it waits.
pub(crate) fn why(row: &QueueRow) -> String {
    row.reason
        .clone()
        .filter(|reason| !reason.is_empty())
        .unwrap_or_else(|| "it does not say why".to_string())
}

/// What else is known of its waiting.
pub(crate) fn besides(row: &QueueRow, now: Moment) -> Vec<String> {
    let promised = row.promised.as_ref().map(crate::client::rows::PromisedRow::words);
    let prewarmed = row.prewarmed.then(|| "nobody asked for it yet, so it goes last".to_string());
    let failed = row.failures.filter(|failures| *failures > 0).map(|failures| {
        let times = if failures == 1 { "once".to_string() } else { format!("{failures} times") };
        let again = row
            .retry_at
            .map_or(String::new(), |at| format!(", and is tried again in {}", at.ahead(now)));
        format!("its start failed {times}{again}")
    });
    promised.into_iter().chain(failed).chain(prewarmed).collect()
}
