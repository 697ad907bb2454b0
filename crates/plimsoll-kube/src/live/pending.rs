//! Pods that no scheduler has placed yet, and the opinion about each.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use plimsoll_core::event::Event;
use plimsoll_core::front::Core;
use plimsoll_core::rejection::DecisionSummary;
use plimsoll_core::request::{Request, RequestId};
use plimsoll_core::units::Name;

use super::{FindingKey, Topic, Watch};
use crate::object::Pod;
use crate::translate::{PodRequest, Translation};

/// The most pods that are judged in one go, and the most nodes: a decision about a large fleet
/// takes milliseconds, and changes must not wait for many of them.
const AT_ONCE: usize = 32;
const NODES_AT_ONCE: usize = 50_000;

/// The most requests whose opinions are remembered.
const DISTINCT: usize = 256;

/// A pod that no scheduler has placed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPod {
    pub request: Request,
    /// Features that the pod uses and that are not considered.
    pub not_considered: Vec<Name>,
    /// The time of creation as written.
    pub created: Option<String>,
    /// The scheduler that is to place it.
    pub scheduler: Option<String>,
    /// The last report of that scheduler about it.
    pub reported: Option<String>,
    /// The opinion; `None` until the pod was judged.
    pub opinion: Option<DecisionSummary>,
}

impl PendingPod {
    /// Returns the place in the order of pending pods: by priority, then by creation.
    pub(super) fn turn(&self) -> (Reverse<i32>, Option<&str>, &RequestId) {
        let priority = Reverse(self.request.terms.priority);
        (priority, self.created.as_deref(), &self.request.id)
    }
}

/// The progress of judging.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// The pods that are new or have changed.
    new: BTreeSet<RequestId>,
    /// The pods that are to be judged again, because the ledger has changed.
    again: BTreeSet<RequestId>,
    /// The revision of the ledger at which all pods were to be judged again.
    revision: Option<u64>,
    /// Opinions at one revision of the ledger. The pods of a workload differ in nothing else.
    known: Vec<(Request, DecisionSummary)>,
    known_at: Option<u64>,
}

impl Judged {
    /// Forgets a pod that is not pending any more.
    fn remove(&mut self, id: &RequestId) {
        self.new.remove(id);
        self.again.remove(id);
    }

    /// Returns the opinion about a request.
    fn opinion(&mut self, core: &mut Core<'_>, request: &Request) -> DecisionSummary {
        let revision = Some(core.ledger().revision());
        if self.known_at != revision {
            self.known.clear();
            self.known_at = revision;
        }
        let is_alike = |known: &Request| {
            let one = |request: &Request| (request.id.account.clone(), request.terms.clone());
            known.spec == request.spec && one(known) == one(request)
        };
        if let Some((_, opinion)) = self.known.iter().find(|(known, _)| is_alike(known)) {
            return opinion.clone();
        }
        let opinion = core.what_if(request).summary();
        if self.known.len() == DISTINCT {
            self.known.clear();
        }
        self.known.push((request.clone(), opinion.clone()));
        opinion
    }
}

impl Watch {
    /// Adds a pod that is to be placed by a scheduler, or changes it.
    pub(super) fn wait(&mut self, pod: Pod, translated: Translation<PodRequest>) {
        let Translation { value, findings } = translated;
        let id = value.request.id.clone();
        self.gated.remove(&id);
        self.find(FindingKey::Pod(id.clone()), findings);
        let scheduled = pod.status.conditions.into_iter().find(|one| one.kind == "PodScheduled");
        let before = self.pending.get(&id);
        let is_same = before.is_some_and(|before| before.request == value.request);
        let opinion = before.filter(|_| is_same).and_then(|before| before.opinion.clone());
        if !is_same {
            self.judged.new.insert(id.clone());
        }
        let waiting = PendingPod {
            request: value.request,
            not_considered: value.not_considered,
            created: pod.metadata.creation_timestamp,
            scheduler: pod.spec.scheduler_name,
            reported: scheduled.and_then(|one| one.message).filter(|text| !text.is_empty()),
            opinion,
        };
        self.pending.insert(id, waiting);
    }

    pub(super) fn forget_waiting(&mut self, id: &RequestId) {
        self.pending.remove(id);
        self.guard.forget_rejection(id);
        self.gated.remove(id);
        self.judged.remove(id);
    }

    /// Judges pods that are new or have changed.
    pub(super) fn judge_new(&mut self, core: &mut Core<'_>) {
        for _ in 0..at_once(core) {
            let Some(id) = self.judged.new.pop_first() else { break };
            self.judge(core, id);
        }
    }

    /// Judges pods again whose answer can have changed with the ledger, a part of them at a time.
    pub(super) fn judge_again(&mut self, core: &mut Core<'_>) {
        let revision = core.ledger().revision();
        if self.judged.again.is_empty() && self.judged.revision != Some(revision) {
            self.judged.again = self.pending.keys().cloned().collect();
            self.judged.revision = Some(revision);
        }
        for _ in 0..at_once(core) {
            let Some(id) = self.judged.again.pop_first() else { break };
            self.judge(core, id);
        }
    }

    /// Judges a pod. An answer that is the same as before is no record.
    fn judge(&mut self, core: &mut Core<'_>, id: RequestId) {
        let Some(pod) = self.pending.get_mut(&id) else { return };
        // A binding was admitted for it; the opinion that led there stays.
        if core.ledger().of_request(&id).is_some() {
            return;
        }
        let opinion = self.judged.opinion(core, &pod.request);
        if pod.opinion.as_ref() != Some(&opinion) {
            pod.opinion = Some(opinion);
            core.step(Event::Judge { request: pod.request.clone() });
            self.topics.insert(Topic::Pod(id));
        }
    }
}

fn at_once(core: &Core<'_>) -> usize {
    (NODES_AT_ONCE / core.ledger().node_count().max(1)).clamp(1, AT_ONCE)
}
