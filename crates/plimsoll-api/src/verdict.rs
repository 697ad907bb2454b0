//! Decisions as rows: for every node, container and device why or why not; score terms, remedies and promises.

use std::collections::BTreeSet;

use plimsoll_core::decide::Decision;
use plimsoll_core::ledger::{Ledger, Promise};
use plimsoll_core::reason::{NodeReason, Reason};
use plimsoll_core::rejection::HeldBy;
use plimsoll_core::remedy::{Kind, Remedy};
use plimsoll_core::score::{Score, Term};
use plimsoll_core::units::{Bytes, Name};
use plimsoll_core::verdict::{DeviceVerdict, NodeVerdict, Table};
use plimsoll_core::wording;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One term of a score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScorePart {
    /// `node`, `device`, `numa`, `link` or `preferred`.
    pub term: String,
    /// What it is worth.
    pub points: i64,
}

/// The terms of a score, in the order in which they are shown.
pub fn score_parts(score: &Score) -> Vec<ScorePart> {
    let part = |term: Term| ScorePart { term: term.name().to_string(), points: score.points(term) };
    Term::ALL.into_iter().map(part).collect()
}

/// The verdicts on all nodes: those that fit, best first; then those that only lack devices, the nearest miss first; then
/// those that a rule about the node keeps out. Of equals the first by name.
pub fn ordered(decision: &Decision) -> Vec<NodeVerdict<'_>> {
    decision.table().map(ordered_in).unwrap_or_default()
}

/// The same for one shape of the request.
pub fn ordered_in(table: Table<'_>) -> Vec<NodeVerdict<'_>> {
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
pub struct NodeVerdictRow {
    /// The node; a runner is one.
    #[schema(value_type = String)]
    pub name: Name,
    /// `passed` or `failed`.
    pub status: String,
    /// Of the best place there; 0 where it failed.
    pub score: i64,
    /// The terms of that score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_parts: Option<Vec<ScorePart>>,
    /// Why the node itself will not do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<NodeReasonRow>,
    /// What was found for each container.
    pub containers: Vec<ContainerVerdictRow>,
}

/// Why a node is kept out before its devices are asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeReasonRow {
    /// The stable name of the rule that failed.
    pub code: String,
    /// The same in words.
    pub text: String,
}

/// What was found for a container on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContainerVerdictRow {
    /// The container; that of a slot is called as its model.
    #[schema(value_type = String)]
    pub name: Name,
    /// `passed` or `failed`.
    pub status: String,
    /// Counts over the node's devices in checking order, such as `3/8 CardInsufficientMemory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What each device said.
    pub devices: Vec<DeviceVerdictRow>,
}

/// What one device said to one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceVerdictRow {
    /// The device.
    pub uuid: String,
    /// The code of the first rule that failed; null where it fits.
    pub reason: Option<String>,
    /// The same in words.
    pub text: Option<String>,
    /// What would be held there.
    #[schema(value_type = Option<u64>)]
    pub need: Option<Bytes>,
    /// What is free there for it.
    #[schema(value_type = Option<u64>)]
    pub free: Option<Bytes>,
    /// What is lacking; 0 where memory is not what is lacking.
    #[schema(value_type = Option<u64>)]
    pub short_by: Option<Bytes>,
    /// Who is on it and with how much, where it does not fit; null where nobody is.
    pub held_by: Option<String>,
}

/// A verdict on a node for one shape of the request.
pub fn node(decision: &Decision, shape: usize, verdict: NodeVerdict) -> NodeVerdictRow {
    let containers = decision.spec.shapes().get(shape).map_or(&[][..], |shape| &shape.containers);
    let row = |(index, name): (usize, &Name)| {
        let reason = wording::container_reason(verdict, index);
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
pub fn held_by(verdict: NodeVerdict, ordinal: u16) -> Option<String> {
    let held_by = HeldBy::of(&verdict.view.room.devices()[usize::from(ordinal)]);
    (!held_by.is_empty()).then(|| wording::held_by(&held_by))
}

/// What a device was asked for, what it has, and what is lacking; `None` where that is not known.
pub struct Numbers {
    pub need: Option<Bytes>,
    pub free: Option<Bytes>,
    pub short_by: Option<Bytes>,
}

/// The numbers behind a device's verdict: those of its reason, and otherwise of the account that was judged.
pub fn numbers(verdict: NodeVerdict, device: &DeviceVerdict) -> Numbers {
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
pub struct RemedyRow {
    /// `plain_rule`, `other_node`, `more_devices`, `fewer_devices`, `lower_context`, `smaller_cache`, `ask_less` or `give_up`.
    #[schema(value_type = String)]
    pub kind: Kind,
    /// The change in words, reading after "it would fit if".
    pub text: String,
    /// What is changed: a rule, a node, holders; empty where it is the request.
    #[schema(value_type = Vec<String>)]
    pub target: Vec<Name>,
    /// Bytes to ask for or given up; a number of devices for `more_devices` and `fewer_devices`.
    pub amount: Option<u64>,
    /// Always true: only what was tried and fits is proposed.
    pub verified: bool,
}

/// A remedy that was tried.
pub fn remedy(remedy: &Remedy) -> RemedyRow {
    let Remedy { kind, text, target, amount } = remedy.clone();
    RemedyRow { kind, text, target, amount, verified: true }
}

/// A place that will be there later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromisedRow {
    /// The node; a runner is one.
    #[schema(value_type = String)]
    pub node: Name,
    /// All that it may be on.
    pub devices: Vec<String>,
    /// How many of them it gets.
    pub devices_wanted: usize,
    /// Whose going it waits for.
    pub after: Vec<String>,
}

/// A promise on a ledger as a row.
pub fn promise_on(ledger: &Ledger, promise: &Promise) -> PromisedRow {
    promised_row(promise, &ledger.promised_device_labels(promise))
}

/// A promise, with the devices of each of its charges by name.
pub fn promised_row(promise: &Promise, devices: &[Vec<String>]) -> PromisedRow {
    let mut seen = BTreeSet::new();
    PromisedRow {
        node: promise.placement.node.clone(),
        devices: devices.iter().flatten().filter(|name| seen.insert(*name)).cloned().collect(),
        devices_wanted: devices.len(),
        after: promise.after.iter().map(ToString::to_string).collect(),
    }
}
