//! The log of recently changed nodes.

use std::collections::VecDeque;

use super::NodeId;

/// A bounded log of changed nodes. A reader remembers a position in it and later asks for the nodes
/// that changed since, so that its work follows the changes and not the size of the fleet.
///
/// Positions count all changes ever made and are never reused. The log keeps the last
/// [`CHANGES_KEPT`]; a reader that is further behind gets `None` and looks at every node. Dirty
/// flags per reader were rejected: the ledger would have to know its readers.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// The position of the oldest entry of `log`.
    first: u64,
    log: VecDeque<Changed>,
}

/// A change of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changed {
    pub(super) node: NodeId,
    /// The change may change a verdict. A confirmed start, for example, does not.
    pub(super) affects_fit: bool,
}

/// The number of kept changes: 512 KiB of log, and far more than happen between two requests.
const CHANGES_KEPT: usize = 1 << 16;

impl Changes {
    /// Appends a change.
    pub(super) fn push(&mut self, changed: Changed) {
        if self.log.len() == CHANGES_KEPT {
            self.log.pop_front();
            self.first += 1;
        }
        self.log.push_back(changed);
    }

    /// Returns the position after the newest change.
    pub(super) fn end(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// Iterates over the changes since a position; `None` if some of them are no longer kept.
    pub(super) fn since(&self, position: u64) -> Option<impl Iterator<Item = Changed> + '_> {
        let skip = usize::try_from(position.checked_sub(self.first)?).ok()?;
        Some(self.log.iter().skip(skip).copied())
    }
}
