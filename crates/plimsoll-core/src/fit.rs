//! The one place that says whether a need fits a device, and a request a node. Asked by the planner and again by
//! the commit, without flags.

use serde::{Deserialize, Serialize};

use crate::charge::{Booked, Charge, Part, Slice};
use crate::device::{Device, Health, Node};
use crate::reason::{NodeReason, Reason};
use crate::request::{Amount, Container, Need, Role, Shape, Spec};
use crate::room::{Gauge, NodeRoom, NodeView};
use crate::rules::Taint;
use crate::units::{Bytes, Cores, Name};

mod peak;
mod slice;
mod spot;
mod wishes;

pub use peak::peak_bytes;

use peak::{Load, Peak};
use spot::{Spot, Wanted, wanted};
use wishes::fit_wishes;

/// A place for a request: a node, the shape taken, and the devices that serve each need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The node's name.
    pub node: Name,
    /// Which of the request's shapes.
    pub shape: u16,
    /// For each need of each container in order, the ordinals of its devices; where the plugin picks the card, all it may pick.
    pub picks: Vec<Vec<u16>>,
}

/// Why a placement is not admitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The node cannot take the request.
    #[error("node {node} {reason}")]
    Node {
        /// The node.
        node: Name,
        /// Why.
        reason: NodeReason,
    },
    /// A device cannot take a need.
    #[error("container {container}: {device} {reason}")]
    Device {
        /// The container whose need it is.
        container: Name,
        /// The device, as people know it.
        device: String,
        /// Why.
        reason: Reason,
    },
    /// The placement does not answer the request: it names another number of devices or needs.
    #[error("the placement does not match the request: {problem}")]
    Mismatch {
        /// What does not match.
        problem: String,
    },
}

/// Whether this placement of this request fits this node, and what it would be charged.
pub fn admit(view: &NodeView, spec: &Spec, placement: &Placement) -> Result<Vec<Charge>, Refusal> {
    let node = &view.node;
    let at_node = |reason| Refusal::Node { node: node.name.clone(), reason };
    let shape = spec.shapes().get(usize::from(placement.shape)).ok_or_else(|| {
        Refusal::Mismatch { problem: format!("there is no shape {}", placement.shape) }
    })?;
    if let Some(reason) = fit_node(view, spec, shape) {
        return Err(at_node(reason));
    }
    let mut trial = Trial::new(node, &view.room);
    let mut picks = placement.picks.iter();
    for (index, container, need) in needs(shape) {
        let pick = picks.next().ok_or_else(|| mismatch("a need has no devices"))?;
        trial.take_pick(index, container, need, pick).map_err(|fault| match fault {
            Fault::Device(ordinal, reason) => Refusal::Device {
                container: container.name.clone(),
                device: node.device_label(usize::from(ordinal)),
                reason,
            },
            Fault::Mismatch(problem) => mismatch(problem),
        })?;
    }
    if picks.next().is_some() {
        return Err(mismatch("there are devices for more needs than were asked"));
    }
    Ok(trial.charges(shape))
}

fn mismatch(problem: &str) -> Refusal {
    Refusal::Mismatch { problem: problem.to_string() }
}

/// The needs of a shape in the order in which they are served, each with its container and that container's index.
pub fn needs(shape: &Shape) -> impl Iterator<Item = (usize, &Container, &Need)> {
    shape
        .containers
        .iter()
        .enumerate()
        .flat_map(|(i, c)| c.needs.iter().map(move |need| (i, c, need)))
}

/// Why the node itself cannot take the request, whatever its devices say.
pub fn fit_node(view: &NodeView, spec: &Spec, shape: &Shape) -> Option<NodeReason> {
    let (node, rules) = (&*view.node, &spec.rules);
    if let Some(wanted) = rules.named.as_ref().filter(|wanted| **wanted != node.name) {
        return Some(NodeReason::NotNamed { wanted: wanted.clone() });
    }
    if node.unschedulable && !rules.tolerates(&Taint::unschedulable()) {
        return Some(NodeReason::Unschedulable);
    }
    if let Some(since) = node.silent_since {
        return Some(NodeReason::Silent { since });
    }
    if let Some(failed) =
        rules.all.iter().find(|requirement| !requirement.holds(&node.name, &node.labels))
    {
        return Some(NodeReason::SelectorMismatch { wanted: failed.to_string().into() });
    }
    if !rules.any.is_empty() && !rules.any.iter().any(|term| term.holds(&node.name, &node.labels)) {
        return Some(NodeReason::AffinityMismatch);
    }
    if let Some(taint) = rules.barred_by(&node.taints) {
        return Some(NodeReason::TaintNotTolerated { taint: taint.to_string().into() });
    }
    if let Some(missing) = node.unknown.as_ref().filter(|_| shape.device_count() > 0) {
        return Some(NodeReason::CapacityUnknown { missing: missing.clone() });
    }
    fit_resources(view, spec)
}

