//! Runners in front of people: who is there, and what is on their GPUs.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use plimsoll_core::breach;
use plimsoll_core::charge::{Holding, HoldingId};
use plimsoll_core::device::{self, Health};
use plimsoll_core::front::Core;
use plimsoll_core::room::{DeviceRoom, NodeView};
use plimsoll_core::units::Bytes;
use plimsoll_slots::desk::{self, Desk, DeskView, Runner, RunnerError};
use plimsoll_slots::wire::DeviceStatus;

use super::agents;
use super::input::{self, Body, Page, Params};
use super::problem::{Answer, Problem};
use super::state::AppState;
use plimsoll_api::breach::{BreachRow, breach_row};
use plimsoll_api::device::{DeviceRow, devices_of};
use plimsoll_api::rows::{
    DrainBody, GpuRow, Intake, ProblemRow, RunnerRow, RunnerState, RunnerStatus, Telemetry, time,
};

/// Every runner
#[utoipa::path(get, path = "/api/v1/runners", operation_id = "list_runners", tag = "runners", params(Page), responses(
    (status = 200, description = "Runners by name, with sums over their GPUs", body = Vec<RunnerRow>),
))]
pub(crate) async fn list(
    State(app): State<AppState>,
    uri: Uri,
    Params(page): Params<Page>,
) -> Answer<Response> {
    let limit = input::rows_wanted(page.limit.as_deref())?;
    let look = move |desk: &mut Desk, core: &mut Core<'_>| -> Vec<RunnerRow> {
        let desk = desk.view(core.scheduler());
        let runners = desk.runners_after(page.after.as_deref());
        runners.take(limit + 1).map(|runner| row(desk, runner)).collect()
    };
    let rows = app.engine()?.read(look).await?;
    Ok(input::page(&uri, &rows, limit, |row| Some(&row.runner_id)))
}

/// One runner with its GPUs
#[utoipa::path(get, path = "/api/v1/runners/{id}/status", operation_id = "show_runner", tag = "runners", params(("id" = String, Path, description = "The runner")),
responses(
    (status = 200, description = "Charged and measured memory of each GPU", body = RunnerStatus),
    (status = 404, description = "No such runner", body = ProblemRow),
))]
pub(crate) async fn status(
    State(app): State<AppState>,
    Path(id): Path<String>,
) -> Answer<Json<RunnerStatus>> {
    let name = id.clone();
    let found =
        app.engine()?.read(move |desk, core| look(desk.view(core.scheduler()), &name)).await?;
    found.map(|looked| Json(looked.status())).ok_or_else(|| no_such_runner(&id))
}

/// A runner is gone for good
#[utoipa::path(delete, path = "/api/v1/runners/{id}", operation_id = "remove_runner", tag = "runners", params(("id" = String, Path, description = "The runner")),
responses(
    (status = 204, description = "Removed, with everything that was charged on it"),
    (status = 404, description = "No such runner", body = ProblemRow),
    (status = 409, description = "The runner is online", body = ProblemRow),
))]
pub(crate) async fn remove(
    State(app): State<AppState>,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    let name = id.clone();
    let removed = app.engine()?.write(move |desk, core| desk.remove_runner(core, &name)).await?;
    let rejected = |error| match error {
        RunnerError::NotRegistered => no_such_runner(&id),
        error => agents::rejected(&id, &error),
    };
    removed.map(|()| StatusCode::NO_CONTENT).map_err(rejected)
}

/// Closes a runner to new slots
#[utoipa::path(post, path = "/api/v1/runners/{id}/cordon", operation_id = "cordon_runner", tag = "runners", params(("id" = String, Path, description = "The runner")),
responses(
    (status = 200, description = "It gets no new slots, and keeps those that it has", body = RunnerRow),
    (status = 404, description = "No such runner", body = ProblemRow),
))]
pub(crate) async fn cordon(
    State(app): State<AppState>,
    Path(id): Path<String>,
) -> Answer<Json<RunnerRow>> {
    maintain(&app, id, Desk::cordon_runner).await
}

/// Opens a runner to new slots
#[utoipa::path(post, path = "/api/v1/runners/{id}/uncordon", operation_id = "uncordon_runner", tag = "runners", params(("id" = String, Path, description = "The runner")),
responses(
    (status = 200, description = "It gets new slots again", body = RunnerRow),
    (status = 404, description = "No such runner", body = ProblemRow),
))]
pub(crate) async fn uncordon(
    State(app): State<AppState>,
    Path(id): Path<String>,
) -> Answer<Json<RunnerRow>> {
    maintain(&app, id, Desk::uncordon_runner).await
}

/// Closes a runner to new slots, and stops those that it has
///
/// Idle slots are stopped at once, busy ones when they become idle or at the deadline. The state
/// lasts until the runner is opened again.
#[utoipa::path(post, path = "/api/v1/runners/{id}/drain", operation_id = "drain_runner", tag = "runners", request_body = DrainBody,
params(("id" = String, Path, description = "The runner")), responses(
    (status = 200, description = "The drain has begun; `slots` counts those that are left", body = RunnerRow),
    (status = 400, description = "Invalid request body", body = ProblemRow),
    (status = 404, description = "No such runner", body = ProblemRow),
))]
pub(crate) async fn drain(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Body(body): Body<DrainBody>,
) -> Answer<Json<RunnerRow>> {
    maintain(&app, id, move |desk, core, id| desk.drain_runner(core, id, body.deadline)).await
}

