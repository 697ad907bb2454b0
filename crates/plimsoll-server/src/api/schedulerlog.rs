//! The route of the scheduler log: the last decision about named work, in the format for pods.

use axum::Json;
use axum::extract::{Path, State};
use plimsoll_core::verdict::{NodeVerdict, Table};
use plimsoll_slots::desk::ClientName;

use super::problem::{Answer, Problem};
use super::reservations::ended_status;
use super::state::AppState;
use crate::decisions::CachedDecision;
use crate::schedulerlog::clients::{ClientLog, Ended, Entry};
use crate::schedulerlog::{Bind, Filter, Found, KnownNode, LogEntry, Settings};
use plimsoll_api::rows::{
    BindRow, BindStatus, FilterRow, LogStatus, LoggedReservation, ProblemRow, RequestRow,
    ReservationEndRow, SchedulerLogRow, time,
};
use plimsoll_api::verdict::{self, ContainerVerdictRow, NodeVerdictRow, Verdict};

/// Shows the last decision about named work, and the result of its start
///
/// The name is that of a reservation, else the model and the id of a slot.
#[utoipa::path(get, path = "/api/v1/namespaces/{namespace}/pods/{name}/schedulerlog", operation_id = "show_schedulerlog", tag = "scheduler",
params(("namespace" = String, Path, description = "The namespace of the reservation, or the model of the slot"),
    ("name" = String, Path, description = "The name of the reservation, or the id of the slot")),
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
    let found = app.recent(move |_, log| find(log, &client)).await?;
    found_row(found, &shown, app.log_settings()).map(Json)
}

fn find(log: &ClientLog, client: &ClientName) -> Found<SchedulerLogRow> {
    match log.find(client) {
        Found::Unknown => log.find_slot(&client.namespace, &client.name).map(|entry| row(&entry)),
        found => found.map(|entry| reservation_row(&entry)),
    }
}

/// Returns the row that was found, or the problem that explains why there is none.
pub(crate) fn found_row<R>(found: Found<R>, shown: &str, settings: Settings) -> Answer<R> {
    let (code, detail) = match found {
        Found::Entry(row) => return Ok(*row),
        Found::Off => (
            "schedulerlog_disabled",
            "the scheduler log is turned off; set schedulerlog.enabled: true in the configuration"
                .to_string(),
        ),
        Found::Dropped => (
            "schedulerlog_evicted",
            format!(
                "the log of {shown} was dropped to make room for others; schedulerlog.max_pods is {}",
                settings.max_pods
            ),
        ),
        Found::Unknown => (
            "schedulerlog_unknown",
            format!("nothing named {shown} (namespace/name) since the server started"),
        ),
    };
    Err(Problem::not_found(code, detail))
}

fn reservation_row(entry: &Entry) -> SchedulerLogRow {
    let reservation = LoggedReservation {
        reservation_id: entry.reservation.to_string(),
        model: entry.model.clone(),
        slot_id: entry.slot.as_ref().map(ToString::to_string),
        created: time(entry.created),
        ended: entry.ended.as_ref().map(end_row),
    };
    SchedulerLogRow { reservation: Some(reservation), ..row(&entry.log) }
}

fn end_row(ended: &Ended) -> ReservationEndRow {
    ReservationEndRow {
        status: ended_status(&ended.ending),
        reason: ended.ending.to_string(),
        at: time(ended.at),
    }
}

/// Converts the log of a request of any front end.
pub(crate) fn row<D>(log: &LogEntry<D>) -> SchedulerLogRow {
    let filter = filter(&log.filter);
    let (bind, reason) = match &log.bind {
        // Without a placement there was nothing to start.
        _ if filter.status == Verdict::Failed => (BindStatus::NotReached, ""),
        Bind::NotYet => (BindStatus::NotReached, ""),
        Bind::Passed => (BindStatus::Passed, ""),
        Bind::Failed(reason) => (BindStatus::Failed, reason.as_str()),
    };
    let decision = match &log.filter {
        Filter::Decided(cached) => Some(cached),
        Filter::PlacedEarlier { .. } | Filter::Undecided { .. } => None,
    };
    SchedulerLogRow {
        status: match bind {
            BindStatus::Passed => LogStatus::Succeeded,
            BindStatus::NotReached | BindStatus::Failed => LogStatus::Failed,
        },
        filter,
        bind: BindRow { status: bind, summary: reason.to_string() },
        request: log.request.as_ref().map(RequestRow::from),
        decision_id: decision.map(|cached| cached.id.to_string()),
        decided: decision.map(|cached| time(cached.at)),
        policy: decision.map(|cached| cached.decision.policy.name.to_string()),
        reservation: None,
    }
}

fn filter<D>(filter: &Filter<D>) -> FilterRow {
    match filter {
        Filter::Decided(cached) => decided(cached),
        Filter::PlacedEarlier { node } => passed(node.iter().map(known_node).collect()),
        Filter::Undecided { reason, nodes } => {
            failed(reason, nodes.iter().map(known_node).collect())
        }
    }
}

fn decided<D>(cached: &CachedDecision<D>) -> FilterRow {
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

/// Converts a node of which only one reason is known.
fn known_node(node: &KnownNode) -> NodeVerdictRow {
    let status = match node.reason {
        Some(_) => Verdict::Failed,
        None => Verdict::Passed,
    };
    let container = ContainerVerdictRow {
        name: node.container.clone(),
        status,
        reason: node.reason.map(String::from),
        devices: Vec::new(),
    };
    NodeVerdictRow {
        name: node.name.clone(),
        status,
        score: 0,
        score_parts: None,
        reason: None,
        containers: vec![container],
    }
}
