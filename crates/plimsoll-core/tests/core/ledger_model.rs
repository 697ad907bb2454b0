//! The ledger against an independent model under random verbs: every answer and every sum.

use std::sync::Arc;

use plimsoll_core::charge::{Activity, Booked, Charge, Holding, Stage};
use plimsoll_core::decide::decide;
use plimsoll_core::device::{Device, Node, Sharing, Source, Telemetry};
use plimsoll_core::draft::{Draft, View};
use plimsoll_core::fit::{Placement, Trial};
use plimsoll_core::ledger::{Ledger, Operation, Promise};
use plimsoll_core::policy::Policy;
use plimsoll_core::request::{
    Amount, Need, NodeNeed, Request, RequestId, Role, Shape, Spec, Terms,
};
use plimsoll_core::room::{DeviceRoom, Measured};
use plimsoll_core::units::{Bytes, Cores, Millis};
use proptest::prelude::*;

use crate::model::{Card, DEVICE_GIB, Life, Model, Sums};

const NODES: usize = 2;
const DEVICES: u16 = 2;
const REQUESTS: u8 = 6;

/// A verb of the ledger about a request, given by its number.
#[derive(Clone, Debug)]
enum Verb {
    Offer { card: Card, gib: u64, until: u64 },
    Send { card: Card, gib: u64 },
    Take,
    Queue { card: Card, gib: u64 },
    TakeQueued,
    Confirm,
    Fail,
    BeginRelease,
    Freed,
    FreedOn { ordinal: u16 },
    Expire { now: u64 },
    Observe { card: Card, gib: u64 },
    Raise { ordinal: u16, gib: u64 },
    Promise { card: Card, gib: u64 },
    Unpromise,
    Measure { card: Card, gib: u64 },
}

fn card() -> impl Strategy<Value = Card> {
    (0..NODES, 0..DEVICES)
}

fn verb() -> impl Strategy<Value = Verb> {
    let gib = || 1..=DEVICE_GIB;
    let time = || 0..20_u64;
    prop_oneof![
        1 => (card(), gib(), time()).prop_map(|(card, gib, until)| Verb::Offer { card, gib, until }),
        4 => (card(), 1..8_u64).prop_map(|(card, gib)| Verb::Send { card, gib }),
        1 => Just(Verb::Take),
        1 => (card(), 1..8_u64).prop_map(|(card, gib)| Verb::Queue { card, gib }),
        1 => Just(Verb::TakeQueued),
        2 => Just(Verb::Confirm),
        1 => Just(Verb::Fail),
        2 => Just(Verb::BeginRelease),
        1 => Just(Verb::Freed),
        1 => (0..DEVICES).prop_map(|ordinal| Verb::FreedOn { ordinal }),
        1 => time().prop_map(|now| Verb::Expire { now }),
        1 => (card(), gib()).prop_map(|(card, gib)| Verb::Observe { card, gib }),
        1 => (0..DEVICES, gib()).prop_map(|(ordinal, gib)| Verb::Raise { ordinal, gib }),
        2 => (card(), 1..8_u64).prop_map(|(card, gib)| Verb::Promise { card, gib }),
        1 => Just(Verb::Unpromise),
        1 => (card(), 0..4_u64).prop_map(|(card, gib)| Verb::Measure { card, gib }),
    ]
}

fn history() -> impl Strategy<Value = Vec<(u8, Verb)>> {
    prop::collection::vec((0..REQUESTS, verb()), 1..60)
}

fn node_name(node: usize) -> String {
    format!("node-{node}")
}

fn id(request: u8) -> RequestId {
    RequestId::new("tests", format!("request-{request}"))
}

fn request(number: u8, gib: u64) -> Request {
    let need = Need::one("NVIDIA", Amount::bytes(Bytes::gib(gib)));
    let spec = Arc::new(Spec::from_shapes(vec![Shape::single("main", need)]));
    Request { id: id(number), spec, terms: Terms::default() }
}

fn placement((node, ordinal): Card) -> Placement {
    Placement { node: node_name(node).into(), shape: 0, picks: vec![vec![ordinal]] }
}

