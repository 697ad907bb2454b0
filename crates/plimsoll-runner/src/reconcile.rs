//! The difference between the orders of the server and the slots of the runner.
//!
//! Reconciliation is level-triggered: orders describe the desired state, slots the actual one, and
//! `reconcile` is a pure function of both. It runs whenever one of them changes. A lost, late or
//! duplicated message therefore needs no special handling, and an agent that restarts needs no
//! history: the next orders lead to the same result. Applying the corrections and reconciling again
//! yields no correction (tested), so that the loop settles after one round per change. A protocol
//! of commands ("start now") would need acknowledgements, retries and deduplication on both sides.
//!
//! Generations order the starts of one slot. The server raises the generation for each start, so
//! that a report names the start it is about:
//!
//! - An order with an earlier generation than the known one was overtaken, and is ignored.
//! - A start with a later generation than that of a live slot means that the server lost track of
//!   the slot. The process is kept and reported under the later generation; a second process on the
//!   same charge would overcommit the device.
//! - A start with the same generation as an ended slot is not repeated: the reported end is the
//!   answer to it. A later generation starts the slot again, but only after the earlier one
//!   released its memory.

use std::collections::BTreeMap;

use plimsoll_slots::wire::{Action, Order};

use super::slot::{Phase, Slots};

/// The facts about a slot that orders are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownSlot {
    pub(crate) generation: u64,
    pub(crate) phase: Phase,
}

/// One step towards the ordered state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Correction {
    Start(Order),
    /// Report the slot under the generation of the order from now on.
    SetGeneration(Order),
    /// Stop the slot, and report it under the generation of the order.
    Stop(Order),
    /// Report an unknown slot as gone.
    ReportMissing(Order),
    /// Drop an ended slot that the server no longer asks for.
    Forget(String),
}

/// Returns the facts about all slots.
pub(crate) fn known_slots(slots: &Slots) -> BTreeMap<String, KnownSlot> {
    slots
        .iter()
        .map(|(name, slot)| {
            let known = KnownSlot { generation: slot.record.generation, phase: slot.phase };
            (name.clone(), known)
        })
        .collect()
}

/// Returns the corrections that lead from the known slots to the orders.
///
/// A live slot that no order mentions is left alone: the server learns about it from the report,
/// charges it and decides.
pub(crate) fn reconcile(orders: &[Order], known: &BTreeMap<String, KnownSlot>) -> Vec<Correction> {
    let mut newest: BTreeMap<&str, &Order> = BTreeMap::new();
    for order in orders {
        let entry = newest.entry(&order.slot).or_insert(order);
        if order.generation > entry.generation {
            *entry = order;
        }
    }
    let not_ordered = known.iter().filter(|(slot, _)| !newest.contains_key(slot.as_str()));
    let ended = not_ordered.filter(|(_, known)| known.phase.is_ended());
    let mut corrections: Vec<Correction> =
        ended.map(|(slot, _)| Correction::Forget(slot.clone())).collect();
    corrections.extend(newest.values().filter_map(|order| match known.get(&order.slot) {
        Some(known) => correct_known(order, *known),
        None => correct_unknown(order),
    }));
    corrections
}

fn correct_unknown(order: &Order) -> Option<Correction> {
    match order.action {
        // The server omits the launch of a slot that was reported to it. It sends the launch again
        // once the report is missing.
        Action::Start => order.launch.is_some().then(|| Correction::Start(order.clone())),
        Action::Keep | Action::Stop => Some(Correction::ReportMissing(order.clone())),
    }
}

