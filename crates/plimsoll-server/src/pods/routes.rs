//! The routes of a live cluster.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use plimsoll_api::device::{self, DeviceRow, Health};
use plimsoll_api::explanation::explanation;
use plimsoll_api::forecast::AccountRow;
use plimsoll_api::offline::FindingRow;
use plimsoll_api::rows::{
    EventRow, HoldersRecordPlace, PendingPodRow, PodDecisionRow, ProblemRow, ReleasingRow,
    RequestRow, SchedulerLogRow, WatchRow, time,
};
use plimsoll_core::front::Core;
use plimsoll_core::ledger::{Ledger, NodeId};
use plimsoll_core::request::RequestId;
use plimsoll_engine::store::{DecisionId, hexadecimal};
use plimsoll_kube::audit;
use plimsoll_kube::live::{Leadership, RecordKeeping, Watch};
use utoipa_axum::routes;

use super::{PodFacts, PodsState, queue, whatif};
use crate::api::{Answer, Problem, found_row, schedulerlog_row, with_document};
use crate::decisions::{CachedDecision, Decisions};
use crate::guard::Guard;
use crate::guard::access::{ClusterRights, Rules};
use crate::routes::Routes;
use crate::schedulerlog::{Bind, Filter, Found, KnownNode, LogEntry, Settings};

/// The interval of comments on a quiet stream, so that proxies keep it open.
const QUIET: Duration = Duration::from_secs(15);

/// The most decisions of a list.
const DECISIONS: usize = 500;

/// Returns the routes of a live cluster, with their OpenAPI document.
pub(super) fn routes(state: PodsState, guard: &Arc<Guard>) -> Routes {
    let routes = Routes::new(guard)
        .add(Rules::READ, routes!(show_watch))
        .add(Rules::READ, routes!(list_devices))
        .add(Rules::READ, routes!(list_queue))
        .add(Rules::READ, routes!(list_accounts))
        .add(Rules::READ, routes!(list_releasing))
        .add(Rules::OPERATE, routes!(clear_releasing))
        .add(Rules::READ, routes!(list_findings))
        .add(Rules::READ, routes!(list_decisions))
        .add(Rules::READ, routes!(show_decision))
        .add(Rules::READ, routes!(whatif::what_if))
        .add(Rules::READ, routes!(stream_events))
        .add(Rules::READ.in_cluster(ClusterRights::GetPod), routes!(show_schedulerlog))
        .with_state(state);
    with_document(routes)
}

/// Shows since when the cluster is watched, and counts
#[utoipa::path(get, path = "/api/v1/watch", operation_id = "show_watch", tag = "cluster", responses(
    (status = 200, description = "The state of the watch", body = WatchRow),
))]
async fn show_watch(State(state): State<PodsState>) -> Answer<Json<WatchRow>> {
    let row = |watch: &mut Watch, core: &mut Core<'_>| {
        let ledger = core.ledger();
        WatchRow {
            watching_since: watch.watching_since().map(time),
            holders_known_since: watch.holders_known_since().map(time),
            record: match watch.record_keeping() {
                RecordKeeping::Never => HoldersRecordPlace::None,
                RecordKeeping::WhileLeading => HoldersRecordPlace::ConfigMaps,
                RecordKeeping::Always => HoldersRecordPlace::DataDirectory,
            },
            damaged_records: watch.damaged_records().len(),
            nodes: ledger.node_count(),
            devices: ledger.nodes().map(|(_, view)| view.node.devices.len()).sum(),
            holders: ledger.holdings().filter(|(_, one)| !one.charges.is_empty()).count(),
            pending: watch.pending().count(),
            releasing: watch.releases().count(),
        }
    };
    Ok(Json(state.engine()?.read(row).await?))
}

/// Lists every device with its holders
#[utoipa::path(get, path = "/api/v1/devices", operation_id = "list_devices", tag = "cluster", responses(
    (status = 200, description = "The devices, by node and ordinal, as `devices[]` of simulate", body = Vec<DeviceRow>),
))]
async fn list_devices(State(state): State<PodsState>) -> Answer<Json<Vec<DeviceRow>>> {
    let rows = state.engine()?.read(|_, core| device_rows(core.ledger())).await?;
    Ok(Json(rows))
}