fn fit_resources(view: &NodeView, spec: &Spec) -> Option<NodeReason> {
    let (node, room, need) = (&*view.node, &*view.room, spec.resources);
    if let Some(free) = room.free_cpu(node).filter(|free| need.cpu > *free) {
        return Some(NodeReason::ShortOfCpu { need: need.cpu, free });
    }
    if let Some(free) = room.free_memory(node).filter(|free| need.memory > *free) {
        return Some(NodeReason::ShortOfNodeMemory { need: need.memory, free });
    }
    room.free_pods(node)
        .filter(|free| need.pods > *free)
        .map(|_| NodeReason::PodsExhausted { pods: node.allocatable.pods.unwrap_or_default() })
}

/// The request's own bookings on one node while it is judged there: a trial that changes no account.
#[derive(Clone, Debug)]
pub struct Trial<'a> {
    node: &'a Node,
    gauges: &'a [Gauge],
    mine: Vec<Mine>,
    /// Idle cards that may still be opened, where some unknown ones are faulty.
    spare: Option<u16>,
}

/// What the request itself has booked on one device so far.
#[derive(Clone, Debug, Default)]
struct Mine {
    peak: Peak,
    whole: bool,
    floating: bool,
    slices: Vec<Slice>,
    parts: Vec<(usize, Taken)>,
}

/// What one need takes of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Memory; `None` where the device's size is not known and the whole of it is taken.
    pub bytes: Option<Bytes>,
    /// Whether nobody else may be there.
    pub whole: bool,
    /// Compute.
    pub cores: u32,
    /// Slots.
    pub slots: u32,
    /// The hardware slice, on a partitioned device.
    pub slice: Option<Box<Slice>>,
    /// What the request would hold there in all, at its peak.
    pub peak: Bytes,
}

/// What the whole of a device of unknown memory counts as, so that two containers are told from one.
const WHOLE_UNKNOWN: Bytes = Bytes::new(1);

/// What keeps a need from a pick of devices.
enum Fault {
    Device(u16, Reason),
    Mismatch(&'static str),
}

impl<'a> Trial<'a> {
    /// A trial on a node as it stands.
    pub fn new(node: &'a Node, room: &'a NodeRoom) -> Self {
        let gauges = room.gauges();
        let spare = (node.missing_cards > 0).then(|| {
            let working = node.devices.len().saturating_sub(usize::from(node.missing_cards));
            let in_use = gauges.iter().filter(|gauge| gauge.tenanted).count();
            u16::try_from(working.saturating_sub(in_use)).unwrap_or(u16::MAX)
        });
        Trial { node, gauges, mine: Vec::new(), spare }
    }

    /// Idle cards that may still be opened, where some unknown ones are faulty.
    pub fn spare(&self) -> Option<u16> {
        self.spare
    }

    /// Whether the request would be the first on this device.
    pub(crate) fn opens(&self, ordinal: usize) -> bool {
        !self.gauges[ordinal].tenanted
            && self.mine.get(ordinal).is_none_or(|mine| mine.parts.is_empty())
    }

    /// Whether the request has booked the same on both devices so far.
    pub(crate) fn same_own(&self, one: usize, other: usize) -> bool {
        match (self.mine.get(one), self.mine.get(other)) {
            (Some(a), Some(b)) => {
                (a.peak, a.whole, &a.slices, &a.parts) == (b.peak, b.whole, &b.slices, &b.parts)
            }
            _ => true,
        }
    }

    /// Whether device `ordinal` can take this need of this container, beside what the request has booked there already.
    pub fn fit(
        &self,
        container: usize,
        role: Role,
        need: &Need,
        ordinal: usize,
    ) -> Result<Taken, Reason> {
        match self.node.devices.get(ordinal) {
            None => {
                Err(Reason::NoSuchDevice { ordinal: u16::try_from(ordinal).unwrap_or(u16::MAX) })
            }
            Some(device) if device.kind != need.kind => {
                self.fit_condition(device, ordinal, false)?;
                Err(wishes::mismatch(&need.kind, &device.kind))
            }
            Some(_) => self.fit_kindred(container, role, need, ordinal),
        }
    }

