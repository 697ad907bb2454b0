//! What a runner's agent says and asks: it registers, it beats, it waits for work.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use plimsoll_core::front::Core;
use plimsoll_core::units::Name;
use plimsoll_slots::desk::{Desk, RunnerError, Topic};
use plimsoll_slots::size::Span;
use plimsoll_slots::wire::{Heartbeat, Orders, Registration, Welcome};
use serde::Deserialize;
use tokio::time::{Duration, Instant};
use utoipa::IntoParams;

use super::input::{self, Body, Params};
use super::parts::Parts;
use super::problem::{Answer, Problem};
use plimsoll_api::rows::ProblemRow;
use plimsoll_engine::engine::Watching;

/// A runner says what it is
#[utoipa::path(put, path = "/api/v1/runners/{id}", operation_id = "register_runner", tag = "agents", params(("id" = String, Path, description = "The runner")),
request_body = Registration, responses(
    (status = 200, description = "It is known from here on, and has this to do", body = Welcome),
    (status = 400, description = "Its name or its body does not do", body = ProblemRow),
    (status = 409, description = "Another agent of this name started later, or a device belongs to another runner", body = ProblemRow),
))]
pub(crate) async fn register(
    State(parts): State<Parts>,
    Path(id): Path<String>,
    Body(registration): Body<Registration>,
) -> Answer<Json<Welcome>> {
    let name = id.clone();
    let registered = parts.engine()?.write(move |desk, core| {
        let orders = desk.register(core, &name, registration)?;
        let config = desk.view(core.scheduler()).config();
        Ok(Welcome { heartbeat_ms: config.heartbeat.0, lease_ms: config.lease.0, orders })
    });
    registered.await?.map(Json).map_err(|error| refused(&id, &error))
}

/// A runner says what is so now
#[utoipa::path(post, path = "/api/v1/runners/{id}/heartbeat", operation_id = "beat", tag = "agents", params(("id" = String, Path, description = "The runner")),
request_body = Heartbeat, responses(
    (status = 200, description = "What it has to do", body = Orders),
    (status = 404, description = "It has not registered in this session: register again", body = ProblemRow),
    (status = 409, description = "Another agent of this name started later", body = ProblemRow),
))]
pub(crate) async fn beat(
    State(parts): State<Parts>,
    Path(id): Path<String>,
    Body(beat): Body<Heartbeat>,
) -> Answer<Json<Orders>> {
    let name = id.clone();
    let heard = parts.engine()?.report(move |desk, core| desk.heartbeat(core, &name, beat)).await?;
    heard.map(Json).map_err(|error| refused(&id, &error))
}

/// From where on, and for how long to wait.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WorkWanted {
    /// The session that the agent registered with; what it has to do is not told to an agent that another one took over from.
    session: Option<u64>,
    /// The revision that is known already; without one the answer comes at once.
    after: Option<u64>,
    /// How long to wait for another one, such as `30s`; without it the answer comes at once.
    #[param(value_type = Option<String>)]
    wait: Option<Span>,
}

/// What a runner has to do
#[utoipa::path(get, path = "/api/v1/runners/{id}/work", operation_id = "work", tag = "agents",
params(("id" = String, Path, description = "The runner"), WorkWanted), responses(
    (status = 200, description = "Other orders; the known ones again where none came in time", body = Orders),
    (status = 404, description = "It has not registered in this session: register again", body = ProblemRow),
    (status = 409, description = "Another agent of this name started later", body = ProblemRow),
))]
pub(crate) async fn work(
    State(parts): State<Parts>,
    Path(id): Path<String>,
    Params(wanted): Params<WorkWanted>,
) -> Answer<Json<Orders>> {
    let engine = parts.engine()?;
    let wait = input::waiting(wanted.wait)?.map_or(0, |wait| wait.0);
    let until = Instant::now() + Duration::from_millis(wait);
    let runner: Name = id.as_str().into();
    let name = runner.clone();
    let look = move |desk: &mut Desk, core: &mut Core<'_>| {
        let orders = desk.view(core.scheduler()).work(&name, wanted.session);
        let is_known = orders.as_ref().is_ok_and(|orders| wanted.after == Some(orders.revision));
        (orders, if is_known { Watching::Continues } else { Watching::Ends })
    };
    loop {
        let (orders, change) = engine.watch(Topic::Runner(runner.clone()), look.clone()).await?;
        match change.filter(|_| Instant::now() < until && !engine.is_ending()) {
            // Whether they changed or the time is up, the next look tells.
            Some(change) => engine.wait(change, until).await,
            None => return orders.map(Json).map_err(|error| refused(&id, &error)),
        }
    }
}

/// A runner that is not listened to, in front of its agent.
pub(crate) fn refused(id: &str, error: &RunnerError) -> Problem {
    let (status, code) = match error {
        RunnerError::NotRegistered => (StatusCode::NOT_FOUND, "not_registered"),
        RunnerError::Superseded { .. } => (StatusCode::CONFLICT, "superseded"),
        RunnerError::DeviceTaken { .. } => (StatusCode::CONFLICT, "device_taken"),
        RunnerError::InvalidName => (StatusCode::BAD_REQUEST, "invalid_runner_name"),
        RunnerError::InvalidReport { .. } => (StatusCode::BAD_REQUEST, "invalid_report"),
        RunnerError::Alive => (StatusCode::CONFLICT, "runner_online"),
    };
    Problem::new(status, code, format!("runner {id}: {error}"))
}
