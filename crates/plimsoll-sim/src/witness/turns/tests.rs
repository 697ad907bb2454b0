//! Each check sees the defect that it is for: the witness is shown a scheduler that lacks what the
//! real one did, or did something else.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::account::{Quota, Share, Shares};
use plimsoll_core::charge::Activity;
use plimsoll_core::device::{Device, Node, Sharing, Source};
use plimsoll_core::event::{Event, Operation, Outcome, Settings};
use plimsoll_core::ledger::OperationKind;
use plimsoll_core::request::{Amount, Eviction, Need, Request, RequestId, Shape, Spec, Terms};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Millis, Name, Timespan};

use crate::witness::Witness;

/// A scheduler, and the witness that is shown it.
#[derive(Clone)]
struct Shown {
    scheduler: Scheduler,
    witness: Witness,
}

impl Shown {
    /// Starts with one node of this many cards of 8 GiB.
    fn new(cards: usize, shares: Vec<(&str, Share)>) -> Shown {
        let rows = shares.into_iter().map(|(name, share)| (name.into(), share));
        let rows: BTreeMap<Name, Share> = rows.collect();
        let accounts = Shares::try_from(rows).expect("valid shares");
        let settings = Settings { accounts, residency: Timespan::ZERO, ..Settings::default() };
        let (scheduler, witness) = (Scheduler::new(settings), Witness::default());
        let mut shown = Shown { scheduler, witness };
        let mut card = Device::new("NVIDIA", Bytes::gib(8), Source::Nvml);
        card.sharing = Sharing::Shares;
        let node = Node { devices: vec![card; cards], ..Node::new("n") };
        shown.right(&Event::Node { node: Box::new(node) });
        shown
    }

    /// Handles an event as it should be.
    fn right(&mut self, event: &Event) {
        let _ = self.outcome(event);
    }

    fn outcome(&mut self, event: &Event) -> Outcome {
        let outcome = self.scheduler.step(Millis(1_000), event.clone());
        let found = self.witness.step(Millis(1_000), event, &outcome, &self.scheduler);
        assert!(found.is_empty(), "after {event:?}: {found:?}");
        outcome
    }

    /// Shows an event and an outcome of which the scheduler carried out only some operations.
    fn wrong(
        &mut self,
        event: &Event,
        outcome: &Outcome,
        is_done: impl Fn(&Operation) -> bool,
    ) -> String {
        let done = outcome.operations.iter().filter(|operation| is_done(operation));
        done.for_each(|operation| self.scheduler.recover_next(operation));
        let found = self.witness.step(Millis(1_000), event, outcome, &self.scheduler);
        found.into_iter().map(|objection| objection.0 + "\n").collect()
    }

    /// Starts a holder with a request in flight.
    fn hold(&mut self, name: &str) {
        let request = request(name, Eviction::Idle);
        let id = request.id.clone();
        self.right(&Event::Submit { request, deadline: None });
        let generation = self.scheduler.ledger().of_request(&id).expect("it fits").0.0;
        let activity = Some(Activity::Active { requests: 1 });
        self.right(&Event::Started { request: id, generation, activity });
    }
}

fn id(name: &str) -> RequestId {
    let (account, name) = name.split_once('/').expect("an account and a name");
    RequestId::new(account, name)
}

/// A request for a whole card.
fn request(name: &str, eviction: Eviction) -> Request {
    let need = Need::one("NVIDIA", Amount::bytes(Bytes::gib(8)));
    let spec = Arc::new(Spec::from_shapes(vec![Shape::single("main", need)]));
    let idle_limit = Some(Timespan::seconds(3_600));
    let terms = Terms { eviction, idle_limit, waits: true, ..Terms::default() };
    Request { id: id(name), spec, terms }
}

fn submit(name: &str) -> Event {
    Event::Submit { request: request(name, Eviction::Idle), deadline: None }
}

fn idle(name: &str) -> Event {
    Event::Acted { request: id(name), activity: Activity::Idle { since: Millis(1_000) } }
}

fn is_kind(operation: &Operation, kinds: &[OperationKind]) -> bool {
    matches!(operation, Operation::Ledger(one) if kinds.contains(&one.kind()))
}

/// One card with a holder at work, and a request that waits for its end.
fn promised() -> Shown {
    let mut shown = Shown::new(1, Vec::new());
    shown.hold("a/holder");
    shown.right(&submit("a/first"));
    assert!(shown.scheduler.is_retired(&id("a/holder")));
    shown
}

fn assert_found(found: &str, text: &str) {
    assert!(found.contains(text), "{found}");
}

#[test]
fn work_that_joins_a_retired_holder_is_found() {
    let mut shown = promised();
    let activity = Activity::Active { requests: 2 };
    let event = Event::Acted { request: id("a/holder"), activity };
    let outcome = shown.clone().scheduler.step(Millis(1_000), event.clone());
    let found = shown.wrong(&event, &outcome, |_| true);
    assert_found(&found, "a/holder got new work and is retired for a/first");
}

