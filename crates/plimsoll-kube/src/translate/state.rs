//! The states of a pod that the ledger distinguishes.

use crate::kai;
use crate::object::Pod;

/// The state of a pod, as far as the ledger is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// It has ended, or was deleted before it got a node.
    Finished,
    /// A reservation pod of KAI: it holds nothing itself, and names the GPU of a group of shares.
    Reservation,
    /// It has a node, and holds its resources there.
    Bound,
    /// It has no node, and scheduling gates hold it back.
    Gated,
    /// It has no node, and is to be placed.
    Pending,
}

impl PodState {
    /// Determines the state of a pod.
    pub fn from_pod(pod: &Pod) -> PodState {
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
