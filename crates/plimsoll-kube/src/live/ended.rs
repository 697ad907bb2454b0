//! Pods that this process has seen end.

use std::collections::{BTreeSet, VecDeque};

use plimsoll_core::request::RequestId;

/// The most pods that are remembered. A record of holders is a second behind while a replica keeps
/// it, and older only while none does.
const REMEMBERED: usize = 16_384;

/// The pods that ended last. A record of holders that another replica wrote before may still have
/// them, and they must not count again. A pod that is forgotten here counts as releasing, which
/// delays work and overcommits nothing.
#[derive(Debug, Default)]
pub(super) struct EndedPods {
    known: BTreeSet<RequestId>,
    by_age: VecDeque<RequestId>,
}

impl EndedPods {
    /// Remembers a pod, and forgets the oldest one if they are too many.
    pub(super) fn insert(&mut self, id: RequestId) {
        if !self.known.insert(id.clone()) {
            return;
        }
        self.by_age.push_back(id);
        if self.by_age.len() > REMEMBERED
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(super) fn contains(&self, id: &RequestId) -> bool {
        self.known.contains(id)
    }
}