#[test]
fn retired_holders_that_are_idle_and_stay_are_found() {
    let mut shown = promised();
    let event = idle("a/holder");
    let outcome = shown.clone().scheduler.step(Millis(1_000), event.clone());
    let found = shown.wrong(&event, &outcome, |one| is_kind(one, &[OperationKind::Act]));
    assert_found(&found, "the holders retired for a/first are idle and were not evicted");
}

#[test]
fn a_request_that_is_not_placed_where_its_promise_is_free_is_found() {
    let mut shown = promised();
    shown.right(&idle("a/holder"));
    let event = Event::Freed { request: id("a/holder"), generation: None, ordinal: None };
    let outcome = shown.clone().scheduler.step(Millis(1_000), event.clone());
    let found = shown.wrong(&event, &outcome, |one| is_kind(one, &[OperationKind::Drop]));
    assert_found(&found, "a/first was promised memory that is free, and is pending");
}

#[test]
fn a_first_request_without_a_promise_is_found() {
    let mut shown = Shown::new(1, Vec::new());
    shown.hold("a/holder");
    let event = submit("a/first");
    let outcome = shown.clone().scheduler.step(Millis(1_000), event.clone());
    shown.wrong(&event, &outcome, |one| !is_kind(one, &[OperationKind::Promise]));
    let found = shown.wrong(&Event::Tick, &Outcome::default(), |_| true);
    assert_found(&found, "a/first is first in turn, could have room on n, and has no promise");
}

#[test]
fn an_equal_request_that_overtakes_is_found() {
    let mut full = promised();
    let entered = full.outcome(&submit("a/second"));
    let mut shown = Shown::new(1, Vec::new());
    // It is pending beside free memory.
    shown.wrong(&submit("a/second"), &entered, |one| matches!(one, Operation::Enqueue(_)));
    let event = submit("a/third");
    let outcome = shown.scheduler.step(Millis(1_000), event.clone());
    let found = shown.wrong(&event, &outcome, |_| false);
    assert_found(&found, "a/third was placed before a/second, which is equal and earlier");
}

#[test]
fn an_eviction_beside_the_first_in_turn_for_a_later_request_is_found() {
    let mut shown = Shown::new(2, Vec::new());
    shown.hold("a/one");
    shown.hold("a/two");
    shown.right(&submit("a/first"));
    let spared = ["a/one", "a/two"].into_iter().find(|one| !shown.scheduler.is_retired(&id(one)));
    let spared = spared.expect("one holder is enough");
    let mut without = shown.clone();
    without.right(&Event::Withdraw { request: id("a/first") });
    // Its end makes room for the first request, which the scheduler shown does not see.
    let acted = without.outcome(&idle(spared));
    shown.wrong(&idle(spared), &acted, |_| true);
    let event = submit("a/later");
    let outcome = without.scheduler.step(Millis(4_000_000), event.clone());
    let found = shown.wrong(&event, &outcome, |_| true);
    assert_found(&found, "was evicted for a later request beside a/first, which is ahead there");
}

fn guaranteed(gib: u64) -> Share {
    let memory = Some(Bytes::gib(gib));
    Share { guaranteed: Quota { memory, ..Quota::default() }, ..Share::default() }
}

fn interrupt(name: &str) -> Event {
    Event::Submit { request: request(name, Eviction::LowerPriority), deadline: None }
}

#[test]
fn work_that_is_interrupted_for_an_account_without_a_guarantee_is_found() {
    let mut full = Shown::new(1, vec![("a", guaranteed(8)), ("b", Share::default())]);
    let mut shown = Shown::new(1, vec![("a", Share::default()), ("b", Share::default())]);
    full.hold("b/holder");
    shown.hold("b/holder");
    let outcome = full.outcome(&interrupt("a/first"));
    assert!(!outcome.effects.is_empty(), "the guarantee takes the memory back");
    let found = shown.wrong(&interrupt("a/first"), &outcome, |_| true);
    assert_found(&found, "b/holder was evicted for an account that may not reclaim its memory");
}

#[test]
fn lent_memory_that_is_not_taken_back_is_found() {
    let mut shown = Shown::new(1, vec![("a", guaranteed(8)), ("b", Share::default())]);
    shown.hold("b/holder");
    shown.right(&idle("b/holder"));
    let event = submit("a/first");
    let outcome = shown.clone().scheduler.step(Millis(1_000), event.clone());
    let outcome = Outcome { effects: Vec::new(), ..outcome };
    shown.wrong(&event, &outcome, |one| matches!(one, Operation::Enqueue(_)));
    let found = shown.wrong(&Event::Tick, &Outcome::default(), |_| true);
    assert_found(&found, "a/first is guaranteed memory that b/holder holds idle");
}
