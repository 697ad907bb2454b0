//! One reservation or one slot: its status and the reason for it.

use anstyle::Style;
use plimsoll_api::clause::{ClauseTopic, WhyRow};
use plimsoll_api::forecast::ForecastRow;
use plimsoll_api::rows::{ReservationRow, ReservationStatus, SlotRow, SlotStage, Time};
use plimsoll_slots::lease::Lease;

use super::holds;
use crate::text::age::{ago, ahead};
use crate::text::decision::{clauses, promise};
use crate::text::live::queue::backoff;
use crate::text::live::slots::{evictable, needs_reason, stage_style};
use crate::text::page::{BAD, FAINT, GOOD, NEW, ODD, PLAIN, Page};

/// Prints a reservation; its address comes first.
pub(crate) fn reservation(page: &mut Page, row: &ReservationRow, now: Time) {
    page.heading(&row.id);
    let status = (status_style(row.status), row.status.name());
    page.pieces(2, &[(PLAIN, &format!("model {}: ", row.model)), status]);
    if let Some(endpoint) = &row.endpoint {
        page.line(2, &format!("address {endpoint}"));
    }
    if row.status != ReservationStatus::Ready {
        why(page, &row.why);
    }
    if let Some(slot) = &row.slot_id {
        let runner = row.runner_id.as_deref().map_or(String::new(), |id| format!(" on {id}"));
        page.line(2, &format!("in {slot}{runner}"));
    }
    if let Some(allocation) = &row.gpu_allocation {
        page.line(2, &holds(allocation));
    }
    if let Some(promised) = &row.promised {
        page.line(2, &format!("promised {}", promise(promised)));
    }
    prospects(page, 2, row.forecast.as_ref());
    if let Some(deadline) = row.deadline.filter(|_| is_waiting(row.status)) {
        page.line(2, &format!("expires in {}", ahead(deadline, now)));
    }
    if row.status.is_open() {
        page.line(2, &lease(row, now));
    }
}

/// Prints the reason for a state line by line, and how the last start failed.
fn why(page: &mut Page, why: &WhyRow) {
    match &why.clauses[..] {
        [] => {}
        [one] if one.topic == ClauseTopic::Reason => page.line(2, &one.text),
        several => {
            page.line(2, &why.brief);
            clauses(page, 4, several);
        }
    }
    failure(page, why.failure.as_deref());
}

/// Prints the place of a pending request in the queue, its account and its expected start.
pub(crate) fn prospects(page: &mut Page, indent: usize, forecast: Option<&ForecastRow>) {
    let Some(forecast) = forecast else { return };
    for line in forecast_lines(forecast) {
        page.line(indent, &line);
    }
}

/// Returns the lines about a forecast.
pub(crate) fn forecast_lines(forecast: &ForecastRow) -> Vec<String> {
    let ForecastRow { position, ahead, ahead_count, account, parent, start, .. } = forecast;
    let shown: Vec<&str> = ahead.iter().map(String::as_str).collect();
    let rest = usize::try_from(*ahead_count).unwrap_or(usize::MAX).saturating_sub(shown.len());
    let place = match (shown.is_empty(), rest) {
        (true, _) => format!("position {position} in the queue"),
        (false, 0) => format!("position {position} in the queue, after {}", shown.join(", ")),
        (false, rest) => {
            format!("position {position} in the queue, after {} and {rest} more", shown.join(", "))
        }
    };
    let accounts = std::iter::once(account).chain(parent);
    let accounts = accounts.map(|account| format!("account {}", account.text));
    let start = format!("expected start: {}", start.text);
    std::iter::once(place).chain(accounts).chain([start]).collect()
}

/// Prints how a start failed, with the last output as it was.
fn failure(page: &mut Page, failure: Option<&str>) {
    let Some(failure) = failure else { return };
    let mut lines = failure.lines();
    let first = lines.next().unwrap_or_default();
    page.styled(2, BAD, &format!("last start failed: {first}"));
    for line in lines {
        page.styled(4, FAINT, line);
    }
}

