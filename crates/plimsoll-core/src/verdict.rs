//! Verdicts: for every node, need and device, whether it fits and why not. The data of
//! explanations.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::fit::Placement;
use crate::ledger::{ByNode, NodeId, Views};
use crate::mixer::Mixer;
use crate::reason::{NodeReason, Reason};
use crate::room::NodeView;
use crate::score::Score;
use crate::units::{Bytes, Name};

/// The view of a node and the finding made on it, for one shape of a request.
#[derive(Clone, Copy, Debug)]
pub struct NodeVerdict<'a> {
    /// The view that was judged, or one with equal fit inputs (`memo` reuses findings).
    pub view: &'a NodeView,
    pub finding: &'a Finding,
}

impl Deref for NodeVerdict<'_> {
    type Target = Finding;

    fn deref(&self) -> &Finding {
        self.finding
    }
}

/// The result of judging one node for one shape of a request.
#[derive(Clone, Debug)]
pub struct Finding {
    pub node: Name,
    /// The reason why the node itself does not fit.
    pub reason: Option<NodeReason>,
    /// The needs of all containers in order.
    pub needs: Vec<NeedVerdict>,
    pub best: Option<Candidate>,
    /// Computed on first use.
    pub(crate) digest: OnceLock<u64>,
}

/// A placement that fits, with its score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub placement: Placement,
    pub score: Score,
}

impl Finding {
    /// Returns true if the request fits on this node.
    pub fn fits(&self) -> bool {
        self.best.is_some()
    }

    /// Returns the digest of the finding. Many decisions share a finding; only the first computes
    /// it.
    fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| self.compute_digest())
    }

    fn compute_digest(&self) -> u64 {
        let mut hasher = Mixer::default();
        (&self.node, &self.reason).hash(&mut hasher);
        for need in &self.needs {
            (need.container, need.wanted, need.passed).hash(&mut hasher);
            for device in &need.devices {
                (device.ordinal, device.need, &device.reason).hash(&mut hasher);
            }
        }
        if let Some(best) = &self.best {
            (&best.placement.picks, best.score.total()).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// The result of judging one need of one container on one node.
#[derive(Clone, Debug)]
pub struct NeedVerdict {
    /// The index of the container in its shape.
    pub container: u16,
    /// The number of different devices that the need wants.
    pub wanted: u16,
    /// All devices of the need's kind.
    pub devices: Box<[DeviceVerdict]>,
    /// Enough devices fit, beside the devices that earlier containers got.
    pub passed: bool,
}

/// The result of judging one need on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceVerdict {
    pub ordinal: u16,
    /// The peak of the request on this device, this need included; `None` if it is not known.
    pub need: Option<Bytes>,
    /// `None` if it fits.
    pub reason: Option<Reason>,
}

/// The findings on all nodes for one shape of a request. A clone is one reference count.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    rows: ByNode<Arc<Finding>>,
    /// The wrapping sum of the findings' digests: computed on first use, then updated by `set` with
    /// the difference of one finding. Clones with equal findings share the cell, so that the first
    /// reader computes it for all of them; `take_digest` separates a clone that is about to change.
    digest: Arc<OnceLock<u64>>,
}

impl Findings {
    /// Returns the finding on a node.
    pub(crate) fn get(&self, id: NodeId) -> Option<&Finding> {
        self.rows.get(id).map(|finding| &**finding)
    }

    /// Replaces the finding on a node; `None` removes it.
    pub(crate) fn set(&mut self, id: NodeId, finding: Option<Finding>) {
        let finding = finding.map(Arc::new);
        match self.take_digest() {
            Some(sum) => {
                let new = finding.as_ref().map_or(0, |finding| finding.digest());
                let old = self.rows.set(id, finding).map_or(0, |finding| finding.digest());
                self.digest.get_or_init(|| sum.wrapping_add(new).wrapping_sub(old));
            }
            None => {
                self.rows.set(id, finding);
            }
        }
    }

    /// Leaves the cell to the clones that do not change, and returns the digest so far, if
    /// computed.
    fn take_digest(&mut self) -> Option<u64> {
        if let Some(own) = Arc::get_mut(&mut self.digest) {
            return own.take();
        }
        std::mem::take(&mut self.digest).get().copied()
    }

    /// Returns the digest of all findings. It does not depend on their order.
    pub(crate) fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| {
            self.rows.iter().fold(0, |sum: u64, (_, finding)| sum.wrapping_add(finding.digest()))
        })
    }
}

/// The findings for one shape of a request, with the views that were judged.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    pub(crate) views: &'a Views,
    pub(crate) findings: &'a Findings,
}

impl<'a> Table<'a> {
    /// Iterates over all verdicts. No answer may depend on their order.
    pub fn unordered(self) -> impl Iterator<Item = NodeVerdict<'a>> {
        self.findings.rows.iter().map(move |(id, finding)| {
            let view = self.views.get(id).expect("a judged node has a view");
            NodeVerdict { view, finding }
        })
    }

    /// Returns all verdicts by node name.
    pub fn by_name(self) -> Vec<NodeVerdict<'a>> {
        let mut verdicts: Vec<NodeVerdict<'a>> = self.unordered().collect();
        verdicts.sort_by(|a, b| a.node.cmp(&b.node));
        verdicts
    }
}
