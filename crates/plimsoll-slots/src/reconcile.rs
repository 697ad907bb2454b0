//! The difference between the orders of the server and the slots of a runner. The real agent and
//! the simulated one share it, so that simulations exercise the rule that runs in production.
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

use crate::wire::{Action, Order, SlotState};

/// The facts about a slot that orders are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSlot {
    pub generation: u64,
    pub state: SlotState,
}

/// One step towards the ordered state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Correction {
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

/// Returns the corrections that lead from the known slots to the orders.
///
/// A live slot that no order mentions is left alone: the server learns about it from the report,
/// charges it and decides.
pub fn reconcile(orders: &[Order], known: &BTreeMap<String, KnownSlot>) -> Vec<Correction> {
    let mut newest: BTreeMap<&str, &Order> = BTreeMap::new();
    for order in orders {
        let entry = newest.entry(&order.slot).or_insert(order);
        if order.generation > entry.generation {
            *entry = order;
        }
    }
    let not_ordered = known.iter().filter(|(slot, _)| !newest.contains_key(slot.as_str()));
    let ended = not_ordered.filter(|(_, known)| known.state.is_over());
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
    match (known.state, order.action) {
        (SlotState::Starting | SlotState::Running, Action::Stop) => {
            Some(Correction::Stop(order.clone()))
        }
        (SlotState::Starting | SlotState::Running, Action::Start | Action::Keep) => {
            later_generation
        }
        (SlotState::Failed | SlotState::Gone, Action::Start) => {
            can_start.then(|| Correction::Start(order.clone()))
        }
        // The slot starts again after its end, never beside its remains.
        (SlotState::Stopping, Action::Start) => None,
        (
            SlotState::Stopping | SlotState::Failed | SlotState::Gone,
            Action::Keep | Action::Stop,
        ) => later_generation,
    }
}

/// Returns whether orders are older than those that a runner has; `asked_with` is the revision that
/// it had when it sent the request that they answer.
///
/// Orders that are older than the ones it asked with were not overtaken: the server itself was
/// restored from an older state, and counts from there.
pub fn is_overtaken(revision: u64, known: u64, asked_with: u64) -> bool {
    revision < known && revision >= asked_with
}

#[cfg(test)]
mod tests;
