//! What has to be done so that the slots become what the orders say, and nothing else.

use std::collections::BTreeMap;

use plimsoll_slots::wire::{Action, Order};

/// What is known of a slot when orders come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) generation: u64,
    pub(crate) stage: Stage,
}

/// How far a slot has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Starting or running.
    Alive,
    /// On its way out: something of it is still there, or may be.
    Ending,
    /// Nothing is left of it.
    Over,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Start it: nothing of it is here.
    Start(Order),
    /// Report what is here under this generation from now on.
    Adopt(Order),
    /// Let it go, under this generation.
    Stop(Order),
    /// Report it as gone: it is expected, and nothing of it is here.
    Missing(Order),
    /// Drop the report of a slot that is over, as nobody asks for it any more.
    Forget(String),
}

/// Compares orders with what is known. Doing what comes out and asking again gives nothing more to do.
///
/// A slot that lives and that the orders do not mention is left alone: the server learns of it from the report, and decides.
pub(crate) fn reconcile(orders: &[Order], known: &BTreeMap<String, Known>) -> Vec<Act> {
    let mut newest: BTreeMap<&str, &Order> = BTreeMap::new();
    for order in orders {
        let kept = newest.entry(&order.slot).or_insert(order);
        if order.generation > kept.generation {
            *kept = order;
        }
    }
    let unmentioned = known.iter().filter(|(slot, _)| !newest.contains_key(slot.as_str()));
    let forgotten = unmentioned.filter(|(_, known)| known.stage == Stage::Over);
    let mut acts: Vec<Act> = forgotten.map(|(slot, _)| Act::Forget(slot.clone())).collect();
    acts.extend(newest.values().filter_map(|order| act(order, known.get(&order.slot))));
    acts
}

