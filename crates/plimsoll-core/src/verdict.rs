//! What a decision saw: for every node, need and device, whether it fits and why not. Shared rows, never copies.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::fit::Placement;
use crate::ledger::NodeId;
use crate::mixer::Mixer;
use crate::reason::{NodeReason, Reason};
use crate::room::NodeView;
use crate::score::Score;
use crate::units::Bytes;

/// A node as it was looked at, and what was found there for one shape of a request.
#[derive(Clone, Debug)]
pub struct NodeVerdict {
    /// The node and its account as they were: the very rows that were judged.
    pub view: NodeView,
    /// Shared by looks at accounts on which the same was found: that a start was confirmed changes a row, and nothing for a judge.
    finding: Arc<Finding>,
    /// The digest of all this, once somebody asked for it.
    digest: OnceLock<u64>,
}

/// What was found on one node, for one shape of a request.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Why the node itself will not do.
    pub reason: Option<NodeReason>,
    /// What was found for each need of each container, in order.
    pub needs: Vec<NeedVerdict>,
    /// The best place there, where there is one.
    pub best: Option<Candidate>,
    /// The digest of all this, once somebody asked for it.
    pub(crate) digest: OnceLock<u64>,
}

impl Deref for NodeVerdict {
    type Target = Finding;

    fn deref(&self) -> &Finding {
        &self.finding
    }
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
    /// What was found when this was looked at.
    pub(crate) fn new(view: NodeView, finding: Finding) -> Self {
        NodeVerdict { view, finding: Arc::new(finding), digest: OnceLock::new() }
    }

    /// The same found on rows that differ in nothing that a judge reads.
    pub(crate) fn on(&self, view: &NodeView) -> Self {
        NodeVerdict { view: view.clone(), finding: self.finding.clone(), digest: OnceLock::new() }
    }

    /// Whether the request fits there.
    pub fn fits(&self) -> bool {
        self.best.is_some()
    }

    /// A number for all this, made once: a verdict that stands in many tables is not read again for each.
    fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| {
            let mut hasher = Mixer::default();
            (&self.view.node.name, self.finding.digest()).hash(&mut hasher);
            self.view.room.gauges().iter().for_each(|gauge| gauge.digest.hash(&mut hasher));
            hasher.finish()
        })
    }
}

impl Finding {
    fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| self.read_digest())
    }

    fn read_digest(&self) -> u64 {
        let mut hasher = Mixer::default();
        self.reason.hash(&mut hasher);
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

const CHUNK: usize = 8;

type Chunk = [Option<Arc<NodeVerdict>>; CHUNK];

/// Verdicts by node, in shared chunks: a clone costs one count; the first change after it copies a count for every 8 nodes, and each
/// change those of one chunk.
#[derive(Clone, Debug, Default)]
pub struct Table {
    chunks: Arc<Vec<Arc<Chunk>>>,
    /// The sum of the verdicts' digests, once somebody asked for it; kept up to date from then on. Shared by clones that are the
    /// same, so that whoever asks first asks for all.
    digest: Arc<OnceLock<u64>>,
}

impl Table {
    /// A table with room for nodes of an index below `slots`.
    pub fn with_slots(slots: usize) -> Self {
        let chunks = vec![Arc::<Chunk>::default(); slots.div_ceil(CHUNK)];
        Table { chunks: Arc::new(chunks), digest: Arc::default() }
    }

    /// The verdict on a node.
    pub fn get(&self, id: NodeId) -> Option<&Arc<NodeVerdict>> {
        self.chunks.get(id.index() / CHUNK)?[id.index() % CHUNK].as_ref()
    }

    /// Replaces the verdict on a node.
    pub(crate) fn set(&mut self, id: NodeId, verdict: Option<Arc<NodeVerdict>>) {
        let chunk = id.index() / CHUNK;
        let known = self.take_digest();
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunk >= chunks.len() {
            chunks.resize_with(chunk + 1, Arc::default);
        }
        let row = &mut Arc::make_mut(&mut chunks[chunk])[id.index() % CHUNK];
        let old = std::mem::replace(row, verdict);
        if let Some(sum) = known {
            let digest = |verdict: &Option<Arc<NodeVerdict>>| verdict.as_ref().map_or(0, |v| v.digest());
            let sum = sum.wrapping_sub(digest(&old)).wrapping_add(digest(row));
            self.digest.get_or_init(|| sum);
        }
    }

    /// Parts from the clones that are not going to change, with the digest so far.
    fn take_digest(&mut self) -> Option<u64> {
        if let Some(own) = Arc::get_mut(&mut self.digest) {
            return own.take();
        }
        std::mem::take(&mut self.digest).get().copied()
    }

    /// A number for all verdicts, in no order.
    pub(crate) fn digest(&self) -> u64 {
        let sum = || self.unordered().fold(0, |sum: u64, verdict| sum.wrapping_add(verdict.digest()));
        *self.digest.get_or_init(sum)
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
