//! The front end of a live cluster: objects and their changes in, events of the core out.
//!
//! The API server is the only source of truth: the ledger is what its objects say, whatever the
//! order in which they arrive, and a restart rebuilds it from lists. Pods of other schedulers are
//! observed where they run; pods without a node are judged, which charges nothing.
//!
//! A charge ends only by evidence ([`Evidence`]). A pod that vanished without evidence stays in the
//! index under a name that no pod can have, so that it keeps its card, until its node's kubelet was
//! heard for long enough, the node has booted, or an operator clears it.

mod announced;
mod ended;
mod evidence;
mod follow;
mod given_back;
mod guard;
mod health;
mod narrow;
mod pending;
mod record;
mod release;

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::device::Node;
use plimsoll_core::event::Event;
use plimsoll_core::front::{Core, Front};
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Name};
use serde::{Deserialize, Serialize};

use crate::cluster::Reading;
use crate::finding::Finding;
use crate::object::{Kind, ObjectRef};
use crate::read::Object;
use crate::translate::{Affected, Index};

pub use evidence::{Evidence, evidence};
pub use guard::{
    Admission, BLIND_AFTER, BindingReview, BindingVerdict, CREATION_TIMEOUT, CreationReview,
    CreationVerdict, Errand, ErrandOutcome, Leadership, Run, SETTLE_AFTER, TOUCHED, Term,
};
pub use health::SILENT_AFTER;
pub use narrow::narrow;
pub use pending::PendingPod;
pub use record::{
    DamagedRecord, HoldersRecord, Recalled, RecordChange, RecordChanges, RecordError,
    RecordKeeping, RecordKey, RecordedHolder,
};
pub use release::{Release, WaitsFor};

use ended::EndedPods;
use given_back::GivenBack;
use guard::Guard;
use health::NodeHealth;
use record::Records;
use release::Departed;

/// One thing that was learnt about the cluster.
#[derive(Clone, Debug)]
pub enum Observation {
    /// An object is new or changed.
    Applied(Object),
    /// An object was deleted; this is its last form.
    Deleted(Object),
    /// All objects of one kind, complete. Objects of the kind that are missing have vanished.
    Listed {
        kind: Kind,
        objects: Vec<Object>,
        /// The version of the list. An object with a later version has not vanished if it is
        /// missing. `None` if it is unknown.
        version: Option<u64>,
    },
    /// A node's kubelet renewed its lease, at this time by its own clock.
    Heartbeat { node: Name, renewed: Millis },
    /// The record of holders that earlier processes kept.
    Recalled(Recalled),
}

/// The front end of a live cluster.
#[derive(Debug)]
pub struct Watch {
    index: Index,
    health: BTreeMap<Name, NodeHealth>,
    /// Nodes as they were last reported to the core.
    reported: BTreeMap<Name, Node>,
    /// Pods that hold devices and are to be released.
    releases: BTreeMap<RequestId, Release>,
    departed: BTreeMap<RequestId, Departed>,
    ended: EndedPods,
    /// The pods of `departed` by the identity under which `index` stores them. An entry outlives
    /// its pod until the core has followed the release.
    stored_departed: BTreeMap<RequestId, RequestId>,
    pending: BTreeMap<RequestId, PendingPod>,
    /// Pods held back by scheduling gates, with the names of the gates.
    gated: BTreeMap<RequestId, Vec<String>>,
    /// The next pending pod to judge, and the revision of the ledger up to which all are judged.
    judged: pending::Judged,
    findings: BTreeMap<FindingKey, Vec<Finding>>,
    /// Bind requests that were deleted and still count, each until this time.
    lingering: Vec<(Millis, ObjectRef)>,
    /// Claims that have no devices any more and still count.
    given_back: Vec<GivenBack>,
    watching_since: Option<Millis>,
    guard: Guard,
    records: Records,
    topics: BTreeSet<Topic>,
}

/// The object that findings belong to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FindingKey {
    Node(Name),
    Pod(RequestId),
}

/// Something that a client can wait for a change of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    Node(Name),
    Pod(RequestId),
}

/// The front end journals nothing: the API server has its state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NoChange {}

