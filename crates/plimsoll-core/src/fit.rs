//! The only module that decides whether a need fits a device and a request fits a node.
//!
//! The planner calls [`Trial::fit`] for each device, the commit calls [`admit`], and `admit` calls
//! `Trial::fit`. There is no flag that makes one of them stricter: what the planner proposes, the
//! commit accepts on an unchanged ledger, and the reason that the planner reports is the reason
//! that the commit would report.
//!
//! Checks run from the most lasting reason to the most transient, and the first failure is
//! reported: a node that is never accepted, a broken device, a device of the wrong model, a device
//! that is too small even when empty, and only then memory that is merely in use now. The reported
//! reason must therefore change first. Collecting all failures was rejected: it makes
//! every rejection more expensive, and the later failures often follow from the first.

use serde::{Deserialize, Serialize};

use crate::account::Allowance;
use crate::charge::{Charge, Slice};
use crate::device::{Device, DeviceChoice, Health, Node};
use crate::reason::{NodeReason, Reason, RequestReason};
use crate::request::{Amount, Container, Need, Role, Shape, Spec};
use crate::room::{FitInput, NodeRoom, NodeView};
use crate::units::{Bytes, Name};

mod charges;
mod meeting;
mod node;
mod peak;
mod selector;
mod set;
mod slice;
mod target;
mod tenants;

pub use node::fit_node;
pub use peak::peak_bytes;

use peak::{Load, Peak};
use selector::fit_selector;
use target::{ResolvedAmount, Target};

/// The devices that a request gets on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    pub node: Name,
    /// The index of the request's shape.
    pub shape: u16,
    /// The device ordinals for each need of each container, in the order of [`needs`]. Where the
    /// device plugin picks the card, all cards that it may pick. A partitioned card is named once
    /// for each of its slices.
    pub picks: Vec<Vec<u16>>,
}

/// The reason why a placement is not admitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum AdmissionError {
    #[error("node {node} {reason}")]
    Node { node: Name, reason: NodeReason },
    /// The device is given by its printed name ([`Node::device_label`]).
    #[error("container {container}: {device} {reason}")]
    Device { container: Name, device: String, reason: Reason },
    /// A share of the request's account does not allow it.
    #[error("{0}")]
    Account(RequestReason),
    /// The placement was not made for this request.
    #[error("the placement does not match the request: {0}")]
    Mismatch(Mismatch),
}

/// The difference between a placement and the request that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Mismatch {
    #[error("the request has no shape {0}")]
    NoSuchShape(u16),
    #[error("it names no devices for a need")]
    TooFewNeeds,
    #[error("it names devices for more needs than the request has")]
    TooManyNeeds,
    #[error("it names another number of devices than a need has")]
    DeviceCount,
    #[error("the device plugin may pick a card that it omits")]
    OmitsCard,
}

/// Checks a placement on a node and returns the charges that it would make.
///
/// The maximum of the request's account is checked last: the devices of the placement decide how
/// much a fraction or a whole device is.
///
/// Books the picks one after the other in a [`Trial`], so that each container is checked beside the
/// earlier containers of its own request. Costs one `Trial::fit` per picked device.
pub fn admit(
    view: &NodeView,
    allowance: &Allowance,
    spec: &Spec,
    placement: &Placement,
) -> Result<Vec<Charge>, AdmissionError> {
    let node = &view.node;
    let shape = spec
        .shapes()
        .get(usize::from(placement.shape))
        .ok_or(AdmissionError::Mismatch(Mismatch::NoSuchShape(placement.shape)))?;
    if let Some(reason) = fit_node(view, spec, shape) {
        return Err(AdmissionError::Node { node: node.name.clone(), reason });
    }
    let mut trial = Trial::new(node, &view.room);
    let mut picks = placement.picks.iter();
    for ContainerNeed { index, container, need } in needs(shape) {
        let pick = picks.next().ok_or(AdmissionError::Mismatch(Mismatch::TooFewNeeds))?;
        trial.book_pick(index, container, need, pick).map_err(|fault| match fault {
            Fault::Device(ordinal, reason) => AdmissionError::Device {
                container: container.name.clone(),
                device: node.device_label(usize::from(ordinal)),
                reason,
            },
            Fault::Mismatch(mismatch) => AdmissionError::Mismatch(mismatch),
        })?;
    }
    if picks.next().is_some() {
        return Err(AdmissionError::Mismatch(Mismatch::TooManyNeeds));
    }
    let charges = trial.charges(shape);
    allowance.check(&charges).map_err(AdmissionError::Account)?; // mutant: account-maximum
    Ok(charges)
}

