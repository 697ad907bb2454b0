//! Decisions as JSON: what was chosen, and for every node, container and device why or why not.

use std::collections::BTreeSet;

use plimsoll_core::charge::Charge;
use plimsoll_core::decide::Decision;
use plimsoll_core::device::Node;
use plimsoll_core::reason::{NodeReason, Reason};
use plimsoll_core::remedy::{Kind, Remedy};
use plimsoll_core::request::Shape;
use plimsoll_core::score::{Score, Term};
use plimsoll_core::summary;
use plimsoll_core::units::{Bytes, Name};
use plimsoll_core::verdict::{DeviceVerdict, NodeVerdict};
use plimsoll_kube::cluster::Cluster;
use serde::Serialize;

use crate::simulation::{Advice, Placed, Promised, Refused, Simulation};

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

/// One term of a score.
#[derive(Serialize)]
pub(super) struct ScorePart {
    term: &'static str,
    points: i64,
}

pub(super) fn score_parts(score: &Score) -> Vec<ScorePart> {
    Term::ALL.into_iter().map(|term| ScorePart { term: term.name(), points: score.points(term) }).collect()
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
    let place = &placed.found.place;
    let shape = request.spec.shapes().get(usize::from(place.shape));
    let ledger = &simulation.ledger;
    let held = ledger.of_request(&request.id).map(|(_, holding)| holding.charges.as_slice());
    let view = ledger.node_id(&place.node).and_then(|id| ledger.view(id));
    let containers = view.map(|view| chosen(&view.node, shape, held.unwrap_or_default()));
    PlacementRow {
        namespace: &request.id.account,
        pod: &request.id.name,
        node: &place.node,
        score: placed.found.score.total(),
        score_parts: score_parts(&placed.found.score),
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
                None => rows.push(ChosenRow { name: part.container.clone(), devices: vec![device] }),
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
    promised: Option<PromisedRow<'a>>,
    nodes_considered: usize,
    nodes: Vec<NodeVerdictRow<'a>>,
    would_fit_if: Vec<RemedyRow<'a>>,
}

pub(super) fn refused<'a>(cluster: &'a Cluster, refused: &'a Refused, full: bool) -> RefusedRow<'a> {
    let request = &cluster.pending[refused.pending].request.id;
    let verdicts = ordered(&refused.decision);
    let shown = if full { verdicts.len() } else { NEAREST };
    RefusedRow {
        namespace: &request.account,
        pod: &request.name,
        summary: refused.sentence(),
        promised: promised(&refused.advice),
        nodes_considered: verdicts.len(),
        nodes: verdicts.iter().take(shown).map(|verdict| node(&refused.decision, verdict)).collect(),
        would_fit_if: remedies(&refused.advice),
    }
}

/// The verdicts on all nodes: those that fit, best first; then those that only lack devices, the nearest miss first; then
/// those that a rule about the node keeps out. Of equals the first by name.
pub(crate) fn ordered(decision: &Decision) -> Vec<&NodeVerdict> {
    let mut verdicts = decision.table().map(|table| table.by_name()).unwrap_or_default();
    verdicts.sort_by_key(|verdict| {
        let score = verdict.best.as_ref().map(|best| best.score.total());
        let short_by = short_by(verdict);
        (score.is_none(), std::cmp::Reverse(score), verdict.reason.is_some(), short_by.is_none(), short_by)
    });
    verdicts
}

/// How much memory the nearest device of a node lacked, where memory is what was lacking.
fn short_by(verdict: &NodeVerdict) -> Option<Bytes> {
    let failed = verdict.needs.iter().filter(|need| !need.passed).flat_map(|need| &need.devices);
    failed.filter_map(|device| device.reason.as_ref()?.short_by()).min()
}

/// What was found on a node.
#[derive(Serialize)]
pub(super) struct NodeVerdictRow<'a> {
    name: &'a Name,
    status: &'static str,
    score: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    score_parts: Option<Vec<ScorePart>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<NodeReasonRow>,
    containers: Vec<ContainerVerdictRow<'a>>,
}

/// Why a node is kept out before its devices are asked.
#[derive(Serialize)]
struct NodeReasonRow {
    code: &'static str,
    text: String,
}

/// What was found for a container on a node.
#[derive(Serialize)]
struct ContainerVerdictRow<'a> {
    name: &'a Name,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    devices: Vec<DeviceVerdictRow>,
}

