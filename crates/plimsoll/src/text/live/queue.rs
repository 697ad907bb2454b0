//! The pending slots and reservations of a server in order, and why they are pending.

use plimsoll_api::forecast::ForecastRow;
use plimsoll_api::rows::{QueueRow, QueuedKind, Time};

use crate::text::age::{ago, ahead};
use crate::text::decision::{clauses, promise};
use crate::text::live::accounts::over_guarantee;
use crate::text::live::reservation::forecast_lines;
use crate::text::page::{BAD, FAINT, GOOD, Page};
use crate::text::table::{Align, Table};
use crate::text::{count, or_else};

/// Prints the pending entries, each with its reason in a few words.
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
        ("ACCOUNT", Align::Left),
        ("STARTS", Align::Left),
        ("REASON", Align::Left),
    ])
    .optional(&["ACCOUNT", "PRIORITY", "RESERVATIONS", "POSITION"]);
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
            or_else(row.forecast.as_ref().map(account), "-"),
            starts(row),
            reason(row, now),
        ]);
    }
    table.print(page, 0);
    let first = &rows[0].id;
    page.styled(0, FAINT, &format!("plimsoll explain {first} shows every GPU and what would help"));
}

/// Formats the expected start of a pending slot in a few words.
pub(crate) fn starts(row: &QueueRow) -> String {
    or_else(row.forecast.as_ref().map(|forecast| &forecast.start.brief), "-")
}

/// Formats the account of a pending slot, and what it holds beyond its guarantee.
fn account(forecast: &ForecastRow) -> String {
    let account = &forecast.account;
    match over_guarantee(account) {
        Some(over) => format!("{} (+{over})", account.account),
        None => account.account.clone(),
    }
}

/// Formats why an entry is pending: its back-off after failed starts, its promise, or the reason.
pub(crate) fn reason(row: &QueueRow, now: Time) -> String {
    match (row.failures, row.retry_at, &row.promised) {
        (1.., Some(at), _) => backoff(row.failures, at, now),
        (_, _, Some(promised)) => format!("waits for memory on {}, promised", promised.node),
        _ => row.why.brief.clone(),
    }
}

/// Formats the back-off after failed starts: `back-off after 7 failed starts, next try in 41s`.
pub(crate) fn backoff(failures: u32, next: Time, now: Time) -> String {
    let starts = count(usize::try_from(failures).unwrap_or(usize::MAX), "failed start");
    format!("back-off after {starts}, next try in {}", ahead(next, now))
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
    let place = match &row.forecast {
        None => format!("position {position}, reservations {reservations}, priority {priority}"),
        Some(_) => format!("reservations {reservations}, priority {priority}"),
    };
    page.line(1, &place);
    page.styled(1, BAD, &row.why.brief);
    clauses(page, 1, &row.why.clauses);
    for line in details(row, now) {
        page.line(1, &line);
    }
}

/// Returns lines about its promise, failed starts and prewarming.
fn details(row: &QueueRow, now: Time) -> Vec<String> {
    let promised = row.promised.iter().map(|row| format!("promised {}", promise(row)));
    let mut lines: Vec<String> = promised.collect();
    lines.extend(row.forecast.iter().flat_map(forecast_lines));
    if let Some(at) = row.retry_at.filter(|_| row.failures > 0) {
        lines.push(backoff(row.failures, at, now));
    }
    if row.prewarmed {
        lines.push("prewarmed: no client has asked for it yet, so it is placed last".to_string());
    }
    lines
}
