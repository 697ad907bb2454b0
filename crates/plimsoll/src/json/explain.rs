//! One pod's decision as JSON: the same object for a placement, a refusal and a pod that already runs.

use plimsoll_api::lost_by::{LostBy, lost_by, verdict_on};
use plimsoll_api::verdict::{self, NodeVerdictRow, PromisedRow, RemedyRow, ScorePart};
use plimsoll_core::charge::Holding;
use plimsoll_core::decide::Decision;
use plimsoll_core::fit;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Name;
use plimsoll_core::verdict::Candidate;
use plimsoll_kube::cluster::Cluster;
use plimsoll_sim::simulation::{Advice, Rejected};
use serde::Serialize;

use super::decision::{self, ChosenRow};
use super::{SCHEMA_VERSION, UnderstoodRow, understood};

/// The answer of `plimsoll explain -o json`.
#[derive(Serialize)]
pub(crate) struct ExplainSheet<'a> {
    schema_version: u32,
    namespace: &'a Name,
    pod: &'a Name,
    status: &'static str,
    summary: String,
    /// What was read; a decision from a journal was not made from files.
    #[serde(skip_serializing_if = "Option::is_none")]
    understood: Option<UnderstoodRow<'a>>,
    policy: Option<&'a Name>,
    ledger_revision: Option<u64>,
    node: Option<&'a Name>,
    chosen: Option<ChosenSheet<'a>>,
    score: Option<i64>,
    score_parts: Vec<ScorePart>,
    lost_by: Vec<LostBy>,
    nodes_considered: usize,
    nodes: Vec<NodeVerdictRow>,
    promised: Option<PromisedRow>,
    would_fit_if: Vec<RemedyRow>,
    not_considered: &'a [Name],
}

/// Where a pod is or goes.
#[derive(Serialize)]
struct ChosenSheet<'a> {
    node: &'a Name,
    containers: Vec<ChosenRow>,
}

/// A pod that had its turn. Where it was refused, `refused` says what would help.
pub(crate) fn explain<'a>(
    cluster: &'a Cluster,
    decision: &'a Decision,
    refused: Option<&'a Rejected>,
    not_considered: &'a [Name],
) -> ExplainSheet<'a> {
    ExplainSheet {
        understood: Some(understood(cluster)),
        ..explained(decision, refused, not_considered)
    }
}

/// A decision by itself.
pub(super) fn explained<'a>(
    decision: &'a Decision,
    refused: Option<&'a Rejected>,
    not_considered: &'a [Name],
) -> ExplainSheet<'a> {
    static NO_ADVICE: Advice = Advice { would_fit_if: Vec::new(), promised: None };
    let found = decision.chosen();
    let advice = refused.map_or(&NO_ADVICE, |refused| &*refused.advice);
    let verdicts = verdict::ordered(decision);
    ExplainSheet {
        schema_version: SCHEMA_VERSION,
        namespace: &decision.request.account,
        pod: &decision.request.name,
        status: if found.is_some() { "placed" } else { "refused" },
        summary: decision.summary().to_string(),
        understood: None,
        policy: Some(&decision.policy.name),
        ledger_revision: Some(decision.revision),
        node: found.map(|found| &found.placement.node),
        chosen: found.and_then(|found| chosen(decision, found)),
        score: found.map(|found| found.score.total()),
        score_parts: found.map(|found| verdict::score_parts(&found.score)).unwrap_or_default(),
        lost_by: lost_by(decision),
        nodes_considered: verdicts.len(),
        nodes: verdicts.into_iter().map(|verdict| decision::last_node(decision, verdict)).collect(),
        promised: decision::promised(advice),
        would_fit_if: decision::remedies(advice),
        not_considered,
    }
}

fn chosen<'a>(decision: &'a Decision, found: &'a Candidate) -> Option<ChosenSheet<'a>> {
    let verdict = verdict_on(decision, &found.placement.node)?;
    let shape = decision.spec.shapes().get(usize::from(found.placement.shape));
    // The same question that the commit asked, of the same rows: what the place is charged.
    let charges = fit::admit(verdict.view, &decision.spec, &found.placement).ok()?;
    Some(ChosenSheet {
        node: &found.placement.node,
        containers: decision::chosen(&verdict.view.node, shape, &charges),
    })
}

/// A pod that already runs: where it is and what it holds there.
pub(crate) fn running<'a>(
    cluster: &'a Cluster,
    holding: &'a Holding,
    ledger: &Ledger,
) -> ExplainSheet<'a> {
    let view = ledger.view_of(&holding.node);
    let shape = holding.spec.as_ref().and_then(|spec| spec.shapes().first());
    let containers =
        view.map(|view| decision::chosen(&view.node, shape, &holding.charges)).unwrap_or_default();
    ExplainSheet {
        node: Some(&holding.node),
        chosen: Some(ChosenSheet { node: &holding.node, containers }),
        ..undecided(
            cluster,
            &holding.request,
            "running",
            format!("{} on {}", holding.stage.name(), holding.node),
        )
    }
}

/// A pod about which there was nothing to decide.
pub(crate) fn undecided<'a>(
    cluster: &'a Cluster,
    request: &'a RequestId,
    status: &'static str,
    summary: String,
) -> ExplainSheet<'a> {
    ExplainSheet {
        schema_version: SCHEMA_VERSION,
        namespace: &request.account,
        pod: &request.name,
        status,
        summary,
        understood: Some(understood(cluster)),
        policy: None,
        ledger_revision: None,
        node: None,
        chosen: None,
        score: None,
        score_parts: Vec::new(),
        lost_by: Vec::new(),
        nodes_considered: 0,
        nodes: Vec::new(),
        promised: None,
        would_fit_if: Vec::new(),
        not_considered: &[],
    }
}
