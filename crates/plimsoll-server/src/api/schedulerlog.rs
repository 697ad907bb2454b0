//! The route of the scheduler log: the last decision about named work, in the format for pods.

use axum::Json;
use axum::extract::{Path, State};
use plimsoll_core::units::Name;
use plimsoll_core::verdict::{NodeVerdict, Table};
use plimsoll_slots::desk::ClientName;

use super::problem::{Answer, Problem};
use super::state::AppState;
use crate::decisions::CachedDecision;
use crate::schedulerlog::Bind;
use crate::schedulerlog::clients::{Entry, Filter, Found};
use plimsoll_api::rows::{
    BindRow, BindStatus, FilterRow, LogStatus, ProblemRow, SchedulerLogRow, time,
};
use plimsoll_api::verdict::{self, ContainerVerdictRow, NodeVerdictRow, Verdict};

/// Shows the last decision about named work, and the result of its start
#[utoipa::path(get, path = "/api/v1/namespaces/{namespace}/pods/{name}/schedulerlog", operation_id = "show_schedulerlog", tag = "scheduler",
params(("namespace" = String, Path, description = "The namespace of the reservation"), ("name" = String, Path, description = "The name of the reservation")),
responses(
    (status = 200, description = "The last decision, and the result of the start", body = SchedulerLogRow),
    (status = 404, description = "Unknown name, dropped log, or the scheduler log is turned off", body = ProblemRow),
    (status = 503, description = "The ledger is being rebuilt", body = ProblemRow),
))]
pub(crate) async fn show(
    State(app): State<AppState>,
    Path((namespace, name)): Path<(String, String)>,
) -> Answer<Json<SchedulerLogRow>> {
    let client = ClientName { namespace, name };
    let shown = format!("{}/{}", client.namespace, client.name);
    let (code, detail) = match app.recent(move |_, log| log.find(&client)).await? {
        Found::Entry(entry) => return Ok(Json(row(&entry))),
        Found::Off => (
            "schedulerlog_disabled",
            "the scheduler log is turned off; set schedulerlog.enabled: true in the configuration"
                .to_string(),
        ),
        Found::Dropped => {
            let most = app.log_settings().max_pods;
            (
                "schedulerlog_evicted",
                format!(
                    "the log of {shown} was dropped to make room for others; schedulerlog.max_pods is {most}"
                ),
            )
        }
        Found::Unknown => (
            "schedulerlog_unknown",
            format!("no reservation with namespace and name {shown} since the server started"),
        ),
    };
    Err(Problem::not_found(code, detail))
}

fn row(entry: &Entry) -> SchedulerLogRow {
    let filter = filter(entry);
    let (bind, reason) = match &entry.bind {
        // Without a placement there was nothing to start.
        _ if filter.status == Verdict::Failed => (BindStatus::NotReached, ""),
        Bind::NotYet => (BindStatus::NotReached, ""),
        Bind::Passed => (BindStatus::Passed, ""),
        Bind::Failed(reason) => (BindStatus::Failed, reason.as_str()),
    };
    let decision = match &entry.filter {
        Filter::Decided(cached) => Some(cached),
        _ => None,
    };
    SchedulerLogRow {
        status: match bind {
            BindStatus::Passed => LogStatus::Succeeded,
            BindStatus::NotReached | BindStatus::Failed => LogStatus::Failed,
        },
        filter,
        bind: BindRow { status: bind, summary: reason.to_string() },
        reservation_id: entry.reservation.to_string(),
        model: entry.model.clone(),
        slot_id: entry.slot.as_ref().map(ToString::to_string),
        created: time(entry.created),
        decision_id: decision.map(|cached| cached.id.to_string()),
        decided: decision.map(|cached| time(cached.at)),
        policy: decision.map(|cached| cached.decision.policy.name.to_string()),
    }
}

fn filter(entry: &Entry) -> FilterRow {
    match &entry.filter {
        Filter::Decided(cached) => decided(cached),
        Filter::Full { reason, runners } => {
            let node = |runner: &Name| whole(runner, &entry.model, Some("SlotsFull"));
            failed(reason, runners.iter().map(node).collect())
        }
        Filter::Unseen { runner: Some(runner) } => passed(vec![whole(runner, &entry.model, None)]),
        Filter::Unseen { runner: None } => {
            failed("its slot is pending since before the server started", Vec::new())
        }
        Filter::Over { reason } => failed(reason, Vec::new()),
    }
}

/// Converts the decision about a request of any front end.
pub(crate) fn decided<D>(cached: &CachedDecision<D>) -> FilterRow {
    match cached.decision.chosen() {
        Some(_) => passed(nodes(cached)),
        None => failed(&cached.decision.summary().to_string(), nodes(cached)),
    }
}

fn passed(nodes: Vec<NodeVerdictRow>) -> FilterRow {
    FilterRow { status: Verdict::Passed, summary: String::new(), nodes }
}

fn failed(summary: &str, nodes: Vec<NodeVerdictRow>) -> FilterRow {
    FilterRow { status: Verdict::Failed, summary: summary.to_string(), nodes }
}

fn nodes<D>(cached: &CachedDecision<D>) -> Vec<NodeVerdictRow> {
    let decision = &cached.decision;
    let shape = decision.shapes.len().saturating_sub(1);
    let verdicts = decision.table().map(Table::by_name).unwrap_or_default();
    let row = |verdict: NodeVerdict| of_node(verdict::node(decision, shape, verdict));
    verdicts.into_iter().map(row).collect()
}

/// Fails every container of a node that is rejected as a whole.
fn of_node(mut row: NodeVerdictRow) -> NodeVerdictRow {
    if let Some(reason) = &row.reason {
        for container in row.containers.iter_mut().filter(|container| container.reason.is_none()) {
            container.status = Verdict::Failed;
            container.reason = Some(reason.code.clone());
        }
    }
    row
}

/// Returns the row of a runner of which only one reason is known.
fn whole(runner: &Name, model: &str, reason: Option<&str>) -> NodeVerdictRow {
    let status = Verdict::from(reason.is_none());
    let container = ContainerVerdictRow {
        name: model.into(),
        status,
        reason: reason.map(String::from),
        devices: Vec::new(),
    };
    NodeVerdictRow {
        name: runner.clone(),
        status,
        score: 0,
        score_parts: None,
        reason: None,
        containers: vec![container],
    }
}
