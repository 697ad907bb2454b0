//! The table of answers, and properties of any orders.

use proptest::prelude::*;

use super::*;
use crate::wire::Launch;

fn order(slot: &str, generation: u64, action: Action) -> Order {
    let launch = Launch {
        model: "m".to_string(),
        devices: Vec::new(),
        argv: Vec::new(),
        env: BTreeMap::new(),
        ready: None,
        ready_within_ms: 0,
        grace_ms: 0,
        context: None,
        concurrency: 1,
        tensor_parallel: 1,
        told: None,
    };
    let (slot, model) = (slot.to_string(), "m".to_string());
    Order { slot, generation, model, action, launch: Some(launch) }
}

fn known(slots: &[(&str, u64, SlotState)]) -> BTreeMap<String, KnownSlot> {
    let slots = slots.iter();
    slots.map(|(slot, g, state)| (slot.to_string(), known_slot(*g, *state))).collect()
}

fn known_slot(generation: u64, state: SlotState) -> KnownSlot {
    KnownSlot { generation, state }
}

#[test]
fn each_order_has_one_answer_for_each_state() {
    use Action::{Keep, Start, Stop};
    use SlotState::{Gone, Running, Stopping};
    let word = |generation, action, state: Option<SlotState>| {
        let known = state.map(|state| known(&[("s", 5, state)])).unwrap_or_default();
        match reconcile(&[order("s", generation, action)], &known).as_slice() {
            [] => "nothing",
            [Act::Start(_)] => "start",
            [Act::Adopt(_)] => "adopt",
            [Act::Stop(_)] => "stop",
            [Act::Missing(_)] => "missing",
            other => panic!("{other:?}"),
        }
    };
    for (generation, action, state, expected) in [
        (5, Start, None, "start"),
        (5, Keep, None, "missing"),
        (5, Stop, None, "missing"),
        (5, Start, Some(Running), "nothing"),
        (6, Start, Some(Running), "adopt"),
        (4, Start, Some(Running), "nothing"),
        (5, Keep, Some(Running), "nothing"),
        (6, Keep, Some(Running), "adopt"),
        (4, Stop, Some(Running), "nothing"),
        (5, Stop, Some(Running), "stop"),
        (6, Stop, Some(Running), "stop"),
        (5, Start, Some(Stopping), "nothing"),
        (6, Start, Some(Stopping), "nothing"),
        (6, Stop, Some(Stopping), "adopt"),
        (6, Keep, Some(Stopping), "adopt"),
        (5, Stop, Some(Stopping), "nothing"),
        (5, Start, Some(Gone), "nothing"),
        (6, Start, Some(Gone), "start"),
        (4, Start, Some(Gone), "nothing"),
        (5, Keep, Some(Gone), "nothing"),
        (6, Stop, Some(Gone), "adopt"),
    ] {
        let word = word(generation, action, state);
        assert_eq!(word, expected, "{action:?} {generation}, {state:?} 5");
    }
}

#[test]
fn nothing_is_started_without_its_launch_record() {
    let without = |action| Order { launch: None, ..order("s", 5, action) };
    let nothing = BTreeMap::new();
    assert_eq!(reconcile(&[without(Action::Start)], &nothing), []);
    assert_eq!(reconcile(&[without(Action::Start)], &known(&[("s", 4, SlotState::Gone)])), []);
    let gone = without(Action::Keep);
    let acts = reconcile(std::slice::from_ref(&gone), &nothing);
    assert_eq!(acts, [Act::Missing(gone)], "its end can be reported");
}

#[test]
fn a_slot_that_no_order_mentions_is_forgotten_only_when_it_is_over() {
    let known = known(&[
        ("a", 1, SlotState::Running),
        ("e", 1, SlotState::Stopping),
        ("o", 1, SlotState::Gone),
    ]);
    assert_eq!(reconcile(&[], &known), [Act::Forget("o".to_string())]);
}

fn any_state() -> impl Strategy<Value = SlotState> {
    prop_oneof![
        Just(SlotState::Starting),
        Just(SlotState::Running),
        Just(SlotState::Stopping),
        Just(SlotState::Failed),
        Just(SlotState::Gone)
    ]
}

fn any_orders() -> impl Strategy<Value = Vec<Order>> {
    let action = prop_oneof![Just(Action::Start), Just(Action::Keep), Just(Action::Stop)];
    let order = ("[a-d]", 0..4_u64, action).prop_map(|(slot, g, action)| order(&slot, g, action));
    prop::collection::vec(order, 0..8)
}

fn any_known() -> impl Strategy<Value = BTreeMap<String, KnownSlot>> {
    let slot = (0..4_u64, any_state()).prop_map(|(g, state)| known_slot(g, state));
    prop::collection::btree_map("[a-d]", slot, 0..4)
}

/// Performs an act.
fn perform(known: &mut BTreeMap<String, KnownSlot>, act: &Act) {
    let (order, state) = match act {
        Act::Start(order) => (order, SlotState::Starting),
        Act::Stop(order) => (order, SlotState::Stopping),
        Act::Missing(order) => (order, SlotState::Gone),
        Act::Adopt(order) => (order, known[&order.slot].state),
        Act::Forget(slot) => {
            known.remove(slot);
            return;
        }
    };
    known.insert(order.slot.clone(), known_slot(order.generation, state));
}

fn is_alive(state: SlotState) -> bool {
    matches!(state, SlotState::Starting | SlotState::Running)
}

proptest! {
    #[test]
    fn nothing_is_started_beside_its_remains_and_no_generation_goes_back(
        orders in any_orders(), known in any_known(),
    ) {
        for act in reconcile(&orders, &known) {
            match act {
                Act::Start(order) => {
                    let is_older =
                        |k: &KnownSlot| k.state.is_over() && k.generation < order.generation;
                    prop_assert!(known.get(&order.slot).is_none_or(is_older));
                }
                Act::Adopt(order) => prop_assert!(known[&order.slot].generation < order.generation),
                Act::Stop(order) => {
                    prop_assert!(is_alive(known[&order.slot].state));
                    prop_assert!(known[&order.slot].generation <= order.generation);
                }
                Act::Missing(order) => prop_assert!(!known.contains_key(&order.slot)),
                Act::Forget(slot) => prop_assert!(known[&slot].state.is_over()),
            }
        }
    }

    #[test]
    fn the_same_orders_twice_are_the_same_as_once(orders in any_orders(), known in any_known()) {
        let mut after = known;
        for act in reconcile(&orders, &after.clone()) {
            perform(&mut after, &act);
        }
        prop_assert_eq!(reconcile(&orders, &after), vec![]);
    }

    #[test]
    fn the_order_of_the_orders_does_not_matter(orders in any_orders(), known in any_known()) {
        // Two orders for one slot and generation contradict each other; a server sends one.
        let mut once: BTreeMap<(String, u64), Order> = BTreeMap::new();
        for order in orders {
            once.entry((order.slot.clone(), order.generation)).or_insert(order);
        }
        let forward: Vec<Order> = once.values().cloned().collect();
        let backward: Vec<Order> = once.into_values().rev().collect();
        prop_assert_eq!(reconcile(&forward, &known), reconcile(&backward, &known));
    }
}
