//! From claims to charges: one charge per device, at the pod's peak there.

use std::collections::BTreeMap;

use plimsoll_core::charge::{Booked, Charge, Part};
use plimsoll_core::device::Device;
use plimsoll_core::fit::peak_bytes;
use plimsoll_core::request::{Role, Shape};
use plimsoll_core::units::{Bytes, Cores, Name};

use super::cards::Cards;
use super::claim::{Assignment, Claim, Held};

/// Computes the charges of a pod. A claim on a kind that the node does not have is not charged.
pub(super) fn charges(claims: &[Claim], names: &Names, cards: Cards<'_>) -> Vec<Charge> {
    let lanes = if claims.iter().any(|claim| claim.role == Role::Init) {
        Lanes::PerPod
    } else {
        Lanes::PerContainer
    };
    let mut spots: BTreeMap<Spot, Vec<&Claim>> = BTreeMap::new();
    for (at, claim) in claims.iter().enumerate() {
        spots.entry(spot(at, claim, lanes, cards)).or_default().push(claim);
    }
    let charge = |(spot, claims): (Spot, Vec<&Claim>)| {
        let on = match &spot {
            Spot::Card(ordinal) | Spot::Slice(ordinal, _) => vec![*ordinal],
            Spot::Lane(kind, _) => cards.of_kind(kind),
        };
        (!on.is_empty()).then(|| charge(on, &claims, names, &cards.node.devices))
    };
    spots.into_iter().filter_map(charge).collect()
}

/// The names of a pod's containers, in start order.
pub(super) struct Names(Vec<Name>);

impl Names {
    pub(super) fn from_shape(shape: &Shape) -> Names {
        Names(shape.containers.iter().map(|container| container.name.clone()).collect())
    }

    /// Returns the name of a container, or its position if the spec does not have it.
    fn get(&self, container: usize) -> Name {
        self.0.get(container).cloned().unwrap_or_else(|| format!("container {container}").into())
    }
}

/// The claims that are summed into one charge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Spot {
    /// All claims on one card.
    Card(u16),
    /// One hardware slice of a card.
    Slice(u16, usize),
    /// A claim on one of several cards, by container and index.
    Lane(Name, (usize, usize)),
}

/// The claims that are charged together where the card is one of several.
#[derive(Clone, Copy)]
enum Lanes {
    /// The memory of init containers is released before others start: the peak is one sum.
    PerPod,
    /// Containers that run concurrently can be on different cards.
    PerContainer,
}

fn spot(at: usize, claim: &Claim, lanes: Lanes, cards: Cards<'_>) -> Spot {
    let sliced = claim.allocation.as_ref().is_some_and(|given| given.slice.is_some());
    match (&claim.assignment, &*cards.of_kind(&claim.kind)) {
        (Assignment::Card(ordinal), _) if sliced => Spot::Slice(*ordinal, at),
        (Assignment::Card(ordinal), _) => Spot::Card(*ordinal),
        (_, [only]) => Spot::Card(*only),
        _ => {
            let container = match lanes {
                Lanes::PerPod => 0,
                Lanes::PerContainer => claim.container,
            };
            Spot::Lane(claim.kind.clone(), (container, claim.lane))
        }
    }
}

/// The part of one container in a charge. Among several possible cards the worst counts.
struct Stake {
    container: usize,
    role: Role,
    held: Held,
    cores: u32,
    slots: u32,
}

impl Stake {
    /// Returns the held bytes on a device with this much usable memory; `None` if undeclared.
    fn bytes(&self, usable: Option<Bytes>) -> Option<Bytes> {
        match self.held {
            Held::Share(bytes) => Some(bytes),
            Held::Whole => usable,
            Held::Undeclared => None,
        }
    }
}

fn charge(on: Vec<u16>, claims: &[&Claim], names: &Names, devices: &[Device]) -> Charge {
    let cards: Vec<&Device> =
        on.iter().filter_map(|ordinal| devices.get(usize::from(*ordinal))).collect();
    let stakes = stakes(claims, &cards);
    let usable = cards.iter().filter_map(|device| device.memory.usable()).max();
    let part = |stake: &Stake| Part {
        container: names.get(stake.container),
        role: stake.role,
        bytes: stake.bytes(usable),
        cores: Cores(stake.cores),
    };
    Charge {
        amount: booked(&stakes, usable),
        cores: Cores(peak_count(&stakes, |stake| stake.cores)),
        slots: peak_count(&stakes, |stake| stake.slots),
        slice: claims.iter().find_map(|claim| claim.allocation.as_ref()?.slice.clone()),
        parts: stakes.iter().map(part).collect(),
        on,
    }
}

fn booked(stakes: &[Stake], usable: Option<Bytes>) -> Booked {
    let any = |held| stakes.iter().any(|stake| stake.held == held);
    if any(Held::Undeclared) {
        Booked::Undeclared
    } else if any(Held::Whole) {
        Booked::Whole { bytes: usable }
    } else {
        Booked::share(peak(stakes, |stake| stake.bytes(usable).unwrap_or_default()))
    }
}

fn peak(stakes: &[Stake], amount: impl Fn(&Stake) -> Bytes) -> Bytes {
    peak_bytes(stakes.iter().map(|stake| (stake.role, amount(stake))))
}

/// Computes the peak of a count. The rule of peaks is the same for every amount.
fn peak_count(stakes: &[Stake], count: impl Fn(&Stake) -> u32) -> u32 {
    let peak = peak(stakes, |stake| Bytes::new(u64::from(count(stake))));
    u32::try_from(peak.get()).unwrap_or(u32::MAX)
}

/// Adds up the claims of each container, in start order.
fn stakes(claims: &[&Claim], cards: &[&Device]) -> Vec<Stake> {
    let mut stakes: Vec<Stake> = Vec::new();
    for claim in claims {
        let worst = cards
            .iter()
            .map(|device| claim.held_on(device))
            .max_by_key(|(held, cores)| (rank(*held), *cores));
        let (held, cores) = worst.unwrap_or((Held::Undeclared, 0));
        match stakes.iter_mut().find(|stake| stake.container == claim.container) {
            Some(stake) => {
                stake.held = both(stake.held, held);
                stake.cores = stake.cores.saturating_add(cores);
                stake.slots = stake.slots.saturating_add(claim.slots);
            }
            None => stakes.push(Stake {
                container: claim.container,
                role: claim.role,
                held,
                cores,
                slots: claim.slots,
            }),
        }
    }
    stakes.sort_by_key(|stake| stake.container);
    stakes
}

fn rank(held: Held) -> (u8, Bytes) {
    match held {
        Held::Share(bytes) => (0, bytes),
        Held::Whole => (1, Bytes::ZERO),
        Held::Undeclared => (2, Bytes::ZERO),
    }
}

fn both(one: Held, other: Held) -> Held {
    match (one, other) {
        (Held::Share(one), Held::Share(other)) => Held::Share(one.plus(other)),
        _ => std::cmp::max_by_key(one, other, |held| rank(*held)),
    }
}
