//! The request that is first in turn, by brute force on small fleets with a clock: its victims are
//! those with the fewest in use, it starts as soon as any devices could be made free, and no other
//! order of starts serves it earlier.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_core::charge::{Activity, Holding};
use plimsoll_core::device::{Device, Node, Sharing, Source};
use plimsoll_core::event::{Effect, Event, Settings};
use plimsoll_core::policy::Policy;
use plimsoll_core::request::{Amount, Eviction, Need, Request, RequestId, Shape, Spec, Terms};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Millis, Timespan};
use plimsoll_sim::witness::Witness;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{brute, fleet};

const CARD: u64 = 8;
/// The seconds that a stop takes.
const STOP: u64 = 1;
/// The number of the request that is first in turn.
const FIRST: usize = 100;

/// A request for memory on a number of devices, and the seconds of its work.
#[derive(Clone, Debug)]
struct Work {
    gib: u64,
    devices: u16,
    priority: i32,
    /// The work in flight at first, then that of each request that a client sends afterwards.
    seconds: Vec<u64>,
}

/// A fleet whose holders work, on a clock of seconds.
struct Play {
    scheduler: Scheduler,
    witness: Witness,
    now: u64,
    works: BTreeMap<RequestId, Vec<u64>>,
    /// The work in flight at each holder that runs.
    left: BTreeMap<RequestId, u64>,
    /// The stops that take effect at a second.
    stops: BTreeMap<u64, Vec<(RequestId, u64)>>,
    started: BTreeMap<RequestId, u64>,
}

fn id(number: usize) -> RequestId {
    RequestId::new("team", format!("w{number:03}"))
}

fn request(number: usize, work: &Work) -> Request {
    let amount = Amount::bytes(Bytes::gib(work.gib));
    let count = work.devices.try_into().expect("at least one");
    let need = Need { count, ..Need::one("NVIDIA", amount) };
    let spec = Arc::new(Spec::from_shapes(vec![Shape::single("main", need)]));
    let terms = Terms {
        priority: work.priority,
        eviction: Eviction::Idle,
        idle_limit: Some(Timespan::ZERO),
        waits: true,
        ..Terms::default()
    };
    Request { id: id(number), spec, terms }
}

impl Play {
    fn new(nodes: &[usize], policy: Policy) -> Play {
        let settings = Settings { policy, residency: Timespan::ZERO, ..Settings::default() };
        let mut play = Play {
            scheduler: Scheduler::new(settings),
            witness: Witness::default(),
            now: 0,
            works: BTreeMap::new(),
            left: BTreeMap::new(),
            stops: BTreeMap::new(),
            started: BTreeMap::new(),
        };
        for (number, cards) in nodes.iter().enumerate() {
            let mut node = Node::new(format!("n{number}"));
            let mut card = Device::new("NVIDIA", Bytes::gib(CARD), Source::Nvml);
            card.sharing = Sharing::Shares;
            node.devices = vec![card; *cards];
            play.step(&Event::Node { node: Box::new(node) });
        }
        play
    }

    fn submit(&mut self, number: usize, work: &Work) {
        self.works.insert(id(number), work.seconds.iter().rev().copied().collect());
        self.step(&Event::Submit { request: request(number, work), deadline: None });
    }

    /// Handles an event and what it starts.
    fn step(&mut self, event: &Event) {
        let now = Millis(self.now * 1000);
        let outcome = self.scheduler.step(now, event.clone());
        let objections = self.witness.step(now, event, &outcome, &self.scheduler);
        assert!(objections.is_empty(), "after {event:?}: {objections:#?}");
        for effect in outcome.effects {
            match effect {
                Effect::Start { request, generation, .. } => {
                    self.started.insert(request.clone(), self.now);
                    let work = self.works.get_mut(&request).and_then(Vec::pop).unwrap_or(0);
                    self.left.insert(request.clone(), work);
                    let activity = Some(match work {
                        0 => Activity::Idle { since: now },
                        _ => Activity::Active { requests: 1 },
                    });
                    self.step(&Event::Started { request, generation, activity });
                }
                Effect::Stop { request, generation, .. } => {
                    self.left.remove(&request);
                    let at = self.stops.entry(self.now + STOP).or_default();
                    at.push((request, generation));
                }
            }
        }
    }

