//! The routes of a runner's agent: register, send heartbeats, wait for orders.

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
use super::problem::{Answer, Problem};
use super::state::AppState;
use plimsoll_api::rows::ProblemRow;
use plimsoll_engine::engine::Watching;

/// A runner says what it is
#[utoipa::path(put, path = "/api/v1/runners/{id}", operation_id = "register_runner", tag = "agents", params(("id" = String, Path, description = "The runner")),
request_body = Registration, responses(
    (status = 200, description = "Registered; the orders of the runner", body = Welcome),
    (status = 400, description = "Invalid name or request body", body = ProblemRow),
    (status = 409, description = "Another agent of this name started later, or a device belongs to another runner", body = ProblemRow),
))]
pub(crate) async fn register(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Body(registration): Body<Registration>,
) -> Answer<Json<Welcome>> {
    let name = id.clone();
    let registered = app.engine()?.write(move |desk, core| {
        let orders = desk.register(core, &name, registration)?;
        let config = desk.view(core.scheduler()).config();
        Ok(Welcome { heartbeat_ms: config.heartbeat.0, lease_ms: config.lease.0, orders })
    });
    registered.await?.map(Json).map_err(|error| rejected(&id, &error))
}

/// A runner says what is so now
#[utoipa::path(post, path = "/api/v1/runners/{id}/heartbeat", operation_id = "beat", tag = "agents", params(("id" = String, Path, description = "The runner")),
request_body = Heartbeat, responses(
    (status = 200, description = "The orders of the runner", body = Orders),
    (status = 404, description = "Not registered in this session; register again", body = ProblemRow),
    (status = 409, description = "Another agent of this name started later", body = ProblemRow),
))]
pub(crate) async fn beat(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Body(beat): Body<Heartbeat>,
) -> Answer<Json<Orders>> {
    let name = id.clone();
    let heard = app.engine()?.report(move |desk, core| desk.heartbeat(core, &name, beat)).await?;
    heard.map(Json).map_err(|error| rejected(&id, &error))
}

/// From where on, and for how long to wait.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WorkWanted {
    /// The session that the agent registered with. An agent whose session was taken over gets no
    /// orders.
    session: Option<u64>,
    /// The revision that is known already; without one the answer comes at once.
    after: Option<u64>,
    /// The longest time to wait for new orders, such as `30s`. Without it the answer is immediate.
    #[param(value_type = Option<String>)]
    wait: Option<Span>,
}

/// Returns the orders of a runner
#[utoipa::path(get, path = "/api/v1/runners/{id}/work", operation_id = "work", tag = "agents",
params(("id" = String, Path, description = "The runner"), WorkWanted), responses(
    (status = 200, description = "New orders, or the known ones if none came in time", body = Orders),
    (status = 404, description = "Not registered in this session; register again", body = ProblemRow),
    (status = 409, description = "Another agent of this name started later", body = ProblemRow),
))]
pub(crate) async fn work(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Params(wanted): Params<WorkWanted>,
) -> Answer<Json<Orders>> {
    let engine = app.engine()?;
    let wait = input::waiting(wanted.wait)?.map_or(0, |wait| wait.0);
    let until = Instant::now() + Duration::from_millis(wait);
    let runner: Name = id.as_str().into();
    let name = runner.clone();
    let look = move |desk: &mut Desk, core: &mut Core<'_>| {
        let orders = desk.work(core, &name, wanted.session);
        let is_known = orders.as_ref().is_ok_and(|orders| wanted.after == Some(orders.revision));
        (orders, if is_known { Watching::Continues } else { Watching::Ends })
    };
    loop {
        let (orders, change) = engine.watch(Topic::Runner(runner.clone()), look.clone()).await?;
        match change.filter(|_| Instant::now() < until && !engine.is_ending()) {
            // Whether they changed or the time is up, the next look tells.
            Some(change) => engine.wait(change, until).await,
            None => return orders.map(Json).map_err(|error| rejected(&id, &error)),
        }
    }
}

/// Converts the error of a runner's request to a problem.
pub(crate) fn rejected(id: &str, error: &RunnerError) -> Problem {
    let (status, code) = match error {
        RunnerError::NotRegistered => (StatusCode::NOT_FOUND, "not_registered"),
        RunnerError::Superseded { .. } => (StatusCode::CONFLICT, "superseded"),
        RunnerError::Removed { .. } => (StatusCode::CONFLICT, "runner_removed"),
        RunnerError::DeviceTaken { .. } => (StatusCode::CONFLICT, "device_taken"),
        RunnerError::InvalidName => (StatusCode::BAD_REQUEST, "invalid_runner_name"),
        RunnerError::InvalidReport { .. } => (StatusCode::BAD_REQUEST, "invalid_report"),
        RunnerError::Alive => (StatusCode::CONFLICT, "runner_online"),
    };
    Problem::new(status, code, format!("runner {id}: {error}"))
}
