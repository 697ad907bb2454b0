//! The pending slots and reservations of a server in order, and why they are pending.

use plimsoll_api::rows::{QueueRow, QueuedKind, Time};

use crate::text::age::{ago, ahead};
use crate::text::decision::promise;
use crate::text::page::{BAD, FAINT, GOOD, PLAIN, Page};
use crate::text::table::{Align, Table};

/// Prints the pending entries, and the reason for each.
pub(crate) fn queue(page: &mut Page, rows: &[QueueRow], now: Time) {
    if rows.is_empty() {
        return page.styled(0, GOOD, "the queue is empty");
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
        let deadline = row.deadline.map(|at| format!("in {}", ahead(at, now)));
        table.row([
            row.position.to_string(),
            row.id.clone(),
            row.model.clone(),
            row.reservations.to_string(),
            row.priority.to_string(),
            ago(row.created, now),
            deadline.unwrap_or("-".to_string()),
        ]);
    }
    table.print(page, 0);
    page.heading("Reasons");
    for row in rows {
        page.pieces(2, &[(BAD, &row.id), (PLAIN, ": "), (PLAIN, &row.reason)]);
        for line in details(row, now) {
            page.styled(4, FAINT, &line);
        }
    }
}

/// Prints one pending entry.
pub(crate) fn pending(page: &mut Page, row: &QueueRow, now: Time) {
    let kind = match row.kind {
        QueuedKind::Slot => "slot, pending for GPUs",
        QueuedKind::Reservation => "reservation, pending for a slot",
    };
    let deadline =
        row.deadline.map_or(String::new(), |at| format!(", deadline in {}", ahead(at, now)));
    let QueueRow { model, position, reservations, priority, .. } = row;
    page.line(1, &format!("{kind}: model {model}, for {}{deadline}", ago(row.created, now)));
    let place = format!("position {position}, reservations {reservations}, priority {priority}");
    page.line(1, &place);
    page.styled(1, BAD, &row.reason);
    for line in details(row, now) {
        page.line(1, &line);
    }
}

/// Returns lines about its promise, failed starts and prewarming.
fn details(row: &QueueRow, now: Time) -> Vec<String> {
    let mut lines: Vec<String> = row.promised.iter().map(promise).collect();
    if row.failures > 0 {
        let times =
            if row.failures == 1 { "once".to_string() } else { format!("{} times", row.failures) };
        let retry =
            row.retry_at.map_or(String::new(), |at| format!(", next try in {}", ahead(at, now)));
        lines.push(format!("start failed {times}{retry}"));
    }
    if row.prewarmed {
        lines.push("prewarmed: no client has asked for it yet, so it is placed last".to_string());
    }
    lines
}