/// One need of a shape with its container.
#[derive(Clone, Copy, Debug)]
pub struct ContainerNeed<'a> {
    /// The index of the container in its shape.
    pub index: usize,
    pub container: &'a Container,
    pub need: &'a Need,
}

/// Iterates over the needs of a shape in the order in which they are served: by container, in
/// starting order.
pub fn needs(shape: &Shape) -> impl Iterator<Item = ContainerNeed<'_>> {
    let containers = shape.containers.iter().enumerate();
    containers.flat_map(|(index, container)| {
        container.needs.iter().map(move |need| ContainerNeed { index, container, need })
    })
}

/// The tentative bookings of one request on one node. It overlays the node's usage and changes none
/// of it.
///
/// The usage of other holdings is read from the compact rows; only the request's own bookings are
/// kept here, and most requests have none while they are judged. Adding the bookings to a copy of
/// the `NodeRoom` instead would copy a node per step of the search.
#[derive(Clone, Debug)]
pub struct Trial<'a> {
    node: &'a Node,
    room: &'a NodeRoom,
    inputs: &'a [FitInput],
    /// By ordinal; empty until the first booking.
    own: Vec<OwnUse>,
    /// The number of idle cards that may still get a first tenant, on a node that reports a number
    /// of unhealthy cards without naming them (`Node::missing_cards`).
    spare: Option<u16>,
}

/// The request's own bookings on one device.
#[derive(Clone, Debug, Default)]
struct OwnUse {
    peak: Peak,
    whole: bool,
    floating: bool,
    slices: Vec<Slice>,
    /// Each booking with the index of its container.
    parts: Vec<(usize, Allotment)>,
}

/// The part of one device that one need gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allotment {
    /// `None` if the whole of a device of unknown capacity is taken.
    pub bytes: Option<Bytes>,
    /// No other tenant is allowed.
    pub whole: bool,
    pub cores: u32,
    pub slots: u32,
    /// Set on a partitioned device.
    pub slice: Option<Box<Slice>>,
    /// The peak of the whole request on this device, this need included.
    pub peak: Bytes,
}

/// One need that is judged on one device of a node after the other. What does not depend on the
/// device is computed once.
pub(crate) struct NeedTrial<'t> {
    trial: &'t Trial<'t>,
    container: usize,
    role: Role,
    need: &'t Need,
    /// On a device that is ready, only the checks of amounts can fail: the request has no bookings
    /// on this node and no selector, and the node names its unhealthy cards.
    only_amounts: bool,
}

impl NeedTrial<'_> {
    /// Checks a device that exists and is of the need's kind.
    ///
    /// The short path skips the checks that cannot fail. It serves nearly all devices of a large
    /// fleet and is what a decision spends its time in.
    #[inline]
    pub(crate) fn fit(&self, ordinal: usize) -> Result<Allotment, Reason> {
        let NeedTrial { trial, role, need, .. } = *self;
        let input = &trial.inputs[ordinal];
        let target = Target { node: trial.node, room: trial.room, input, ordinal, own: None };
        if self.only_amounts && input.ready {
            return target.fit(role, need);
        }
        self.fit_with_all_checks(target)
    }

    /// Out of line, so that `Target::fit` is inlined where nearly all devices are judged.
    #[cold]
    #[inline(never)]
    fn fit_with_all_checks(&self, target: Target) -> Result<Allotment, Reason> {
        let NeedTrial { trial, container, role, need, .. } = *self;
        let device = target.device();
        let own = trial.own.get(target.ordinal).filter(|own| !own.parts.is_empty());
        trial.fit_condition(device, target.ordinal, own)?;
        fit_selector(device, target.ordinal, &need.selector)?;
        trial.fit_board(need, device)?;
        // Each slice of a partitioned card is a device to its container.
        let is_same = |own: &&OwnUse| {
            !target.input.partitioned && own.parts.iter().any(|(c, _)| *c == container)
        };
        if let Some(own) = own.filter(is_same) {
            let floating = Reason::ChoiceNotDistinct { wanted: 2 };
            return Err(if own.floating { floating } else { Reason::SameContainer });
        }
        let target = Target { own, ..target };
        let allotment = target.fit(role, need)?;
        target.fit_equal_shares(&allotment)?;
        Ok(allotment)
    }
}