fn correct_known(order: &Order, known: KnownSlot) -> Option<Correction> {
    if order.generation < known.generation {
        return None;
    }
    let is_later = order.generation > known.generation;
    let can_start = is_later && order.launch.is_some();
    let later_generation = is_later.then(|| Correction::SetGeneration(order.clone()));
    match (known.phase, order.action) {
        (Phase::Starting | Phase::Running, Action::Stop) => Some(Correction::Stop(order.clone())),
        (Phase::Starting | Phase::Running, Action::Start | Action::Keep) => later_generation,
        (Phase::Ended(_), Action::Start) => can_start.then(|| Correction::Start(order.clone())),
        // The slot starts again after its end, never beside its remains.
        (_, Action::Start) => None,
        (_, Action::Keep | Action::Stop) => later_generation,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use proptest::prelude::*;

    use super::*;
    use crate::state_dir::EndState;
    use crate::state_dir::tests::launch;

    const ENDED: Phase = Phase::Ended(EndState::Gone);

    fn order(slot: &str, generation: u64, action: Action) -> Order {
        Order {
            slot: slot.to_owned(),
            generation,
            model: "m".to_owned(),
            action,
            launch: Some(launch()),
        }
    }

    fn known(slots: &[(&str, u64, Phase)]) -> BTreeMap<String, KnownSlot> {
        slots
            .iter()
            .map(|(slot, generation, phase)| {
                (slot.to_string(), KnownSlot { generation: *generation, phase: *phase })
            })
            .collect()
    }

    fn all_phases() -> [Phase; 7] {
        [
            Phase::Starting,
            Phase::Running,
            Phase::Stopping,
            Phase::AwaitingRelease { since: Instant::now() },
            Phase::Released,
            Phase::Ended(EndState::Failed),
            ENDED,
        ]
    }

    /// Name of the correction for a slot whose known generation is 5.
    fn correction(generation: u64, action: Action, phase: Option<Phase>) -> &'static str {
        let known = phase.map(|phase| known(&[("s", 5, phase)])).unwrap_or_default();
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
    fn each_order_has_one_correction_in_each_phase() {
        use Action::{Keep, Start, Stop};
        for phase in all_phases() {
            let rows = match phase {
                Phase::Starting | Phase::Running => [
                    (5, Start, "none"),
                    (6, Start, "set generation"),
                    (5, Keep, "none"),
                    (6, Keep, "set generation"),
                    (5, Stop, "stop"),
                    (6, Stop, "stop"),
                ],
                Phase::Ended(_) => [
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
                let actual = correction(generation, action, Some(phase));
                assert_eq!(actual, expected, "{action:?} {generation}, {phase:?}");
            }
            for action in [Start, Keep, Stop] {
                assert_eq!(correction(4, action, Some(phase)), "none", "{action:?} 4, {phase:?}");
            }
        }
    }

    #[test]
    fn a_slot_is_not_started_without_its_launch() {
        let without_launch = |action| Order { launch: None, ..order("s", 5, action) };
        let unknown = BTreeMap::new();
        assert_eq!(reconcile(&[without_launch(Action::Start)], &unknown), []);
        let ended = known(&[("s", 4, ENDED)]);
        assert_eq!(reconcile(&[without_launch(Action::Start)], &ended), []);
        let keep = without_launch(Action::Keep);
        let expected = [Correction::ReportMissing(keep.clone())];
        assert_eq!(reconcile(&[keep], &unknown), expected, "reporting needs no launch");
    }

    #[test]
    fn a_slot_without_an_order_is_forgotten_only_after_its_end() {
        for phase in all_phases() {
            let expected = match phase.is_ended() {
                true => vec![Correction::Forget("s".to_owned())],
                false => vec![],
            };
            assert_eq!(reconcile(&[], &known(&[("s", 1, phase)])), expected, "{phase:?}");
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
        let phase = prop::sample::select(all_phases().to_vec());
        let slot = (0..4u64, phase).prop_map(|(generation, phase)| KnownSlot { generation, phase });
        prop::collection::btree_map("[a-d]", slot, 0..4)
    }

    fn apply(known: &mut BTreeMap<String, KnownSlot>, correction: &Correction) {
        let (order, phase) = match correction {
            Correction::Start(order) => (order, Phase::Starting),
            Correction::Stop(order) => (order, Phase::Stopping),
            Correction::ReportMissing(order) => (order, ENDED),
            Correction::SetGeneration(order) => (order, known[&order.slot].phase),
            Correction::Forget(slot) => {
                known.remove(slot);
                return;
            }
        };
        let generation = order.generation;
        known.insert(order.slot.clone(), KnownSlot { generation, phase });
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
                            slot.phase.is_ended() && slot.generation < order.generation
                        });
                        prop_assert!(can_start);
                    }
                    Correction::SetGeneration(order) => {
                        prop_assert!(known[&order.slot].generation < order.generation);
                    }
                    Correction::Stop(order) => {
                        prop_assert!(known[&order.slot].phase.is_live());
                        prop_assert!(known[&order.slot].generation <= order.generation);
                    }
                    Correction::ReportMissing(order) => {
                        prop_assert!(!known.contains_key(&order.slot));
                    }
                    Correction::Forget(slot) => prop_assert!(known[&slot].phase.is_ended()),
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
}
