//! Pods that are to be released, and those that vanished without evidence.

use std::fmt;

use plimsoll_core::event::Event;
use plimsoll_core::front::Core;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Name};

use super::{Evidence, Watch, evidence, merge};
use crate::object::{Kind, ObjectRef, Pod};
use crate::read::Object;
use crate::translate::{Affected, Change, PodState, may_claim_devices, pod_id};

/// The annotation of a mirror pod, by which the API server shows a static pod of a kubelet. Its
/// value changes with the static pod.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";

/// The grace period of a pod that states none.
const DEFAULT_GRACE: u64 = 30;

/// The time beyond the grace period for which a kubelet must be heard: it removes containers of
/// pods that it does not know within seconds, and reports late.
const SETTLING: u64 = 60;

/// A charge that is to be released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    pub since: Millis,
    pub waits_for: WaitsFor,
}

/// The evidence that a charge waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// Its containers must be seen terminated.
    Containers,
    /// Its phase is final, but nothing says that its containers have terminated.
    FinalPhase,
    /// The object vanished: the node's kubelet must be heard for a time, or the node must boot.
    Kubelet {
        node: Name,
        /// The time for which it was heard since.
        heard: Millis,
        /// The time for which it must be heard.
        of: Millis,
    },
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitsFor::Containers => out.write_str("its containers to terminate"),
            WaitsFor::FinalPhase => {
                out.write_str("a status that says that its containers have terminated")
            }
            WaitsFor::Kubelet { node, heard, of } => write!(
                out,
                "the kubelet of {node} to be heard for {}s (so far {}s), or for the node to boot",
                of.0 / 1000,
                heard.0 / 1000
            ),
        }
    }
}

/// A pod that vanished without evidence.
#[derive(Clone, Debug)]
pub(super) struct Departed {
    pub(super) node: Name,
    pub(super) heard: Millis,
    since: Millis,
    pub(super) of: Millis,
    boot: Option<Name>,
    pub(super) mirror: Option<String>,
    /// The last version in which it was seen, or at which a binding was admitted for it.
    revision: Option<u64>,
}

impl Departed {
    /// Creates the record of a pod that vanished from a node, which must be heard for a time.
    pub(super) fn new(since: Millis, node: Name, boot: Option<Name>, of: Millis) -> Departed {
        Departed { node, heard: Millis(0), since, of, boot, mirror: None, revision: None }
    }

    /// Names the static pod that a mirror pod showed.
    pub(super) fn of_mirror(self, mirror: Option<String>) -> Departed {
        Departed { mirror, ..self }
    }

    fn release(&self) -> Release {
        let (node, heard, of) = (self.node.clone(), self.heard, self.of);
        Release { since: self.since, waits_for: WaitsFor::Kubelet { node, heard, of } }
    }
}

/// Returns the identity under which the index stores a pod that vanished. A new pod may take its
/// name at any time, and no name of an object contains `@`. [`Watch::stored_departed`] leads back.
fn storage_id(id: &RequestId) -> RequestId {
    RequestId { name: format!("{}@{}", id.name, id.uid).into(), ..id.clone() }
}

/// Returns the time for which the kubelet of a pod that vanished must be heard.
pub(super) fn settles_after(pod: Option<&Pod>) -> Millis {
    let grace = pod.and_then(|pod| {
        let grace = pod.metadata.deletion_grace_period_seconds;
        // A forced deletion states no time, but the kubelet may give the pod its own.
        grace.max(pod.spec.termination_grace_period_seconds)
    });
    let grace = grace.and_then(|grace| u64::try_from(grace).ok()).unwrap_or(DEFAULT_GRACE);
    Millis(grace.saturating_add(SETTLING).saturating_mul(1000))
}

impl Watch {
    pub(super) fn apply_pod(&mut self, now: Millis, mut pod: Box<Pod>, affected: &mut Affected) {
        let id = pod_id(&pod);
        if self.is_outdated(&id, &pod) {
            return;
        }
        self.heed_mark(now, &pod);
        self.guard.see(&id, &pod);
        self.guard.see_created(&pod);
        self.drop_departure(&id, affected);
        let metadata = &pod.metadata;
        let known = self.index.pod_named(metadata.namespace_or_default(), &metadata.name);
        if let Some(known) = known.filter(|known| pod_id(known) != id) {
            let reference = ObjectRef::new(Kind::Pod, &known.metadata);
            self.remove_pod(now, &reference, affected);
        }
        self.drop_same_mirror(&pod, affected);
        let waits_for = self.count_as_held(&mut pod);
        merge(affected, self.index.apply(Object::Pod(pod)));
        match waits_for {
            Some(waits_for) => {
                let since = self.releases.get(&id).map_or(now, |known| known.since);
                self.releases.insert(id, Release { since, waits_for });
            }
            None => {
                self.releases.remove(&id);
            }
        }
    }

    /// Returns true for an object that is older than the form that is known.
    fn is_outdated(&self, id: &RequestId, pod: &Pod) -> bool {
        let revision = |known: &Pod| known.metadata.revision();
        let known = self.index.pod(id).and_then(revision);
        if known.zip(revision(pod)).is_some_and(|(known, seen)| seen < known) {
            return true;
        }
        // A pod without a node says nothing about a binding that may have landed after it.
        let departed = self.departed.get(id).and_then(|departed| departed.revision);
        departed
            .zip(revision(pod))
            .is_some_and(|(last, seen)| seen < last || (seen == last && pod.node_name().is_none()))
    }

    /// Forgets that a pod vanished when it is seen again: a list or a deletion was late.
    fn drop_departure(&mut self, id: &RequestId, affected: &mut Affected) {
        if self.departed.contains_key(id) {
            merge(affected, self.forget_departed(id));
        }
    }

