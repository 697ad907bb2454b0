//! Verdicts of a decision as rows: every node, container and device with the rule that failed and
//! its numbers.

use plimsoll_core::decide::Decision;
use plimsoll_core::fit::Placement;
use plimsoll_core::reason::{NodeReason, Reason};
use plimsoll_core::rejection::HeldBy;
use plimsoll_core::score::{Score, Term};
use plimsoll_core::units::{Bytes, Name};
use plimsoll_core::verdict::{DeviceVerdict, NeedVerdict, NodeVerdict, Table};
use plimsoll_core::wording;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::named;

named! {
    /// The verdict on a node, a container or a step.
    Verdict {
        Passed = "passed",
        Failed = "failed",
    }
}

/// One term of a score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScorePart {
    /// `node`, `device`, `numa`, `link` or `preferred`.
    pub term: String,
    pub points: i64,
}

/// Returns the terms of a score in display order.
pub fn score_parts(score: &Score) -> Vec<ScorePart> {
    let part = |term: Term| ScorePart { term: term.name().to_string(), points: score.points(term) };
    Term::ALL.into_iter().map(part).collect()
}

/// A node as it was judged for one shape of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CandidateRow {
    /// The shape, as an index into `shapes`.
    pub shape: usize,
    /// The number of devices that this shape needs.
    pub device_count: u32,
    #[serde(flatten)]
    pub verdict: NodeVerdictRow,
}

/// The verdict on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeVerdictRow {
    /// The node; a runner is a node.
    #[schema(value_type = String)]
    pub name: Name,
    pub status: Verdict,
    /// The score of the best placement on the node; 0 if it failed.
    pub score: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_parts: Option<Vec<ScorePart>>,
    /// The rule about the node itself that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<NodeReasonRow>,
    pub containers: Vec<ContainerVerdictRow>,
}

/// A rule about a node that failed before its devices were judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeReasonRow {
    /// The stable code of the rule.
    pub code: String,
    pub text: String,
}

/// The verdict on one container on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContainerVerdictRow {
    /// The container; that of a slot has the name of its model.
    #[schema(value_type = String)]
    pub name: Name,
    pub status: Verdict,
    /// Counts over the node's devices in checking order, such as `3/8 CardInsufficientMemory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub devices: Vec<DeviceVerdictRow>,
}

/// The verdict on one device for one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceVerdictRow {
    /// The UUID, or `node/gpu-ORDINAL`.
    pub uuid: String,
    /// The code of the first rule that failed; null if the device fits.
    pub reason: Option<String>,
    /// The same in words.
    pub text: Option<String>,
    /// The memory that the request would hold there.
    #[schema(value_type = Option<u64>)]
    pub need: Option<Bytes>,
    /// The memory that is free there for it.
    #[schema(value_type = Option<u64>)]
    pub free: Option<Bytes>,
    /// The missing memory; 0 if memory is not the problem.
    #[schema(value_type = Option<u64>)]
    pub short_by: Option<Bytes>,
    /// The holders of the device and their memory, if it does not fit; null without holders.
    pub held_by: Option<String>,
    /// True if the device is in the chosen placement, or in the best one of a node not chosen.
    #[serde(default)]
    pub picked: bool,
}

/// Returns the verdicts of the shape that answered: nodes that fit, best first; then nodes that
/// only lack devices, nearest miss first; then nodes that a rule excludes. Ties break by name.
pub fn ordered(decision: &Decision) -> Vec<NodeVerdict<'_>> {
    decision.table().map(ordered_in).unwrap_or_default()
}

/// Orders the verdicts of one shape in the same way.
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

/// Returns the verdict on a node for the shape that answered.
pub fn verdict_on<'a>(decision: &'a Decision, node: &str) -> Option<NodeVerdict<'a>> {
    decision.table()?.unordered().find(|verdict| &*verdict.node == node)
}

/// Returns the missing memory of the node's nearest device, if memory is what is missing.
fn short_by(verdict: NodeVerdict) -> Option<Bytes> {
    let failed = verdict.needs.iter().filter(|need| !need.passed).flat_map(|need| &need.devices);
    failed.filter_map(|device| device.reason.as_ref()?.short_by()).min()
}

/// Returns every node of every shape that was tried, in display order within a shape.
pub fn candidates(decision: &Decision) -> Vec<CandidateRow> {
    let mut rows = Vec::new();
    for (shape, table) in decision.tables().enumerate() {
        rows.extend(
            ordered_in(table).into_iter().map(|verdict| candidate(decision, shape, verdict)),
        );
    }
    rows
}

/// Returns the nodes of the shape that answered, the nearest first; all of
/// them without a limit.
pub fn nearest_candidates(decision: &Decision, limit: Option<usize>) -> Vec<CandidateRow> {
    let shape = decision.shapes.len().saturating_sub(1);
    let mut nearest = ordered(decision);
    nearest.truncate(limit.unwrap_or(nearest.len()));
    nearest.into_iter().map(|verdict| candidate(decision, shape, verdict)).collect()
}

