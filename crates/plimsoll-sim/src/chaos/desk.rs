//! Where words become events and holdings become orders: the front end of the machine under test, which a level-triggered
//! runner talks to. What it remembers is lost with the machine.

use std::collections::BTreeMap;

use plimsoll_core::charge::{Activity, Booked, Charge, Holding, Stage};
use plimsoll_core::device::{Node, Telemetry};
use plimsoll_core::event::Event;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::{NodeNeed, RequestId, Terms};
use plimsoll_core::room::Measured;
use plimsoll_core::units::{Bytes, Cores, Millis, Name, Timespan};

use super::wire::{Card, Order, OrderedPart, Seen, Word};

/// What the front end remembers of each machine.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    known: BTreeMap<usize, Known>,
}

#[derive(Debug, Default)]
struct Known {
    connection: u64,
    /// The newest word heard on this connection: a report that is older tells of a time that is over.
    newest: u64,
    /// The facts that were handed in last.
    node: Option<Node>,
}

impl Desk {
    /// Everything is forgotten.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }

    /// Whether a machine has reported on this connection. Before that, nobody knows what its cards are called now.
    pub(crate) fn has_heard(&self, machine: usize, connection: u64) -> bool {
        self.known
            .get(&machine)
            .is_some_and(|known| known.connection == connection && known.node.is_some())
    }

    /// A node was given up: its next report is news.
    pub(crate) fn forget(&mut self, machine: usize) {
        self.known.remove(&machine);
    }

    /// Notes that a word came; false for a report that a newer word has overtaken.
    pub(crate) fn is_news(
        &mut self,
        machine: usize,
        connection: u64,
        number: u64,
        word: &Word,
    ) -> bool {
        let known = self.known.entry(machine).or_default();
        if known.connection != connection {
            *known = Known { connection, ..Known::default() };
        }
        let overtaken = number < known.newest;
        known.newest = known.newest.max(number);
        !(overtaken && matches!(word, Word::Report { .. }))
    }

    /// The event that a node's facts are, where they changed.
    pub(crate) fn node(&mut self, machine: usize, node: &Node) -> Option<Event> {
        let known = self.known.entry(machine).or_default();
        if known.node.as_ref() == Some(node) {
            return None;
        }
        known.node = Some(node.clone());
        Some(Event::Node { node: Box::new(node.clone()) })
    }
}

/// The event that a word about one thing is, as the ledger stands.
pub(crate) fn event(word: &Word, node: &Name, ledger: &Ledger) -> Option<Event> {
    let place = |card: &Card| {
        let view = ledger.view_of(node)?;
        u16::try_from(card.place(&view.node)?).ok()
    };
    Some(match word {
        Word::Started { request, generation } => {
            Event::Started { request: request.clone(), generation: *generation, activity: None }
        }
        Word::Failed { request, generation } => {
            Event::Failed { request: request.clone(), generation: *generation }
        }
        Word::Gone { request, generation, card } => {
            let ordinal = match card {
                Some(card) => Some(place(card)?),
                None => None,
            };
            Event::Freed { request: request.clone(), generation: Some(*generation), ordinal }
        }
        Word::Measured { card, foreign, at, closed } => {
            let measured = Measured {
                foreign: *foreign,
                telemetry: Telemetry::Fresh { at: *at },
                closed: *closed,
            };
            Event::Measured { node: node.clone(), ordinal: place(card)?, measured }
        }
        // What these say names no generation, so that what is late must not come further than here.
        Word::Grew { .. } | Word::Acted { .. } if is_stale(word, ledger) => return None,
        Word::Grew { request, card, bytes, .. } => {
            Event::Grew { request: request.clone(), ordinal: place(card)?, bytes: *bytes }
        }
        Word::Acted { request, activity, .. } => {
            Event::Acted { request: request.clone(), activity: *activity }
        }
        Word::Report { .. } => return None,
    })
}

/// Whether a word is about a generation that is over. What was only observed was numbered here and not there.
pub(crate) fn is_stale(word: &Word, ledger: &Ledger) -> bool {
    let (request, named) = match word {
        Word::Started { request, generation }
        | Word::Failed { request, generation }
        | Word::Gone { request, generation, .. } => (request, Some(*generation)),
        Word::Grew { request, generation, .. } | Word::Acted { request, generation, .. } => {
            (request, *generation)
        }
        Word::Report { .. } | Word::Measured { .. } => return false,
    };
    let Some((held, holding)) = ledger.of_request(request) else { return true };
    named != Some(held.0) && (named.is_some() || holding.spec.is_some())
}

