//! The queue: pending slots and reservations in order, with their current reasons.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use plimsoll_core::request::RequestId;
use plimsoll_core::scheduler::Forecasts;
use plimsoll_slots::desk::{DeskView, PendingEntry};

use super::input::{self, Page, Params};
use super::problem::{Answer, Problem};
use super::state::AppState;
use plimsoll_api::clause::WhyRow;
use plimsoll_api::explanation::{self, PromisedRow};
use plimsoll_api::forecast::ForecastRow;
use plimsoll_api::rows::{ProblemRow, QueueRow, QueuedKind, time};

/// Lists what is pending
#[utoipa::path(get, path = "/api/v1/scheduler/queue", operation_id = "list_queue", tag = "scheduler", params(Page), responses(
    (status = 200, description = "Pending slots in order, then pending reservations in order", body = Vec<QueueRow>),
    (status = 410, description = "The cursor is no longer pending; start from the beginning", body = ProblemRow),
))]
pub(crate) async fn list(
    State(app): State<AppState>,
    uri: Uri,
    Params(page): Params<Page>,
) -> Answer<Response> {
    let limit = input::rows_wanted(page.limit.as_deref())?;
    let after = page.after.clone();
    let rows = app
        .engine()?
        .read(move |desk, core| {
            let mut forecasts = core.scheduler().forecasts(core.now());
            some(desk.view(core.scheduler()), &mut forecasts, after.as_deref(), limit + 1)
        })
        .await?;
    let gone = || {
        let detail = format!(
            "{} is no longer pending; start from the beginning",
            page.after.unwrap_or_default()
        );
        Problem::new(StatusCode::GONE, "cursor_expired", detail).about("after")
    };
    Ok(input::page(&uri, &rows.ok_or_else(gone)?, limit, |row| Some(&row.id)))
}

/// Returns the entries after a cursor; `None` if the cursor is no longer pending.
fn some(
    desk: DeskView<'_>,
    forecasts: &mut Forecasts<'_>,
    after: Option<&str>,
    most: usize,
) -> Option<Vec<QueueRow>> {
    let mut all = (1_usize..).zip(desk.pending_in_turn());
    if let Some(after) = after {
        all.find(|(_, entry)| id(entry) == after)?;
    }
    Some(all.take(most).map(|(position, entry)| row(desk, position, &entry, forecasts)).collect())
}

fn id(entry: &PendingEntry<'_>) -> String {
    match entry {
        PendingEntry::Slot { slot, .. } => slot.id.to_string(),
        PendingEntry::Reservation(reservation) => reservation.id.to_string(),
    }
}

fn row(
    desk: DeskView<'_>,
    position: usize,
    entry: &PendingEntry<'_>,
    forecasts: &mut Forecasts<'_>,
) -> QueueRow {
    let now = forecasts.now();
    match entry {
        PendingEntry::Slot { slot, entry, reservations } => {
            let terms = &entry.request.terms;
            let promised = promised(desk, &entry.request.id);
            let reason = desk.slot_reason(slot);
            QueueRow {
                position,
                kind: QueuedKind::Slot,
                id: slot.id.to_string(),
                model: slot.model.clone(),
                runner_id: promised.as_ref().map(|promised| promised.node.to_string()),
                created: time(slot.created),
                reason: reason.to_string(),
                why: WhyRow::new(&reason, now),
                reservations: *reservations,
                priority: terms.priority,
                prewarmed: terms.speculative,
                deadline: desk.first_deadline(slot).map(time),
                failures: desk.scheduler().queue().failures(&entry.request.id),
                retry_at: entry.backoff.map(|backoff| time(backoff.until)),
                promised,
                forecast: forecast(forecasts, &entry.request.id),
            }
        }
        PendingEntry::Reservation(reservation) => {
            let reason = desk.status_reason(reservation.id);
            QueueRow {
                position,
                kind: QueuedKind::Reservation,
                id: reservation.id.to_string(),
                model: reservation.model.clone(),
                runner_id: None,
                created: time(reservation.created),
                reason: reason.as_ref().map(ToString::to_string).unwrap_or_default(),
                why: reason.map(|reason| WhyRow::new(&reason, now)).unwrap_or_default(),
                reservations: 1,
                priority: desk
                    .model(&reservation.model)
                    .map_or(0, |model| model.declared().priority),
                prewarmed: false,
                deadline: reservation.deadline.map(time),
                failures: 0,
                retry_at: None,
                promised: None,
                forecast: None,
            }
        }
    }
}

/// Returns the placement promised to a request.
pub(crate) fn promised(desk: DeskView<'_>, request: &RequestId) -> Option<PromisedRow> {
    let ledger = desk.scheduler().ledger();
    Some(explanation::promise_on(ledger, ledger.promise_to(request)?))
}

/// Returns the prospects of a request, if it is pending.
pub(crate) fn forecast(forecasts: &mut Forecasts<'_>, request: &RequestId) -> Option<ForecastRow> {
    let forecast = forecasts.of(request)?;
    Some(ForecastRow::new(&forecast, forecasts.now()))
}