async fn maintain(
    app: &AppState,
    id: String,
    change: impl FnOnce(&mut Desk, &mut Core<'_>, &str) -> Result<(), RunnerError> + Send + 'static,
) -> Answer<Json<RunnerRow>> {
    let name = id.clone();
    let changed = app.engine()?.write(move |desk, core| {
        change(desk, core, &name)?;
        let view = desk.view(core.scheduler());
        let runner = view.runner(&name).ok_or(RunnerError::NotRegistered)?;
        Ok(row(view, runner))
    });
    let changed: Result<RunnerRow, RunnerError> = changed.await?;
    changed.map(Json).map_err(|_| no_such_runner(&id))
}

/// Returns the problem of a runner that never registered.
pub(crate) fn no_such_runner(id: &str) -> Problem {
    Problem::not_found("runner_not_found", format!("no such runner: {id}"))
}

fn row(desk: DeskView<'_>, runner: &Runner) -> RunnerRow {
    let ledger = desk.scheduler().ledger();
    let node = ledger.node_id(&runner.id);
    let view = node.and_then(|node| ledger.view(node));
    let rooms = view.map_or(&[][..], |view| view.room.devices());
    // A card that is gone may still be held, and has nothing to give.
    let is_there =
        |index: usize| view.is_some_and(|view| view.node.devices[index].health != Health::Gone);
    let there: Vec<&DeviceRoom> = rooms
        .iter()
        .enumerate()
        .filter(|(index, _)| is_there(*index))
        .map(|(_, room)| &**room)
        .collect();
    let sum = |of: fn(&DeviceRoom) -> Option<Bytes>| {
        there.iter().try_fold(Bytes::ZERO, |sum, room| Some(sum.plus(of(room)?)))
    };
    let silent_since = view.and_then(|view| view.node.silent_since);
    let live = desk.live(&runner.id);
    RunnerRow {
        runner_id: runner.id.to_string(),
        created: time(runner.created),
        status: match (silent_since, live.is_some_and(|live| live.ending)) {
            (Some(_), _) => RunnerState::Silent,
            (None, true) => RunnerState::Stopping,
            (None, false) => RunnerState::Online,
        },
        intake: match runner.intake {
            desk::Intake::Open => Intake::Open,
            desk::Intake::Cordoned => Intake::Cordoned,
            desk::Intake::Draining { .. } => Intake::Draining,
        },
        drain_deadline: match runner.intake {
            desk::Intake::Draining { deadline, .. } => deadline.map(time),
            desk::Intake::Open | desk::Intake::Cordoned => None,
        },
        silent_since: silent_since.map(time),
        last_seen: live.map(|live| time(live.last_seen)),
        version: runner.registration.version.clone(),
        labels: runner.registration.labels.clone(),
        gpu_count: there.len(),
        usable: sum(DeviceRoom::usable),
        held: sum(|room| (!room.has_undeclared()).then(|| room.held().plus(room.floating()))),
        releasing: sum(|room| Some(room.releasing())),
        foreign: sum(|room| Some(room.foreign())),
        free: sum(DeviceRoom::free),
        slots: node.map_or(0, |node| ledger.holdings_on(node).count()),
    }
}

/// The data copied from the decision thread; rows are made from it elsewhere.
struct Looked {
    row: RunnerRow,
    view: Option<NodeView>,
    holdings: Vec<(HoldingId, Holding)>,
    measured: Vec<DeviceStatus>,
    breaches: Vec<BreachRow>,
}

fn look(desk: DeskView<'_>, id: &str) -> Option<Looked> {
    let runner = desk.runner(id)?;
    let ledger = desk.scheduler().ledger();
    let node = ledger.node_id(id);
    let holdings = node.into_iter().flat_map(|node| ledger.holdings_on(node));
    let breaches = node.map(|node| breach::audit_node(ledger, node)).unwrap_or_default();
    Some(Looked {
        row: row(desk, runner),
        view: node.and_then(|node| ledger.view(node)).cloned(),
        holdings: holdings.map(|(id, holding)| (id, holding.clone())).collect(),
        measured: desk.live(id).map(|live| live.devices.clone()).unwrap_or_default(),
        breaches: breaches.iter().map(|breach| breach_row(ledger, breach)).collect(),
    })
}

impl Looked {
    fn status(self) -> RunnerStatus {
        let Looked { row, view, holdings, measured, breaches } = self;
        let gpus = view.map(|view| gpus(&view, &holdings, &measured)).unwrap_or_default();
        RunnerStatus { runner: row, gpus, breaches }
    }
}

fn gpus(
    view: &NodeView,
    holdings: &[(HoldingId, Holding)],
    measured: &[DeviceStatus],
) -> Vec<GpuRow> {
    let rows = devices_of(view, holdings.iter().map(|(id, holding)| (*id, holding)));
    let gpu = |(index, (device, room)): (u16, (DeviceRow, &Arc<DeviceRoom>))| {
        let status = measured.iter().find(|status| status.index == index);
        let (telemetry, stale_since) = match room.telemetry() {
            device::Telemetry::None => (Telemetry::None, None),
            device::Telemetry::Fresh { .. } => (Telemetry::Fresh, None),
            device::Telemetry::Stale { since } => (Telemetry::Stale, Some(time(since))),
        };
        GpuRow {
            index,
            device,
            promised: room.promised(),
            used: status.and_then(|status| status.used),
            utilisation: status.and_then(|status| status.utilisation),
            telemetry,
            telemetry_stale_since: stale_since,
            foreign_processes: status.map(|status| status.foreign.clone()).unwrap_or_default(),
        }
    };
    (0_u16..).zip(rows.into_iter().zip(view.room.devices())).map(gpu).collect()
}
