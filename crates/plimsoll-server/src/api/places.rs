//! Places: asked for, waited for, given back. The same address shows and stops slots, by their ids.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use plimsoll_core::front::Core;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{
    ClientName, Desk, DeskView, NewReservation, Reservation, ReservationId, ReservationState,
    ReservationStatus, ReserveError, Slot, SlotStage, Topic, UnknownSlot,
};
use plimsoll_slots::size::Span;
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant, sleep_until};
use utoipa::{IntoParams, ToSchema};

use super::input::{self, Body, Params};
use super::parts::Parts;
use super::problem::{Answer, Problem};
use super::{queue, slots};
use crate::Engine;
use plimsoll_api::rows::{AskBody, PlaceRow, ProblemRow, SlotRow, time};
use plimsoll_engine::engine::Watching;

/// Asks for one place in a model
///
/// It joins a slot that has room, or makes a new one, or waits with its reason. The place stays until it is given back, also when
/// the client went away before the answer: until its deadline where it was not served by then.
#[utoipa::path(post, path = "/api/v1/scheduler/slots", operation_id = "ask_for_place", tag = "scheduler", request_body = AskBody,
params(("Idempotency-Key" = Option<String>, Header, description = "What tells a repeated request from a new one")), responses(
    (status = 201, description = "The place is ready", body = PlaceRow),
    (status = 202, description = "It waits, or its slot is coming", body = PlaceRow),
    (status = 400, description = "The body does not do", body = ProblemRow),
    (status = 404, description = "The model is not declared", body = ProblemRow),
    (status = 409, description = "The deadline passed, the place is over, or the key belongs to another model", body = ProblemRow),
    (status = 422, description = "No empty fleet could hold it", body = ProblemRow),
))]
pub(crate) async fn ask(
    State(parts): State<Parts>,
    headers: HeaderMap,
    Body(body): Body<AskBody>,
) -> Answer<Response> {
    let key = key(&headers, body.key)?;
    let client = client(body.namespace, body.name)?;
    let (deadline, wait) = (body.deadline, input::waiting(body.wait)?);
    let model = body.model.clone();
    let engine = parts.engine()?;
    let asked = engine.write(move |desk, core| {
        let deadline = deadline.map(|span| core.now().after(span.0));
        let new = NewReservation { model: body.model, key, client, deadline };
        let id = desk.reserve(core, new)?;
        Ok((id, look(desk.view(core.scheduler()), id)))
    });
    // What was seen is told once it is durable; to look again would cost another turn of the thread that decides.
    let (id, (row, is_settled)) = asked.await?.map_err(|error| not_asked(&model, &error))?;
    // Where there is a deadline, the outcome is known soon after it: when time is next noticed.
    let until = Instant::now()
        + Duration::from_millis(match (wait, deadline) {
            (Some(wait), _) => wait.0,
            (None, Some(deadline)) => deadline.0.saturating_add(NOTICED_WITHIN),
            (None, None) => 0,
        });
    let row = match is_settled || Instant::now() >= until {
        true => row,
        // The place is there, whether or not it can be watched: who is told nothing of it would ask for another.
        false => settled(engine, id, until).await.unwrap_or(row),
    };
    answered(&row.ok_or_else(|| no_such_place(id))?)
}

/// A passed deadline is noticed at most so many milliseconds later.
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
        (Some(_), None) => {
            return Err(Problem::bad("name", "a namespace was given without a name"));
        }
        (None, Some(_)) => {
            return Err(Problem::bad("namespace", "a name was given without a namespace"));
        }
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

fn not_asked(model: &str, error: &ReserveError) -> Problem {
    match error {
        ReserveError::UnknownModel => {
            let detail =
                format!("model {model} is not declared; PUT /api/v1/models/{model} declares it");
            Problem::not_found("no_such_model", detail)
        }
        ReserveError::KeyUsed { reservation, .. } => {
            Problem::new(StatusCode::CONFLICT, "key_used", error.to_string())
                .about("key")
                .of_place(&reservation.to_string(), &error.to_string())
        }
    }
}

