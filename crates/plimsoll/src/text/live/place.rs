//! A place in a model, and a slot, each by itself: how it stands and why.

use super::{ago, gpus, memory};
use crate::client::rows::{Moment, PlaceRow, SlotRow};
use crate::text::live::slots::{may_go, stage_style};
use crate::text::page::{BAD, FAINT, GOOD, NEW, ODD, PLAIN, Page};

/// How a place stands.
pub(crate) fn place(page: &mut Page, row: &PlaceRow, now: Moment) {
    let status = row.status.as_deref().unwrap_or("?");
    let style = match status {
        "ready" => GOOD,
        "coming" => NEW,
        "waiting" | "released" => ODD,
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
        page.line(2, &format!("gives up in {}", deadline.ahead(now)));
    }
}

/// What to type next.
pub(crate) fn what_next(page: &mut Page, row: &PlaceRow, server: &str) {
    let id = &row.id;
    if row.is_open() && !row.is_ready() {
        page.styled(
            2,
            FAINT,
            &format!("how it stands later: plimsoll explain --server {server} {id}"),
        );
    }
    if row.is_open() {
        page.styled(2, FAINT, &format!("to give it back: plimsoll release --server {server} {id}"));
    }
}

/// How a slot stands.
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
    page.line(2, &format!("places taken: {active} of {most}; made {} ago", ago(row.created, now)));
    if let Some(evictable) = &row.evictable {
        page.line(2, &format!("may go: {}", may_go(evictable, now)));
    }
    if let Some(endpoint) = &row.endpoint {
        page.line(2, &format!("answers at {endpoint}"));
    }
}
