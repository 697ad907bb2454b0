//! The table of corrections, and properties of any orders.

use proptest::prelude::*;

use super::*;
use crate::wire::{Launch, Start};

fn launch() -> Launch {
    Launch {
        model: "m".to_owned(),
        devices: Vec::new(),
        start: Start::Unknown,
        grace_ms: 2,
        context: None,
        concurrency: 1,
        tensor_parallel: 1,
        runtime: None,
    }
}

fn order(slot: &str, generation: u64, action: Action) -> Order {
    Order {
        slot: slot.to_owned(),
        generation,
        model: "m".to_owned(),
        action,
        launch: Some(launch()),
    }
}

fn known(slots: &[(&str, u64, SlotState)]) -> BTreeMap<String, KnownSlot> {
    slots
        .iter()
        .map(|(slot, generation, state)| {
            (slot.to_string(), KnownSlot { generation: *generation, state: *state })
        })
        .collect()
}

const ALL_STATES: [SlotState; 5] = [
    SlotState::Starting,
    SlotState::Running,
    SlotState::Stopping,
    SlotState::Failed,
    SlotState::Gone,
];

/// Name of the correction for a slot whose known generation is 5.
fn correction(generation: u64, action: Action, state: Option<SlotState>) -> &'static str {
    let known = state.map(|state| known(&[("s", 5, state)])).unwrap_or_default();
    match reconcile(&[order("s", generation, action)], &known).as_slice() {
        [] => "none",
        [Correction::Start(_)] => "start",
        [Correction::SetGeneration(_)] => "set generation",
        [Correction::Stop(_)] => "stop",
        [Correction::ReportMissing(_)] => "report missing",
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unknown_slot_is_started_or_reported_missing() {
    for (action, expected) in [
        (Action::Start, "start"),
        (Action::Keep, "report missing"),
        (Action::Stop, "report missing"),
    ] {
        assert_eq!(correction(5, action, None), expected, "{action:?}");
    }
}

#[test]
fn each_order_has_one_correction_in_each_state() {
    use Action::{Keep, Start, Stop};
    for state in ALL_STATES {
        let rows = match state {
            SlotState::Starting | SlotState::Running => [
                (5, Start, "none"),
                (6, Start, "set generation"),
                (5, Keep, "none"),
                (6, Keep, "set generation"),
                (5, Stop, "stop"),
                (6, Stop, "stop"),
            ],
            SlotState::Failed | SlotState::Gone => [
                (5, Start, "none"),
                (6, Start, "start"),
                (5, Keep, "none"),
                (6, Keep, "set generation"),
                (5, Stop, "none"),
                (6, Stop, "set generation"),
            ],
            _ => [
                (5, Start, "none"),
                (6, Start, "none"),
                (5, Keep, "none"),
                (6, Keep, "set generation"),
                (5, Stop, "none"),
                (6, Stop, "set generation"),
            ],
        };
        for (generation, action, expected) in rows {
            let actual = correction(generation, action, Some(state));
            assert_eq!(actual, expected, "{action:?} {generation}, {state:?}");
        }
        for action in [Start, Keep, Stop] {
            assert_eq!(correction(4, action, Some(state)), "none", "{action:?} 4, {state:?}");
        }
    }
}

#[test]
fn a_slot_is_not_started_without_its_launch() {
    let without_launch = |action| Order { launch: None, ..order("s", 5, action) };
    let unknown = BTreeMap::new();
    assert_eq!(reconcile(&[without_launch(Action::Start)], &unknown), []);
    let ended = known(&[("s", 4, SlotState::Gone)]);
    assert_eq!(reconcile(&[without_launch(Action::Start)], &ended), []);
    let keep = without_launch(Action::Keep);
    let expected = [Correction::ReportMissing(keep.clone())];
    assert_eq!(reconcile(&[keep], &unknown), expected, "reporting needs no launch");
}

#[test]
fn a_slot_without_an_order_is_forgotten_only_after_its_end() {
    for state in ALL_STATES {
        let expected = match state.is_over() {
            true => vec![Correction::Forget("s".to_owned())],
            false => vec![],
        };
        assert_eq!(reconcile(&[], &known(&[("s", 1, state)])), expected, "{state:?}");
    }
}

fn any_orders() -> impl Strategy<Value = Vec<Order>> {
    let action = prop_oneof![Just(Action::Start), Just(Action::Keep), Just(Action::Stop)];
    prop::collection::vec(
        ("[a-d]", 0..4u64, action)
            .prop_map(|(slot, generation, action)| order(&slot, generation, action)),
        0..8,
    )
}

fn any_known() -> impl Strategy<Value = BTreeMap<String, KnownSlot>> {
    let state = prop::sample::select(ALL_STATES.to_vec());
    let slot = (0..4u64, state).prop_map(|(generation, state)| KnownSlot { generation, state });
    prop::collection::btree_map("[a-d]", slot, 0..4)
}

fn apply(known: &mut BTreeMap<String, KnownSlot>, correction: &Correction) {
    let (order, state) = match correction {
        Correction::Start(order) => (order, SlotState::Starting),
        Correction::Stop(order) => (order, SlotState::Stopping),
        Correction::ReportMissing(order) => (order, SlotState::Gone),
        Correction::SetGeneration(order) => (order, known[&order.slot].state),
        Correction::Forget(slot) => {
            known.remove(slot);
            return;
        }
    };
    let generation = order.generation;
    known.insert(order.slot.clone(), KnownSlot { generation, state });
}

#[test]
fn overtaken_orders_differ_from_those_of_a_restored_server() {
    assert!(!is_overtaken(7, 7, 7));
    assert!(!is_overtaken(8, 7, 7));
    assert!(is_overtaken(6, 7, 5), "asked with 5, and 7 arrived by another request");
    assert!(!is_overtaken(2, 7, 7), "asked with 7: the server was restored from a copy");
}

proptest! {
    #[test]
    fn no_slot_starts_beside_its_remains_and_no_generation_decreases(
        orders in any_orders(), known in any_known(),
    ) {
        for correction in reconcile(&orders, &known) {
            match correction {
                Correction::Start(order) => {
                    let before = known.get(&order.slot);
                    let can_start = before.is_none_or(|slot| {
                        slot.state.is_over() && slot.generation < order.generation
                    });
                    prop_assert!(can_start);
                }
                Correction::SetGeneration(order) => {
                    prop_assert!(known[&order.slot].generation < order.generation);
                }
                Correction::Stop(order) => {
                    prop_assert!(known[&order.slot].state.is_live());
                    prop_assert!(known[&order.slot].generation <= order.generation);
                }
                Correction::ReportMissing(order) => {
                    prop_assert!(!known.contains_key(&order.slot));
                }
                Correction::Forget(slot) => prop_assert!(known[&slot].state.is_over()),
            }
        }
    }

    #[test]
    fn applying_the_corrections_leaves_nothing_to_correct(
        orders in any_orders(), known in any_known(),
    ) {
        let mut after = known;
        for correction in reconcile(&orders, &after.clone()) {
            apply(&mut after, &correction);
        }
        prop_assert_eq!(reconcile(&orders, &after), vec![]);
    }

    #[test]
    fn the_sequence_of_the_orders_does_not_matter(
        orders in any_orders(), known in any_known(),
    ) {
        // Two orders for one slot and generation contradict each other; a server sends one.
        let mut unique: BTreeMap<(String, u64), Order> = BTreeMap::new();
        for order in orders {
            unique.entry((order.slot.clone(), order.generation)).or_insert(order);
        }
        let forward: Vec<Order> = unique.values().cloned().collect();
        let backward: Vec<Order> = unique.into_values().rev().collect();
        prop_assert_eq!(reconcile(&forward, &known), reconcile(&backward, &known));
    }
}