    /// The same for a device that is known to be there and of the need's kind.
    #[inline]
    pub(crate) fn fit_kindred(
        &self,
        container: usize,
        role: Role,
        need: &Need,
        ordinal: usize,
    ) -> Result<Taken, Reason> {
        let (device, gauge) = (&self.node.devices[ordinal], &self.gauges[ordinal]);
        let spot = Spot { device, gauge, ordinal, mine: None };
        if gauge.ready && self.mine.is_empty() && self.spare.is_none() && need.wishes.is_empty() {
            return spot.fit(role, need);
        }
        self.fit_with_care(container, role, need, spot)
    }

    /// The same where the device's state, the request's wishes or its other containers have a say.
    fn fit_with_care(
        &self,
        container: usize,
        role: Role,
        need: &Need,
        spot: Spot,
    ) -> Result<Taken, Reason> {
        let mine = self.mine.get(spot.ordinal).filter(|mine| !mine.parts.is_empty());
        self.fit_condition(spot.device, spot.ordinal, mine.is_some())?;
        fit_wishes(spot.device, spot.ordinal, &need.wishes)?;
        if let Some(mine) = mine.filter(|mine| mine.parts.iter().any(|(c, _)| *c == container)) {
            let floating = Reason::ChoiceNotDistinct { wanted: 2 };
            return Err(if mine.floating { floating } else { Reason::SameContainer });
        }
        Spot { mine, ..spot }.fit(role, need)
    }

    /// What the request would hold at its peak on a device, were the need served there; `None` where that cannot be said.
    pub fn would_hold(&self, role: Role, need: &Need, ordinal: usize) -> Option<Bytes> {
        let device = self.node.devices.get(ordinal)?;
        let bytes = match (&need.amount, wanted(device, self.gauges.get(ordinal)?, &need.amount)) {
            (Amount::Bytes(bytes), _) => Bytes::new(bytes.get()),
            (_, Ok(Wanted::Share(bytes))) => bytes,
            (_, Ok(Wanted::Whole)) => device.memory.usable()?,
            (_, Ok(Wanted::Profile(_)) | Err(_)) => return None,
        };
        let peak = self.mine.get(ordinal).map(|mine| mine.peak).unwrap_or_default();
        Some(peak.with(role, Load { bytes, ..Load::default() }).total().bytes)
    }

    #[cold]
    fn fit_condition(
        &self,
        device: &Device,
        ordinal: usize,
        already_mine: bool,
    ) -> Result<(), Reason> {
        let gauge = &self.gauges[ordinal];
        match device.health {
            Health::Healthy => {}
            Health::Faulty => return Err(Reason::Faulty),
            Health::Gone => return Err(Reason::Gone),
        }
        if self.spare == Some(0) && !gauge.tenanted && !already_mine {
            let working =
                self.node.devices.len().saturating_sub(usize::from(self.node.missing_cards));
            return Err(Reason::SomeCardFaulty {
                bookable: u16::try_from(working).unwrap_or(u16::MAX),
            });
        }
        if device.cordoned {
            return Err(Reason::Cordoned);
        }
        if gauge.closed {
            return Err(Reason::Closed);
        }
        gauge.stale_since.map_or(Ok(()), |since| Err(Reason::StaleTelemetry { since }))
    }

    /// Books a need on devices that were found to fit.
    pub fn take(
        &mut self,
        container: usize,
        role: Role,
        ordinal: usize,
        taken: Taken,
        floating: bool,
    ) {
        if self.mine.is_empty() {
            self.mine = vec![Mine::default(); self.node.devices.len()];
        }
        let opens = self.opens(ordinal);
        // One that floats is on one card, whichever: it opens no more than that, and the plugin picks a card that works.
        self.spare = self.spare.map(|spare| spare.saturating_sub(u16::from(opens && !floating)));
        let mine = &mut self.mine[ordinal];
        let load = Load {
            bytes: taken.bytes.unwrap_or(WHOLE_UNKNOWN),
            cores: taken.cores,
            slots: taken.slots,
        };
        mine.peak = mine.peak.with(role, load);
        mine.whole |= taken.whole;
        mine.floating = floating;
        mine.slices.extend(taken.slice.as_deref().cloned());
        mine.parts.push((container, taken));
    }

