//! The short form of a decision: one pass over its verdicts.

use std::cmp::Ordering;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use super::{Decision, Outcome};
use crate::device::Node;
use crate::reason::{NodeReason, Reason, RequestReason};
use crate::rejection::{
    AskedNeed, DecisionSummary, DeviceReasonCount, DeviceRef, HeldBy, NearestMiss, NodeReasonCount,
    OccupiedDevice, PlacedOn, Rejection,
};
use crate::request::Shape;
use crate::units::{Bytes, Name};
use crate::verdict::{DeviceVerdict, NodeVerdict, Table};

impl Decision {
    /// Returns where the request is placed, or why not.
    pub fn summary(&self) -> DecisionSummary {
        match (&self.outcome, self.rejection()) {
            (_, Some(rejection)) => DecisionSummary::Rejected(rejection.clone()),
            (Outcome::Placed(found), None) => {
                let mut devices: Vec<u16> =
                    found.placement.picks.iter().flatten().copied().collect();
                devices.sort_unstable();
                devices.dedup();
                let node = found.placement.node.clone();
                DecisionSummary::Placed(PlacedOn { node, devices })
            }
            (Outcome::Rejected(_), None) => unreachable!("a rejected decision has a rejection"),
        }
    }

    /// Returns why the request is not placed; `None` if it is. Computed on first use and shared by
    /// all clones of the decision.
    pub fn rejection(&self) -> Option<&Arc<Rejection>> {
        match &self.outcome {
            Outcome::Placed(_) => None,
            Outcome::Rejected(reason) => {
                Some(self.rejection.get_or_init(|| Arc::new(self.reject(reason.as_ref()))))
            }
        }
    }

    /// Replaces the rejection by one with more detail. The scheduler adds the holders that cannot
    /// be evicted, so that the answer, the queue and the journal say the same.
    pub(crate) fn with_rejection(self, rejection: Arc<Rejection>) -> Decision {
        Decision { rejection: rejection.into(), ..self }
    }

    fn reject(&self, request: Option<&RequestReason>) -> Rejection {
        let asked = self.spec.shapes().last().map(asked).unwrap_or_default();
        let rejection = Rejection { asked, request: request.cloned(), ..Rejection::default() };
        let Some(table) = self.table() else { return rejection };
        let best = table.unordered().filter_map(|verdict| verdict.finding.best.as_ref()).max_by(
            |one, other| {
                let by_score = one.score.total().cmp(&other.score.total());
                by_score.then_with(|| other.placement.node.cmp(&one.placement.node))
            },
        );
        if let Some(best) = best {
            return Rejection { fits_on: Some(best.placement.node.clone()), ..rejection };
        }
        let nearest = nearest_miss(table);
        let counted = count_reasons(rejection, table);
        Rejection {
            occupied: if nearest.is_none() { first_occupied(table) } else { None },
            nearest,
            ..counted
        }
    }
}

fn asked(shape: &Shape) -> Vec<AskedNeed> {
    let needs = shape.containers.iter().flat_map(|container| &container.needs);
    needs.map(|need| AskedNeed { count: need.count.get(), amount: need.amount.clone() }).collect()
}

fn device_ref(node: &Node, ordinal: u16) -> DeviceRef {
    DeviceRef { ordinal, name: node.device_name(usize::from(ordinal)) }
}

/// A reason with its count and the first node, by name, that gave it.
struct Row<'a, R> {
    variant: Discriminant<R>,
    example: &'a R,
    node: &'a Name,
    count: u32,
}

/// Counts a reason by its variant. There are few variants, so that a list is the fastest map.
fn count<'a, R>(rows: &mut Vec<Row<'a, R>>, reason: &'a R, node: &'a Name) {
    let variant = discriminant(reason);
    match rows.iter_mut().find(|row| row.variant == variant) {
        Some(row) => {
            row.count += 1;
            if !std::ptr::eq(row.node, node) && node < row.node {
                row.node = node;
                row.example = reason;
            }
        }
        None => rows.push(Row { variant, example: reason, node, count: 1 }),
    }
}

