//! One reservation or one slot: its status and the reason for it.

use super::{ago, gpus, memory};
use crate::client::rows::{Moment, ReservationRow, SlotRow};
use crate::text::live::slots::{may_go, stage_style};
use crate::text::page::{BAD, FAINT, GOOD, NEW, ODD, PLAIN, Page};

/// Prints a reservation.
pub(crate) fn reservation(page: &mut Page, row: &ReservationRow, now: Moment) {
    let status = row.status.as_deref().unwrap_or("?");
    let style = match status {
        "ready" => GOOD,
        "starting" => NEW,
        "pending" | "released" => ODD,
        _ => BAD,
    };
    page.heading(&row.id);
    page.pieces(2, &[(PLAIN, &format!("model {}: ", row.model)), (style, status)]);
    if let Some(reason) = row.reason.as_deref().filter(|reason| !reason.is_empty()) {
        page.line(2, reason);
    }
    if let Some(slot) = &row.slot_id {
        let runner =
            row.runner_id.as_deref().map_or(String::new(), |runner| format!(" on {runner}"));
        page.line(2, &format!("in {slot}{runner}"));
    }
    if let Some(allocation) = &row.gpu_allocation {
        page.line(
            2,
            &format!("holds {} on GPU {}", memory(Some(allocation)), gpus(Some(allocation))),
        );
    }
    if let Some(endpoint) = &row.endpoint {
        page.line(2, &format!("answers at {endpoint}"));
    }
    if let Some(promised) = &row.promised {
        page.line(2, &promised.words());
    }
    if let Some(deadline) = row.deadline.filter(|_| row.is_open() && !row.is_ready()) {
        page.line(2, &format!("expires in {}", deadline.ahead(now)));
    }
}

/// Prints the commands that follow up on a reservation.
pub(crate) fn next_steps(page: &mut Page, row: &ReservationRow, server: &str) {
    let id = &row.id;
    if row.is_open() && !row.is_ready() {
        page.styled(
            2,
            FAINT,
            &format!("check its status: plimsoll explain --server {server} {id}"),
        );
    }
    if row.is_open() {
        page.styled(2, FAINT, &format!("release it: plimsoll release --server {server} {id}"));
    }
}

/// Prints a slot.
pub(crate) fn slot(page: &mut Page, row: &SlotRow, now: Moment) {
    let stage = row.stage.as_deref().unwrap_or("?");
    page.heading(&row.id);
    let runner = row.runner_id.as_deref().map_or(String::new(), |runner| format!(" on {runner}"));
    page.pieces(
        2,
        &[
            (PLAIN, &format!("model {}: ", row.model)),
            (stage_style(stage), stage),
            (PLAIN, &runner),
        ],
    );
    if let Some(reason) = row.reason.as_deref().filter(|reason| !reason.is_empty()) {
        page.line(2, reason);
    }
    if let Some(allocation) = &row.gpu_allocation {
        page.line(
            2,
            &format!("holds {} on GPU {}", memory(Some(allocation)), gpus(Some(allocation))),
        );
    }
    let active = row.active_requests.map_or("?".to_string(), |active| active.to_string());
    let most = row.concurrency.map_or("?".to_string(), |most| most.to_string());
    page.line(
        2,
        &format!("reservations: {active} of {most}; created {} ago", ago(row.created, now)),
    );
    if let Some(evictable) = &row.eviction {
        page.line(2, &format!("evictable: {}", may_go(evictable, now)));
    }
    if let Some(endpoint) = &row.endpoint {
        page.line(2, &format!("answers at {endpoint}"));
    }
}