/// Converts the devices of a ledger: by node name, and tenants by name, so that a restart changes
/// no byte.
fn device_rows(ledger: &Ledger) -> Vec<DeviceRow> {
    let mut nodes: Vec<NodeId> = ledger.nodes().map(|(id, _)| id).collect();
    nodes.sort_by_key(|id| ledger.view(*id).map(|view| view.node.name.clone()));
    let views = nodes.into_iter().filter_map(|id| Some((id, ledger.view(id)?)));
    let mut rows: Vec<DeviceRow> =
        views.flat_map(|(id, view)| device::devices_of(view, ledger.holdings_on(id))).collect();
    // A device that the node no longer lists is kept for its holders. Without any, only this
    // process remembers it.
    rows.retain(|row| row.health != Health::Gone || !row.tenants.is_empty());
    for row in &mut rows {
        row.tenants
            .sort_by(|one, other| (&one.namespace, &one.pod).cmp(&(&other.namespace, &other.pod)));
    }
    rows
}

/// Lists the pods that no scheduler has placed, with an opinion about each
#[utoipa::path(get, path = "/api/v1/scheduler/queue", operation_id = "list_queue", tag = "scheduler", responses(
    (status = 200, description = "Pending pods in order, then gated pods", body = Vec<PendingPodRow>),
))]
async fn list_queue(State(state): State<PodsState>) -> Answer<Json<Vec<PendingPodRow>>> {
    let rows = |watch: &mut Watch, core: &mut Core<'_>| {
        let pending = queue::pending_rows(watch, core.scheduler(), core.now()).into_iter();
        pending.chain(watch.gated().map(|(id, gates)| gated_row(id, gates))).collect()
    };
    Ok(Json(state.engine()?.read(rows).await?))
}

fn gated_row(id: &RequestId, gates: &[String]) -> PendingPodRow {
    PendingPodRow {
        position: None,
        id: format!("{}/{}", id.account, id.name),
        request: RequestRow::from(id),
        created: None,
        priority: 0,
        scheduler: None,
        reported: None,
        gates: gates.to_vec(),
        fits: None,
        node: None,
        reason: format!("held back by the scheduling gate {}", gates.join(", ")),
        not_considered: Vec::new(),
        forecast: None,
    }
}

/// Lists the accounts with a share, and what the pods of each hold
#[utoipa::path(get, path = "/api/v1/scheduler/accounts", operation_id = "list_accounts", tag = "scheduler", responses(
    (status = 200, description = "The accounts by name, parents included", body = Vec<AccountRow>),
))]
async fn list_accounts(State(state): State<PodsState>) -> Answer<Json<Vec<AccountRow>>> {
    let rows =
        |watch: &mut Watch, core: &mut Core<'_>| queue::account_rows(watch, core.scheduler());
    Ok(Json(state.engine()?.read(rows).await?))
}

/// Lists the pods whose memory is being released, and the evidence that each waits for
#[utoipa::path(get, path = "/api/v1/releasing", operation_id = "list_releasing", tag = "cluster", responses(
    (status = 200, description = "By namespace, name and uid", body = Vec<ReleasingRow>),
))]
async fn list_releasing(State(state): State<PodsState>) -> Answer<Json<Vec<ReleasingRow>>> {
    let rows = |watch: &mut Watch, core: &mut Core<'_>| {
        let row = |(id, release): (&RequestId, &plimsoll_kube::live::Release)| ReleasingRow {
            request: RequestRow::from(id),
            node: core.ledger().of_request(id).map(|(_, holding)| holding.node.to_string()),
            since: time(release.since),
            waits_for: release.waits_for.to_string(),
        };
        watch.releases().map(row).collect()
    };
    Ok(Json(state.engine()?.read(rows).await?))
}

