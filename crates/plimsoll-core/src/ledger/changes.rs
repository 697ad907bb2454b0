//! Which nodes changed lately.

use std::collections::VecDeque;

use super::NodeId;

/// The nodes that changed, in order, so that whoever follows looks only at those.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    first: u64,
    log: VecDeque<Changed>,
}

/// A node changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changed {
    pub(super) node: NodeId,
    /// Whether whoever judges it may find something else from here on: that a start was confirmed changes nothing for a judge.
    pub(super) reads_anew: bool,
}

/// How many changes are remembered; a memo that is further behind starts anew.
const CHANGES_KEPT: usize = 1 << 16;

impl Changes {
    /// One more node changed.
    pub(super) fn push(&mut self, changed: Changed) {
        if self.log.len() == CHANGES_KEPT {
            self.log.pop_front();
            self.first += 1;
        }
        self.log.push_back(changed);
    }

    /// The point now.
    pub(super) fn end(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// What changed since a point; `None` when that is too long ago to remember.
    pub(super) fn since(&self, point: u64) -> Option<impl Iterator<Item = Changed> + '_> {
        let skip = usize::try_from(point.checked_sub(self.first)?).ok()?;
        Some(self.log.iter().skip(skip).copied())
    }
}