    /// Lets a second pass: work ends, clients send more to holders that take it, stops end.
    fn pass(&mut self) {
        self.now += 1;
        let now = Millis(self.now * 1000);
        for (request, generation) in self.stops.remove(&self.now).unwrap_or_default() {
            let generation = Some(generation);
            self.step(&Event::Freed { request, generation, ordinal: None });
        }
        let working: Vec<RequestId> = self.left.keys().cloned().collect();
        for request in working {
            let Some(left) = self.left.get_mut(&request).filter(|left| **left > 0) else {
                continue;
            };
            *left -= 1;
            if *left > 0 {
                continue;
            }
            let is_retired = self.scheduler.is_retired(&request);
            let more = self.works.get_mut(&request).filter(|_| !is_retired).and_then(Vec::pop);
            match more.filter(|more| *more > 0) {
                Some(more) => drop(self.left.insert(request, more)),
                None => {
                    let activity = Activity::Idle { since: now };
                    self.step(&Event::Acted { request, activity });
                }
            }
        }
        self.step(&Event::Tick);
    }

    /// Returns the holders that may be displaced for a request, now or when they are idle.
    fn displaceable(&self, priority: i32) -> Vec<&Holding> {
        let holdings = self.scheduler.ledger().holdings().map(|(_, held)| held);
        holdings.filter(|held| held.terms.priority <= priority).collect()
    }

    /// Returns true if the first request fits on a node without these holders, and beside the
    /// promises to others.
    fn fits_without(&self, gone: &[RequestId], first: &Request) -> bool {
        let mut sites = brute::sites(self.scheduler.ledger(), gone);
        for (other, promise) in self.scheduler.ledger().promises() {
            let node = &promise.placement.node;
            let site = sites.iter_mut().find(|site| site.name == **node).expect("a known node");
            for charge in promise.charges.iter().filter(|_| *other != first.id) {
                for ordinal in &charge.on {
                    let bytes = charge.bytes().map_or(0, |bytes| u128::from(bytes.get()));
                    site.cards[usize::from(*ordinal)].load += bytes;
                }
            }
        }
        let shape = &first.spec.shapes()[0];
        sites.iter().any(|site| site.fits(&first.spec, shape))
    }

    /// Returns the fewest holders in use whose end would make room, over all sets of holders.
    fn fewest_in_use(&self, first: &Request) -> Option<usize> {
        let holders = self.displaceable(first.terms.priority);
        let masks = 0_u32..1 << holders.len();
        let sets = masks.map(|mask| -> Vec<&Holding> {
            let chosen = holders
                .iter()
                .enumerate()
                .filter(|(at, held)| mask & (1 << at) != 0 || held.stage.is_releasing());
            chosen.map(|(_, held)| *held).collect()
        });
        let enough = sets.filter(|set| {
            let gone: Vec<RequestId> = set.iter().map(|held| held.request.clone()).collect();
            self.fits_without(&gone, first)
        });
        enough.map(|set| set.into_iter().filter(|held| is_in_use(held)).count()).min()
    }

    /// Returns the holders in use that the promise to the first request waits for.
    fn waited_for(&self, first: &RequestId) -> Option<usize> {
        let ledger = self.scheduler.ledger();
        let promise = ledger.promise_to(first)?;
        let held = promise.after.iter().filter_map(|holder| ledger.of_request(holder));
        Some(held.filter(|(_, held)| is_in_use(held)).count())
    }
}

fn is_in_use(held: &Holding) -> bool {
    !held.stage.is_releasing() && !matches!(held.activity, Activity::Idle { .. })
}

fn work(gib: std::ops::Range<u64>, devices: std::ops::Range<u16>) -> impl Strategy<Value = Work> {
    let (priority, seconds) = (prop::sample::select(vec![0, 0, 0, -1, 1]), vec(0_u64..6, 1..4));
    (gib, devices, priority, seconds).prop_map(|(gib, devices, priority, seconds)| Work {
        gib,
        devices,
        priority,
        seconds,
    })
}

/// Returns every order of every subset.
fn orders<T: Clone>(of: &[T]) -> Vec<Vec<T>> {
    let mut all = vec![Vec::new()];
    for (at, first) in of.iter().enumerate() {
        let rest: Vec<T> = [&of[..at], &of[at + 1..]].concat();
        for mut order in orders(&rest) {
            order.insert(0, first.clone());
            all.push(order);
        }
    }
    all
}

