//! Why named work is where it is, in the shape that schedulers of pods answer in.

use axum::Json;
use axum::extract::{Path, State};
use plimsoll_core::units::Name;
use plimsoll_core::verdict::{NodeVerdict, Table};
use plimsoll_slots::desk::ClientName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::parts::Parts;
use super::problem::{Answer, Problem};
use crate::decisions::Kept;
use crate::schedulerlog::{Bind, Entry, Filter, Found};
use plimsoll_api::rows::{ProblemRow, time};
use plimsoll_api::verdict::{self, ContainerVerdictRow, NodeVerdictRow};

/// Why named work is where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct SchedulerLogRow {
    /// `succeeded` once it was placed and seen running; else `failed`.
    pub(crate) status: String,
    /// Where it was to go.
    pub(crate) filter: FilterRow,
    /// What came of its start there.
    pub(crate) bind: BindRow,
    /// The place.
    pub(crate) reservation_id: String,
    /// The model.
    pub(crate) model: String,
    /// Its slot, where it is or was in one.
    pub(crate) slot_id: Option<String>,
    /// When it asked.
    pub(crate) created: String,
    /// The decision, where one is at hand.
    pub(crate) decision_id: Option<String>,
    /// When that was made.
    pub(crate) decided: Option<String>,
    /// The policy that chose.
    pub(crate) policy: Option<String>,
}

/// Where work was to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FilterRow {
    /// `passed` or `failed`.
    pub(crate) status: String,
    /// One sentence with counts where it failed, else empty.
    pub(crate) summary: String,
    /// Every runner that was judged, by name.
    pub(crate) nodes: Vec<NodeVerdictRow>,
}

/// What came of a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BindRow {
    /// `passed` or `failed`; empty before anything came of it.
    pub(crate) status: String,
    /// The runner's reason where it failed, else empty.
    pub(crate) summary: String,
}

/// Why named work is where it is
#[utoipa::path(get, path = "/api/v1/namespaces/{namespace}/pods/{name}/schedulerlog", operation_id = "show_schedulerlog", tag = "scheduler",
params(("namespace" = String, Path, description = "As it was given with the request"), ("name" = String, Path, description = "Likewise")),
responses(
    (status = 200, description = "The last decision about it, and what came of its start", body = SchedulerLogRow),
    (status = 404, description = "It is not known, made room for others, or logs are switched off", body = ProblemRow),
    (status = 503, description = "The ledger is being rebuilt", body = ProblemRow),
))]
pub(crate) async fn show(
    State(parts): State<Parts>,
    Path((namespace, name)): Path<(String, String)>,
) -> Answer<Json<SchedulerLogRow>> {
    let who = ClientName { namespace, name };
    let asked = format!("{}/{}", who.namespace, who.name);
    let (code, detail) = match parts.kept(move |_, log| log.find(&who)).await? {
        Found::Entry(entry) => return Ok(Json(row(&entry))),
        Found::Off => (
            "schedulerlog_disabled",
            "scheduler logs are switched off; schedulerlog.enabled in the settings turns them on"
                .to_string(),
        ),
        Found::Evicted => {
            let most = parts.log_settings().max_pods;
            (
                "schedulerlog_evicted",
                format!("the log of {asked} made room for others: schedulerlog.max_pods is {most}"),
            )
        }
        Found::Unknown => (
            "schedulerlog_unknown",
            format!("nobody has asked for a place as {asked} since the server started"),
        ),
    };
    Err(Problem::not_found(code, detail))
}

fn row(entry: &Entry) -> SchedulerLogRow {
    let filter = filter(entry);
    let (bind, reason) = match &entry.bind {
        // Where there is no place, there was nothing to start.
        _ if filter.status == FAILED => ("", ""),
        Bind::NotYet => ("", ""),
        Bind::Passed => (PASSED, ""),
        Bind::Failed(reason) => (FAILED, reason.as_str()),
    };
    let decision = match &entry.filter {
        Filter::Decided(kept) => Some(kept),
        _ => None,
    };
    SchedulerLogRow {
        status: if bind == PASSED { "succeeded" } else { FAILED }.to_string(),
        filter,
        bind: BindRow { status: bind.to_string(), summary: reason.to_string() },
        reservation_id: entry.reservation.to_string(),
        model: entry.model.clone(),
        slot_id: entry.slot.as_ref().map(ToString::to_string),
        created: time(entry.created),
        decision_id: decision.map(|kept| kept.id.to_string()),
        decided: decision.map(|kept| time(kept.at)),
        policy: decision.map(|kept| kept.decision.policy.name.to_string()),
    }
}

const PASSED: &str = "passed";
const FAILED: &str = "failed";

fn filter(entry: &Entry) -> FilterRow {
    let failed = |summary: &str, nodes| FilterRow {
        status: FAILED.to_string(),
        summary: summary.to_string(),
        nodes,
    };
    let passed = |nodes| FilterRow { status: PASSED.to_string(), summary: String::new(), nodes };
    match &entry.filter {
        Filter::Decided(kept) if kept.decision.place().is_some() => passed(nodes(kept)),
        Filter::Decided(kept) => failed(&kept.summary, nodes(kept)),
        Filter::Full { reason, runners } => {
            let node = |runner: &Name| whole(runner, &entry.model, Some("SlotsFull"));
            failed(reason, runners.iter().map(node).collect())
        }
        Filter::Unseen { runner: Some(runner) } => passed(vec![whole(runner, &entry.model, None)]),
        Filter::Unseen { runner: None } => {
            failed("its slot waits, since before the server started", Vec::new())
        }
        Filter::Over { reason } => failed(reason, Vec::new()),
    }
}

fn nodes(kept: &Kept) -> Vec<NodeVerdictRow> {
    let decision = &kept.decision;
    let shape = decision.shapes.len().saturating_sub(1);
    let verdicts = decision.table().map(Table::by_name).unwrap_or_default();
    let row = |verdict: NodeVerdict| of_node(verdict::node(decision, shape, verdict));
    verdicts.into_iter().map(row).collect()
}

/// Where the node itself will not do, no container passes there.
fn of_node(mut row: NodeVerdictRow) -> NodeVerdictRow {
    if let Some(reason) = &row.reason {
        for container in row.containers.iter_mut().filter(|container| container.reason.is_none()) {
            container.status = FAILED.to_string();
            container.reason = Some(reason.code.clone());
        }
    }
    row
}

/// A runner about which only one thing is known.
fn whole(runner: &Name, model: &str, reason: Option<&str>) -> NodeVerdictRow {
    let status = if reason.is_none() { PASSED } else { FAILED }.to_string();
    let container = ContainerVerdictRow {
        name: model.into(),
        status: status.clone(),
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