impl Watch {
    /// Creates the front end of a cluster of which nothing is known yet.
    pub fn new(reading: Reading) -> Watch {
        Watch {
            index: Index::new(reading),
            health: BTreeMap::new(),
            reported: BTreeMap::new(),
            releases: BTreeMap::new(),
            departed: BTreeMap::new(),
            ended: EndedPods::default(),
            stored_departed: BTreeMap::new(),
            pending: BTreeMap::new(),
            gated: BTreeMap::new(),
            judged: pending::Judged::default(),
            findings: BTreeMap::new(),
            lingering: Vec::new(),
            given_back: Vec::new(),
            watching_since: None,
            guard: Guard::default(),
            records: Records::default(),
            topics: BTreeSet::new(),
        }
    }

    /// Follows what was learnt, in order. One batch costs the work on the nodes that it touches.
    pub fn observe(&mut self, core: &mut Core<'_>, observations: Vec<Observation>) {
        self.load(core, observations);
        self.judge_new(core);
    }

    /// Follows a part of the first lists. Pending pods are judged once all of them are known.
    pub fn load(&mut self, core: &mut Core<'_>, observations: Vec<Observation>) {
        self.watching_since.get_or_insert(core.now());
        let mut affected = Affected::default();
        for observation in observations {
            self.learn(core.now(), observation, &mut affected);
        }
        self.follow(core, &affected);
        self.free_by_evidence(core);
    }

    /// Ends the charge of a pod that vanished, on the word of an operator. Returns false if no such
    /// pod counts as releasing.
    pub fn clear(&mut self, core: &mut Core<'_>, id: &RequestId) -> bool {
        let is_known = self.departed.contains_key(id);
        if is_known {
            self.free_departed(core, id);
        }
        is_known
    }

    /// Returns all objects, for lookups.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the time since which the cluster is watched. A pod that vanished before is unknown.
    pub fn watching_since(&self) -> Option<Millis> {
        self.watching_since
    }

    /// Iterates over the pods whose memory is being released, with what each waits for.
    pub fn releases(&self) -> impl Iterator<Item = (&RequestId, &Release)> {
        self.releases.iter()
    }

    /// Iterates over the pods that no scheduler has placed, in their order.
    pub fn pending(&self) -> impl Iterator<Item = &PendingPod> {
        let mut pods: Vec<&PendingPod> = self.pending.values().collect();
        pods.sort_by(|one, other| one.turn().cmp(&other.turn()));
        pods.into_iter()
    }

    /// Finds a pod that no scheduler has placed.
    pub fn pending_pod(&self, id: &RequestId) -> Option<&PendingPod> {
        self.pending.get(id)
    }

    /// Iterates over the pods that scheduling gates hold back, with the names of the gates.
    pub fn gated(&self) -> impl Iterator<Item = (&RequestId, &[String])> {
        self.gated.iter().map(|(id, gates)| (id, gates.as_slice()))
    }

    /// Lists the problems of objects, as `audit` reports them for a dump.
    pub fn findings(&self) -> Vec<Finding> {
        let of_objects = self.findings.values().flatten().cloned();
        of_objects.chain(self.index.findings()).chain(self.record_findings()).collect()
    }

    fn learn(&mut self, now: Millis, observation: Observation, affected: &mut Affected) {
        match observation {
            Observation::Applied(object) => self.apply(now, object, affected),
            Observation::Deleted(object) => {
                let reference = object.reference();
                if self.has(&reference) {
                    self.apply(now, object, affected);
                    self.note_end_of_unbound(&reference);
                    self.remove(now, &reference, affected);
                }
            }
            Observation::Listed { kind, objects, version } => {
                self.relist(now, kind, objects, version, affected);
            }
            Observation::Heartbeat { node, renewed } => {
                let known = self.health.entry(node.clone()).or_default();
                let heard = known.heartbeat(now, renewed);
                for departed in self.departed.values_mut().filter(|one| one.node == node) {
                    departed.heard = Millis(departed.heard.0.saturating_add(heard));
                }
            }
            Observation::Recalled(recalled) => self.recall(now, recalled, affected),
        }
    }

