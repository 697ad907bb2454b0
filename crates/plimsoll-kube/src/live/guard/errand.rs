//! Errands: requests to the API server that the guard needs, and their answers.

use plimsoll_core::front::Core;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Millis;

use super::super::{Observation, Watch};
use super::Guard;
use crate::object::Pod;
use crate::translate::{PodState, may_claim_devices, pod_id};

/// The annotation whose change gives a pod a later version.
pub const TOUCHED: &str = "plimsoll.dev/touched";

/// The time before an errand without an answer is repeated.
const AGAIN_AFTER: Millis = Millis(1_000);

/// A request to the API server. Each must be answered by [`Watch::errand_done`], in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Lists all kinds again, from the API server's store and not from a cache.
    List { term: u64 },
    /// Sets the annotation [`TOUCHED`] of a pod, with its uid and this version as preconditions.
    Touch { pod: RequestId, version: String, mark: String },
    /// Reads a pod from the API server's store.
    Read { pod: RequestId },
}

/// The answer to an errand.
#[derive(Clone, Debug)]
pub enum ErrandOutcome {
    /// A list, complete.
    Listed(Vec<Observation>),
    /// The pod as it was read, or as it is after it was written.
    Object(Box<Pod>),
    /// The pod has another version (409).
    Conflict,
    /// There is no pod of this name, or it has another uid.
    Gone,
    /// There was no answer, or another error: it may have been done or not.
    Unknown,
}

/// The state of a pod by the answer to an errand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Bound,
    Unbound(Version),
    Conflict,
    Gone,
    Unknown,
}

/// A version of a pod: as text, which the API server compares, and as a number, which orders it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) text: String,
    pub(super) revision: u64,
}

impl Version {
    /// Returns the version of a pod; `None` if it has none, or none that can be ordered.
    pub(super) fn of_pod(pod: &Pod) -> Option<Version> {
        let revision = pod.metadata.revision()?;
        Some(Version { text: pod.metadata.resource_version.clone()?, revision })
    }
}

/// Returns true for a pod that a binding could still give devices.
pub(super) fn is_touchable(pod: &Pod) -> bool {
    let is_unbound = matches!(PodState::from_pod(pod), PodState::Pending | PodState::Gated);
    is_unbound && may_claim_devices(pod)
}

impl Guard {
    pub(super) fn touch(&mut self, id: &RequestId, version: Version) {
        let Some(term) = self.progress.term() else { return };
        self.touches += 1;
        let mark = format!("{}.{}", term.number, self.touches);
        self.errands.push(Errand::Touch { pod: id.clone(), version: version.text, mark });
    }

    pub(super) fn read(&mut self, id: &RequestId) {
        self.errands.push(Errand::Read { pod: id.clone() });
    }

    pub(super) fn read_later(&mut self, now: Millis, id: &RequestId) {
        self.again_later(now, Errand::Read { pod: id.clone() });
    }

    fn again_later(&mut self, now: Millis, errand: Errand) {
        self.later.push((Millis(now.0.saturating_add(AGAIN_AFTER.0)), errand));
    }

    /// Repeats the errands that are due.
    pub(super) fn repeat_errands(&mut self, now: Millis) {
        let due = self.later.extract_if(.., |(at, _)| *at <= now);
        let due: Vec<Errand> = due.map(|(_, errand)| errand).collect();
        self.errands.extend(due);
    }
}

impl Watch {
    /// Takes what is to be done at the API server. Call it after every other call.
    pub fn take_errands(&mut self) -> Vec<Errand> {
        std::mem::take(&mut self.guard.errands)
    }

    /// Follows the answer to an errand.
    pub fn errand_done(&mut self, core: &mut Core<'_>, errand: Errand, outcome: ErrandOutcome) {
        match errand {
            Errand::List { term } => self.on_list(core, term, outcome),
            Errand::Touch { pod, .. } | Errand::Read { pod } => self.on_pod(core, &pod, outcome),
        }
    }

    fn on_list(&mut self, core: &mut Core<'_>, term: u64, outcome: ErrandOutcome) {
        if let ErrandOutcome::Listed(observations) = outcome {
            self.observe(core, observations);
            self.on_listed(core, term);
        } else if self.guard.progress.term().is_some_and(|own| own.number == term) {
            self.guard.again_later(core.now(), Errand::List { term });
        }
    }

    fn on_pod(&mut self, core: &mut Core<'_>, id: &RequestId, outcome: ErrandOutcome) {
        let seen = match outcome {
            ErrandOutcome::Object(pod) if pod_id(&pod) == *id => self.see_object(core, pod),
            ErrandOutcome::Object(_) | ErrandOutcome::Gone => Seen::Gone,
            ErrandOutcome::Conflict => Seen::Conflict,
            ErrandOutcome::Unknown | ErrandOutcome::Listed(_) => Seen::Unknown,
        };
        if self.must_fence(id) {
            self.on_fencing(core.now(), id, &seen);
        } else {
            self.on_settling(core.now(), id, seen);
        }
    }

    fn see_object(&mut self, core: &mut Core<'_>, pod: Box<Pod>) -> Seen {
        let seen = match Version::of_pod(&pod) {
            _ if pod.node_name().is_some() => Seen::Bound,
            Some(version) => Seen::Unbound(version),
            None => Seen::Unknown,
        };
        self.observe(core, vec![Observation::Applied(crate::read::Object::Pod(pod))]);
        seen
    }
}