/// Ends the charge of a pod that vanished, on the word of an operator
#[utoipa::path(delete, path = "/api/v1/releasing/{namespace}/{name}/{uid}", operation_id = "clear_releasing", tag = "cluster",
params(("namespace" = String, Path), ("name" = String, Path), ("uid" = String, Path)), responses(
    (status = 204, description = "Its memory counts as free"),
    (status = 404, description = "No such pod has vanished and counts as releasing", body = ProblemRow),
    (status = 409, description = "Another replica of the guard decides", body = ProblemRow),
))]
async fn clear_releasing(
    State(state): State<PodsState>,
    Path((namespace, name, uid)): Path<(String, String, String)>,
) -> Answer<StatusCode> {
    let shown = format!("{namespace}/{name} ({uid})");
    let id = RequestId::new(namespace, name).with_uid(uid);
    let clear = move |watch: &mut Watch, core: &mut Core<'_>| {
        // The charge that counts is that of the replica that decides.
        let decides = watch.record_keeping() != RecordKeeping::WhileLeading
            || watch.leadership() == Leadership::Leading;
        decides.then(|| watch.clear(core, &id))
    };
    match state.engine()?.write(clear).await? {
        Some(true) => return Ok(StatusCode::NO_CONTENT),
        Some(false) => {}
        None => {
            let detail = "this replica does not decide; ask the one whose pod has the label \
                plimsoll.dev/role=leader";
            return Err(Problem::new(StatusCode::CONFLICT, "not_leading", detail));
        }
    }
    let detail = format!("{shown} has not vanished, or counts no more; see /api/v1/releasing");
    Err(Problem::not_found("not_releasing", detail))
}

/// Lists the findings of the audit as they are now, the worst first
#[utoipa::path(get, path = "/api/v1/findings", operation_id = "list_findings", tag = "cluster", responses(
    (status = 200, description = "As `findings[]` of audit", body = Vec<FindingRow>),
))]
async fn list_findings(State(state): State<PodsState>) -> Answer<Json<Vec<FindingRow>>> {
    let rows = |watch: &mut Watch, core: &mut Core<'_>| {
        let found = audit::with_ledger(watch.findings(), core.ledger());
        found.iter().map(FindingRow::from).collect()
    };
    Ok(Json(state.engine()?.read(rows).await?))
}

/// Lists recent decisions, newest first
#[utoipa::path(get, path = "/api/v1/scheduler/decisions", operation_id = "list_decisions", tag = "scheduler", responses(
    (status = 200, description = "Opinions about pods of other schedulers", body = Vec<PodDecisionRow>),
))]
async fn list_decisions(State(state): State<PodsState>) -> Answer<Json<Vec<PodDecisionRow>>> {
    let recent = recent(&state, Decisions::newest_first).await?;
    Ok(Json(recent.iter().take(DECISIONS).map(|cached| decision_row(cached)).collect()))
}

/// Shows a decision
#[utoipa::path(get, path = "/api/v1/scheduler/decisions/{id}", operation_id = "show_decision", tag = "scheduler",
params(("id" = String, Path, description = "`SEQ.INDEX`")), responses(
    (status = 200, description = "The decision", body = PodDecisionRow),
    (status = 404, description = "No such decision, or it is too old", body = ProblemRow),
))]
async fn show_decision(
    State(state): State<PodsState>,
    Path(id): Path<String>,
) -> Answer<Json<PodDecisionRow>> {
    let wanted: DecisionId =
        id.parse().map_err(|problem| Problem::bad("id", format!("id is {id:?}: {problem}")))?;
    let found = recent(&state, move |decisions| decisions.get(wanted)).await?;
    let missing = || Problem::not_found("decision_not_found", format!("no decision {id} is kept"));
    found.map(|cached| Json(decision_row(&cached))).ok_or_else(missing)
}

/// Reads recent decisions on the decision thread, which fills them.
async fn recent<T: Send + 'static>(
    state: &PodsState,
    look: impl FnOnce(&Decisions<PodFacts>) -> T + Send + 'static,
) -> Answer<T> {
    let shared = state.0.clone();
    Ok(state.engine()?.read(move |_, _| look(&shared.decisions)).await?)
}

