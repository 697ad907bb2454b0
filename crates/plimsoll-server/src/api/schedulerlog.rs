//! Why named work is where it is, in the shape that schedulers of pods answer in.

use axum::Json;
use axum::extract::{Path, State};
use plimsoll_core::units::Name;
use plimsoll_core::verdict::{NodeVerdict, Table};
use plimsoll_slots::desk::ClientName;

use super::parts::Parts;
use super::problem::{Answer, Problem};
use crate::decisions::Kept;
use crate::schedulerlog::{Bind, Entry, Filter, Found};
use plimsoll_api::rows::{
    BindRow, BindStatus, FilterRow, LogStatus, ProblemRow, SchedulerLogRow, time,
};
use plimsoll_api::verdict::{self, ContainerVerdictRow, NodeVerdictRow, Verdict};

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
        // Without a placement there was nothing to start.
        _ if filter.status == Verdict::Failed => (BindStatus::NotReached, ""),
        Bind::NotYet => (BindStatus::NotReached, ""),
        Bind::Passed => (BindStatus::Passed, ""),
        Bind::Failed(reason) => (BindStatus::Failed, reason.as_str()),
    };
    let decision = match &entry.filter {
        Filter::Decided(kept) => Some(kept),
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
        decision_id: decision.map(|kept| kept.id.to_string()),
        decided: decision.map(|kept| time(kept.at)),
        policy: decision.map(|kept| kept.decision.policy.name.to_string()),
    }
}

fn filter(entry: &Entry) -> FilterRow {
    let failed = |summary: &str, nodes| FilterRow {
        status: Verdict::Failed,
        summary: summary.to_string(),
        nodes,
    };
    let passed = |nodes| FilterRow { status: Verdict::Passed, summary: String::new(), nodes };
    match &entry.filter {
        Filter::Decided(kept) if kept.decision.chosen().is_some() => passed(nodes(kept)),
        Filter::Decided(kept) => failed(&kept.decision.summary().to_string(), nodes(kept)),
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
            container.status = Verdict::Failed;
            container.reason = Some(reason.code.clone());
        }
    }
    row
}

/// A runner about which only one thing is known.
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
