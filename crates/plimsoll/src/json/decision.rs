//! Decisions as JSON: what was chosen, and for every node, container and device why or why not.

use plimsoll_api::verdict::{self, NodeVerdictRow, PromisedRow, RemedyRow, ScorePart};
use plimsoll_core::charge::Charge;
use plimsoll_core::decide::Decision;
use plimsoll_core::device::Node;
use plimsoll_core::request::Shape;
use plimsoll_core::units::{Bytes, Name};
use plimsoll_core::verdict::NodeVerdict;
use plimsoll_kube::cluster::Cluster;
use plimsoll_sim::simulation::{Advice, Placed, Rejected, Simulation};
use serde::Serialize;

/// Nodes that a refusal shows unless all are wanted.
const NEAREST: usize = 10;

/// A pod that found a place.
#[derive(Serialize)]
pub(super) struct PlacementRow<'a> {
    namespace: &'a Name,
    pod: &'a Name,
    node: &'a Name,
    score: i64,
    score_parts: Vec<ScorePart>,
    containers: Vec<ChosenRow>,
}

/// A container with the devices it gets.
#[derive(Serialize)]
pub(super) struct ChosenRow {
    name: Name,
    devices: Vec<ChosenDevice>,
}

/// A device that a container gets. Where the plugin picks the card it is one of several, and has no name yet.
#[derive(Serialize)]
struct ChosenDevice {
    uuid: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    one_of: Vec<String>,
    bytes: Option<Bytes>,
    cores: u32,
}

pub(super) fn placement<'a>(
    cluster: &'a Cluster,
    simulation: &Simulation,
    placed: &'a Placed,
) -> PlacementRow<'a> {
    let request = &cluster.pending[placed.pending].request;
    let place = &placed.found.placement;
    let shape = request.spec.shapes().get(usize::from(place.shape));
    let ledger = simulation.ledger();
    let held = ledger.of_request(&request.id).map(|(_, holding)| holding.charges.as_slice());
    let view = ledger.view_of(&place.node);
    let containers = view.map(|view| chosen(&view.node, shape, held.unwrap_or_default()));
    PlacementRow {
        namespace: &request.id.account,
        pod: &request.id.name,
        node: &place.node,
        score: placed.found.score.total(),
        score_parts: verdict::score_parts(&placed.found.score),
        containers: containers.unwrap_or_default(),
    }
}

/// The devices that each container gets by these charges, in the order of the containers.
pub(super) fn chosen(node: &Node, shape: Option<&Shape>, charges: &[Charge]) -> Vec<ChosenRow> {
    let mut rows: Vec<ChosenRow> = shape
        .into_iter()
        .flat_map(|shape| &shape.containers)
        .map(|container| ChosenRow { name: container.name.clone(), devices: Vec::new() })
        .collect();
    for charge in charges {
        let labels: Vec<String> =
            charge.on.iter().map(|ordinal| node.device_label(usize::from(*ordinal))).collect();
        for part in &charge.parts {
            let (uuid, one_of) = match &labels[..] {
                [only] => (Some(only.clone()), Vec::new()),
                several => (None, several.to_vec()),
            };
            let device = ChosenDevice { uuid, one_of, bytes: part.bytes, cores: part.cores.0 };
            match rows.iter_mut().find(|row| row.name == part.container) {
                Some(row) => row.devices.push(device),
                None => {
                    rows.push(ChosenRow { name: part.container.clone(), devices: vec![device] });
                }
            }
        }
    }
    rows
}

/// A pod that found no place.
#[derive(Serialize)]
pub(super) struct RefusedRow<'a> {
    namespace: &'a Name,
    pod: &'a Name,
    summary: String,
    promised: Option<PromisedRow>,
    nodes_considered: usize,
    nodes: Vec<NodeVerdictRow>,
    would_fit_if: Vec<RemedyRow>,
}

pub(super) fn refused<'a>(
    cluster: &'a Cluster,
    refused: &'a Rejected,
    full: bool,
) -> RefusedRow<'a> {
    let request = &cluster.pending[refused.pending].request.id;
    let verdicts = verdict::ordered(&refused.decision);
    let shown = if full { verdicts.len() } else { NEAREST };
    RefusedRow {
        namespace: &request.account,
        pod: &request.name,
        summary: refused.decision.summary().to_string(),
        promised: promised(&refused.advice),
        nodes_considered: verdicts.len(),
        nodes: verdicts
            .iter()
            .take(shown)
            .map(|verdict| last_node(&refused.decision, *verdict))
            .collect(),
        would_fit_if: remedies(&refused.advice),
    }
}

/// A verdict on a node for the last shape that was tried: the one that answered.
pub(super) fn last_node(decision: &Decision, verdict: NodeVerdict) -> NodeVerdictRow {
    verdict::node(decision, decision.shapes.len().saturating_sub(1), verdict)
}

/// Every remedy was carried out on a draft before it was proposed.
pub(super) fn remedies(advice: &Advice) -> Vec<RemedyRow> {
    advice.would_fit_if.iter().map(verdict::remedy).collect()
}

pub(super) fn promised(advice: &Advice) -> Option<PromisedRow> {
    let promised = advice.promised.as_ref()?;
    Some(verdict::promised_row(&promised.promise, &promised.devices))
}