/// What one device said to one container.
#[derive(Serialize)]
struct DeviceVerdictRow {
    uuid: String,
    reason: Option<&'static str>,
    text: Option<String>,
    need: Option<Bytes>,
    free: Option<Bytes>,
    short_by: Option<Bytes>,
}

pub(super) fn node<'a>(decision: &'a Decision, verdict: &'a NodeVerdict) -> NodeVerdictRow<'a> {
    let shape = decision.shapes.len().checked_sub(1).and_then(|last| decision.spec.shapes().get(last));
    let containers = shape.map_or(&[][..], |shape| &shape.containers);
    let row = |(index, name): (usize, &'a Name)| {
        let reason = summary::container_reason(verdict, index);
        let needs = verdict.needs.iter().filter(|need| usize::from(need.container) == index);
        ContainerVerdictRow {
            name,
            status: if reason.is_none() { "passed" } else { "failed" },
            reason,
            devices: needs.flat_map(|need| &need.devices).map(|device| device_row(verdict, device)).collect(),
        }
    };
    let best = verdict.best.as_ref();
    NodeVerdictRow {
        name: &verdict.view.node.name,
        status: if best.is_some() { "passed" } else { "failed" },
        score: best.map_or(0, |best| best.score.total()),
        score_parts: best.map(|best| score_parts(&best.score)),
        reason: verdict.reason.as_ref().map(node_reason),
        containers: containers.iter().map(|container| &container.name).enumerate().map(row).collect(),
    }
}

fn node_reason(reason: &NodeReason) -> NodeReasonRow {
    NodeReasonRow { code: reason.code(), text: reason.to_string() }
}

fn device_row(verdict: &NodeVerdict, device: &DeviceVerdict) -> DeviceVerdictRow {
    let numbers = numbers(verdict, device);
    DeviceVerdictRow {
        uuid: verdict.view.node.device_label(usize::from(device.ordinal)),
        reason: device.reason.as_ref().map(Reason::code),
        text: device.reason.as_ref().map(ToString::to_string),
        need: numbers.need,
        free: numbers.free,
        short_by: numbers.short_by,
    }
}

/// What a device was asked for, what it has, and what is lacking; `None` where that is not known.
pub(crate) struct Numbers {
    pub(crate) need: Option<Bytes>,
    pub(crate) free: Option<Bytes>,
    pub(crate) short_by: Option<Bytes>,
}

/// The numbers behind a device's verdict: those of its reason, and otherwise of the account that was judged.
pub(crate) fn numbers(verdict: &NodeVerdict, device: &DeviceVerdict) -> Numbers {
    let (reason_need, reason_free) = match &device.reason {
        Some(Reason::TooSmall { need, free, .. } | Reason::ShortOfMemory { need, free, .. }) => {
            (Some(*need), Some(*free))
        }
        _ => (None, None),
    };
    let room = verdict.view.room.devices().get(usize::from(device.ordinal));
    let need = reason_need.or(device.need);
    let free = reason_free.or_else(|| room?.open());
    Numbers { need, free, short_by: need.zip(free).map(|(need, free)| need.less(free)) }
}

/// A change that would make it fit.
#[derive(Serialize)]
pub(super) struct RemedyRow<'a> {
    kind: Kind,
    text: &'a str,
    target: &'a [Name],
    amount: Option<u64>,
    verified: bool,
}

/// Every remedy was carried out on a draft before it was proposed.
pub(super) fn remedies(advice: &Advice) -> Vec<RemedyRow<'_>> {
    advice.would_fit_if.iter().map(remedy).collect()
}

fn remedy(remedy: &Remedy) -> RemedyRow<'_> {
    let Remedy { kind, text, target, amount } = remedy;
    RemedyRow { kind: *kind, text, target, amount: *amount, verified: true }
}

/// A place that will be there later.
#[derive(Serialize)]
pub(super) struct PromisedRow<'a> {
    node: &'a Name,
    /// All that it may be on.
    devices: Vec<&'a str>,
    /// How many of them it gets.
    devices_wanted: usize,
    after: Vec<String>,
}

pub(super) fn promised(advice: &Advice) -> Option<PromisedRow<'_>> {
    let Promised { promise, devices } = advice.promised.as_ref()?;
    let mut seen = BTreeSet::new();
    Some(PromisedRow {
        node: &promise.placement.node,
        devices: devices.iter().flatten().map(String::as_str).filter(|name| seen.insert(*name)).collect(),
        devices_wanted: devices.len(),
        after: promise.after.iter().map(ToString::to_string).collect(),
    })
}