fn charge(ordinal: u16, gib: u64) -> Charge {
    Charge {
        on: vec![ordinal],
        amount: Booked::share(Bytes::gib(gib)),
        cores: Cores(0),
        slots: 1,
        slice: None,
        parts: Vec::new(),
    }
}

fn observed(number: u8, (node, ordinal): Card, gib: u64) -> Holding {
    Holding {
        request: id(number),
        node: node_name(node).into(),
        stage: Stage::Running { since: Millis(0) },
        charges: vec![charge(ordinal, gib)],
        resources: NodeNeed::default(),
        terms: Terms::default(),
        activity: Activity::Unknown,
        spec: None,
    }
}

/// The ledger and its model, with all operations so far.
struct Pair {
    ledger: Ledger,
    model: Model,
    operations: Vec<Operation>,
}

impl Pair {
    fn new() -> Self {
        let mut ledger = Ledger::default();
        let mut operations = Vec::new();
        for number in 0..NODES {
            let mut device = Device::new("NVIDIA", Bytes::gib(DEVICE_GIB), Source::Declared);
            device.sharing = Sharing::Shares;
            let mut node = Node::new(node_name(number));
            node.devices = vec![device; usize::from(DEVICES)];
            operations.push(ledger.put_node(node));
        }
        Pair { ledger, model: Model::default(), operations }
    }

    fn after(history: &[(u8, Verb)]) -> Self {
        let mut pair = Pair::new();
        for (number, verb) in history {
            pair.apply(*number, verb);
        }
        pair
    }

    /// Applies a verb to both. Returns true for each that accepted it.
    fn apply(&mut self, number: u8, verb: &Verb) -> (bool, bool) {
        let model = &mut self.model;
        let expected = match *verb {
            Verb::Offer { card, gib, until } => {
                model.hold(number, card, gib, Life::Offered { until })
            }
            Verb::Send { card, gib } => model.hold(number, card, gib, Life::Sent),
            Verb::Queue { card, gib } => model.hold(number, card, gib, Life::Queued),
            Verb::Take => model.restage(number, Life::is_before_start, Life::Sent),
            Verb::TakeQueued => model.restage(number, is_offered, Life::Queued),
            Verb::Confirm => model.restage(
                number,
                |life| life.is_before_start() || life == Life::Sent,
                Life::Running,
            ),
            Verb::Fail => model.end(number, |life| life != Life::Running),
            Verb::BeginRelease => {
                model.restage(number, |life| life != Life::Releasing, Life::Releasing)
            }
            Verb::Freed => model.end(number, |_| true),
            Verb::FreedOn { ordinal } => {
                let held = model.held.get(&number).filter(|held| held.life == Life::Releasing);
                let ends = held.is_some_and(|held| held.card.1 == ordinal);
                let accepted = held.is_some();
                if ends {
                    model.held.remove(&number);
                }
                accepted
            }
            Verb::Expire { now } => {
                model.expire(now);
                true
            }
            Verb::Observe { card, gib } => {
                model.observe(number, card, gib);
                true
            }
            Verb::Raise { ordinal, gib } => model.raise(number, ordinal, gib),
            Verb::Promise { card, gib } => {
                model.promised.insert(number, (card, gib));
                true
            }
            Verb::Unpromise => model.promised.remove(&number).is_some(),
            Verb::Measure { card, gib } => {
                model.foreign.insert(card, gib);
                true
            }
        };
        (expected, self.apply_to_ledger(number, verb))
    }