proptest! {
    #![proptest_config(fleet::tries(60))]

    #[test]
    fn the_first_in_turn_waits_for_the_fewest_holders_in_use_and_starts_once_any_set_is_idle(
        nodes in vec(1_usize..4, 1..3),
        holders in vec(work(2..6, 1..3), 2..8),
        others in vec(work(1..6, 1..2), 0..4),
        first in work(3..8, 1..4),
        packs in any::<bool>(),
    ) {
        let policy = if packs { Policy::pack() } else { Policy::spread() };
        let mut play = Play::new(&nodes, policy);
        for (number, holder) in holders.iter().enumerate() {
            play.submit(number, &Work { priority: holder.priority.min(0), ..holder.clone() });
        }
        let pending: BTreeSet<RequestId> =
            play.scheduler.queue().iter().map(|entry| entry.request.id.clone()).collect();
        for id in pending {
            play.step(&Event::Withdraw { request: id });
        }
        let first = Work { priority: 0, ..first };
        let wanted = request(FIRST, &first);
        let fewest = play.fewest_in_use(&wanted);
        play.submit(FIRST, &first);
        if play.scheduler.queue().get(&wanted.id).is_none() {
            return Ok(());
        }
        let waited_for = play.waited_for(&wanted.id);
        prop_assert_eq!(waited_for, fewest, "{:#?}", play.scheduler.ledger().promise_to(&wanted.id));
        let most = play.left.values().max().copied().unwrap_or(0);
        for second in 0..40 {
            if let Some(other) = others.get(second) {
                // Requests of a higher priority come before it, and end its bound.
                let priority = other.priority.min(0);
                play.submit(FIRST + 1 + second, &Work { priority, ..other.clone() });
            }
            if play.started.contains_key(&wanted.id) {
                break;
            }
            let idle = play.displaceable(0).into_iter().filter(|held| !is_in_use(held));
            let idle: Vec<RequestId> = idle.map(|held| held.request.clone()).collect();
            prop_assert!(
                !play.fits_without(&idle, &wanted) || play.waited_for(&wanted.id) == Some(0),
                "room could be made at {}: {:#?}",
                play.now,
                play.scheduler.ledger().promise_to(&wanted.id)
            );
            prop_assert!(waited_for.is_none() || (second as u64) <= most + STOP, "it waits too long");
            play.pass();
        }
        prop_assert_eq!(play.started.contains_key(&wanted.id), waited_for.is_some());
    }

}

proptest! {
    #![proptest_config(fleet::tries(12))]

    #[test]
    fn no_other_order_of_starts_serves_the_promised_request_earlier(
        cards in 1_u16..4,
        holders in vec(work(2..6, 1..2), 1..7),
        others in vec(work(1..6, 1..2), 3),
        packs in any::<bool>(),
    ) {
        let policy = if packs { Policy::pack() } else { Policy::spread() };
        // It needs the whole fleet, so that all holders must end their work.
        let first = Work { gib: CARD, devices: cards, priority: 0, seconds: vec![1] };
        let wanted = request(FIRST, &first).id;
        for order in orders(&others) {
            let mut play = Play::new(&[usize::from(cards)], policy.clone());
            for (number, holder) in holders.iter().enumerate() {
                play.submit(number, &Work { priority: holder.priority.min(0), ..holder.clone() });
            }
            let pending: Vec<RequestId> =
                play.scheduler.queue().iter().map(|entry| entry.request.id.clone()).collect();
            pending.into_iter().for_each(|id| play.step(&Event::Withdraw { request: id }));
            let left = play.left.values().max().copied().unwrap_or(0);
            let is_empty = play.left.is_empty() && play.stops.is_empty();
            let earliest = if is_empty { 0 } else { left + STOP };
            play.submit(FIRST, &first);
            let mut order = order.iter().enumerate();
            while !play.started.contains_key(&wanted) && play.now < 40 {
                if let Some((at, other)) = order.next() {
                    let priority = other.priority.min(0);
                    play.submit(FIRST + 1 + at, &Work { priority, ..other.clone() });
                }
                play.pass();
            }
            prop_assert_eq!(play.started.get(&wanted), Some(&earliest));
        }
    }
}
