//! Shares of accounts under full load: memory follows guarantees and weights.
//!
//! The model is independent of the core: it follows answers and effects, and sums what each account
//! was given by itself.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use plimsoll_core::account::{Quota, Share, Shares};
use plimsoll_core::charge::Activity;
use plimsoll_core::device::{Device, Node, Source};
use plimsoll_core::event::{Effect, Event, Settings};
use plimsoll_core::request::{Amount, Eviction, Need, Request, RequestId, Shape, Spec, Terms};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Millis, Name, Timespan};
use plimsoll_sim::witness::Witness;
use proptest::prelude::*;

use crate::fleet;

const GIB: u64 = 1 << 30;

/// A fleet and its clients on a virtual clock.
struct Load {
    scheduler: Scheduler,
    witness: Witness,
    now: Millis,
    /// The requests that were started and not released yet, with their bytes.
    held: BTreeMap<RequestId, u64>,
    /// The requests that were submitted and not started yet.
    pending: BTreeMap<RequestId, u64>,
    submitted: usize,
    eviction: Eviction,
}

impl Load {
    fn new(cards: usize, memory: u64, shares: Vec<(&str, Share)>, eviction: Eviction) -> Load {
        let rows: BTreeMap<Name, Share> =
            shares.into_iter().map(|(name, share)| (name.into(), share)).collect();
        let accounts = Shares::try_from(rows).expect("valid shares");
        let settings = Settings { accounts, residency: Timespan::ZERO, ..Settings::default() };
        let mut load = Load {
            scheduler: Scheduler::new(settings),
            witness: Witness::default(),
            now: Millis(0),
            held: BTreeMap::new(),
            pending: BTreeMap::new(),
            submitted: 0,
            eviction,
        };
        let mut node = Node::new("n1");
        node.devices = vec![Device::new("NVIDIA", Bytes::new(memory), Source::Nvml); cards];
        load.step(Event::Node { node: Box::new(node) });
        load
    }

    /// Handles an event, and everything that the effects cause.
    fn step(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            self.now = Millis(self.now.0 + 1);
            let outcome = self.scheduler.step(self.now, event.clone());
            let objections = self.witness.step(self.now, &event, &outcome, &self.scheduler);
            assert!(objections.is_empty(), "after {event:?}: {objections:#?}");
            for effect in outcome.effects {
                match effect {
                    Effect::Start { request, generation, .. } => {
                        let bytes = self.pending.remove(&request).expect("it was submitted");
                        self.held.insert(request.clone(), bytes);
                        let activity = Some(Activity::Active { requests: 1 });
                        events.push(Event::Started { request, generation, activity });
                    }
                    Effect::Stop { request, generation, .. } => {
                        self.held.remove(&request);
                        let generation = Some(generation);
                        events.push(Event::Freed { request, generation, ordinal: None });
                    }
                }
            }
        }
    }

    fn submit(&mut self, account: &str, bytes: u64) {
        self.submitted += 1;
        let id = RequestId::new(account, format!("p{}", self.submitted));
        let need = Need::one("NVIDIA", Amount::bytes(Bytes::new(bytes)));
        let spec = Arc::new(Spec::from_shapes(vec![Shape::single("main", need)]));
        let idle_limit = (self.eviction != Eviction::Never).then_some(Timespan::seconds(3600));
        let terms = Terms { eviction: self.eviction, idle_limit, ..Terms::default() };
        self.pending.insert(id.clone(), bytes);
        self.step(Event::Submit { request: Request { id, spec, terms }, deadline: None });
    }

    /// Keeps some requests of an account pending.
    fn fill_queue(&mut self, account: &str, sizes: &mut impl Iterator<Item = u64>) {
        while self.pending.keys().filter(|id| &*id.account == account).count() < 3 {
            self.submit(account, sizes.next().expect("an endless stream"));
        }
    }

    /// Ends the work of one holder, chosen by a number.
    fn finish(&mut self, choice: usize) {
        let Some(id) = self.held.keys().nth(choice % self.held.len().max(1)).cloned() else {
            return;
        };
        self.step(Event::Withdraw { request: id });
    }

    fn holds(&self, account: &str) -> u64 {
        self.held.iter().filter(|(id, _)| &*id.account == account).map(|(_, bytes)| bytes).sum()
    }
}

fn share(guaranteed: u64, weight: u32) -> Share {
    Share {
        guaranteed: Quota { memory: Some(Bytes::new(guaranteed)), devices: None },
        weight: NonZeroU32::new(weight).expect("at least 1"),
        ..Share::default()
    }
}

proptest! {
    #![proptest_config(fleet::tries(60))]

    #[test]
    fn equal_pods_are_served_by_weight_beyond_the_guarantees(
        weight in 1_u32..4,
        finished in prop::collection::vec(0_usize..64, 120),
    ) {
        let shares = vec![("a", share(10 * GIB, 1)), ("b", share(10 * GIB, weight))];
        let mut load = Load::new(1, 80 * GIB, shares, Eviction::Never);
        let mut stream = std::iter::repeat(GIB);
        load.fill_queue("a", &mut stream);
        let mut held_first = load.held.len();
        for choice in finished {
            load.fill_queue("a", &mut stream);
            load.fill_queue("b", &mut stream);
            // Until all that a held alone has ended, b has not had its chance everywhere.
            let before = load.holds("a");
            load.finish(choice);
            held_first -= usize::from(load.holds("a") < before && held_first > 0);
        }
        let (a, b) = (load.holds("a") / GIB - 10, load.holds("b") / GIB - 10);
        prop_assert!(held_first > 0 || (a * u64::from(weight)).abs_diff(b) <= u64::from(weight) + 1);
    }
}
