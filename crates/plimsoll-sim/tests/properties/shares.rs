//! Shares of a card add up to at most the card, in any order and interleaving.

use std::sync::Arc;

use plimsoll_core::charge::Charge;
use plimsoll_core::device::{Device, Node, Source};
use plimsoll_core::event::{Event, Settings};
use plimsoll_core::request::{Amount, Need, Request, RequestId, Shape, Spec, Terms};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Millis, Portion};
use proptest::prelude::*;

use crate::fleet;
use crate::search::policy;

fn request(number: usize, amount: Amount) -> Request {
    let spec =
        Arc::new(Spec::from_shapes(vec![Shape::single("main", Need::one("NVIDIA", amount))]));
    Request { id: RequestId::new("a", format!("p{number}")), spec, terms: Terms::default() }
}

fn machine(policy: plimsoll_core::policy::Policy, cards: Vec<Bytes>) -> Scheduler {
    let mut node = Node::new("n1");
    node.devices =
        cards.into_iter().map(|memory| Device::new("NVIDIA", memory, Source::Nvml)).collect();
    let mut scheduler = Scheduler::new(Settings { policy, ..Settings::default() });
    let _ = scheduler.step(Millis(0), Event::Node { node: Box::new(node) });
    scheduler
}

proptest! {
    #![proptest_config(fleet::tries(200))]

    #[test]
    fn sixteen_halves_on_eight_cards_are_two_on_each_in_any_order_and_interleaving(
        policy in policy(),
        memory in (1_u64 << 30)..(80 << 30),
        steps in Just((0..16).chain(0..16).collect::<Vec<usize>>()).prop_shuffle(),
        asks in prop::collection::vec(any::<bool>(), 16),
    ) {
        let mut scheduler = machine(policy, vec![Bytes::new(memory); 8]);
        let half = Amount::Portion(Portion::new(1, 2).expect("a half"));
        let mut seen = [false; 16];
        for at in steps {
            let again = std::mem::replace(&mut seen[at], true);
            let request = request(at, half.clone());
            let event = match (asks[at], again) {
                (true, false) => Event::Ask { request },
                (true, true) => Event::Take { request: request.id, node: None },
                (false, _) => Event::Submit { request, deadline: None },
            };
            let _ = scheduler.step(Millis(0), event);
        }
        let (_, view) = scheduler.ledger().nodes().next().expect("the node");
        for room in view.room.devices() {
            prop_assert_eq!(room.tenants().len(), 2);
            prop_assert!(room.load().get() <= memory);
            prop_assert!(memory - room.load().get() < 2 * (1 << 20) + 2, "each half is floored to MiB, and no more is lost");
        }
    }

    #[test]
    fn as_many_small_ones_as_fit_are_placed_and_their_limits_sum_to_at_most_the_card(
        policy in policy(),
        memory in (20_000_u64 << 20)..(40_000 << 20),
        each in 300_u64..400,
    ) {
        let mut scheduler = machine(policy, vec![Bytes::new(memory)]);
        for at in 0..140 {
            let _ = scheduler.step(Millis(0), Event::Ask { request: request(at, Amount::bytes(Bytes::mib(each))) });
        }
        let (_, view) = scheduler.ledger().nodes().next().expect("the node");
        let room = &view.room.devices()[0];
        let fitting = usize::try_from(memory / (each << 20)).expect("few").min(140);
        prop_assert_eq!(room.tenants().len(), fitting);
        let limits: u64 = scheduler.ledger().holdings().flat_map(|(_, h)| &h.charges).filter_map(Charge::bytes).map(Bytes::get).sum();
        prop_assert!(limits <= memory);
        prop_assert_eq!(limits, room.load().get());
    }
}

#[test]
fn ninety_eight_of_330_mib_fill_a_card_of_32340_mib() {
    let mut scheduler = machine(plimsoll_core::policy::Policy::pack(), vec![Bytes::mib(32_340)]);
    for at in 0..99 {
        let _ = scheduler
            .step(Millis(0), Event::Ask { request: request(at, Amount::bytes(Bytes::mib(330))) });
    }
    let (_, view) = scheduler.ledger().nodes().next().expect("the node");
    assert_eq!(view.room.devices()[0].tenants().len(), 98);
    assert_eq!(view.room.devices()[0].free(), Some(Bytes::ZERO));
}