/// Formats a lease in a sentence: `lease of 10m, released in 9m unless renewed`.
pub(crate) fn lease(row: &ReservationRow, now: Time) -> String {
    match (row.lease, row.lease_expires) {
        (Lease::Off, _) => "no lease; it lasts until it is released".to_string(),
        (Lease::For(lease), Some(expires)) => {
            format!("lease of {lease}, released in {} unless renewed", ahead(expires, now))
        }
        (Lease::For(lease), None) => format!("lease of {lease}"),
    }
}

fn is_waiting(status: ReservationStatus) -> bool {
    matches!(status, ReservationStatus::Pending | ReservationStatus::Starting)
}

/// Returns the style of a status.
pub(crate) fn status_style(status: ReservationStatus) -> Style {
    match status {
        ReservationStatus::Ready => GOOD,
        ReservationStatus::Starting => NEW,
        ReservationStatus::Pending | ReservationStatus::Released => ODD,
        ReservationStatus::Impossible
        | ReservationStatus::ModelRemoved
        | ReservationStatus::Expired
        | ReservationStatus::Lost
        | ReservationStatus::LeaseExpired => BAD,
    }
}

/// Prints the commands that follow up on a reservation.
pub(crate) fn next_steps(page: &mut Page, row: &ReservationRow, server: &str) {
    let id = &row.id;
    if is_waiting(row.status) {
        let command = format!("plimsoll explain --server {server} {id}");
        page.styled(2, FAINT, &format!("check its status: {command}"));
    }
    if row.status.is_open() && row.lease != Lease::Off {
        page.styled(2, FAINT, &format!("renew it: plimsoll renew --server {server} {id}"));
    }
    if row.status.is_open() {
        page.styled(2, FAINT, &format!("release it: plimsoll release --server {server} {id}"));
    }
}

/// The lines about a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// The first one: the decision that follows has the others.
    First,
    All,
}

/// Prints a slot.
pub(crate) fn slot(page: &mut Page, row: &SlotRow, now: Time, lines: Lines) {
    page.heading(&row.id);
    let runner = row.runner_id.as_deref().map_or(String::new(), |runner| format!(" on {runner}"));
    let model = format!("model {}: ", row.model);
    let stage = (stage_style(row.stage), row.stage.name());
    page.pieces(2, &[(PLAIN, &model), stage, (PLAIN, &runner)]);
    if let Some(endpoint) = &row.endpoint {
        page.line(2, &format!("address {endpoint}"));
    }
    if let Some(at) = row.retry_at.filter(|_| row.failures > 0) {
        page.styled(2, ODD, &backoff(row.failures, at, now));
    }
    if let Some(ended) = &row.ended {
        let text = format!("ended {} ago ({}): {}", ago(ended.at, now), ended.cause, row.why.brief);
        page.line(2, &text);
    }
    if needs_reason(row.stage) && lines == Lines::All {
        why(page, &row.why);
    } else if needs_reason(row.stage) {
        page.line(2, &row.why.brief);
        failure(page, row.why.failure.as_deref());
    } else {
        failure(page, row.why.failure.as_deref());
    }
    if let Some(allocation) = &row.gpu_allocation {
        page.line(2, &holds(allocation));
    }
    if row.stage == SlotStage::Gone {
        return page.styled(2, FAINT, &format!("output: plimsoll logs {}", row.id));
    }
    let SlotRow { active_requests, concurrency, .. } = row;
    let age = ago(row.created, now);
    page.line(2, &format!("reservations: {active_requests} of {concurrency}; created {age} ago"));
    prospects(page, 2, row.forecast.as_ref());
    if let Some(eviction) = &row.eviction {
        page.line(2, &format!("evictable: {}", evictable(eviction, now)));
    }
}