    /// Changes the form in which a bound pod is stored to what its object proves, and returns the
    /// evidence that is missing.
    fn count_as_held(&self, pod: &mut Pod) -> Option<WaitsFor> {
        if pod.node_name().is_none() || !may_claim_devices(pod) {
            return None;
        }
        match evidence(pod) {
            Evidence::Holds => None,
            Evidence::Stopping => Some(WaitsFor::Containers),
            Evidence::PhaseAlone => {
                let asked = pod.metadata.deletion_timestamp.take();
                pod.metadata.deletion_timestamp = asked.or_else(|| Some(String::new()));
                pod.status.phase = Some("Running".to_owned());
                Some(WaitsFor::FinalPhase)
            }
            Evidence::Released => {
                pod.status.phase = Some("Succeeded".to_owned());
                None
            }
        }
    }

    /// Removes a pod. One that may still hold devices is kept as a pod that vanished.
    pub(super) fn remove_pod(
        &mut self,
        now: Millis,
        reference: &ObjectRef,
        affected: &mut Affected,
    ) {
        let known = self.index.pod_named(&reference.namespace, &reference.name);
        let Some(pod) = known.filter(|pod| reference.can_be(pod.metadata.known_uid())) else {
            return;
        };
        let id = pod_id(pod);
        // A binding that was admitted may have landed unseen.
        let node = pod.node_name().map(Name::from).or_else(|| self.guard.open_on(&id).cloned());
        let is_bound = PodState::from_pod(pod) == PodState::Bound;
        let may_hold = (is_bound || self.guard.open_on(&id).is_some()) && may_claim_devices(pod);
        let Some(node) = node.filter(|_| may_hold) else {
            self.releases.remove(&id);
            if PodState::from_pod(pod) == PodState::Finished && may_claim_devices(pod) {
                self.ended.insert(id);
            }
            return merge(affected, self.index.remove(reference));
        };
        let mut pod = pod.clone();
        pod.spec.node_name = Some(node.to_string());
        self.guard.close(&id);
        let boot = self.health.get(&node).and_then(|health| health.boot.clone());
        let departed = Departed {
            mirror: pod.metadata.annotations.get(MIRROR).map(str::to_owned),
            revision: pod.metadata.revision(),
            ..Departed::new(now, node, boot, settles_after(Some(&pod)))
        };
        pod.metadata.name = self.depart(id, departed).to_string();
        pod.metadata.deletion_timestamp.get_or_insert_default();
        let changes =
            [Change::Removed(reference.clone()), Change::Applied(Object::Pod(pod.into()))];
        merge(affected, self.index.update(changes));
    }

    /// Remembers a deleted pod whose last form has no node: no binding of it landed. A list that
    /// lacks a pod proves less, because it can have been bound before it vanished.
    pub(super) fn note_end_of_unbound(&mut self, reference: &ObjectRef) {
        let known = self.index.pod_named(&reference.namespace, &reference.name);
        let unbound = known.filter(|_| reference.kind == Kind::Pod);
        let unbound = unbound.filter(|pod| pod.node_name().is_none() && may_claim_devices(pod));
        if let Some(id) = unbound.map(pod_id) {
            self.ended.insert(id);
        }
    }

    /// Records that a pod vanished, and returns the name under which the index must store it.
    pub(super) fn depart(&mut self, id: RequestId, departed: Departed) -> Name {
        let stored = storage_id(&id);
        let name = stored.name.clone();
        self.releases.insert(id.clone(), departed.release());
        self.stored_departed.insert(stored, id.clone());
        self.departed.insert(id, departed);
        name
    }

    /// Forgets that a mirror pod vanished when the kubelet shows the same static pod again.
    fn drop_same_mirror(&mut self, pod: &Pod, affected: &mut Affected) {
        let Some(hash) = pod.metadata.annotations.get(MIRROR) else { return };
        let (namespace, name) = (pod.metadata.namespace_or_default(), pod.metadata.name.as_str());
        let is_same = |id: &RequestId, departed: &Departed| {
            (&*id.account, &*id.name) == (namespace, name)
                && departed.mirror.as_deref() == Some(hash)
        };
        let same: Vec<RequestId> = (self.departed.iter())
            .filter(|(id, departed)| is_same(id, departed))
            .map(|(id, _)| id.clone())
            .collect();
        for id in same {
            merge(affected, self.forget_departed(&id));
        }
    }

    fn forget_departed(&mut self, id: &RequestId) -> Affected {
        self.departed.remove(id);
        self.releases.remove(id);
        let RequestId { account, name, uid } = storage_id(id);
        let reference = ObjectRef { kind: Kind::Pod, namespace: account, name, uid: Some(uid) };
        self.index.remove(&reference)
    }

    /// Ends the charges of pods that vanished, where there is evidence now.
    pub(super) fn free_by_evidence(&mut self, core: &mut Core<'_>) {
        let mut proven = Vec::new();
        for (id, departed) in &self.departed {
            let boot = self.health.get(&departed.node).and_then(|health| health.boot.as_ref());
            let has_booted =
                departed.boot.is_some() && boot.is_some() && boot != departed.boot.as_ref();
            if has_booted || departed.heard >= departed.of {
                proven.push(id.clone());
            } else if let Some(release) = self.releases.get_mut(id) {
                *release = departed.release();
            }
        }
        proven.iter().for_each(|id| self.free_departed(core, id));
    }

    pub(super) fn free_departed(&mut self, core: &mut Core<'_>, id: &RequestId) {
        let affected = self.forget_departed(id);
        self.ended.insert(id.clone());
        core.step(Event::Freed { request: id.clone(), generation: None, ordinal: None });
        self.follow(core, &affected);
    }
}
