//! What the machine under test and the runners say to each other, and what becomes of it on the way.

use plimsoll_core::charge::Activity;
use plimsoll_core::device::{Identity, Node};
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Bytes, Millis, Name};

use super::chance::Chance;
use super::tally::Count;

/// What a runner is told. Orders are made from holdings, and every one names its generation, so that one that comes late
/// or twice is known for what it is.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// Have this running.
    Start { request: RequestId, generation: u64, parts: Vec<OrderedPart> },
    /// Have this gone.
    Stop { request: RequestId, generation: u64 },
    /// This may stay, and is known as this generation.
    Keep { request: RequestId, generation: u64 },
}

impl Order {
    /// Asks for twice as much: never, unless the simulation is broken on purpose.
    pub(crate) fn double(&mut self) {
        if let Order::Start { parts, .. } = self {
            parts.iter_mut().for_each(|part| part.bytes *= 2);
        }
    }
}

/// What a process may use of one card.
#[derive(Clone, Debug)]
pub(crate) struct OrderedPart {
    /// The cards it may be on, as the node calls them; several where the node's plugin picks.
    pub on: Vec<Card>,
    /// How much memory; nothing where nobody knows.
    pub bytes: u64,
    /// Whether nobody else may be there.
    pub whole: bool,
    /// The hardware slices, as bits.
    pub slices: u64,
}

/// A card as an order names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Card {
    Uuid(Name),
    Place(usize),
}

impl Card {
    /// How the card at this place is named.
    pub(crate) fn at(node: &Node, place: usize) -> Option<Card> {
        Some(match &node.devices.get(place)?.identity {
            Identity::Uuid(uuid) => Card::Uuid(uuid.clone()),
            Identity::Ordinal => Card::Place(place),
        })
    }

    /// Where the card is on a node, as that node is known.
    pub(crate) fn place(&self, node: &Node) -> Option<usize> {
        match self {
            Card::Place(place) => Some(*place).filter(|place| *place < node.devices.len()),
            Card::Uuid(uuid) => {
                let named =
                    |identity: &Identity| matches!(identity, Identity::Uuid(own) if own == uuid);
                node.devices.iter().position(|device| named(&device.identity))
            }
        }
    }
}

/// What a runner says.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    /// What was ordered runs.
    Started { request: RequestId, generation: u64 },
    /// What was ordered does not run, and will not.
    Failed { request: RequestId, generation: u64 },
    /// It does not run any more; or is gone from one card.
    Gone { request: RequestId, generation: u64, card: Option<Card> },
    /// All that there is.
    Report { node: Box<Node>, running: Vec<Seen> },
    /// Memory that no process of ours uses.
    Measured { card: Card, foreign: Bytes, at: Millis, closed: bool },
    /// A process uses more than it may.
    Grew { request: RequestId, generation: Option<u64>, card: Card, bytes: Bytes },
    /// A process became active or idle.
    Acted { request: RequestId, generation: Option<u64>, activity: Activity },
}

/// A process as its runner reports it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub request: RequestId,
    /// The generation it was started or kept as; `None` for one that nobody ordered.
    pub generation: Option<u64>,
    /// Whether it has finished loading.
    pub loaded: bool,
    /// Whether it is on its way out.
    pub stopping: bool,
    /// What it may use, by card; for one that nobody ordered, what it uses.
    pub parts: Vec<(Card, u64)>,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    Late,
    Lost,
    Doubled,
}

/// How often things go wrong, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub late: u64,
    pub lost: u64,
    pub doubled: u64,
    pub failed: u64,
}

impl Weather {
    /// Draws the fate of a message.
    pub(crate) fn fate(&self, chance: &mut Chance) -> Fate {
        let drawn = chance.below(100);
        if drawn < self.lost {
            Fate::Lost
        } else if drawn < self.lost + self.late {
            Fate::Late
        } else if drawn < self.lost + self.late + self.doubled {
            Fate::Doubled
        } else {
            Fate::Done
        }
    }
}

impl Fate {
    /// How long each copy of the message takes: none, one or two.
    pub(crate) fn delays(self, chance: &mut Chance) -> Vec<u64> {
        let soon = chance.between(1, 2_000);
        match self {
            Fate::Done => vec![soon],
            Fate::Late => vec![chance.between(2_000, 1_200_000)],
            Fate::Lost => Vec::new(),
            Fate::Doubled => vec![soon, chance.between(1, 7_200_000)],
        }
    }

    /// What is counted where an order has this fate.
    pub(crate) fn of_order(self) -> Count {
        match self {
            Fate::Done => Count::EffectsDone,
            Fate::Late => Count::EffectsLate,
            Fate::Lost => Count::EffectsLost,
            Fate::Doubled => Count::EffectsDoubled,
        }
    }

    /// What is counted where a word has this fate.
    pub(crate) fn of_word(self) -> Count {
        match self {
            Fate::Done => Count::WordsDone,
            Fate::Late => Count::WordsLate,
            Fate::Lost => Count::WordsLost,
            Fate::Doubled => Count::WordsDoubled,
        }
    }
}