fn act(order: &Order, known: Option<&Known>) -> Option<Act> {
    // How to start it is left out for a slot that was reported. One that is reported no more is told again.
    let can_start = order.launch.is_some();
    let Some(known) = known else {
        return match order.action {
            Action::Start => can_start.then(|| Act::Start(order.clone())),
            Action::Keep | Action::Stop => Some(Act::Missing(order.clone())),
        };
    };
    if order.generation < known.generation {
        return None;
    }
    let is_newer = order.generation > known.generation;
    let adopted = || is_newer.then(|| Act::Adopt(order.clone()));
    match (known.stage, order.action) {
        (Stage::Alive, Action::Stop) => Some(Act::Stop(order.clone())),
        (Stage::Alive, _) => adopted(),
        // What is on its way out cannot be kept. It is started anew once its memory is back, never beside its remains.
        (Stage::Ending, Action::Start) => None,
        (Stage::Over, Action::Start) => (is_newer && can_start).then(|| Act::Start(order.clone())),
        (Stage::Ending | Stage::Over, Action::Keep | Action::Stop) => adopted(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use plimsoll_slots::wire::Launch;
    use proptest::prelude::*;

    use super::*;

    fn launch() -> Launch {
        Launch {
            model: "m".to_owned(),
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

    fn known(slots: &[(&str, u64, Stage)]) -> BTreeMap<String, Known> {
        slots
            .iter()
            .map(|(slot, generation, stage)| (slot.to_string(), of(*generation, *stage)))
            .collect()
    }

    fn of(generation: u64, stage: Stage) -> Known {
        Known { generation, stage }
    }

    #[test]
    fn each_order_has_one_answer_for_each_stage() {
        use Action::{Keep, Start, Stop};
        use Stage::{Alive, Ending, Over};
        let words = |generation, action, stage: Option<Stage>| {
            let known = stage.map(|stage| known(&[("s", 5, stage)])).unwrap_or_default();
            match reconcile(&[order("s", generation, action)], &known).as_slice() {
                [] => "nothing",
                [Act::Start(_)] => "start",
                [Act::Adopt(_)] => "adopt",
                [Act::Stop(_)] => "stop",
                [Act::Missing(_)] => "missing",
                other => panic!("{other:?}"),
            }
        };
        for (generation, action, stage, expected) in [
            (5, Start, None, "start"),
            (5, Keep, None, "missing"),
            (5, Stop, None, "missing"),
            (5, Start, Some(Alive), "nothing"),
            (6, Start, Some(Alive), "adopt"),
            (4, Start, Some(Alive), "nothing"),
            (5, Keep, Some(Alive), "nothing"),
            (6, Keep, Some(Alive), "adopt"),
            (4, Stop, Some(Alive), "nothing"),
            (5, Stop, Some(Alive), "stop"),
            (6, Stop, Some(Alive), "stop"),
            (5, Start, Some(Ending), "nothing"),
            (6, Start, Some(Ending), "nothing"),
            (6, Stop, Some(Ending), "adopt"),
            (6, Keep, Some(Ending), "adopt"),
            (5, Stop, Some(Ending), "nothing"),
            (5, Start, Some(Over), "nothing"),
            (6, Start, Some(Over), "start"),
            (4, Start, Some(Over), "nothing"),
            (5, Keep, Some(Over), "nothing"),
            (6, Stop, Some(Over), "adopt"),
        ] {
            assert_eq!(
                words(generation, action, stage),
                expected,
                "{action:?} {generation}, {stage:?} 5"
            );
        }
    }

    #[test]
    fn nothing_is_started_before_it_is_told_how() {
        let untold = |action| Order { launch: None, ..order("s", 5, action) };
        let nothing = BTreeMap::new();
        assert_eq!(reconcile(&[untold(Action::Start)], &nothing), []);
        assert_eq!(reconcile(&[untold(Action::Start)], &known(&[("s", 4, Stage::Over)])), []);
        let gone = untold(Action::Keep);
        assert_eq!(
            reconcile(std::slice::from_ref(&gone), &nothing),
            [Act::Missing(gone)],
            "its end can be told"
        );
    }

    #[test]
    fn what_is_not_mentioned_is_forgotten_only_when_it_is_over() {
        let known =
            known(&[("a", 1, Stage::Alive), ("e", 1, Stage::Ending), ("o", 1, Stage::Over)]);
        assert_eq!(reconcile(&[], &known), [Act::Forget("o".to_owned())]);
    }

    fn any_stage() -> impl Strategy<Value = Stage> {
        prop_oneof![Just(Stage::Alive), Just(Stage::Ending), Just(Stage::Over)]
    }

    fn any_orders() -> impl Strategy<Value = Vec<Order>> {
        let action = prop_oneof![Just(Action::Start), Just(Action::Keep), Just(Action::Stop)];
        prop::collection::vec(
            ("[a-d]", 0..4u64, action).prop_map(|(s, g, a)| order(&s, g, a)),
            0..8,
        )
    }

    fn any_known() -> impl Strategy<Value = BTreeMap<String, Known>> {
        prop::collection::btree_map(
            "[a-d]",
            (0..4u64, any_stage()).prop_map(|(g, s)| of(g, s)),
            0..4,
        )
    }

    /// What is known once an act is done.
    fn done(known: &mut BTreeMap<String, Known>, act: &Act) {
        let mut set =
            |order: &Order, stage| known.insert(order.slot.clone(), of(order.generation, stage));
        match act {
            Act::Start(order) => drop(set(order, Stage::Alive)),
            Act::Stop(order) => drop(set(order, Stage::Ending)),
            Act::Missing(order) => drop(set(order, Stage::Over)),
            Act::Adopt(order) => {
                known.get_mut(&order.slot).expect("only what is known is adopted").generation =
                    order.generation;
            }
            Act::Forget(slot) => drop(known.remove(slot)),
        }
    }

    proptest! {
        #[test]
        fn nothing_is_started_beside_its_remains_and_no_generation_goes_back(
            orders in any_orders(), known in any_known(),
        ) {
            for act in reconcile(&orders, &known) {
                match act {
                    Act::Start(order) => {
                        let before = known.get(&order.slot);
                        prop_assert!(before.is_none_or(|k| k.stage == Stage::Over && k.generation < order.generation));
                    }
                    Act::Adopt(order) => prop_assert!(known[&order.slot].generation < order.generation),
                    Act::Stop(order) => {
                        prop_assert!(known[&order.slot].stage == Stage::Alive);
                        prop_assert!(known[&order.slot].generation <= order.generation);
                    }
                    Act::Missing(order) => prop_assert!(!known.contains_key(&order.slot)),
                    Act::Forget(slot) => prop_assert!(known[&slot].stage == Stage::Over),
                }
            }
        }

        #[test]
        fn the_same_orders_twice_are_the_same_as_once(orders in any_orders(), known in any_known()) {
            let mut after = known;
            for act in reconcile(&orders, &after.clone()) {
                done(&mut after, &act);
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
}
