//! What a decision saw: for every node, need and device, whether it fits and why not. Shared rows, never copies.

use std::sync::{Arc, OnceLock};

use crate::fit::Placement;
use crate::ledger::NodeId;
use crate::reason::{NodeReason, Reason};
use crate::room::NodeView;
use crate::score::Score;
use crate::units::Bytes;

/// What was found on one node, for one shape of a request.
#[derive(Clone, Debug)]
pub struct NodeVerdict {
    /// The node and its account as they were: the very rows that were judged.
    pub view: NodeView,
    /// Why the node itself will not do.
    pub reason: Option<NodeReason>,
    /// What was found for each need of each container, in order.
    pub needs: Vec<NeedVerdict>,
    /// The best place there, where there is one.
    pub best: Option<Candidate>,
    /// The digest of all this, once somebody asked for it.
    pub(crate) digest: OnceLock<u64>,
}

/// A place that fits, and how good it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The place.
    pub place: Placement,
    /// How good it is.
    pub score: Score,
}

impl NodeVerdict {
    /// Whether the request fits there.
    pub fn fits(&self) -> bool {
        self.best.is_some()
    }
}

/// What was found for one need of one container on one node.
#[derive(Clone, Debug)]
pub struct NeedVerdict {
    /// The container, by its place in the shape.
    pub container: u16,
    /// Different devices wanted.
    pub wanted: u16,
    /// What each device of the need's kind said.
    pub devices: Box<[DeviceVerdict]>,
    /// Whether enough devices were found, beside what earlier containers got.
    pub passed: bool,
}

/// What one device said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceVerdict {
    /// The device.
    pub ordinal: u16,
    /// What the request would hold there at its peak, this need included; `None` where that cannot be said.
    pub need: Option<Bytes>,
    /// Why it will not do; `None` when it fits.
    pub reason: Option<Reason>,
}

const CHUNK: usize = 32;

/// Verdicts by node, in shared chunks: a clone costs one count for every 32 nodes, a change copies one chunk of counts.
#[derive(Clone, Debug, Default)]
pub struct Table {
    chunks: Vec<Arc<Vec<Option<Arc<NodeVerdict>>>>>,
}

impl Table {
    /// A table with room for nodes of an index below `slots`.
    pub fn with_slots(slots: usize) -> Self {
        let chunk = Arc::new(vec![None; CHUNK]);
        Table { chunks: vec![chunk; slots.div_ceil(CHUNK)] }
    }

    /// The verdict on a node.
    pub fn get(&self, id: NodeId) -> Option<&Arc<NodeVerdict>> {
        self.chunks.get(id.index() / CHUNK)?[id.index() % CHUNK].as_ref()
    }

    /// Replaces the verdict on a node.
    pub(crate) fn set(&mut self, id: NodeId, verdict: Option<Arc<NodeVerdict>>) {
        let chunk = id.index() / CHUNK;
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, || Arc::new(vec![None; CHUNK]));
        }
        Arc::make_mut(&mut self.chunks[chunk])[id.index() % CHUNK] = verdict;
    }

    /// All verdicts, in no order that an answer may depend on.
    pub fn unordered(&self) -> impl Iterator<Item = &Arc<NodeVerdict>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().flatten())
    }

    /// All verdicts, by the nodes' names.
    pub fn by_name(&self) -> Vec<&NodeVerdict> {
        let mut verdicts: Vec<&NodeVerdict> = self.unordered().map(|verdict| &**verdict).collect();
        verdicts.sort_by(|a, b| a.view.node.name.cmp(&b.view.node.name));
        verdicts
    }
}
