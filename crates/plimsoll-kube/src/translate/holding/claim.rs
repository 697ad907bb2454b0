//! Claims: what a container has of one device, by its spec and by annotations, and on which card.

use plimsoll_core::charge::Slice;
use plimsoll_core::device::{Device, Sharing, Strategy};
use plimsoll_core::request::{Amount, Need, PlainRule, Role, Shape};
use plimsoll_core::units::{Bytes, Name};

use super::cards::Cards;

/// The maximum number of devices of a container. A larger number is a mistake, and bounding it
/// bounds memory.
const MOST_DEVICES: u16 = 1024;

/// A container's claim on one device.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// The index of the container, in start order.
    pub(super) container: usize,
    pub(super) role: Role,
    /// The index of this device among the container's devices.
    pub(super) lane: usize,
    pub(super) kind: Name,
    pub(super) assignment: Assignment,
    /// The need in the spec; `None` if only an annotation has this device.
    pub(super) need: Option<Need>,
    /// The allocation in an annotation.
    pub(super) allocation: Option<Allocation>,
    pub(super) slots: u32,
}

/// The card of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Assignment {
    Card(u16),
    /// The card that all claims of this name share: a group, or a UUID that the node does not list.
    Shared {
        name: String,
        among: CardSet,
    },
    /// A card of its own; it is unknown which.
    Own,
    /// One of several cards.
    Unknown,
}

/// The cards that a shared one can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CardSet {
    All,
    /// Only those without a UUID: a card with another UUID cannot be the one.
    Unnamed,
}

/// The allocation of a device to a container, by an annotation.
#[derive(Clone, Debug)]
pub(super) struct Allocation {
    pub(super) bytes: Bytes,
    /// The container has the device for itself.
    pub(super) whole: bool,
    pub(super) cores: u32,
    pub(super) slice: Option<Slice>,
}

/// The held part of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Share(Bytes),
    Whole,
    Undeclared,
}

/// Creates the claims of the spec: for each need of each container, one per device.
pub(super) fn by_spec(shape: &Shape, cards: Cards<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (container, one) in shape.containers.iter().enumerate() {
        let mut lane = 0;
        for need in &one.needs {
            let assignment =
                if cards.are_exclusive(&need.kind) { Assignment::Own } else { Assignment::Unknown };
            for _ in 0..need.count.get().min(MOST_DEVICES) {
                claims.push(Claim {
                    container,
                    role: one.role,
                    lane,
                    kind: need.kind.clone(),
                    assignment: assignment.clone(),
                    need: Some(need.clone()),
                    allocation: None,
                    slots: need.slots,
                });
                lane += 1;
            }
        }
    }
    claims
}

impl Claim {
    /// Returns the held memory and compute on this device. An annotation raises them, and never
    /// lowers them.
    pub(super) fn held_on(&self, device: &Device) -> (Held, u32) {
        let given = self.allocation.as_ref();
        let asked = self.need.as_ref().map(|need| held_by_need(need, device));
        let held = match (asked, given.map(|given| given.bytes).filter(|bytes| !bytes.is_zero())) {
            (Some(Held::Share(asked)), Some(given)) => Held::Share(asked.max(given)),
            (None, Some(given)) => Held::Share(given),
            (Some(Held::Undeclared), _) if given.is_some_and(|given| given.whole) => Held::Whole,
            (Some(asked), _) => asked,
            (None, None) => Held::Undeclared,
        };
        let total = device.cores.map_or(0, |cores| cores.0);
        let compute = self.need.as_ref().map_or(0, |need| need.compute.to_units(total));
        let cores = if held == Held::Whole { total } else { compute };
        (held, cores.max(given.map_or(0, |given| given.cores)))
    }
}

/// Returns the held memory that a need means on this device.
pub(super) fn held_by_need(need: &Need, device: &Device) -> Held {
    let usable = device.memory.usable();
    let share = |bytes: Option<Bytes>| {
        bytes.filter(|bytes| !bytes.is_zero()).map_or(Held::Undeclared, Held::Share)
    };
    match &need.amount {
        Amount::Bytes(bytes) => Held::Share(Bytes::new(bytes.get())),
        Amount::Portion(portion) => share(usable.and_then(|usable| portion.share_of(usable))),
        Amount::Whole => Held::Whole,
        Amount::Profile(name) => {
            let mut profiles = device.geometry.iter().flat_map(|geometry| &geometry.profiles);
            share(profiles.find(|profile| profile.name == *name).map(|profile| profile.memory))
        }
        Amount::Unknown(_) => Held::Undeclared,
        Amount::Plain(rule) => match device.sharing {
            Sharing::Exclusive | Sharing::Shares | Sharing::EqualShares => Held::Whole,
            // The MPS daemon limits each client to an equal part.
            Sharing::Tokens { replicas, strategy: Strategy::Mps } => {
                share(device.memory.total.bytes().map(|total| part(total, replicas)))
            }
            Sharing::Tokens { replicas, strategy: Strategy::TimeSlicing } => match rule {
                PlainRule::EqualShare => share(usable.map(|usable| part(usable, replicas))),
                PlainRule::Whole | PlainRule::Refuse => Held::Undeclared,
            },
        },
    }
}

fn part(of: Bytes, replicas: u32) -> Bytes {
    Bytes::new(of.get() / u64::from(replicas.max(1))).floor_mib()
}
