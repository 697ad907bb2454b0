//! Who waits, in turn, with the reason of now.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use plimsoll_core::request::RequestId;
use plimsoll_slots::desk::{Desk, Unplaced};

use super::input::{self, Page, Params};
use super::parts::Parts;
use super::problem::{Answer, Problem};
use super::rows::{ProblemRow, QueueRow, QueuedKind, time};
use crate::json::{self, PromisedRow};

/// Who waits, in turn
#[utoipa::path(get, path = "/api/v1/scheduler/queue", operation_id = "list_queue", tag = "scheduler", params(Page), responses(
    (status = 200, description = "Slots that wait for a GPU in their turn, then places that wait for a slot in theirs", body = Vec<QueueRow>),
    (status = 410, description = "The one to go on after waits no more; start from the beginning", body = ProblemRow),
))]
pub(crate) async fn list(
    State(parts): State<Parts>,
    uri: Uri,
    Params(page): Params<Page>,
) -> Answer<Response> {
    let limit = input::rows_wanted(page.limit.as_deref())?;
    let after = page.after.clone();
    let rows = parts.engine()?.read(move |desk, _| some(desk, after.as_deref(), limit + 1)).await?;
    let gone = || {
        let detail =
            format!("{} waits no more; start from the beginning", page.after.unwrap_or_default());
        Problem::new(StatusCode::GONE, "cursor_gone", detail).about("after")
    };
    let mut rows = rows.ok_or_else(gone)?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    Ok(input::list(&uri, &rows, rows.last().filter(|_| more).map(|row| row.id.as_str())))
}

/// Those who wait after one; `None` where that one waits no more.
fn some(desk: &Desk, after: Option<&str>, most: usize) -> Option<Vec<QueueRow>> {
    let mut all = (1_usize..).zip(desk.unplaced());
    if let Some(after) = after {
        all.find(|(_, unplaced)| id(unplaced) == after)?;
    }
    Some(all.take(most).map(|(position, unplaced)| row(desk, position, &unplaced)).collect())
}

fn id(unplaced: &Unplaced<'_>) -> String {
    match unplaced {
        Unplaced::Slot { slot, .. } => slot.id.to_string(),
        Unplaced::Place(place) => format!("place-{}", place.id),
    }
}

fn row(desk: &Desk, position: usize, unplaced: &Unplaced<'_>) -> QueueRow {
    match unplaced {
        Unplaced::Slot { slot, waiting, places } => {
            let terms = &waiting.request.terms;
            let promised = promised(desk, &waiting.request.id);
            QueueRow {
                position,
                kind: QueuedKind::Slot,
                id: slot.id.to_string(),
                model: slot.model.clone(),
                runner_id: promised.as_ref().map(|promised| promised.node.to_string()),
                created: time(slot.created),
                reason: desk.why_slot_waits(slot),
                places: *places,
                priority: terms.priority,
                prewarmed: terms.speculative,
                deadline: desk.first_deadline(slot).map(time),
                failures: desk.scheduler().queue().failures(&waiting.request.id),
                retry_at: waiting.backoff.map(|backoff| time(backoff.until)),
                promised,
            }
        }
        Unplaced::Place(place) => QueueRow {
            position,
            kind: QueuedKind::Place,
            id: format!("place-{}", place.id),
            model: place.model.clone(),
            runner_id: None,
            created: time(place.created),
            reason: desk.why_waiting(place.id),
            places: 1,
            priority: desk.model(&place.model).map_or(0, |model| model.declared().priority),
            prewarmed: false,
            deadline: place.deadline.map(time),
            failures: 0,
            retry_at: None,
            promised: None,
        },
    }
}

/// What somebody who waits was promised, where it was.
pub(crate) fn promised(desk: &Desk, request: &RequestId) -> Option<PromisedRow> {
    let ledger = desk.scheduler().ledger();
    let promise = ledger.promise_to(request)?;
    Some(json::promised_row(promise, &ledger.promised_device_labels(promise)))
}
