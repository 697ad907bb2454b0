//! Who waits, in turn, with the reason of now.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use plimsoll_core::request::RequestId;
use plimsoll_slots::desk::{DeskView, PendingEntry};

use super::input::{self, Page, Params};
use super::parts::Parts;
use super::problem::{Answer, Problem};
use plimsoll_api::rows::{ProblemRow, QueueRow, QueuedKind, time};
use plimsoll_api::verdict::{self, PromisedRow};

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
    let look = parts
        .engine()?
        .read(move |desk, core| some(desk.view(core.scheduler()), after.as_deref(), limit + 1));
    let rows = look.await?;
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
fn some(desk: DeskView<'_>, after: Option<&str>, most: usize) -> Option<Vec<QueueRow>> {
    let mut all = (1_usize..).zip(desk.pending());
    if let Some(after) = after {
        all.find(|(_, unplaced)| id(unplaced) == after)?;
    }
    Some(all.take(most).map(|(position, unplaced)| row(desk, position, &unplaced)).collect())
}

fn id(unplaced: &PendingEntry<'_>) -> String {
    match unplaced {
        PendingEntry::Slot { slot, .. } => slot.id.to_string(),
        PendingEntry::Reservation(reservation) => reservation.id.to_string(),
    }
}

fn row(desk: DeskView<'_>, position: usize, unplaced: &PendingEntry<'_>) -> QueueRow {
    match unplaced {
        PendingEntry::Slot { slot, waiting, reservations } => {
            let terms = &waiting.request.terms;
            let promised = promised(desk, &waiting.request.id);
            QueueRow {
                position,
                kind: QueuedKind::Slot,
                id: slot.id.to_string(),
                model: slot.model.clone(),
                runner_id: promised.as_ref().map(|promised| promised.node.to_string()),
                created: time(slot.created),
                reason: desk.slot_reason(slot).to_string(),
                places: *reservations,
                priority: terms.priority,
                prewarmed: terms.speculative,
                deadline: desk.first_deadline(slot).map(time),
                failures: desk.scheduler().queue().failures(&waiting.request.id),
                retry_at: waiting.backoff.map(|backoff| time(backoff.until)),
                promised,
            }
        }
        PendingEntry::Reservation(place) => QueueRow {
            position,
            kind: QueuedKind::Place,
            id: place.id.to_string(),
            model: place.model.clone(),
            runner_id: None,
            created: time(place.created),
            reason: desk.status_reason(place.id).map_or_else(String::new, |why| why.to_string()),
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
pub(crate) fn promised(desk: DeskView<'_>, request: &RequestId) -> Option<PromisedRow> {
    let ledger = desk.scheduler().ledger();
    Some(verdict::promise_on(ledger, ledger.promise_to(request)?))
}
