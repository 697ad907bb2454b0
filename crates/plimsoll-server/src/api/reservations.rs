//! Reservations: create, wait for, renew, release. The same path shows and stops slots, by their
//! ids.

pub(crate) mod list;
pub(crate) mod renewal;
mod row;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use plimsoll_core::front::Core;
use plimsoll_core::units::Millis;
use plimsoll_engine::engine::Watching;
use plimsoll_slots::desk::{
    ClientName, Desk, DeskView, IdempotencyKey, NewReservation, ReservationId, ReserveError,
    SlotStage, Topic, UnknownSlot,
};
use plimsoll_slots::size::Span;
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant, sleep_until};
use utoipa::{IntoParams, ToSchema};

use super::input::{self, Body, Params};
use super::problem::{Answer, Problem};
use super::slots;
use super::state::AppState;
use crate::SlotEngine;
use crate::guard::Caller;
use plimsoll_api::rows::{ProblemRow, ReservationRow, ReservationStatus, ReserveBody, SlotRow};
use renewal::Renewal;
pub(crate) use row::{ended_row, ended_status};

/// Creates a reservation
#[utoipa::path(post, path = "/api/v1/scheduler/slots", operation_id = "reserve", tag = "scheduler", request_body = ReserveBody,
params(("Idempotency-Key" = Option<String>, Header, description = "Idempotency key")), responses(
    (status = 201, description = "The reservation is ready", body = ReservationRow),
    (status = 202, description = "It is pending, or its slot is starting", body = ReservationRow),
    (status = 400, description = "Invalid request body", body = ProblemRow),
    (status = 404, description = "The model is not declared", body = ProblemRow),
    (status = 409, description = "The deadline passed, the reservation ended, or the key belongs to another model", body = ProblemRow),
    (status = 422, description = "No empty fleet could hold a slot of the model", body = ProblemRow),
    (status = 429, description = "Too many reservations are pending, of this namespace or in total; retry after `Retry-After`", body = ProblemRow),
))]
pub(crate) async fn reserve(
    State(app): State<AppState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Body(body): Body<ReserveBody>,
) -> Answer<Response> {
    let key = key(&headers, body.key)?.map(|text| IdempotencyKey { caller: caller.name, text });
    let client = client(body.namespace, body.name)?;
    let deadline = body.deadline;
    let wait = input::waiting(body.wait)?;
    let model = body.model.clone();
    let engine = app.engine()?;
    let reserved = engine.write(move |desk, core| {
        let deadline = deadline.map(|span| core.now().after(span.into()));
        let new = NewReservation { model: body.model, key, client, deadline, lease: body.lease };
        let id = desk.reserve(core, new)?;
        Ok((id, look(desk.view(core.scheduler()), id, core.now())))
    });
    // The look is part of the same call, so that it is durable with it; a second look would cost
    // another turn of the decision thread.
    let (id, seen) = reserved.await?.map_err(|error| not_reserved(&app, &model, &error))?;
    // A deadline is noticed at the next tick after it.
    let until = Instant::now()
        + Duration::from_millis(match (wait, deadline) {
            (Some(wait), _) => wait.0,
            (None, Some(deadline)) => deadline.0.saturating_add(NOTICED_WITHIN),
            (None, None) => 0,
        });
    let row = match seen.watching == Watching::Ends || Instant::now() >= until {
        true => seen.row,
        // The reservation exists even if watching it fails: a client without an answer would
        // create another one.
        false => settled(engine, id, until, Renewal::WhileWaiting).await.unwrap_or(seen.row),
    };
    answered(&row.ok_or_else(|| not_found(&id.to_string()))?)
}

/// An upper bound in milliseconds for noticing that a deadline has passed.
const NOTICED_WITHIN: u64 = 5_000;

fn key(headers: &HeaderMap, in_body: Option<String>) -> Answer<Option<String>> {
    const NAME: HeaderName = HeaderName::from_static("idempotency-key");
    let in_header = input::header_text(headers, &NAME)?.map(String::from);
    let key = match (in_header, in_body) {
        (Some(header), Some(body)) if header != body => {
            let detail =
                format!("Idempotency-Key is {header:?}, and key is {body:?}; send one of the two");
            return Err(Problem::bad("key", detail));
        }
        (header, body) => header.or(body),
    };
    match key {
        Some(key) if key.is_empty() || key.len() > 255 => Err(Problem::bad(
            "key",
            format!("the key has {} characters, and must have 1 to 255", key.len()),
        )),
        key => Ok(key),
    }
}

fn client(namespace: Option<String>, name: Option<String>) -> Answer<Option<ClientName>> {
    let (namespace, name) = match (namespace, name) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(Problem::bad("name", "namespace is set without name")),
        (None, Some(_)) => return Err(Problem::bad("namespace", "name is set without namespace")),
        (Some(namespace), Some(name)) => (namespace, name),
    };
    for (field, text) in [("namespace", &namespace), ("name", &name)] {
        let strange = |c: char| c.is_whitespace() || c.is_control() || c == '/';
        if text.is_empty() || text.len() > 253 || text.contains(strange) {
            let detail = format!(
                "{field} must have 1 to 253 characters, and no blanks, slashes or control characters"
            );
            return Err(Problem::bad(field, detail));
        }
    }
    Ok(Some(ClientName { namespace, name }))
}

