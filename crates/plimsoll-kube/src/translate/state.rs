//! The states of a pod that the ledger tells apart.

use crate::kai;
use crate::object::Pod;

/// The state of a pod, as far as the ledger is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// It holds nothing any more, or was deleted before it got a node.
    Finished,
    /// A reservation pod of KAI: it holds nothing itself, and says which GPU a group of shares is on.
    Reservation,
    /// It has a node, and holds what it asks for there.
    Bound,
    /// It has no node, and scheduling gates keep it from being placed.
    Gated,
    /// It has no node, and is to be placed.
    Pending,
}

impl PodState {
    /// Determines the state of a pod.
    pub fn of(pod: &Pod) -> PodState {
        if pod.is_finished() {
            PodState::Finished
        } else if kai::reservation(pod).is_some() {
            PodState::Reservation
        } else if pod.node_name().is_some() {
            PodState::Bound
        } else if pod.metadata.is_terminating() {
            PodState::Finished
        } else if !pod.spec.scheduling_gates.is_empty() {
            PodState::Gated
        } else {
            PodState::Pending
        }
    }
}