/// The answer to one who asked: what is over is no place.
fn answered(row: &PlaceRow) -> Answer<Response> {
    let refused = |status, code| {
        let detail = format!("model {}: {}", row.model, row.reason);
        Err(Problem::new(status, code, detail).of_place(&row.id, &row.reason))
    };
    let status = match row.status.as_str() {
        "ready" => StatusCode::CREATED,
        "rejected" => return refused(StatusCode::UNPROCESSABLE_ENTITY, "rejected"),
        "expired" => return refused(StatusCode::CONFLICT, "deadline_passed"),
        "lost" => return refused(StatusCode::CONFLICT, "place_lost"),
        "released" => return refused(StatusCode::CONFLICT, "place_released"),
        _ => StatusCode::ACCEPTED,
    };
    let location = format!("/api/v1/scheduler/slots/{}", row.id);
    Ok((status, [(header::LOCATION, location)], Json(row)).into_response())
}

/// How long to wait.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Patience {
    /// So long the answer may wait, such as `30s`: for a place until it is served or over, for a slot until it runs or is gone.
    #[param(value_type = Option<String>)]
    wait: Option<Span>,
}

/// A place or a slot.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum PlaceOrSlot {
    /// A place.
    Place(Box<PlaceRow>),
    /// A slot.
    Slot(Box<SlotRow>),
}

/// How a place or a slot stands
#[utoipa::path(get, path = "/api/v1/scheduler/slots/{id}", operation_id = "show_place_or_slot", tag = "scheduler",
params(("id" = String, Path, description = "A place (`reservation-12`) or a slot (`slot-7`)"), Patience), responses(
    (status = 200, description = "As it stands", body = PlaceOrSlot),
    (status = 404, description = "There is none of this id", body = ProblemRow),
))]
pub(crate) async fn show(
    State(parts): State<Parts>,
    Path(id): Path<String>,
    Params(patience): Params<Patience>,
) -> Answer<Json<PlaceOrSlot>> {
    let engine = parts.engine()?;
    let wait = input::waiting(patience.wait)?.map_or(0, |wait| wait.0);
    let until = Instant::now() + Duration::from_millis(wait);
    if let Ok(place) = id.parse::<ReservationId>()
        && let Some(row) = settled(engine, place, until).await?
    {
        return Ok(Json(PlaceOrSlot::Place(Box::new(row))));
    }
    let row = slot_settled(engine, &id, until).await?.ok_or_else(|| not_there(&id))?;
    Ok(Json(PlaceOrSlot::Slot(Box::new(row))))
}

/// Gives a place back, or stops a slot
#[utoipa::path(delete, path = "/api/v1/scheduler/slots/{id}", operation_id = "give_back", tag = "scheduler",
params(("id" = String, Path, description = "A place (`reservation-12`) or a slot (`slot-7`)")), responses(
    (status = 202, description = "The slot was asked to go; its memory counts until it is seen to be back", body = SlotRow),
    (status = 204, description = "The place is given back, now or earlier; or the slot had nothing to stop"),
    (status = 404, description = "There is none of this id", body = ProblemRow),
))]
pub(crate) async fn give_back(
    State(parts): State<Parts>,
    Path(id): Path<String>,
) -> Answer<Response> {
    let engine = parts.engine()?;
    if let Ok(place) = id.parse::<ReservationId>()
        && engine.write(move |desk, core| desk.release(core, place)).await?
    {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let name = id.clone();
    let stopped = engine.write(move |desk, core| {
        desk.stop_slot(core, &name)?;
        let desk = desk.view(core.scheduler());
        Ok(desk.slot(&name).map(|slot| slots::row(desk, slot, core.now())))
    });
    match stopped.await? {
        Ok(Some(row)) => Ok((StatusCode::ACCEPTED, Json(row)).into_response()),
        Ok(None) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(UnknownSlot) => Err(not_there(&id)),
    }
}

fn no_such_place(id: ReservationId) -> Problem {
    not_there(&id.to_string())
}

fn not_there(id: &str) -> Problem {
    Problem::not_found(
        "no_such_slot",
        format!("no such slot or reservation: {id} (ended ones are kept for a limited time)"),
    )
}

/// A place once it is served or over, or as it stands when the time is up; `None` where there is none.
async fn settled(engine: &Engine, id: ReservationId, until: Instant) -> Answer<Option<PlaceRow>> {
    let look = move |desk: &mut Desk, core: &mut Core<'_>| {
        let (row, is_settled) = look(desk.view(core.scheduler()), id);
        (row, if is_settled { Watching::Ends } else { Watching::Continues })
    };
    loop {
        let (row, change) = engine.watch(Topic::Reservation(id), look).await?;
        match change.filter(|_| Instant::now() < until && !engine.is_ending()) {
            // Whether it changed or the time is up, the next look tells.
            Some(change) => engine.wait(change, until).await,
            None => return Ok(row),
        }
    }
}