fn decision_row(cached: &CachedDecision<PodFacts>) -> PodDecisionRow {
    let decision = &cached.decision;
    PodDecisionRow {
        id: cached.id.to_string(),
        created: time(cached.at),
        request: RequestRow::from(&decision.request),
        opinion: true,
        scheduler: cached.facts.scheduler.clone(),
        reported: cached.facts.reported.clone(),
        placed: decision.chosen().is_some(),
        node: decision.summary().node().map(ToString::to_string),
        explanation: explanation(decision),
        digest: hexadecimal(cached.digest),
    }
}

/// Streams decisions and changes of the ledger as they happen
///
/// Server-sent events: `decision` for decisions, `ledger` for other changes, `lagged` if the reader
/// was too slow.
#[utoipa::path(get, path = "/api/v1/events", operation_id = "stream_events", tag = "events", responses(
    (status = 200, description = "A stream; the data of each event", body = EventRow, content_type = "text/event-stream"),
))]
async fn stream_events(
    State(state): State<PodsState>,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let engine = state.engine()?.clone();
    let reader = state.0.feed.live::<Watch>()?;
    let events = stream::unfold((reader, engine), |(mut reader, engine)| async move {
        let message = tokio::select! {
            message = reader.next() => message?,
            () = engine.ending() => return None,
        };
        Some((Ok(crate::api::sse_event(&message)), (reader, engine)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(QUIET)))
}

/// Shows the last decision about a pod, and whether it runs
#[utoipa::path(get, path = "/api/v1/namespaces/{namespace}/pods/{name}/schedulerlog", operation_id = "show_schedulerlog", tag = "scheduler",
params(("namespace" = String, Path), ("name" = String, Path)), responses(
    (status = 200, description = "The last decision, and the result of the start", body = SchedulerLogRow),
    (status = 404, description = "Unknown pod, or its log was dropped", body = ProblemRow),
))]
async fn show_schedulerlog(
    State(state): State<PodsState>,
    Path((namespace, name)): Path<(String, String)>,
) -> Answer<Json<SchedulerLogRow>> {
    let shared = state.0.clone();
    let shown = format!("{namespace}/{name}");
    let look = move |watch: &mut Watch, core: &mut Core<'_>| {
        let found = shared.requests.find(&namespace, &name);
        let Some(pod) = watch.index().pod_named(&namespace, &name) else { return found };
        log_of(found, pod, core)
    };
    let found = state.engine()?.read(look).await?;
    let found = found.map(|entry| schedulerlog_row(&entry));
    found_row(found, &shown, Settings::default()).map(Json)
}

/// Completes the log of a pod with what the cluster shows: another scheduler may have placed it
/// without a decision, or differently.
fn log_of(
    found: Found<LogEntry<PodFacts>>,
    pod: &plimsoll_kube::object::Pod,
    core: &Core<'_>,
) -> Found<LogEntry<PodFacts>> {
    let metadata = &pod.metadata;
    let id = RequestId::new(metadata.namespace_or_default(), metadata.name.as_str());
    let id = id.with_uid(metadata.known_uid().unwrap_or_default());
    let is_held = core.ledger().of_request(&id).is_some();
    let node = pod.node_name().filter(|_| is_held);
    match (found, node) {
        (Found::Entry(mut entry), Some(_)) if entry.request.as_ref() == Some(&id) => {
            let fits = matches!(&entry.filter, Filter::Decided(cached) if cached.decision.chosen().is_some());
            if fits {
                entry.bind = Bind::Passed;
                return Found::Entry(entry);
            }
            Found::Entry(Box::new(placed_by_another(id, pod)))
        }
        (_, Some(_)) => Found::Entry(Box::new(placed_by_another(id, pod))),
        (found, None) => found,
    }
}

/// Returns the log of a pod that another scheduler placed.
fn placed_by_another(id: RequestId, pod: &plimsoll_kube::object::Pod) -> LogEntry<PodFacts> {
    let container = pod.spec.containers.first().map_or("", |container| &container.name);
    let node = pod.node_name().map(|node| KnownNode {
        name: node.into(),
        container: container.into(),
        reason: None,
    });
    LogEntry { request: Some(id), filter: Filter::PlacedEarlier { node }, bind: Bind::Passed }
}