    fn apply_to_ledger(&mut self, number: u8, verb: &Verb) -> bool {
        let ledger = &mut self.ledger;
        let now = Millis(0);
        let result = match *verb {
            Verb::Offer { card, gib, until } => {
                ledger.offer(&request(number, gib), &placement(card), Millis(until)).ok()
            }
            Verb::Send { card, gib } => ledger.send(&request(number, gib), &placement(card)).ok(),
            Verb::Take => ledger.take(&id(number)).ok(),
            Verb::Queue { card, gib } => ledger.queue(&request(number, gib), &placement(card)).ok(),
            Verb::TakeQueued => ledger.take_queued(&id(number)).ok(),
            Verb::Confirm => ledger.confirm(&id(number), now).ok(),
            Verb::Fail => ledger.fail(&id(number)).ok(),
            Verb::BeginRelease => ledger.begin_release(&id(number), now).ok(),
            Verb::Freed => ledger.freed(&id(number)).ok(),
            Verb::FreedOn { ordinal } => ledger.freed_on(&id(number), ordinal).ok(),
            Verb::Expire { now } => {
                self.operations.extend(ledger.expire(Millis(now)));
                return true;
            }
            Verb::Observe { card, gib } => ledger.observe(observed(number, card, gib)).ok(),
            Verb::Raise { ordinal, gib } => {
                ledger.raise(&id(number), ordinal, Bytes::gib(gib)).ok()
            }
            Verb::Promise { card, gib } => {
                let charges = vec![charge(card.1, gib)];
                let (after, retired, made) = (Vec::new(), Vec::new(), Millis(0));
                let (placement, resources) = (placement(card), NodeNeed::default());
                let promise = Promise { placement, charges, resources, after, retired, made };
                ledger.promise(&id(number), promise).ok()
            }
            Verb::Unpromise => ledger.unpromise(&id(number)),
            Verb::Measure { card: (node, ordinal), gib } => {
                let foreign = Bytes::gib(gib);
                let measured = Measured { foreign, telemetry: Telemetry::None, closed: false };
                ledger.measure(&node_name(node).into(), ordinal, measured).ok()
            }
        };
        let accepted = result.is_some();
        self.operations.extend(result);
        accepted
    }

    fn check_sums(&self) -> Result<(), TestCaseError> {
        for card in cards() {
            prop_assert_eq!(sums(device(&self.ledger, card)), self.model.sums(card), "{:?}", card);
        }
        let account = self.ledger.account("tests");
        let (gib, holdings) = self.model.account();
        prop_assert_eq!(account.bytes, Bytes::gib(gib));
        prop_assert_eq!(account.holdings as usize, holdings);
        let model = self.model.held.values();
        let offers = model.clone().filter(|held| is_offered(held.life)).count();
        prop_assert_eq!(self.ledger.offered().count(), offers);
        let queued = model.clone().filter(|held| held.life == Life::Queued).count();
        prop_assert_eq!(self.ledger.queued().count(), queued);
        let releasing = model.clone().any(|held| held.life == Life::Releasing);
        prop_assert_eq!(self.ledger.has_releasing(), releasing);
        Ok(())
    }
}

fn is_offered(life: Life) -> bool {
    matches!(life, Life::Offered { .. })
}

fn cards() -> impl Iterator<Item = Card> {
    (0..NODES).flat_map(|node| (0..DEVICES).map(move |ordinal| (node, ordinal)))
}

fn device(view: &impl View, (node, ordinal): Card) -> &DeviceRoom {
    let name = node_name(node);
    let (_, node) = view.nodes().find(|(_, view)| view.node.name == name).expect("a known node");
    &node.room.devices()[usize::from(ordinal)]
}

