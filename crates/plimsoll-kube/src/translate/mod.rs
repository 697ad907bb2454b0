//! Translates Kubernetes objects into nodes, requests and holdings of the core, one object at a time.
//!
//! [`node`], [`request`] and [`holding`] translate one object each, against an [`Index`] of what else is known. A dump is a loop
//! over them: [`cluster`].

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

pub use dump::cluster;
pub use holding::holding;
pub use index::{Affected, Change, Index};
pub use node::node;
pub use pod::{PodRequest, request};
pub use state::PodState;
pub use workload::Expansion;

/// A value of the core, and what is wrong with the object that it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation<T> {
    pub value: T,
    pub findings: Vec<Finding>,
}