fn not_reserved(app: &AppState, model: &str, error: &ReserveError) -> Problem {
    match error {
        ReserveError::UnknownModel => {
            let detail =
                format!("model {model} is not declared; PUT /api/v1/models/{model} declares it");
            Problem::not_found("model_not_found", detail)
        }
        ReserveError::KeyUsed { reservation, .. } => {
            Problem::new(StatusCode::CONFLICT, "idempotency_key_reused", error.to_string())
                .about("key")
                .of_reservation(&reservation.to_string(), &error.to_string())
        }
        ReserveError::TooManyPending { limit, .. } => {
            app.rejections().count(limit);
            let status = StatusCode::TOO_MANY_REQUESTS;
            Problem::new(status, "too_many_pending", error.to_string())
        }
    }
}

fn answered(row: &ReservationRow) -> Answer<Response> {
    if let Some(problem) = ended(row) {
        return Err(problem);
    }
    let status = match row.status {
        ReservationStatus::Ready => StatusCode::CREATED,
        _ => StatusCode::ACCEPTED,
    };
    let location = format!("/api/v1/scheduler/slots/{}", row.id);
    Ok((status, [(header::LOCATION, location)], Json(row)).into_response())
}

/// Returns the problem of a reservation that has ended; `None` before its end.
fn ended(row: &ReservationRow) -> Option<Problem> {
    let (status, code) = match row.status {
        ReservationStatus::Impossible => {
            (StatusCode::UNPROCESSABLE_ENTITY, "insufficient_capacity")
        }
        ReservationStatus::ModelRemoved => (StatusCode::CONFLICT, "model_removed"),
        ReservationStatus::Expired => (StatusCode::CONFLICT, "deadline_exceeded"),
        ReservationStatus::Lost => (StatusCode::CONFLICT, "reservation_lost"),
        ReservationStatus::LeaseExpired => (StatusCode::CONFLICT, "lease_expired"),
        ReservationStatus::Released => (StatusCode::CONFLICT, "reservation_released"),
        ReservationStatus::Pending | ReservationStatus::Starting | ReservationStatus::Ready => {
            return None;
        }
    };
    let detail = format!("model {}: {}", row.model, row.reason);
    Some(Problem::new(status, code, detail).of_reservation(&row.id, &row.reason))
}

/// The time that an answer may wait.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitQuery {
    /// The longest time that the answer may wait, such as `30s`: for a reservation until it is
    /// ready or has ended, for a slot until it is running or gone. With the role `operate`,
    /// asking to wait renews the lease of the reservation, for as long as the wait lasts.
    #[param(value_type = Option<String>)]
    wait: Option<Span>,
}

/// A reservation or a slot.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum ReservationOrSlot {
    Reservation(Box<ReservationRow>),
    Slot(Box<SlotRow>),
}

/// Shows a reservation or a slot
#[utoipa::path(get, path = "/api/v1/scheduler/slots/{id}", operation_id = "show_reservation_or_slot", tag = "scheduler",
params(("id" = String, Path, description = "A reservation (`reservation-12`) or a slot (`slot-7`)"), WaitQuery), responses(
    (status = 200, description = "Its current state", body = ReservationOrSlot),
    (status = 404, description = "No such reservation or slot", body = ProblemRow),
))]
pub(crate) async fn show(
    State(app): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Params(query): Params<WaitQuery>,
) -> Answer<Json<ReservationOrSlot>> {
    let engine = app.engine()?;
    let wait = input::waiting(query.wait)?;
    // A caller without the right to release a reservation has no right to keep it either.
    let renewal = match wait {
        Some(_) if caller.may_operate() => Renewal::WhileWaiting,
        Some(_) | None => Renewal::None,
    };
    let until = Instant::now() + Duration::from_millis(wait.map_or(0, |wait| wait.0));
    if let Ok(reservation) = id.parse::<ReservationId>()
        && let Some(row) = settled(engine, reservation, until, renewal).await?
    {
        return Ok(Json(ReservationOrSlot::Reservation(Box::new(row))));
    }
    let row = slot_settled(engine, &id, until).await?.ok_or_else(|| not_found(&id))?;
    Ok(Json(ReservationOrSlot::Slot(Box::new(row))))
}