fn sums(room: &DeviceRoom) -> Sums {
    let gib = |bytes: Bytes| bytes.get() / Bytes::gib(1).get();
    Sums {
        held: gib(room.held()),
        releasing: gib(room.releasing()),
        foreign: gib(room.foreign()),
        promised: gib(room.promised()),
        free: gib(room.free().expect("all amounts are known")),
        open: gib(room.open().expect("all amounts are known")),
        tenants: room.tenants().len(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_ledger_accepts_and_sums_what_the_model_does(history in history()) {
        let mut pair = Pair::new();
        for (number, verb) in &history {
            let (expected, accepted) = pair.apply(*number, verb);
            prop_assert_eq!(accepted, expected, "request {}: {:?}", number, verb);
            pair.check_sums()?;
        }
    }

    #[test]
    fn recovery_from_operations_and_from_rows_gives_the_same_ledger(history in history()) {
        let pair = Pair::after(&history);
        let rows = pair.ledger.to_rows();
        let recovered = Ledger::recover(&pair.operations);
        prop_assert_eq!(&recovered.to_rows(), &rows);
        let restored = Ledger::from_rows(rows.clone()).expect("the rows of a ledger agree");
        prop_assert_eq!(&restored.to_rows(), &rows);
        for card in cards() {
            prop_assert_eq!(sums(device(&recovered, card)), pair.model.sums(card));
            prop_assert_eq!(sums(device(&restored, card)), pair.model.sums(card));
        }
    }

    #[test]
    fn planner_trial_and_commit_agree(history in history(), gib in 1..=DEVICE_GIB) {
        let mut pair = Pair::after(&history);
        let new = request(REQUESTS, gib);
        let need = Need::one("NVIDIA", Amount::bytes(Bytes::gib(gib)));
        let mut fits_anywhere = false;
        for card in cards() {
            let view = pair.ledger.view_of(&node_name(card.0)).expect("a known node");
            let trial = Trial::new(&view.node, &view.room);
            let fits = trial.fit(0, Role::App, &need, usize::from(card.1)).is_ok();
            prop_assert_eq!(fits, pair.ledger.admits(&new, &placement(card)), "{:?}", card);
            prop_assert_eq!(fits, gib <= pair.model.sums(card).open, "{:?}", card);
            fits_anywhere |= fits;
        }
        let decision = decide(&pair.ledger, &Policy::pack(), &new);
        prop_assert_eq!(decision.chosen().is_some(), fits_anywhere);
        if let Some(best) = decision.chosen() {
            prop_assert!(pair.ledger.send(&new, &best.placement).is_ok());
        }
    }

    #[test]
    fn a_draft_equals_the_ledger_after_the_same_changes(
        history in history(),
        removed in prop::collection::vec(0..3_u8, 0..6),
        placed in prop::collection::vec((card(), 1..=DEVICE_GIB), 0..4),
    ) {
        let pair = Pair::after(&history);
        let mut draft = Draft::new(&pair.ledger);
        let mut ledger = pair.ledger.clone();
        // A number may occur twice: removing a holding or a promise again changes nothing.
        for number in removed {
            draft.without_promise_to(&id(number));
            let _ = ledger.unpromise(&id(number));
            if let Some((holding, _)) = pair.ledger.of_request(&id(number)) {
                draft.without(holding);
                let _ = ledger.freed(&id(number));
            }
        }
        for ((card, gib), number) in placed.into_iter().zip(REQUESTS..) {
            let new = request(number, gib);
            let drafted = draft.place(&new, &placement(card)).is_ok();
            prop_assert_eq!(drafted, ledger.send(&new, &placement(card)).is_ok());
        }
        for card in cards() {
            prop_assert_eq!(sums(device(&draft, card)), sums(device(&ledger, card)));
        }
        let next = request(u8::MAX, 3);
        let policy = Policy::spread();
        prop_assert_eq!(decide(&draft, &policy, &next).outcome, decide(&ledger, &policy, &next).outcome);
    }
}

/// Devices of the 257th kind used to share the index of the 256th, and the planner proposed them.
#[test]
fn a_node_may_have_more_than_256_kinds_of_devices() {
    let mut node = Node::new("node");
    for kind in 0..300 {
        node.devices.push(Device::new(format!("kind-{kind:03}"), Bytes::gib(8), Source::Declared));
    }
    let mut ledger = Ledger::default();
    let _ = ledger.put_node(node);
    for kind in [254_u16, 255, 256, 299] {
        let need = Need::one(format!("kind-{kind:03}"), Amount::bytes(Bytes::gib(8)));
        let spec = Arc::new(Spec::from_shapes(vec![Shape::single("main", need)]));
        for (number, expected) in [(1, true), (2, false)] {
            let id = RequestId::new("tests", format!("{kind}-{number}"));
            let request = Request { id, spec: spec.clone(), terms: Terms::default() };
            let decision = decide(&ledger, &Policy::pack(), &request);
            assert_eq!(decision.chosen().is_some(), expected, "request {number} for kind {kind}");
            if let Some(best) = decision.chosen() {
                assert_eq!(best.placement.picks, [[kind]]);
                let _ =
                    ledger.send(&request, &best.placement).expect("the commit admits the proposal");
            }
        }
    }
}
