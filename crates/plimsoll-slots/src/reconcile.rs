//! The rule by which a runner turns orders into actions. It is pure, and shared by the real agent
//! and the simulated one, so that simulations exercise the rule that runs in production.

use std::collections::BTreeMap;

use crate::wire::{Action, Order, SlotState};

/// What a runner knows of a slot when orders arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSlot {
    pub generation: u64,
    pub state: SlotState,
}

/// One action of a runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Start it: nothing of it is here.
    Start(Order),
    /// Report what is here under this generation from now on.
    Adopt(Order),
    /// Stop it, under this generation.
    Stop(Order),
    /// Report it as gone: the server expects it, and nothing of it is here.
    Missing(Order),
    /// Drop the report of a slot that is over and that the server asks for no more.
    Forget(String),
}

/// Compares orders with the slots of a runner.
///
/// The result is idempotent: after performing it, the same orders call for nothing more, so that
/// repeated and overlapping orders are harmless. A slot that lives and that no order mentions is
/// left alone: the server learns of it from the report, and decides.
pub fn reconcile(orders: &[Order], known: &BTreeMap<String, KnownSlot>) -> Vec<Act> {
    let mut newest: BTreeMap<&str, &Order> = BTreeMap::new();
    for order in orders {
        let kept = newest.entry(&order.slot).or_insert(order);
        if order.generation > kept.generation {
            *kept = order;
        }
    }
    let is_forgotten = |(slot, known): &(&String, &KnownSlot)| {
        known.state.is_over() && !newest.contains_key(slot.as_str())
    };
    let forgotten = known.iter().filter(is_forgotten).map(|(slot, _)| Act::Forget(slot.clone()));
    let acts = newest.values().filter_map(|order| act(order, known.get(&order.slot)));
    forgotten.chain(acts).collect()
}

/// Returns the action for one order; `known` is what the runner has under its slot's name.
fn act(order: &Order, known: Option<&KnownSlot>) -> Option<Act> {
    // The launch record is left out for a slot that was reported. One that is reported no more gets
    // it again with the next orders.
    let can_start = order.launch.is_some();
    let Some(known) = known else {
        return match order.action {
            Action::Start => can_start.then(|| Act::Start(order.clone())),
            Action::Keep | Action::Stop => Some(Act::Missing(order.clone())),
        };
    };
    // The order is older than what the runner has: it was overtaken.
    if order.generation < known.generation {
        return None;
    }
    let is_newer = order.generation > known.generation;
    let adopted = is_newer.then(|| Act::Adopt(order.clone()));
    match (known.state, order.action) {
        (SlotState::Starting | SlotState::Running, Action::Stop) => Some(Act::Stop(order.clone())),
        (SlotState::Starting | SlotState::Running, Action::Start | Action::Keep) => adopted,
        // A slot that is stopping cannot be kept. It is started again once its memory is back,
        // never beside its remains.
        (SlotState::Stopping, Action::Start) => None,
        (SlotState::Failed | SlotState::Gone, Action::Start) => {
            (is_newer && can_start).then(|| Act::Start(order.clone()))
        }
        (
            SlotState::Stopping | SlotState::Failed | SlotState::Gone,
            Action::Keep | Action::Stop,
        ) => adopted,
    }
}

#[cfg(test)]
mod tests;
