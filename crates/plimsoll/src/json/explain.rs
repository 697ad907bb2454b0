//! One pod's decision as JSON: the same object for a placement, a refusal and a pod that already runs.

use plimsoll_core::candidate::Judge;
use plimsoll_core::charge::Holding;
use plimsoll_core::decide::Decision;
use plimsoll_core::fit;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::RequestId;
use plimsoll_core::score::{Score, Term};
use plimsoll_core::summary;
use plimsoll_core::units::Name;
use plimsoll_core::verdict::{Candidate, NodeVerdict};
use plimsoll_kube::cluster::Cluster;
use plimsoll_sim::simulation::{Advice, Rejected};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::decision::{self, ChosenRow, NodeVerdictRow, PromisedRow, RemedyRow, ScorePart};
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
    let found = decision.place();
    let advice = refused.map_or(&NO_ADVICE, |refused| &*refused.advice);
    let verdicts = decision::ordered(decision);
    ExplainSheet {
        schema_version: SCHEMA_VERSION,
        namespace: &decision.request.account,
        pod: &decision.request.name,
        status: if found.is_some() { "placed" } else { "refused" },
        summary: refused.map_or_else(|| summary::sentence(decision), Rejected::sentence),
        understood: None,
        policy: Some(&decision.policy.name),
        ledger_revision: Some(decision.revision),
        node: found.map(|found| &found.place.node),
        chosen: found.and_then(|found| chosen(decision, found)),
        score: found.map(|found| found.score.total()),
        score_parts: found.map(|found| decision::score_parts(&found.score)).unwrap_or_default(),
        lost_by: lost_by(decision),
        nodes_considered: verdicts.len(),
        nodes: verdicts.into_iter().map(|verdict| decision::last_node(decision, verdict)).collect(),
        promised: decision::promised(advice),
        would_fit_if: decision::remedies(advice),
        not_considered,
    }
}

fn chosen<'a>(decision: &'a Decision, found: &'a Candidate) -> Option<ChosenSheet<'a>> {
    let verdict = verdict_on(decision, &found.place.node)?;
    let shape = decision.spec.shapes().get(usize::from(found.place.shape));
    // The same question that the commit asked, of the same rows: what the place is charged.
    let charges = fit::admit(verdict.view, &decision.spec, &found.place).ok()?;
    Some(ChosenSheet {
        node: &found.place.node,
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

/// A place that would have done, and why another was better.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct LostBy {
    /// The node that lost, or on which the device lost.
    #[schema(value_type = String)]
    pub(crate) node: Name,
    /// The device that lost to others of the chosen node; `None` where a whole node lost.
    pub(crate) device: Option<String>,
    /// The term that it lost most by; `None` where the scores are equal.
    pub(crate) term: Option<String>,
    /// How far it is behind by that term; 0 where there is none.
    pub(crate) points_behind: i64,
    /// How far the sum of all terms is behind.
    pub(crate) total_behind: i64,
    /// The same in words.
    pub(crate) text: String,
}

/// Every place that fits and was not chosen: other nodes, and other devices of the chosen node.
pub(crate) fn lost_by(decision: &Decision) -> Vec<LostBy> {
    let Some(found) = decision.place() else { return Vec::new() };
    let nodes = decision::ordered(decision)
        .into_iter()
        .filter(|verdict| verdict.view.node.name != found.place.node);
    let mut rows: Vec<LostBy> = nodes
        .filter_map(|verdict| {
            let best = verdict.best.as_ref()?;
            Some(lost(verdict.view.node.name.clone(), None, &best.score, &found.score))
        })
        .collect();
    rows.extend(devices_that_lost(decision, found));
    rows
}

/// Other devices of the chosen node, where one device was wanted: each scored as if it had been chosen.
fn devices_that_lost(decision: &Decision, found: &Candidate) -> Vec<LostBy> {
    let ([picked], Some(verdict)) =
        (&found.place.picks[..], verdict_on(decision, &found.place.node))
    else {
        return Vec::new();
    };
    let [need] = &verdict.needs[..] else { return Vec::new() };
    if need.wanted != 1 || picked.len() != 1 {
        return Vec::new();
    }
    let others = need
        .devices
        .iter()
        .filter(|device| device.reason.is_none() && !picked.contains(&device.ordinal));
    let judge = Judge::new(&decision.policy, &decision.spec, found.place.shape);
    let row = |ordinal: u16| {
        let place = fit::Placement { picks: vec![vec![ordinal]], ..found.place.clone() };
        let score = judge.score(verdict.view, &place);
        let label = verdict.view.node.device_label(usize::from(ordinal));
        lost(found.place.node.clone(), Some(label), &score, &found.score)
    };
    others.map(|device| row(device.ordinal)).collect()
}

fn lost(node: Name, device: Option<String>, score: &Score, better: &Score) -> LostBy {
    let total_behind = better.total() - score.total();
    let term = score.loses_by(better).filter(|_| total_behind > 0);
    let points_behind = term.map_or(0, |term| better.points(term) - score.points(term));
    let text = match term {
        Some(term) => {
            format!("{}, {points_behind} points behind ({total_behind} in all)", term.name())
        }
        None if total_behind == 0 && device.is_some() => "tie, by place on the node".to_string(),
        None if total_behind == 0 => "tie, by name".to_string(),
        // Only a gang gives up the better place of one member, so that all of them fit.
        None => "better for this pod alone, but then the gang would not fit whole".to_string(),
    };
    LostBy {
        node,
        device,
        term: term.map(Term::name).map(String::from),
        points_behind,
        total_behind,
        text,
    }
}

fn verdict_on<'a>(decision: &'a Decision, node: &str) -> Option<NodeVerdict<'a>> {
    let table = decision.table()?;
    table.unordered().find(|verdict| &*verdict.node == node)
}