/// Releases a reservation, or stops a slot
#[utoipa::path(delete, path = "/api/v1/scheduler/slots/{id}", operation_id = "release", tag = "scheduler",
params(("id" = String, Path, description = "A reservation (`reservation-12`) or a slot (`slot-7`)"), ReleaseQuery), responses(
    (status = 202, description = "The slot is stopping; its memory counts until its release is observed", body = SlotRow),
    (status = 204, description = "The reservation is released, now or earlier; or the slot had nothing to stop"),
    (status = 404, description = "No such reservation or slot", body = ProblemRow),
    (status = 409, description = "The slot is busy, and the request is for an idle one", body = ProblemRow),
))]
pub(crate) async fn release(
    State(app): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Params(query): Params<ReleaseQuery>,
) -> Answer<Response> {
    let engine = app.engine()?;
    if let Ok(reservation) = id.parse::<ReservationId>()
        && engine.write(move |desk, core| desk.release(core, reservation)).await?
    {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let name = id.clone();
    let must_be_idle = query.if_idle == Some(true);
    let stopped = engine.write(move |desk, core| {
        let view = desk.view(core.scheduler());
        let active = view.slot(&name).map_or(0, |slot| view.active_requests(slot));
        if must_be_idle && active > 0 {
            return Ok(Stopped::Busy(active));
        }
        desk.stop_slot(core, &name)?;
        Ok(Stopped::Stopping(slot_row(desk, core, &name).map(Box::new)))
    });
    let stopped: Result<Stopped, UnknownSlot> = stopped.await?;
    if matches!(stopped, Ok(Stopped::Stopping(_))) {
        // Reservations come and go with every request; an operator stops a slot.
        tracing::info!(caller = caller.logged(), slot = id, "slot stopped");
    }
    match stopped {
        Ok(Stopped::Stopping(Some(row))) if row.ended.is_none() => {
            Ok((StatusCode::ACCEPTED, Json(row)).into_response())
        }
        Ok(Stopped::Stopping(_)) => Ok(StatusCode::NO_CONTENT.into_response()),
        Ok(Stopped::Busy(active)) => {
            let requests = if active == 1 { "reservation" } else { "reservations" };
            let detail = format!("{id} serves {active} {requests}, which would be lost");
            Err(Problem::new(StatusCode::CONFLICT, "slot_busy", detail))
        }
        Err(UnknownSlot) => Err(not_found(&id)),
    }
}

/// The query parameters of a release.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReleaseQuery {
    /// `true`: stop a slot only if it has no reservation; otherwise the answer is 409.
    if_idle: Option<bool>,
}

/// The outcome of stopping a slot.
enum Stopped {
    /// It has this many reservations.
    Busy(u32),
    Stopping(Option<Box<SlotRow>>),
}

fn not_found(id: &str) -> Problem {
    let detail =
        format!("no such reservation or slot: {id} (ended ones are kept for a limited time)");
    Problem::not_found("slot_not_found", detail)
}

/// Waits until a reservation is ready or has ended, or the time is up; `None` if it is unknown.
async fn settled(
    engine: &SlotEngine,
    id: ReservationId,
    until: Instant,
    renewal: Renewal,
) -> Answer<Option<ReservationRow>> {
    let look = move |desk: &mut Desk, core: &mut Core<'_>| {
        if renewal == Renewal::WhileWaiting {
            // Nothing of it is journalled, so it may be part of a look. An ended one stays so.
            let _ = desk.renew(core, id);
        }
        let seen = look(desk.view(core.scheduler()), id, core.now());
        (seen.row, seen.watching)
    };
    loop {
        let (row, change) = engine.watch(Topic::Reservation(id), look).await?;
        let renew_at = row.as_ref().and_then(renewal::next_renewal);
        match change.filter(|_| Instant::now() < until && !engine.is_ending()) {
            // The next look tells whether it changed or the time is up.
            Some(change) => engine.wait(change, renew_at.unwrap_or(until).min(until)).await,
            None => return Ok(row),
        }
    }
}

struct Seen {
    row: Option<ReservationRow>,
    watching: Watching,
}

fn look(desk: DeskView<'_>, id: ReservationId, now: Millis) -> Seen {
    let is_settled = desk.reservation_status(id).is_none_or(|status| status.is_settled());
    let mut forecasts = desk.scheduler().forecasts(now);
    Seen {
        row: desk.reservation(id).map(|reservation| row::row(desk, reservation, &mut forecasts)),
        watching: if is_settled { Watching::Ends } else { Watching::Continues },
    }
}

/// The interval at which a slot is polled while a client waits for it. Changes of reservations are
/// published; slots are watched by people only, for whom this is fast enough.
const SLOT_POLL: Duration = Duration::from_millis(250);

async fn slot_settled(engine: &SlotEngine, id: &str, until: Instant) -> Answer<Option<SlotRow>> {
    loop {
        let name = id.to_string();
        let look = move |desk: &mut Desk, core: &mut Core<'_>| {
            let view = desk.view(core.scheduler());
            let stage = view.slot(&name).and_then(|slot| view.stage(slot));
            (slot_row(desk, core, &name), stage)
        };
        let (row, stage) = engine.read(look).await?;
        let is_settled = row.is_none() || stage == Some(SlotStage::Running);
        if is_settled || Instant::now() >= until || engine.is_ending() {
            return Ok(row);
        }
        sleep_until(until.min(Instant::now() + SLOT_POLL)).await;
    }
}

fn slot_row(desk: &Desk, core: &Core<'_>, id: &str) -> Option<SlotRow> {
    let view = desk.view(core.scheduler());
    let mut forecasts = core.scheduler().forecasts(core.now());
    let existing = view.slot(id).map(|slot| slots::row(view, slot, &mut forecasts));
    let ended = || Some(slots::ended_row(view, view.ended_slot(id)?, core.now()));
    existing.or_else(ended)
}
