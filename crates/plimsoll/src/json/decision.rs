//! Decisions as JSON: what was chosen, and for every node, container and device why or why not.

use std::collections::BTreeSet;

use plimsoll_core::charge::Charge;
use plimsoll_core::decide::Decision;
use plimsoll_core::device::Node;
use plimsoll_core::ledger::Promise;
use plimsoll_core::reason::{NodeReason, Reason};
use plimsoll_core::remedy::{Kind, Remedy};
use plimsoll_core::request::Shape;
use plimsoll_core::score::{Score, Term};
use plimsoll_core::summary;
use plimsoll_core::units::{Bytes, Name};
use plimsoll_core::verdict::{DeviceVerdict, NodeVerdict, Table};
use plimsoll_kube::cluster::Cluster;
use plimsoll_sim::simulation::{Advice, Placed, Rejected, Simulation};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ScorePart {
    /// `node`, `device`, `numa`, `link` or `preferred`.
    pub(crate) term: String,
    /// What it is worth.
    pub(crate) points: i64,
}

/// The terms of a score, in the order in which they are shown.
pub(crate) fn score_parts(score: &Score) -> Vec<ScorePart> {
    let part = |term: Term| ScorePart { term: term.name().to_string(), points: score.points(term) };
    Term::ALL.into_iter().map(part).collect()
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
    let ledger = simulation.ledger();
    let held = ledger.of_request(&request.id).map(|(_, holding)| holding.charges.as_slice());
    let view = ledger.view_of(&place.node);
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
                None => {
                    rows.push(ChosenRow { name: part.container.clone(), devices: vec![device] })
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
    let verdicts = ordered(&refused.decision);
    let shown = if full { verdicts.len() } else { NEAREST };
    RefusedRow {
        namespace: &request.account,
        pod: &request.name,
        summary: refused.sentence(),
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

/// The verdicts on all nodes: those that fit, best first; then those that only lack devices, the nearest miss first; then
/// those that a rule about the node keeps out. Of equals the first by name.
pub(crate) fn ordered(decision: &Decision) -> Vec<NodeVerdict<'_>> {
    decision.table().map(ordered_in).unwrap_or_default()
}

/// The same for one shape of the request.
pub(crate) fn ordered_in(table: Table<'_>) -> Vec<NodeVerdict<'_>> {
    let mut verdicts = table.by_name();
    verdicts.sort_by_key(|verdict| {
        let score = verdict.best.as_ref().map(|best| best.score.total());
        let short_by = short_by(*verdict);
        (
            score.is_none(),
            std::cmp::Reverse(score),
            verdict.reason.is_some(),
            short_by.is_none(),
            short_by,
        )
    });
    verdicts
}

/// How much memory the nearest device of a node lacked, where memory is what was lacking.
fn short_by(verdict: NodeVerdict) -> Option<Bytes> {
    let failed = verdict.needs.iter().filter(|need| !need.passed).flat_map(|need| &need.devices);
    failed.filter_map(|device| device.reason.as_ref()?.short_by()).min()
}

/// What was found on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct NodeVerdictRow {
    /// The node; a runner is one.
    #[schema(value_type = String)]
    pub(crate) name: Name,
    /// `passed` or `failed`.
    pub(crate) status: String,
    /// Of the best place there; 0 where it failed.
    pub(crate) score: i64,
    /// The terms of that score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) score_parts: Option<Vec<ScorePart>>,
    /// Why the node itself will not do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<NodeReasonRow>,
    /// What was found for each container.
    pub(crate) containers: Vec<ContainerVerdictRow>,
}

/// Why a node is kept out before its devices are asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct NodeReasonRow {
    /// The stable name of the rule that failed.
    pub(crate) code: String,
    /// The same in words.
    pub(crate) text: String,
}

/// What was found for a container on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ContainerVerdictRow {
    /// The container; that of a slot is called as its model.
    #[schema(value_type = String)]
    pub(crate) name: Name,
    /// `passed` or `failed`.
    pub(crate) status: String,
    /// Counts over the node's devices in checking order, such as `3/8 CardInsufficientMemory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// What each device said.
    pub(crate) devices: Vec<DeviceVerdictRow>,
}

/// What one device said to one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct DeviceVerdictRow {
    /// The device.
    pub(crate) uuid: String,
    /// The code of the first rule that failed; null where it fits.
    pub(crate) reason: Option<String>,
    /// The same in words.
    pub(crate) text: Option<String>,
    /// What would be held there.
    #[schema(value_type = Option<u64>)]
    pub(crate) need: Option<Bytes>,
    /// What is free there for it.
    #[schema(value_type = Option<u64>)]
    pub(crate) free: Option<Bytes>,
    /// What is lacking; 0 where memory is not what is lacking.
    #[schema(value_type = Option<u64>)]
    pub(crate) short_by: Option<Bytes>,
    /// Who is on it and with how much, where it does not fit; null where nobody is.
    pub(crate) held_by: Option<String>,
}

/// A verdict on a node for the last shape that was tried: the one that answered.
pub(super) fn last_node(decision: &Decision, verdict: NodeVerdict) -> NodeVerdictRow {
    node(decision, decision.shapes.len().saturating_sub(1), verdict)
}

