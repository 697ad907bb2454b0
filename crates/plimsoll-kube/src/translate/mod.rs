//! Translates Kubernetes objects into nodes, requests and holdings of the core, one at a time.
//!
//! [`node`], [`request`] and [`holding`] translate one object each, against an [`Index`] of all
//! others. Reading a dump is a loop over them: [`cluster`].

mod dra;
mod dump;
mod gang;
mod holding;
mod index;
mod misuse;
mod node;
mod pod;
mod priority;
mod rules;
mod state;
mod workload;

#[cfg(test)]
mod tests;

use crate::finding::Finding;

pub use dra::claim_holding;
pub use dump::cluster;
pub(crate) use gang::is_grouped;
pub use holding::holding;
pub(crate) use holding::{concerns_devices, may_claim_devices, on_chosen_cards};
pub use index::{Affected, Change, Index};
pub use node::node;
pub(crate) use pod::id as pod_id;
pub use pod::{PodRequest, request};
pub use state::PodState;
pub use workload::Expansion;

/// A translated value, and the problems of the object it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation<T> {
    pub value: T,
    pub findings: Vec<Finding>,
}