    fn take_pick(
        &mut self,
        index: usize,
        container: &Container,
        need: &Need,
        pick: &[u16],
    ) -> Result<(), Fault> {
        let floating = self.node.floats(&need.kind);
        if floating {
            if need.count.get() > 1 {
                let ordinal = pick.first().copied().unwrap_or_default();
                return Err(Fault::Device(
                    ordinal,
                    Reason::ChoiceNotDistinct { wanted: need.count.get() },
                ));
            }
            if pick.is_empty() || self.pickable(&need.kind).any(|ordinal| !pick.contains(&ordinal))
            {
                return Err(Fault::Mismatch(
                    "the device plugin may pick a card that the placement does not name",
                ));
            }
        } else if pick.len() != usize::from(need.count.get()) {
            return Err(Fault::Mismatch("a need has another number of devices than it asks"));
        }
        let numa = |ordinal: &u16| {
            self.node.devices.get(usize::from(*ordinal)).and_then(|device| device.numa)
        };
        if need.wishes.one_numa
            && !floating
            && pick
                .windows(2)
                .any(|pair| numa(&pair[0]).is_none() || numa(&pair[0]) != numa(&pair[1]))
        {
            let reason = Reason::NumaNotFit { fitting: 1, wanted: need.count.get() };
            return Err(Fault::Device(pick[0], reason));
        }
        for &ordinal in pick {
            let at = usize::from(ordinal);
            let taken = self
                .fit(index, container.role, need, at)
                .map_err(|reason| Fault::Device(ordinal, reason))?;
            self.take(index, container.role, at, taken, floating);
        }
        Ok(())
    }

    /// The cards that the device plugin may pick for a need of this kind: all that work.
    pub fn pickable<'s>(&'s self, kind: &'s str) -> impl Iterator<Item = u16> + 's {
        (0_u16..)
            .zip(&self.node.devices)
            .filter(move |(_, device)| &*device.kind == kind && device.health == Health::Healthy)
            .map(|(ordinal, _)| ordinal)
    }

    /// What the request would be charged for all that it has taken in this trial.
    pub fn charges(&self, shape: &Shape) -> Vec<Charge> {
        let mut charges: Vec<Charge> = Vec::new();
        let mut floating: Option<Charge> = None;
        for (ordinal, mine) in (0_u16..).zip(&self.mine).filter(|(_, mine)| !mine.parts.is_empty())
        {
            let gauge = &self.gauges[usize::from(ordinal)];
            let charge = mine.charge(shape, gauge.known.then_some(gauge.usable));
            if mine.floating {
                floating = Some(floating.map_or(charge.clone(), |so_far| larger(so_far, charge)));
                floating.as_mut().expect("just set").on.push(ordinal);
            } else if mine.slices.is_empty() {
                charges.push(Charge { on: vec![ordinal], ..charge });
            } else {
                charges.extend(mine.slice_charges(ordinal, shape));
            }
        }
        charges.extend(floating);
        charges
    }
}

fn larger(one: Charge, other: Charge) -> Charge {
    if one.bytes() >= other.bytes() { one } else { Charge { on: one.on, ..other } }
}

impl Mine {
    fn slice_bytes(&self) -> Bytes {
        self.parts.iter().filter_map(|(_, taken)| taken.bytes).fold(Bytes::ZERO, Bytes::plus)
    }

    fn charge(&self, shape: &Shape, usable: Option<Bytes>) -> Charge {
        let total = self.peak.total();
        let amount =
            if self.whole { Booked::Whole { bytes: usable } } else { Booked::share(total.bytes) };
        let parts = self.parts.iter().map(|(index, taken)| part(shape, *index, taken)).collect();
        Charge {
            on: Vec::new(),
            amount,
            cores: Cores(total.cores),
            slots: total.slots,
            slice: None,
            parts,
        }
    }

    /// On a partitioned device each container sits in a slice of its own.
    fn slice_charges(&self, ordinal: u16, shape: &Shape) -> Vec<Charge> {
        let charge = |(index, taken): &(usize, Taken)| Charge {
            on: vec![ordinal],
            amount: Booked::share(taken.bytes.unwrap_or(Bytes::ZERO)),
            cores: Cores(taken.cores),
            slots: taken.slots,
            slice: taken.slice.as_deref().cloned(),
            parts: vec![part(shape, *index, taken)],
        };
        self.parts.iter().map(charge).collect()
    }
}

fn part(shape: &Shape, index: usize, taken: &Taken) -> Part {
    let container = &shape.containers[index];
    Part {
        container: container.name.clone(),
        role: container.role,
        bytes: taken.bytes,
        cores: Cores(taken.cores),
    }
}