/// The event that a process in a report is, where the ledger does not know it so.
pub(crate) fn seen(
    seen: &Seen,
    node: &Name,
    ledger: &Ledger,
    again: bool,
    now: Millis,
) -> Option<Event> {
    let Some((held, holding)) = ledger.of_request(&seen.request) else {
        return (!seen.stopping).then(|| observed(seen, node, ledger, now)).flatten();
    };
    match holding.stage {
        _ if holding.node != *node => None,
        Stage::Sent if seen.loaded && seen.generation == Some(held.0) => Some(Event::Started {
            request: seen.request.clone(),
            generation: held.0,
            activity: None,
        }),
        // A list that is read again after a gap shows what was known before.
        Stage::Running { .. } if again && !seen.stopping => {
            let (stage, spec) = (Stage::Running { since: now }, None);
            Some(Event::Observed { holding: Box::new(Holding { stage, spec, ..holding.clone() }) })
        }
        _ => None,
    }
}

fn observed(seen: &Seen, node: &Name, ledger: &Ledger, now: Millis) -> Option<Event> {
    let view = ledger.view_of(node)?;
    let charge = |(card, bytes): &(Card, u64)| {
        let on = vec![u16::try_from(card.place(&view.node)?).ok()?];
        let amount = Booked::share(Bytes::new(*bytes));
        Some(Charge { on, amount, cores: Cores(0), slots: 1, slice: None, parts: Vec::new() })
    };
    let holding = Holding {
        request: seen.request.clone(),
        node: node.clone(),
        stage: Stage::Running { since: now },
        charges: seen.parts.iter().map(charge).collect::<Option<Vec<Charge>>>()?,
        resources: NodeNeed::default(),
        terms: Terms { idle_limit: Some(Timespan::seconds(60)), ..Terms::default() },
        activity: Activity::Unknown,
        spec: None,
    };
    Some(Event::Observed { holding: Box::new(holding) })
}

/// Those that the ledger has running on a node and that its report does not list: they are gone.
pub(crate) fn absent(node: &Name, running: &[Seen], ledger: &Ledger) -> Vec<Event> {
    let Some(id) = ledger.node_id(node) else { return Vec::new() };
    let listed = |request: &RequestId| running.iter().any(|seen| seen.request == *request);
    let gone = ledger.holdings_on(id).filter(|(_, holding)| {
        matches!(holding.stage, Stage::Running { .. }) && !listed(&holding.request)
    });
    gone.map(|(held, holding)| Event::Freed {
        request: holding.request.clone(),
        generation: Some(held.0),
        ordinal: None,
    })
    .collect()
}

/// All that a runner should know: what to start, what to stop, what may stay.
pub(crate) fn orders(node: &Name, ledger: &Ledger) -> Vec<Order> {
    let Some(id) = ledger.node_id(node) else { return Vec::new() };
    let order = |(held, holding): (plimsoll_core::charge::HoldingId, &Holding)| {
        let (request, generation) = (holding.request.clone(), held.0);
        match holding.stage {
            Stage::Offered { .. } | Stage::Queued => None,
            Stage::Sent if !ledger.may_start(holding) => Some(Order::Stop { request, generation }),
            Stage::Sent => start(ledger, &request, generation),
            Stage::Running { .. } => Some(Order::Keep { request, generation }),
            Stage::Releasing { .. } => Some(Order::Stop { request, generation }),
        }
    };
    ledger.holdings_on(id).filter_map(order).collect()
}

/// The order to start what a request holds, with its cards by name. It is made from the holding as it stands: the places
/// of cards in an effect are those of the time when it was decided, and the node may have been reported again since.
pub(crate) fn start(ledger: &Ledger, request: &RequestId, generation: u64) -> Option<Order> {
    let (held, holding) = ledger.of_request(request)?;
    if held.0 != generation || holding.stage != Stage::Sent || !ledger.may_start(holding) {
        return None;
    }
    let view = ledger.view_of(&holding.node)?;
    let part = |charge: &Charge| {
        let on = charge.on.iter().map(|on| Card::at(&view.node, usize::from(*on)));
        Some(OrderedPart {
            on: on.collect::<Option<Vec<Card>>>()?,
            bytes: charge.bytes().map_or(0, Bytes::get),
            whole: matches!(charge.amount, Booked::Whole { .. }),
            slices: charge.slice.as_ref().map_or(0, |slice| slice.span.mask()),
        })
    };
    let parts = holding.charges.iter().map(part).collect::<Option<Vec<OrderedPart>>>()?;
    Some(Order::Start { request: request.clone(), generation, parts })
}