fn count_reasons(rejection: Rejection, table: Table) -> Rejection {
    let mut nodes: Vec<Row<NodeReason>> = Vec::new();
    let mut devices: Vec<Row<Reason>> = Vec::new();
    let mut judged = 0;
    let mut too_few = 0;
    for verdict in table.unordered() {
        let finding = verdict.finding;
        if let Some(reason) = &finding.reason {
            count(&mut nodes, reason, &finding.node);
            continue;
        }
        let Some(need) = finding.needs.iter().find(|need| !need.passed) else { continue };
        if need.devices.len() < usize::from(need.wanted) {
            too_few += 1;
            continue;
        }
        judged += u32::try_from(need.devices.len()).unwrap_or(u32::MAX);
        for reason in need.devices.iter().filter_map(|device| device.reason.as_ref()) {
            count(&mut devices, reason, &finding.node);
        }
    }
    nodes.sort_by(|one, other| one.example.cmp(other.example));
    devices.sort_by(|one, other| one.example.cmp(other.example));
    let devices = devices.into_iter();
    let nodes = nodes.into_iter();
    Rejection {
        devices: judged,
        device_reasons: devices
            .map(|row| DeviceReasonCount { example: row.example.clone(), count: row.count })
            .collect(),
        nodes_with_too_few_devices: too_few,
        node_reasons: nodes
            .map(|row| NodeReasonCount {
                example: row.example.clone(),
                node: row.node.clone(),
                count: row.count,
            })
            .collect(),
        ..rejection
    }
}

/// A device that lacks memory.
#[derive(Clone, Copy)]
struct Miss<'a> {
    /// The missing memory, or for a device that is too small the memory missing when it is empty.
    distance: Bytes,
    too_small: bool,
    verdict: NodeVerdict<'a>,
    ordinal: u16,
    need: Bytes,
    free: Bytes,
}

impl<'a> Miss<'a> {
    fn on(verdict: NodeVerdict<'a>, device: &DeviceVerdict) -> Option<Miss<'a>> {
        let (need, free, usable) = match device.reason.as_ref()? {
            Reason::ShortOfMemory { need, free, .. } => (*need, *free, None),
            Reason::TenantsMayMeet { need, together, usable, .. } => {
                (*need, need.less(together.less(*usable)), None)
            }
            Reason::PromisedAway { need, open, .. } => (*need, *open, None),
            Reason::TooSmall { need, free, usable }
            | Reason::TooSmallTogether { need, free, usable, .. } => (*need, *free, Some(*usable)),
            _ => return None,
        };
        Some(Miss {
            distance: need.less(usable.unwrap_or(free)),
            too_small: usable.is_some(),
            verdict,
            ordinal: device.ordinal,
            need,
            free,
        })
    }

    /// Orders by distance, then by node name and ordinal.
    fn compare(&self, other: &Miss) -> Ordering {
        (self.too_small, self.distance)
            .cmp(&(other.too_small, other.distance))
            .then_with(|| self.verdict.finding.node.cmp(&other.verdict.finding.node))
            .then_with(|| self.ordinal.cmp(&other.ordinal))
    }
}

/// Finds the device that came nearest to fitting. Every need must be served, so that a node is as
/// far off as the need that is furthest from a device.
fn nearest_miss(table: Table) -> Option<NearestMiss> {
    let judged = table.unordered().filter(|verdict| verdict.finding.reason.is_none());
    let nearest = judged.filter_map(nearest_on).min_by(Miss::compare)?;
    let node = &nearest.verdict.view.node;
    let room = &nearest.verdict.view.room.devices()[usize::from(nearest.ordinal)];
    Some(NearestMiss {
        node: node.name.clone(),
        device: device_ref(node, nearest.ordinal),
        need: nearest.need,
        free: nearest.free,
        short_by: nearest.need.less(nearest.free),
        usable: room.usable().unwrap_or_default(),
        too_small: nearest.too_small,
        held_by: HeldBy::from_room(room),
    })
}

fn nearest_on(verdict: NodeVerdict) -> Option<Miss> {
    let failed = verdict.finding.needs.iter().filter(|need| !need.passed);
    failed
        .filter_map(|need| {
            need.devices.iter().filter_map(|device| Miss::on(verdict, device)).min_by(Miss::compare)
        })
        .max_by(Miss::compare)
}

fn held_by(verdict: NodeVerdict, ordinal: u16) -> HeldBy {
    HeldBy::from_room(&verdict.view.room.devices()[usize::from(ordinal)])
}

/// Finds the first device, by node name and ordinal, that would fit without its holders.
fn first_occupied(table: Table) -> Option<OccupiedDevice> {
    let judged = table.unordered().filter(|verdict| verdict.finding.reason.is_none());
    judged.filter_map(occupied_on).min_by(|one, other| one.node.cmp(&other.node))
}

fn occupied_on(verdict: NodeVerdict) -> Option<OccupiedDevice> {
    let failed = verdict.finding.needs.iter().filter(|need| !need.passed);
    let occupied = failed
        .flat_map(|need| &need.devices)
        .filter(|device| device.reason.as_ref().is_some_and(Reason::is_by_tenants));
    let (ordinal, held_by) = occupied
        .map(|device| (device.ordinal, held_by(verdict, device.ordinal)))
        .find(|(_, held_by)| !held_by.is_empty())?;
    let node = &verdict.view.node;
    Some(OccupiedDevice { node: node.name.clone(), device: device_ref(node, ordinal), held_by })
}