fn candidate(decision: &Decision, shape: usize, verdict: NodeVerdict) -> CandidateRow {
    let wanted = decision.spec.shapes().get(shape);
    CandidateRow {
        shape,
        device_count: wanted.map_or(0, plimsoll_core::request::Shape::device_count),
        verdict: node(decision, shape, verdict),
    }
}

/// Converts the verdict on a node for one shape of the request.
pub fn node(decision: &Decision, shape: usize, verdict: NodeVerdict) -> NodeVerdictRow {
    let best = verdict.best.as_ref();
    let picked = picked_on(decision, shape, verdict);
    let containers = decision.spec.shapes().get(shape).map_or(&[][..], |shape| &shape.containers);
    let containers = containers.iter().enumerate();
    NodeVerdictRow {
        name: verdict.view.node.name.clone(),
        status: if best.is_some() { Verdict::Passed } else { Verdict::Failed },
        score: best.map_or(0, |best| best.score.total()),
        score_parts: best.map(|best| score_parts(&best.score)),
        reason: verdict.reason.as_ref().map(node_reason),
        containers: containers
            .map(|(index, container)| container_row(verdict, index, &container.name, picked))
            .collect(),
    }
}

/// Returns the placement that the decision chose on a node, or else the best one there. They differ
/// only for a member of a gang.
fn picked_on<'a>(
    decision: &'a Decision,
    shape: usize,
    verdict: NodeVerdict<'a>,
) -> Option<&'a Placement> {
    let chosen = decision.chosen().map(|found| &found.placement);
    let chosen = chosen
        .filter(|place| place.node == verdict.view.node.name && usize::from(place.shape) == shape);
    chosen.or(verdict.finding.best.as_ref().map(|best| &best.placement))
}

fn container_row(
    verdict: NodeVerdict,
    index: usize,
    name: &Name,
    picked: Option<&Placement>,
) -> ContainerVerdictRow {
    let reason = wording::container_reason(verdict, index);
    let mut devices = Vec::new();
    for (at, need) in verdict.needs.iter().enumerate() {
        if usize::from(need.container) == index {
            let ordinals = picked.and_then(|placement| placement.picks.get(at));
            devices.extend(device_rows(verdict, need, ordinals.map_or(&[][..], Vec::as_slice)));
        }
    }
    let status = if reason.is_none() { Verdict::Passed } else { Verdict::Failed };
    ContainerVerdictRow { name: name.clone(), status, reason, devices }
}

fn device_rows<'a>(
    verdict: NodeVerdict<'a>,
    need: &'a NeedVerdict,
    picked: &'a [u16],
) -> impl Iterator<Item = DeviceVerdictRow> {
    need.devices.iter().map(move |device| device_row(verdict, device, picked))
}

fn node_reason(reason: &NodeReason) -> NodeReasonRow {
    NodeReasonRow { code: reason.code().to_string(), text: reason.to_string() }
}

fn device_row(verdict: NodeVerdict, device: &DeviceVerdict, picked: &[u16]) -> DeviceVerdictRow {
    let (need, free) = need_and_free(verdict, device);
    let held_by = HeldBy::from_room(&verdict.view.room.devices()[usize::from(device.ordinal)]);
    let is_held = device.reason.is_some() && !held_by.is_empty();
    DeviceVerdictRow {
        uuid: verdict.view.node.device_label(usize::from(device.ordinal)),
        reason: device.reason.as_ref().map(Reason::code).map(String::from),
        text: device.reason.as_ref().map(ToString::to_string),
        need,
        free,
        short_by: need.zip(free).map(|(need, free)| match device.reason {
            Some(_) => need.less(free),
            None => Bytes::ZERO,
        }),
        held_by: is_held.then(|| wording::held_by(&held_by)),
        picked: device.reason.is_none() && picked.contains(&device.ordinal),
    }
}

/// Returns the numbers behind a device's verdict: those of its reason, and otherwise those of the
/// account that was judged.
fn need_and_free(verdict: NodeVerdict, device: &DeviceVerdict) -> (Option<Bytes>, Option<Bytes>) {
    let (reason_need, reason_free) = match &device.reason {
        Some(
            Reason::TooSmall { need, free, .. }
            | Reason::TooSmallTogether { need, free, .. }
            | Reason::ShortOfMemory { need, free, .. },
        ) => (Some(*need), Some(*free)),
        // What may be added: a part takes the place of charges that cannot be there as well.
        Some(Reason::TenantsMayMeet { need, together, usable, .. }) => {
            (Some(*need), Some(need.less(together.less(*usable))))
        }
        _ => (None, None),
    };
    let room = verdict.view.room.devices().get(usize::from(device.ordinal));
    let need = reason_need.or(device.need);
    let open = || match room?.open() {
        Some(open) if device.reason.is_none() && need > Some(open) => room?.open_with_token(),
        open => open,
    };
    (need, reason_free.or_else(open))
}