    fn apply(&mut self, now: Millis, object: Object, affected: &mut Affected) {
        match object {
            Object::Pod(pod) => self.apply_pod(now, pod, affected),
            Object::Node(node) => {
                let name = Name::from(node.metadata.name.as_str());
                self.health.entry(name).or_default().describe(now, &node);
                merge(affected, self.index.apply(Object::Node(node)));
            }
            Object::ResourceClaim(_) => self.apply_claim(object, affected),
            Object::BindRequest(_) => {
                self.keep_bind_request(&object.reference());
                merge(affected, self.index.apply(object));
            }
            other => merge(affected, self.index.apply(other)),
        }
    }

    fn remove(&mut self, now: Millis, reference: &ObjectRef, affected: &mut Affected) {
        match reference.kind {
            Kind::Pod => self.remove_pod(now, reference, affected),
            Kind::BindRequest => self.remove_bind_request(now, reference),
            Kind::ResourceClaim => self.remove_claim(reference, affected),
            _ => merge(affected, self.index.remove(reference)),
        }
    }

    /// Returns true if the object that has this name now is the object that is meant.
    fn has(&self, reference: &ObjectRef) -> bool {
        match reference.kind {
            Kind::Pod => {
                let known = self.index.pod_named(&reference.namespace, &reference.name);
                known.is_some_and(|pod| reference.can_be(pod.metadata.known_uid()))
            }
            _ => true,
        }
    }

    /// Returns true if a pod is known in a version that a list cannot have.
    fn is_later_than(&self, reference: &ObjectRef, version: Option<u64>) -> bool {
        let known = self.index.pod_named(&reference.namespace, &reference.name);
        let known = known.and_then(|pod| pod.metadata.revision());
        known.zip(version).is_some_and(|(known, listed)| known > listed)
    }

    /// Replaces all objects of a kind.
    fn relist(
        &mut self,
        now: Millis,
        kind: Kind,
        objects: Vec<Object>,
        version: Option<u64>,
        affected: &mut Affected,
    ) {
        let listed: BTreeSet<(Name, Name)> = objects
            .iter()
            .map(Object::reference)
            .map(|reference| (reference.namespace, reference.name))
            .collect();
        let departed = self.stored_departed.keys().filter(|_| kind == Kind::Pod);
        let departed: BTreeSet<(&Name, &Name)> =
            departed.map(|stored| (&stored.account, &stored.name)).collect();
        let known = self.index.references(kind);
        let vanished = known
            .into_iter()
            .filter(|one| !listed.contains(&(one.namespace.clone(), one.name.clone())))
            .filter(|one| !departed.contains(&(&one.namespace, &one.name)))
            .filter(|one| kind != Kind::Pod || !self.is_later_than(one, version));
        let vanished: Vec<ObjectRef> = vanished.collect();
        for reference in vanished {
            self.remove(now, &reference, affected);
        }
        for object in objects {
            self.apply(now, object, affected);
        }
    }
}

fn merge(affected: &mut Affected, more: Affected) {
    affected.nodes.extend(more.nodes);
    affected.pods.extend(more.pods);
    affected.claims.extend(more.claims);
    affected.gangs.extend(more.gangs);
}

impl Front for Watch {
    type Change = NoChange;
    type State = ();
    type Topic = Topic;

    fn restore(&mut self, (): ()) {}

    fn apply(&mut self, change: NoChange) {
        match change {}
    }

    fn state(&self) {}

    fn tick(&mut self, core: &mut Core<'_>) {
        core.step(Event::Tick);
        self.report_silence(core);
        self.free_by_evidence(core);
        self.remove_lingering(core);
        self.give_back(core);
        self.attend_guard(core);
        self.judge_new(core);
        self.judge_again(core);
    }

    fn handle(&mut self, core: &mut Core<'_>, event: Event) {
        core.step(event);
    }

    fn take_changes(&mut self) -> Vec<NoChange> {
        Vec::new()
    }

    fn take_topics(&mut self) -> BTreeSet<Topic> {
        std::mem::take(&mut self.topics)
    }
}

#[cfg(test)]
mod tests;
