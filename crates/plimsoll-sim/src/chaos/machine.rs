//! A machine as it really is: its cards, what runs on them, and a runner that does as it is told and says what there is.
//!
//! This is the physical truth. What runs here uses memory whether or not anybody has booked it.

use std::collections::BTreeMap;

use plimsoll_core::device::Node;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Name;

use super::chance::Chance;
use super::fleet::Make;
use super::wire::{Card, Order, OrderedPart, Seen, Word};

/// Whether anybody can talk to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    Cut,
    /// It burnt down.
    Lost,
}

/// One machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub make: Make,
    /// What it says of itself; its devices stand in the order in which its driver lists them now.
    pub node: Node,
    /// Which cards those are.
    pub serials: Vec<u64>,
    /// What each card that was ever here can physically hold.
    pub lines: BTreeMap<u64, Option<u64>>,
    pub link: Link,
    /// Messages belong to a connection, and end with it.
    pub connection: u64,
    /// Words said on this connection.
    pub words: u64,
    pub processes: BTreeMap<RequestId, Process>,
    /// The generation up to which a request is over here: nothing of it is started any more, however late the order.
    fence: BTreeMap<RequestId, u64>,
    /// Memory that no process of ours uses, by card.
    pub foreign: BTreeMap<u64, u64>,
}

/// Something that runs.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// The generation it was started or kept as; `None` for one that nobody ordered.
    pub generation: Option<u64>,
    /// Whether an order started it.
    pub ordered: bool,
    pub phase: Phase,
    pub parts: Vec<Part>,
}

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Loading,
    Running,
    Stopping,
}

/// What a process uses of one card.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub serial: u64,
    /// What it may use; for one that nobody ordered, what it uses.
    pub bytes: u64,
    pub whole: bool,
    pub slices: u64,
}

/// What comes of an order.
#[derive(Debug)]
pub(crate) enum Reaction {
    Says(Word),
    /// A process began to load.
    Loads {
        request: RequestId,
        generation: u64,
    },
    /// A process began to stop.
    Stops {
        request: RequestId,
    },
    /// The order was for a generation that is over.
    Stale,
    /// The order could not be carried out.
    Fails,
    /// What was ordered runs already as something else: it was started twice.
    Twice {
        running: Option<u64>,
    },
}

