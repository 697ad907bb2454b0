//! A node's facts together with its usage.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::{Measured, NodeRoom};
use crate::charge::{Charge, Holding, HoldingId};
use crate::device::Node;
use crate::mixer::Mixer;
use crate::request::NodeNeed;

/// A node's facts and usage: the input of `fit`. Both are shared, so that a decision keeps the rows
/// it read at the cost of a reference count.
#[derive(Clone, Debug)]
pub struct NodeView {
    pub node: Arc<Node>,
    pub room: Arc<NodeRoom>,
}

impl NodeView {
    /// Hashes everything that an explanation shows of the node, except the node's facts.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = Mixer::default();
        (&self.node.name, &self.room.digests, &self.room.resources.held.extended).hash(&mut hasher);
        hasher.finish()
    }

    /// Makes a change and returns true if it changed an input of `fit` or the score.
    ///
    /// Compares a copy of the compact rows taken before the change. A confirmed start, for example,
    /// changes stages but no input, and then no cached verdict has to be recomputed.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut NodeView)) -> bool {
        let before = &self.room;
        let (resources, fit_inputs) = (before.resources.clone(), before.fit_inputs.clone());
        change(self);
        self.room.resources != resources || self.room.fit_inputs != fit_inputs
    }
}

/// Changes of the usage. Only the ledger and its drafts make them. `Arc::make_mut` copies rows that
/// a decision still keeps, so that old decisions never change.
impl NodeView {
    pub(crate) fn add(&mut self, id: HoldingId, holding: &Holding) {
        Arc::make_mut(&mut self.room).add(&self.node, id, holding);
    }

    pub(crate) fn remove(&mut self, id: HoldingId, holding: &Holding) {
        Arc::make_mut(&mut self.room).remove(&self.node, id, holding);
    }

    pub(crate) fn add_promise(&mut self, charges: &[Charge], resources: &NodeNeed) {
        Arc::make_mut(&mut self.room).add_promise(&self.node, charges, resources);
    }

    pub(crate) fn remove_promise(&mut self, charges: &[Charge], resources: &NodeNeed) {
        Arc::make_mut(&mut self.room).remove_promise(&self.node, charges, resources);
    }

    pub(crate) fn measure(&mut self, ordinal: usize, measured: Measured) {
        Arc::make_mut(&mut self.room).measure(&self.node, ordinal, measured);
    }
}