/// The reason why a need cannot have the devices of a pick.
enum Fault {
    Device(u16, Reason),
    Mismatch(Mismatch),
}

impl<'a> Trial<'a> {
    /// Creates a trial without bookings.
    pub fn new(node: &'a Node, room: &'a NodeRoom) -> Self {
        let inputs = room.fit_inputs();
        let spare = (node.missing_cards > 0).then(|| {
            let working = node.devices.len().saturating_sub(usize::from(node.missing_cards));
            let in_use = inputs.iter().filter(|input| input.tenanted).count();
            u16::try_from(working.saturating_sub(in_use)).unwrap_or(u16::MAX)
        });
        Trial { node, room, inputs, own: Vec::new(), spare }
    }

    /// Returns the number of idle cards that may still get a first tenant; `None` if all may.
    pub fn spare(&self) -> Option<u16> {
        self.spare
    }

    /// Returns true if the request would be the first tenant of this device.
    pub(crate) fn opens(&self, ordinal: usize) -> bool {
        !self.inputs[ordinal].tenanted
            && self.own.get(ordinal).is_none_or(|own| own.parts.is_empty())
    }

    /// Returns true if the request's own bookings on both devices are equal.
    pub(crate) fn same_own_use(&self, one: usize, other: usize) -> bool {
        match (self.own.get(one), self.own.get(other)) {
            (Some(a), Some(b)) => {
                (a.peak, a.whole, &a.slices, &a.parts) == (b.peak, b.whole, &b.slices, &b.parts)
            }
            _ => true,
        }
    }

    /// Checks whether a device can take a need beside the request's own bookings on it.
    pub fn fit(
        &self,
        container: usize,
        role: Role,
        need: &Need,
        ordinal: usize,
    ) -> Result<Allotment, Reason> {
        match self.node.devices.get(ordinal) {
            None => {
                Err(Reason::NoSuchDevice { ordinal: u16::try_from(ordinal).unwrap_or(u16::MAX) })
            }
            Some(device) if device.kind != need.kind => {
                self.fit_condition(device, ordinal, None)?;
                Err(selector::mismatch(&need.kind, &device.kind))
            }
            Some(_) => self.judge_need(container, role, need).fit(ordinal),
        }
    }

