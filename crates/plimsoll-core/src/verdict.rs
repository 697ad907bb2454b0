//! What a decision saw: for every node, need and device, whether it fits and why not. Shared rows, never copies.

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

/// A node as it was looked at, and what was found there for one shape of a request.
#[derive(Clone, Copy, Debug)]
pub struct NodeVerdict<'a> {
    /// The node and its account as they were: the very rows that were judged, or rows that read alike.
    pub view: &'a NodeView,
    /// What was found there.
    pub finding: &'a Finding,
}

impl Deref for NodeVerdict<'_> {
    type Target = Finding;

    fn deref(&self) -> &Finding {
        self.finding
    }
}

/// What was found on one node, for one shape of a request.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The node's name.
    pub node: Name,
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

impl Finding {
    /// Whether the request fits there.
    pub fn fits(&self) -> bool {
        self.best.is_some()
    }

    /// A number for all this, made once: a finding that stands in many tables is not read again for each.
    fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| self.read_digest())
    }

    fn read_digest(&self) -> u64 {
        let mut hasher = Mixer::default();
        (&self.node, &self.reason).hash(&mut hasher);
        for need in &self.needs {
            (need.container, need.wanted, need.passed).hash(&mut hasher);
            for device in &need.devices {
                (device.ordinal, device.need, &device.reason).hash(&mut hasher);
            }
        }
        if let Some(best) = &self.best {
            (&best.place.picks, best.score.total()).hash(&mut hasher);
        }
        hasher.finish()
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

/// What was found on each node for one shape of a request. A clone costs one count.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    rows: ByNode<Arc<Finding>>,
    /// The sum of the findings' digests, once somebody asked for it; kept up to date from then on. Shared by clones that are the
    /// same, so that whoever asks first asks for all.
    digest: Arc<OnceLock<u64>>,
}

impl Findings {
    /// What was found on a node.
    pub(crate) fn get(&self, id: NodeId) -> Option<&Finding> {
        self.rows.get(id).map(|finding| &**finding)
    }

    /// Replaces what was found on a node.
    pub(crate) fn set(&mut self, id: NodeId, finding: Option<Finding>) {
        let known = self.take_digest();
        let digest = |finding: Option<&Arc<Finding>>| finding.map_or(0, |finding| finding.digest());
        let finding = finding.map(Arc::new);
        let new = known.map(|sum| sum.wrapping_add(digest(finding.as_ref())));
        let old = self.rows.set(id, finding);
        if let Some(sum) = new {
            self.digest.get_or_init(|| sum.wrapping_sub(digest(old.as_ref())));
        }
    }

    /// Parts from the clones that are not going to change, with the digest so far.
    fn take_digest(&mut self) -> Option<u64> {
        if let Some(own) = Arc::get_mut(&mut self.digest) {
            return own.take();
        }
        std::mem::take(&mut self.digest).get().copied()
    }

    /// A number for all findings, in no order.
    pub(crate) fn digest(&self) -> u64 {
        let sum = || {
            self.rows.iter().fold(0, |sum: u64, (_, finding)| sum.wrapping_add(finding.digest()))
        };
        *self.digest.get_or_init(sum)
    }
}

/// What was found for one shape of a request, node by node, with the rows that were looked at.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    pub(crate) views: &'a Views,
    pub(crate) findings: &'a Findings,
}

impl<'a> Table<'a> {
    /// All verdicts, in no order that an answer may depend on.
    pub fn unordered(self) -> impl Iterator<Item = NodeVerdict<'a>> {
        let verdict = move |(id, finding): (NodeId, &'a Arc<Finding>)| {
            let view = self.views.get(id).expect("what was judged was looked at");
            NodeVerdict { view, finding }
        };
        self.findings.rows.iter().map(verdict)
    }

    /// All verdicts, by the nodes' names.
    pub fn by_name(self) -> Vec<NodeVerdict<'a>> {
        let mut verdicts: Vec<NodeVerdict<'a>> = self.unordered().collect();
        verdicts.sort_by(|a, b| a.node.cmp(&b.node));
        verdicts
    }
}
