//! The views of all nodes: the rows that are judged and that decisions keep.

use super::{ByNode, NodeId};
use crate::room::NodeView;

/// The views of all nodes. A clone is one reference count, so that a decision keeps everything it
/// read, and its explanation shows the numbers that it was made from.
#[derive(Clone, Debug, Default)]
pub struct Views {
    rows: ByNode<NodeView>,
    /// The wrapping sum of the rows' digests. A sum does not depend on order, so that a changed row
    /// costs one subtraction and one addition instead of hashing the fleet for every decision.
    digest: u64,
}

impl Views {
    /// Returns the view of a node; `None` after it was removed.
    pub fn get(&self, id: NodeId) -> Option<&NodeView> {
        self.rows.get(id)
    }

    /// Returns the digest of all rows.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// Replaces the view of a node; `None` removes it.
    pub(crate) fn set(&mut self, id: NodeId, view: Option<NodeView>) {
        let new = view.as_ref().map_or(0, NodeView::digest);
        let old = self.rows.set(id, view).map_or(0, |old| old.digest());
        self.digest = self.digest.wrapping_sub(old).wrapping_add(new);
    }

    /// Changes the usage of an existing node and returns true if a verdict may change.
    pub(super) fn change(&mut self, id: NodeId, change: impl FnOnce(&mut NodeView)) -> bool {
        let view = self.rows.get_mut(id).expect("every named node has a row");
        let old = view.digest();
        let affects_fit = view.change(change);
        self.digest = self.digest.wrapping_sub(old).wrapping_add(view.digest());
        affects_fit
    }
}
