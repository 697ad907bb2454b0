//! Behaviour of the scheduler that the scenario format does not show: remembered failures, and new
//! settings.

use std::sync::Arc;

use plimsoll_core::charge::{Activity, Booked, Charge, Holding, Stage};
use plimsoll_core::device::{Device, Node, Source};
use plimsoll_core::event::{Event, Settings};
use plimsoll_core::request::{
    Amount, Eviction, Need, NodeNeed, Request, RequestId, Shape, Spec, Terms,
};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Cores, Millis, Timespan};

/// A machine over one card.
fn one_card(settings: Settings) -> Scheduler {
    let mut scheduler = Scheduler::new(settings);
    let mut node = Node::new("n1");
    node.devices.push(Device::new("NVIDIA", Bytes::gib(80), Source::Declared));
    let _ = scheduler.step(Millis(0), Event::Node { node: Box::new(node) });
    scheduler
}

/// A request for a part of that card.
fn request(name: &str) -> Request {
    let need = Need::one("NVIDIA", Amount::bytes(Bytes::gib(10)));
    let spec = Arc::new(Spec::from_shapes(vec![Shape::single("main", need)]));
    Request { id: RequestId::new("a", name), spec, terms: Terms::default() }
}

/// A machine over one card, with a request whose start has failed once.
fn failed_once() -> (Scheduler, RequestId) {
    let (mut scheduler, request) = (one_card(Settings::default()), request("p"));
    let id = request.id.clone();
    let _ = scheduler.step(Millis(0), Event::Submit { request, deadline: Some(Millis(60_000)) });
    let generation = scheduler.ledger().of_request(&id).expect("it is placed").0.0;
    let _ = scheduler.step(Millis(0), Event::Failed { request: id.clone(), generation });
    assert_eq!(scheduler.queue().failures(&id), 1);
    (scheduler, id)
}

#[test]
fn failed_starts_are_forgotten_when_the_deadline_passes() {
    let (mut scheduler, id) = failed_once();
    // It is not placed during its back-off, and expires at the deadline.
    let _ = scheduler.step(Millis(1), Event::NodeGone { name: "n1".into() });
    let _ = scheduler.step(Millis(60_000), Event::Tick);
    assert!(scheduler.queue().is_empty());
    assert_eq!(scheduler.queue().failures(&id), 0);
}

#[test]
fn failed_starts_are_forgotten_when_the_memory_is_released() {
    let (mut scheduler, id) = failed_once();
    let _ = scheduler.step(Millis(30_000), Event::Tick);
    let generation = scheduler.ledger().of_request(&id).map(|(generation, _)| generation.0);
    assert!(generation.is_some(), "it is tried again");
    let _ = scheduler
        .step(Millis(30_001), Event::Freed { request: id.clone(), generation, ordinal: None });
    assert_eq!(scheduler.queue().failures(&id), 0);
}

#[test]
fn failed_starts_are_forgotten_when_an_offer_is_asked_for() {
    let (mut scheduler, id) = failed_once();
    let _ = scheduler.step(Millis(1), Event::Ask { request: request("p") });
    assert_eq!(scheduler.queue().failures(&id), 0);
}

#[test]
fn queued_starts_leave_when_starts_need_not_be_serial() {
    let serial = Settings { serial_starts: true, ..Settings::default() };
    let mut scheduler = one_card(serial.clone());
    let submit = |name| Event::Submit { request: request(name), deadline: None };
    assert_eq!(scheduler.step(Millis(0), submit("one")).effects.len(), 1);
    assert_eq!(scheduler.step(Millis(0), submit("two")).effects.len(), 0);
    let settings = Box::new(Settings { serial_starts: false, ..serial });
    assert_eq!(scheduler.step(Millis(0), Event::Configured { settings }).effects.len(), 1);
}

/// A holder of most of the card, with a request in flight.
fn holder(terms: Terms) -> Holding {
    let bytes = Booked::share(Bytes::gib(60));
    let (on, parts) = (vec![0], Vec::new());
    let charge = Charge { on, amount: bytes, cores: Cores(0), slots: 1, slice: None, parts };
    Holding {
        request: RequestId::new("a", "holder"),
        node: "n1".into(),
        stage: Stage::Running { since: Millis(0) },
        charges: vec![charge],
        resources: NodeNeed::default(),
        terms: Terms { idle_limit: Some(Timespan::ZERO), ..terms },
        activity: Activity::Active { requests: 1 },
        spec: None,
    }
}

#[test]
fn a_retired_holder_that_is_pinned_meanwhile_is_not_evicted() {
    let settings = Settings { residency: Timespan::ZERO, ..Settings::default() };
    let mut scheduler = one_card(settings);
    let observed = |terms| Event::Observed { holding: Box::new(holder(terms)) };
    let _ = scheduler.step(Millis(0), observed(Terms::default()));
    let need = Need::one("NVIDIA", Amount::bytes(Bytes::gib(40)));
    let spec = Arc::new(Spec::from_shapes(vec![Shape::single("main", need)]));
    let terms = Terms { eviction: Eviction::Idle, ..Terms::default() };
    let request = Request { spec, terms, ..request("p") };
    let id = request.id.clone();
    let _ = scheduler.step(Millis(0), Event::Submit { request, deadline: None });
    assert!(scheduler.is_retired(&RequestId::new("a", "holder")));
    let _ = scheduler.step(Millis(0), observed(Terms { pinned: true, ..Terms::default() }));
    assert!(scheduler.ledger().promise_to(&id).is_none(), "it cannot be fulfilled");
    let activity = Activity::Idle { since: Millis(1) };
    let acted = Event::Acted { request: RequestId::new("a", "holder"), activity };
    assert!(scheduler.step(Millis(1), acted).effects.is_empty());
}