impl Machine {
    pub(crate) fn new(make: Make, node: Node, serials: Vec<u64>) -> Self {
        Machine {
            make,
            node,
            serials,
            lines: BTreeMap::new(),
            link: Link::Up,
            connection: 1,
            words: 0,
            processes: BTreeMap::new(),
            fence: BTreeMap::new(),
            foreign: BTreeMap::new(),
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &Name {
        &self.node.name
    }

    /// How orders and words call a card that is here.
    pub(crate) fn card(&self, serial: u64) -> Option<Card> {
        Card::at(&self.node, self.serials.iter().position(|own| *own == serial)?)
    }

    /// A new connection: whatever was said on the old one is not heard any more.
    pub(crate) fn reconnect(&mut self) {
        self.connection += 1;
        self.words = 0;
    }

    /// Everything that ran is gone, and with it what the runner remembered. Its old connection went first.
    pub(crate) fn lose_everything(&mut self) {
        self.processes.clear();
        self.fence.clear();
        self.foreign.clear();
    }

    /// What is over may begin again: never, unless the simulation is broken on purpose.
    pub(crate) fn forget_what_is_over(&mut self) {
        self.fence.clear();
    }

    /// Does as it is told, unless the order is for something that is over.
    pub(crate) fn receive(
        &mut self,
        order: Order,
        fails: bool,
        chance: &mut Chance,
    ) -> Vec<Reaction> {
        match order {
            Order::Start { request, generation, parts } => {
                self.start(request, generation, &parts, fails, chance)
            }
            Order::Stop { request, generation } => self.stop(request, generation),
            Order::Keep { request, generation } => {
                if let Some(process) = self.processes.get_mut(&request) {
                    process.generation = process.generation.max(Some(generation));
                }
                Vec::new()
            }
        }
    }

    fn start(
        &mut self,
        request: RequestId,
        generation: u64,
        parts: &[OrderedPart],
        fails: bool,
        chance: &mut Chance,
    ) -> Vec<Reaction> {
        if let Some(process) = self.processes.get(&request) {
            return match process.generation {
                Some(running) if running > generation => vec![Reaction::Stale],
                Some(running) if running == generation && process.phase == Phase::Running => {
                    vec![Reaction::Says(Word::Started { request, generation })]
                }
                Some(running) if running == generation => Vec::new(),
                running => vec![Reaction::Twice { running }],
            };
        }
        let is_over = self.fence.get(&request).is_some_and(|over| *over >= generation);
        let parts =
            parts.iter().map(|part| self.resolve(part, chance)).collect::<Option<Vec<Part>>>();
        let Some(parts) = parts.filter(|_| !is_over && !fails) else {
            self.is_over(&request, generation);
            let why = if is_over { Reaction::Stale } else { Reaction::Fails };
            return vec![why, Reaction::Says(Word::Failed { request, generation })];
        };
        let process =
            Process { generation: Some(generation), ordered: true, phase: Phase::Loading, parts };
        self.processes.insert(request.clone(), process);
        vec![Reaction::Loads { request, generation }]
    }

    fn stop(&mut self, request: RequestId, generation: u64) -> Vec<Reaction> {
        match self.processes.get_mut(&request) {
            Some(process) if process.generation > Some(generation) => vec![Reaction::Stale],
            Some(process) => {
                process.generation = Some(generation);
                if std::mem::replace(&mut process.phase, Phase::Stopping) == Phase::Stopping {
                    return Vec::new();
                }
                vec![Reaction::Stops { request }]
            }
            None => {
                self.is_over(&request, generation);
                vec![Reaction::Says(Word::Gone { request, generation, card: None })]
            }
        }
    }

    /// Whatever comes for this generation from now on comes too late.
    fn is_over(&mut self, request: &RequestId, generation: u64) {
        let fence = self.fence.entry(request.clone()).or_default();
        *fence = generation.max(*fence);
    }

    /// The card that a part is on, where it is here; the plugin picks among several.
    fn resolve(&self, part: &OrderedPart, chance: &mut Chance) -> Option<Part> {
        let places: Vec<usize> = part.on.iter().filter_map(|card| card.place(&self.node)).collect();
        if places.is_empty() || places.len() < part.on.len() {
            return None;
        }
        let serial = *self.serials.get(*chance.pick(&places))?;
        Some(Part { serial, bytes: part.bytes, whole: part.whole, slices: part.slices })
    }

    /// A process has finished loading.
    pub(crate) fn loaded(&mut self, request: RequestId, generation: u64) -> Option<Word> {
        let process = self.processes.get_mut(&request)?;
        if process.phase != Phase::Loading || process.generation != Some(generation) {
            return None;
        }
        process.phase = Phase::Running;
        Some(Word::Started { request, generation })
    }

    /// A process that is stopping goes from one card, or altogether; `None` when there is none.
    pub(crate) fn leave(&mut self, request: &RequestId, in_part: bool) -> Option<Word> {
        let process =
            self.processes.get_mut(request).filter(|process| process.phase == Phase::Stopping)?;
        let generation = process.generation?;
        let request = request.clone();
        if in_part && process.parts.len() > 1 {
            let part = process.parts.pop()?;
            let card =
                Card::at(&self.node, self.serials.iter().position(|own| *own == part.serial)?);
            return Some(Word::Gone { request, generation, card });
        }
        self.die(&request)
    }

    /// A process is gone; `None` when there was none, or nobody knows it by a generation.
    pub(crate) fn die(&mut self, request: &RequestId) -> Option<Word> {
        let generation = self.processes.remove(request)?.generation?;
        self.is_over(request, generation);
        Some(Word::Gone { request: request.clone(), generation, card: None })
    }

    /// A card fell off, and whatever was on it is gone.
    pub(crate) fn lose_card(&mut self, at: usize) -> Vec<Word> {
        let serial = self.serials.remove(at);
        self.node.devices.remove(at);
        self.foreign.remove(&serial);
        let on_it = |process: &Process| process.parts.iter().any(|part| part.serial == serial);
        let gone: Vec<RequestId> = self
            .processes
            .iter()
            .filter(|(_, process)| on_it(process))
            .map(|(id, _)| id.clone())
            .collect();
        gone.iter().filter_map(|id| self.die(id)).collect()
    }

    /// All that there is, as the runner reports it.
    pub(crate) fn report(&self) -> Word {
        let seen = |(request, process): (&RequestId, &Process)| Seen {
            request: request.clone(),
            generation: process.generation,
            loaded: process.phase != Phase::Loading,
            stopping: process.phase == Phase::Stopping,
            parts: process
                .parts
                .iter()
                .filter_map(|p| Some((self.card(p.serial)?, p.bytes)))
                .collect(),
        };
        let running = self.processes.iter().map(seen).collect();
        Word::Report { node: Box::new(self.node.clone()), running }
    }

    /// What is wrong on the cards of a process that was just started, were nobody's word taken for it: what orders put
    /// there is more than the card can hold, or shares what cannot be shared.
    pub(crate) fn overfull(&self, request: &RequestId) -> Option<String> {
        let started = self.processes.get(request)?;
        for part in &started.parts {
            let ordered = self.processes.values().filter(|process| process.ordered);
            let here: Vec<&Part> = ordered
                .flat_map(|p| &p.parts)
                .filter(|other| other.serial == part.serial)
                .collect();
            let used: u64 = here.iter().map(|part| part.bytes).sum();
            let line = self.lines.get(&part.serial).copied().flatten();
            let name = self.name();
            if here.len() > 1 && here.iter().any(|part| part.whole) {
                return Some(format!(
                    "{request} shares card {} of {name}, which somebody has all of",
                    part.serial
                ));
            }
            let bits = here.iter().map(|part| part.slices.count_ones()).sum::<u32>();
            if here.iter().fold(0, |mask, part| mask | part.slices).count_ones() != bits {
                return Some(format!("{request} shares a slice of card {} of {name}", part.serial));
            }
            if let Some(line) = line.filter(|line| used > *line && !part.whole) {
                return Some(format!(
                    "card {} of {name} can hold {line}, and with {request} what was started there uses {used}",
                    part.serial
                ));
            }
        }
        None
    }
}
