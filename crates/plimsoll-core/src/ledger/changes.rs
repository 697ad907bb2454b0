//! Which nodes changed lately.

use std::collections::VecDeque;

use super::NodeId;

/// The nodes that changed, in order, so that whoever keeps a memo re-judges only those.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    first: u64,
    log: VecDeque<NodeId>,
}

/// How many changes are remembered; a memo that is further behind starts anew.
const CHANGES_KEPT: usize = 1 << 16;

impl Changes {
    /// One more node changed.
    pub(super) fn push(&mut self, node: NodeId) {
        if self.log.len() == CHANGES_KEPT {
            self.log.pop_front();
            self.first += 1;
        }
        self.log.push_back(node);
    }

    /// The point now.
    pub(super) fn end(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// The nodes that changed since a point; `None` when that is too long ago to remember.
    pub(super) fn since(&self, point: u64) -> Option<impl Iterator<Item = NodeId> + '_> {
        let skip = usize::try_from(point.checked_sub(self.first)?).ok()?;
        Some(self.log.iter().skip(skip).copied())
    }
}