/// A place as it stands, and whether nothing more will come of it.
fn look(desk: DeskView<'_>, id: ReservationId) -> (Option<PlaceRow>, bool) {
    let settled = desk.reservation_status(id).is_none_or(|status| status.is_settled());
    (desk.reservation(id).map(|place| row(desk, place)), settled)
}

/// How often a slot that is waited for is looked at. What becomes of places is told; slots are looked at by people.
const GLANCE: Duration = Duration::from_millis(250);

async fn slot_settled(engine: &Engine, id: &str, until: Instant) -> Answer<Option<SlotRow>> {
    loop {
        let name = id.to_string();
        let look = move |desk: &mut Desk, core: &mut Core<'_>| {
            let desk = desk.view(core.scheduler());
            let slot = desk.slot(&name)?;
            Some((slots::row(desk, slot, core.now()), desk.stage(slot)))
        };
        let (row, stage) = engine.read(look).await?.unzip();
        if stage.flatten().is_none_or(|stage| stage == SlotStage::Running)
            || Instant::now() >= until
            || engine.is_ending()
        {
            return Ok(row);
        }
        sleep_until(until.min(Instant::now() + GLANCE)).await;
    }
}

/// A place as a row.
pub(crate) fn row(desk: DeskView<'_>, place: &Reservation) -> PlaceRow {
    let status = desk.reservation_status(place.id);
    let status = status.as_ref().map_or("pending", ReservationStatus::name);
    let (slot, since, ended): (Option<&Slot>, Option<Millis>, Option<Millis>) = match &place.state {
        ReservationState::Pending => (None, None, None),
        ReservationState::Seated { slot, since } => (desk.slot(slot), Some(*since), None),
        ReservationState::Ended { at, .. } => (None, None, Some(*at)),
    };
    let holding = slot.and_then(|slot| desk.holding(slot)).map(|(_, holding)| holding);
    PlaceRow {
        id: place.id.to_string(),
        model: place.model.clone(),
        status: status.to_string(),
        slot_id: slot.map(|slot| slot.id.to_string()),
        runner_id: holding.map(|holding| holding.node.to_string()),
        endpoint: slot.and_then(|slot| slot.life.endpoint.clone()),
        gpu_allocation: holding.and_then(|holding| slots::allocation_of(desk, holding)),
        reason: desk.status_reason(place.id).map_or_else(String::new, |why| why.to_string()),
        promised: slot.and_then(|slot| queue::promised(desk, &slot.request())),
        created: time(place.created),
        deadline: place.deadline.map(time),
        since: since.map(time),
        ended: ended.map(time),
        namespace: place.client.as_ref().map(|client| client.namespace.clone()),
        name: place.client.as_ref().map(|client| client.name.clone()),
        key: place.key.clone(),
    }
}
