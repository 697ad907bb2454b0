//! Admitted bindings whose pods show no node yet.

use std::collections::BTreeMap;

use plimsoll_core::event::Event;
use plimsoll_core::front::Core;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Name};

use super::super::Watch;
use super::Guard;
use super::errand::{Seen, Version};
use super::leadership::Progress;
use crate::object::Pod;
use crate::translate::pod_id;

/// The time after which an admitted binding that was not seen is settled. The binding was written
/// or failed long before; its event is lost, late, or will never come.
pub const SETTLE_AFTER: Millis = Millis(10_000);

/// An admitted binding whose pod shows no node yet. Its charge stays until there is evidence.
#[derive(Clone, Debug)]
pub(super) struct OpenBinding {
    pub(super) node: Name,
    /// The generation of its charge.
    pub(super) generation: u64,
    /// The latest version of the pod that an answer named. A binding can land while the pod has it.
    pub(super) fence: u64,
    /// Written on the pod with its node; the same in every answer.
    pub(super) annotations: BTreeMap<String, String>,
    /// The time to settle it; `None` while an errand does that.
    pub(super) settle_at: Option<Millis>,
}

impl Guard {
    /// Compares a pod that was seen with the answers that were given about it.
    pub(in crate::live) fn see(&mut self, id: &RequestId, pod: &Pod) {
        let Some(open) = self.open.get(id) else { return };
        let is_bound = pod.node_name().is_some();
        let seen = pod.metadata.revision();
        let is_later = seen.is_some_and(|seen| seen > open.fence); // mutant: fence
        if is_bound {
            self.open.remove(id);
        } else if is_later {
            self.refuted.extend(self.open.remove(id).map(|open| (id.clone(), open.generation)));
        }
    }

    /// Returns the node on which a pod is charged without being seen there.
    pub(in crate::live) fn open_on(&self, id: &RequestId) -> Option<&Name> {
        self.open.get(id).map(|open| &open.node)
    }

    /// Ends the watch over an open binding, whose charge something else keeps now.
    pub(in crate::live) fn close(&mut self, id: &RequestId) {
        self.open.remove(id);
    }

    /// Settles an open binding at the next tick.
    pub(super) fn settle_soon(&mut self, now: Millis, id: &RequestId) {
        if let Some(at) = self.open.get_mut(id).and_then(|open| open.settle_at.as_mut()) {
            *at = (*at).min(now);
        }
    }
}

impl Watch {
    /// Releases the charges of bindings that can no longer land.
    pub(in crate::live) fn release_refuted(&mut self, core: &mut Core<'_>) {
        for (request, generation) in std::mem::take(&mut self.guard.refuted) {
            core.step(Event::Failed { request, generation });
        }
    }

    /// Touches the pods whose bindings should have been seen by now.
    pub(super) fn settle_open(&mut self, now: Millis) {
        if !matches!(self.guard.progress, Progress::Leading(_)) {
            return;
        }
        let is_due = |open: &OpenBinding| open.settle_at.is_some_and(|at| at <= now);
        let due = self.guard.open.iter().filter(|(_, open)| is_due(open));
        let due: Vec<RequestId> = due.map(|(id, _)| id.clone()).collect();
        for id in due {
            let pod = self.index.applied_pod(&id.account, &id.name);
            let version = pod.filter(|pod| pod_id(pod) == id).and_then(Version::of_pod);
            let Some(version) = version else { continue };
            if let Some(open) = self.guard.open.get_mut(&id) {
                open.settle_at = None;
                self.guard.touch(&id, version); // mutant: touch-to-settle
            }
        }
    }

    /// Follows the answer to an errand about an open binding. The object itself was observed.
    pub(super) fn on_settling(&mut self, now: Millis, id: &RequestId, seen: Seen) {
        let Some(open) = self.guard.open.get_mut(id) else { return };
        match seen {
            Seen::Conflict => self.guard.read(id),
            Seen::Unbound(version) => self.guard.touch(id, version),
            // The watch says how the pod ended. Until then its charge stays.
            Seen::Bound | Seen::Gone | Seen::Unknown => {
                open.settle_at = Some(Millis(now.0.saturating_add(SETTLE_AFTER.0)));
            }
        }
    }
}
