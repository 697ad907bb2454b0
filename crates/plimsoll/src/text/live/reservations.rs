//! The reservations of a server, one line each.

use plimsoll_api::rows::{ReservationRow, Time};
use plimsoll_slots::lease::Lease;

use super::reservation::status_style;
use crate::text::age::{ago, ahead};
use crate::text::or_else;
use crate::text::page::{FAINT, PLAIN, Page};
use crate::text::table::{Align, Table};

/// Prints the reservations, and below the table the reasons of those that are not ready.
pub(crate) fn reservations(page: &mut Page, rows: &[ReservationRow], now: Time) {
    if rows.is_empty() {
        return page.styled(0, FAINT, "no reservations");
    }
    let mut table = Table::new(&[
        ("RESERVATION", Align::Left),
        ("MODEL", Align::Left),
        ("STATUS", Align::Left),
        ("CLIENT", Align::Left),
        ("SLOT", Align::Left),
        ("RUNNER", Align::Left),
        ("AGE", Align::Right),
        ("LEASE", Align::Left),
    ])
    .optional(&["LEASE", "AGE", "CLIENT"]);
    for row in rows {
        table.styled_row([
            (PLAIN, row.id.clone()),
            (PLAIN, row.model.clone()),
            (status_style(row.status), row.status.to_string()),
            (PLAIN, client(row)),
            (PLAIN, or_else(row.slot_id.as_ref(), "-")),
            (PLAIN, or_else(row.runner_id.as_ref(), "-")),
            (PLAIN, ago(row.created, now)),
            (PLAIN, lease(row, now)),
        ]);
    }
    table.print(page, 0);
    for row in rows.iter().filter(|row| row.endpoint.is_none()) {
        let id = (status_style(row.status), row.id.as_str());
        page.pieces(0, &[id, (PLAIN, ": "), (PLAIN, &row.why.brief)]);
    }
}

/// Formats the name of a client: `team-a/trainer-0`.
fn client(row: &ReservationRow) -> String {
    match (&row.namespace, &row.name) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        _ => "-".to_string(),
    }
}

/// Formats what is left of a lease: `9m of 10m`, `off`.
fn lease(row: &ReservationRow, now: Time) -> String {
    match (row.lease, row.lease_expires) {
        (Lease::Off, _) => "off".to_string(),
        (Lease::For(lease), Some(expires)) => format!("{} of {lease}", ahead(expires, now)),
        (Lease::For(_), None) => "-".to_string(),
    }
}
