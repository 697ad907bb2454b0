//! What a container has of one device: what its spec asks, what an annotation says, and on which card.

use plimsoll_core::charge::Slice;
use plimsoll_core::device::{Device, Sharing, Strategy};
use plimsoll_core::request::{Amount, Need, PlainRule, Role, Shape};
use plimsoll_core::units::{Bytes, Name};

use super::cards::Cards;

/// No container has more devices than this; a larger number is a mistake, and would cost memory here.
const MOST_DEVICES: u16 = 1024;

/// What one container has of one device.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// The container, by its place in the order of start.
    pub(super) container: usize,
    /// When it runs.
    pub(super) role: Role,
    /// Which of the container's devices this is.
    pub(super) lane: usize,
    /// The kind of device.
    pub(super) kind: Name,
    /// On which card.
    pub(super) place: Place,
    /// What the spec asks there; `None` where only an annotation speaks of it.
    pub(super) asked: Option<Need>,
    /// What an annotation says that it was given.
    pub(super) given: Option<Given>,
    /// The slots it takes.
    pub(super) slots: u32,
}

/// On which card a claim is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On this one.
    On(u16),
    /// On the card that all claims of this name share: a group, or a UUID that the node does not list.
    Shared { name: String, among: CardSet },
    /// On a card of its own, whichever that is.
    Own,
    /// On one of several, and nobody knows which.
    Somewhere,
}

/// The cards that a shared one is among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CardSet {
    All,
    /// Only those without a UUID: a card with another UUID cannot be the one that is meant.
    Unnamed,
}

/// What an annotation says that a container was given.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) bytes: Bytes,
    pub(super) cores: u32,
    pub(super) slice: Option<Slice>,
}

/// What is held of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// So many bytes.
    Share(Bytes),
    /// All of it.
    Whole,
    /// Nobody says how much.
    Undeclared,
}

/// What the spec alone says: for each need of each container, as many claims as devices.
pub(super) fn by_spec(shape: &Shape, cards: Cards<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (container, one) in shape.containers.iter().enumerate() {
        let mut lane = 0;
        for need in &one.needs {
            let place = if cards.are_exclusive(&need.kind) { Place::Own } else { Place::Somewhere };
            for _ in 0..need.count.get().min(MOST_DEVICES) {
                claims.push(Claim {
                    container,
                    role: one.role,
                    lane,
                    kind: need.kind.clone(),
                    place: place.clone(),
                    asked: Some(need.clone()),
                    given: None,
                    slots: need.slots,
                });
                lane += 1;
            }
        }
    }
    claims
}

impl Claim {
    /// What is held on this very device, memory and compute. An annotation raises it and never lowers it.
    pub(super) fn held_on(&self, device: &Device) -> (Held, u32) {
        let given = self.given.as_ref();
        let asked = self.asked.as_ref().map(|need| asked_of(need, device));
        let held = match (asked, given.map(|given| given.bytes).filter(|bytes| !bytes.is_zero())) {
            (Some(Held::Share(asked)), Some(given)) => Held::Share(asked.max(given)),
            (None, Some(given)) => Held::Share(given),
            (Some(asked), _) => asked,
            (None, None) => Held::Undeclared,
        };
        let total = device.cores.map_or(0, |cores| cores.0);
        let compute = self.asked.as_ref().map_or(0, |need| need.compute.of(total));
        let cores = if held == Held::Whole { total } else { compute };
        (held, cores.max(given.map_or(0, |given| given.cores)))
    }
}

/// What a need means on this very device.
pub(super) fn asked_of(need: &Need, device: &Device) -> Held {
    let usable = device.memory.usable();
    let share = |bytes: Option<Bytes>| {
        bytes.filter(|bytes| !bytes.is_zero()).map_or(Held::Undeclared, Held::Share)
    };
    match &need.amount {
        Amount::Bytes(bytes) => Held::Share(Bytes::new(bytes.get())),
        Amount::Portion(portion) => share(usable.and_then(|usable| portion.of(usable))),
        Amount::Whole => Held::Whole,
        Amount::Profile(_) | Amount::Unknown(_) => Held::Undeclared,
        Amount::Plain(rule) => match device.sharing {
            Sharing::Exclusive | Sharing::Shares => Held::Whole,
            // The service itself keeps each of its clients to an equal part.
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