    /// Prepares a need for the devices of its kind.
    #[inline]
    pub(crate) fn judge_need<'t>(
        &'t self,
        container: usize,
        role: Role,
        need: &'t Need,
    ) -> NeedTrial<'t> {
        let only_amounts =
            self.own.is_empty() && self.spare.is_none() && !need.selector.filters_devices();
        NeedTrial { trial: self, container, role, need, only_amounts }
    }

    /// Returns the peak memory of the request on a device if the need were served there; `None` if
    /// the amount is not known.
    pub fn would_hold(&self, role: Role, need: &Need, ordinal: usize) -> Option<Bytes> {
        let input = self.inputs.get(ordinal)?;
        let target = Target { node: self.node, room: self.room, input, ordinal, own: None };
        let bytes = match (&need.amount, target.resolve(&need.amount)) {
            (Amount::Bytes(bytes), _) => Bytes::new(bytes.get()),
            (_, Ok(ResolvedAmount::Share(bytes))) => bytes,
            (_, Ok(ResolvedAmount::Whole)) => target.device().memory.usable()?,
            (_, Ok(ResolvedAmount::Profile(_)) | Err(_)) => return None,
        };
        let peak = self.own.get(ordinal).map(|own| own.peak).unwrap_or_default();
        Some(peak.with(role, Load { bytes, ..Load::default() }).total().bytes)
    }

    /// Checks the condition of the device, whatever the need asks for.
    #[cold]
    fn fit_condition(
        &self,
        device: &Device,
        ordinal: usize,
        own: Option<&OwnUse>,
    ) -> Result<(), Reason> {
        let input = &self.inputs[ordinal];
        match device.health {
            Health::Healthy => {}
            Health::Faulty => return Err(Reason::Faulty),
            Health::Gone => return Err(Reason::Gone),
        }
        if self.spare == Some(0) && !input.tenanted && own.is_none() {
            return Err(Reason::SomeCardFaulty { bookable: self.bookable() });
        }
        if device.cordoned {
            return Err(Reason::Cordoned);
        }
        if input.closed {
            return Err(Reason::Closed);
        }
        input.stale_since.map_or(Ok(()), |since| Err(Reason::StaleTelemetry { since }))
    }

    /// Books an allotment that [`Trial::fit`] returned for the same device.
    pub fn book(
        &mut self,
        container: usize,
        role: Role,
        ordinal: usize,
        allotment: Allotment,
        choice: DeviceChoice,
    ) {
        if self.own.is_empty() {
            self.own = vec![OwnUse::default(); self.node.devices.len()];
        }
        let floating = choice == DeviceChoice::Plugin;
        // A floating charge is booked on every card that the plugin may pick, but ends up on a
        // single card, and the plugin picks only healthy cards. So it uses up none of the spare
        // cards.
        let opened = u16::from(self.opens(ordinal) && !floating);
        self.spare = self.spare.map(|spare| spare.saturating_sub(opened));
        let own = &mut self.own[ordinal];
        own.peak = own.peak.with(role, Load::from_allotment(&allotment));
        own.whole |= allotment.whole;
        own.floating = floating;
        own.slices.extend(allotment.slice.as_deref().cloned());
        own.parts.push((container, allotment));
    }

    /// Checks and books the devices that a placement names for one need.
    fn book_pick(
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
                return Err(Fault::Device(ordinal, self.set_reason(need, pick, ordinal)));
            }
            if pick.is_empty() || self.pickable(&need.kind).any(|ordinal| !pick.contains(&ordinal))
            {
                return Err(Fault::Mismatch(Mismatch::OmitsCard));
            }
        } else if pick.len() != usize::from(need.count.get()) {
            return Err(Fault::Mismatch(Mismatch::DeviceCount));
        }
        let on_one_numa = pick
            .windows(2)
            .all(|pair| self.numa(pair[0]).is_some() && self.numa(pair[0]) == self.numa(pair[1]));
        if need.selector.one_numa && !floating && !on_one_numa {
            return Err(Fault::Device(pick[0], self.set_reason(need, pick, pick[0])));
        }
        let choice = if floating { DeviceChoice::Plugin } else { DeviceChoice::Owned };
        for &ordinal in pick {
            let at = usize::from(ordinal);
            let allotment = self
                .fit(index, container.role, need, at)
                .map_err(|reason| Fault::Device(ordinal, reason))?;
            self.book(index, container.role, at, allotment, choice);
        }
        Ok(())
    }

    /// Iterates over the cards that the device plugin may pick for a need of this kind: all healthy
    /// ones.
    pub fn pickable<'s>(&'s self, kind: &'s str) -> impl Iterator<Item = u16> + 's {
        (0_u16..)
            .zip(&self.node.devices)
            .filter(move |(_, device)| &*device.kind == kind && device.health == Health::Healthy)
            .map(|(ordinal, _)| ordinal)
    }
}