/// A verdict on a node for one shape of the request.
pub(crate) fn node(decision: &Decision, shape: usize, verdict: NodeVerdict) -> NodeVerdictRow {
    let containers = decision.spec.shapes().get(shape).map_or(&[][..], |shape| &shape.containers);
    let row = |(index, name): (usize, &Name)| {
        let reason = summary::container_reason(verdict, index);
        let needs = verdict.needs.iter().filter(|need| usize::from(need.container) == index);
        ContainerVerdictRow {
            name: name.clone(),
            status: passed(reason.is_none()),
            reason,
            devices: needs
                .flat_map(|need| &need.devices)
                .map(|device| device_row(verdict, device))
                .collect(),
        }
    };
    let best = verdict.best.as_ref();
    NodeVerdictRow {
        name: verdict.view.node.name.clone(),
        status: passed(best.is_some()),
        score: best.map_or(0, |best| best.score.total()),
        score_parts: best.map(|best| score_parts(&best.score)),
        reason: verdict.reason.as_ref().map(node_reason),
        containers: containers
            .iter()
            .map(|container| &container.name)
            .enumerate()
            .map(row)
            .collect(),
    }
}

fn passed(passed: bool) -> String {
    if passed { "passed" } else { "failed" }.to_string()
}

fn node_reason(reason: &NodeReason) -> NodeReasonRow {
    NodeReasonRow { code: reason.code().to_string(), text: reason.to_string() }
}

fn device_row(verdict: NodeVerdict, device: &DeviceVerdict) -> DeviceVerdictRow {
    let numbers = numbers(verdict, device);
    DeviceVerdictRow {
        uuid: verdict.view.node.device_label(usize::from(device.ordinal)),
        reason: device.reason.as_ref().map(Reason::code).map(String::from),
        text: device.reason.as_ref().map(ToString::to_string),
        need: numbers.need,
        free: numbers.free,
        short_by: numbers.short_by,
        held_by: device.reason.as_ref().and_then(|_| held_by(verdict, device.ordinal)),
    }
}

/// Who is on a device and with how much; `None` where nobody is.
pub(crate) fn held_by(verdict: NodeVerdict, ordinal: u16) -> Option<String> {
    Some(summary::holders(verdict, ordinal)).filter(|holders| !holders.is_empty())
}

/// What a device was asked for, what it has, and what is lacking; `None` where that is not known.
pub(crate) struct Numbers {
    pub(crate) need: Option<Bytes>,
    pub(crate) free: Option<Bytes>,
    pub(crate) short_by: Option<Bytes>,
}

/// The numbers behind a device's verdict: those of its reason, and otherwise of the account that was judged.
pub(crate) fn numbers(verdict: NodeVerdict, device: &DeviceVerdict) -> Numbers {
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RemedyRow {
    /// `plain_rule`, `other_node`, `more_devices`, `fewer_devices`, `lower_context`, `smaller_cache`, `ask_less` or `give_up`.
    #[schema(value_type = String)]
    pub(crate) kind: Kind,
    /// The change in words, reading after "it would fit if".
    pub(crate) text: String,
    /// What is changed: a rule, a node, holders; empty where it is the request.
    #[schema(value_type = Vec<String>)]
    pub(crate) target: Vec<Name>,
    /// Bytes to ask for or given up; a number of devices for `more_devices` and `fewer_devices`.
    pub(crate) amount: Option<u64>,
    /// Always true: only what was tried and fits is proposed.
    pub(crate) verified: bool,
}

/// Every remedy was carried out on a draft before it was proposed.
pub(super) fn remedies(advice: &Advice) -> Vec<RemedyRow> {
    advice.would_fit_if.iter().map(remedy).collect()
}

/// A remedy that was tried.
pub(crate) fn remedy(remedy: &Remedy) -> RemedyRow {
    let Remedy { kind, text, target, amount } = remedy.clone();
    RemedyRow { kind, text, target, amount, verified: true }
}

/// A place that will be there later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct PromisedRow {
    /// The node; a runner is one.
    #[schema(value_type = String)]
    pub(crate) node: Name,
    /// All that it may be on.
    pub(crate) devices: Vec<String>,
    /// How many of them it gets.
    pub(crate) devices_wanted: usize,
    /// Whose going it waits for.
    pub(crate) after: Vec<String>,
}

pub(super) fn promised(advice: &Advice) -> Option<PromisedRow> {
    let promised = advice.promised.as_ref()?;
    Some(promised_row(&promised.promise, &promised.devices))
}

/// A promise, with the devices of each of its charges by name.
pub(crate) fn promised_row(promise: &Promise, devices: &[Vec<String>]) -> PromisedRow {
    let mut seen = BTreeSet::new();
    PromisedRow {
        node: promise.placement.node.clone(),
        devices: devices.iter().flatten().filter(|name| seen.insert(*name)).cloned().collect(),
        devices_wanted: devices.len(),
        after: promise.after.iter().map(ToString::to_string).collect(),
    }
}
