//! Every node with its account: the very rows that are judged, and that decisions keep.

use super::{ByNode, NodeId};
use crate::room::NodeView;

/// Every node with its account. A clone costs one count, so that a decision keeps all that it looked at.
#[derive(Clone, Debug, Default)]
pub struct Views {
    rows: ByNode<NodeView>,
    /// The sum of the rows' digests.
    digest: u64,
}

impl Views {
    /// A node with its account; `None` once it is gone.
    pub fn get(&self, id: NodeId) -> Option<&NodeView> {
        self.rows.get(id)
    }

    /// A number for all rows, in no order.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// Replaces a row.
    pub(crate) fn set(&mut self, id: NodeId, view: Option<NodeView>) {
        let digest = |view: &Option<NodeView>| view.as_ref().map_or(0, NodeView::digest);
        let new = digest(&view);
        let old = digest(&self.rows.set(id, view));
        self.digest = self.digest.wrapping_sub(old).wrapping_add(new);
    }

    /// Changes the account of a node that is there, and says whether whoever judges may find something else from here on.
    pub(super) fn change(&mut self, id: NodeId, change: impl FnOnce(&mut NodeView)) -> bool {
        let view = self.rows.get_mut(id).expect("every named node has a row");
        let old = view.digest();
        let reads_anew = view.change(change);
        self.digest = self.digest.wrapping_sub(old).wrapping_add(view.digest());
        reads_anew
    }
}
