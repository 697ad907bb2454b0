//! Pods that workloads still need: the desired number less the existing ones.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::request::RequestId;
use plimsoll_core::units::Name;

use crate::finding::{Finding, PodProblem, Problem};
use crate::object::{Metadata, OwnerReference, Pod, PodTemplate, Workload, WorkloadKind};

/// The maximum number of pods created for all workloads. A larger number is a mistake, and bounding
/// it bounds memory.
const MOST_EXPANDED: u64 = 100_000;

/// The label by which a Deployment distinguishes the pods of its ReplicaSets.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// A workload: its namespace, kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WorkloadKey {
    pub(super) namespace: Name,
    pub(super) kind: WorkloadKind,
    pub(super) name: Name,
}

impl WorkloadKey {
    pub(super) fn new(workload: &Workload) -> WorkloadKey {
        let metadata = &workload.metadata;
        WorkloadKey {
            namespace: metadata.namespace_or_default().into(),
            kind: workload.kind,
            name: metadata.name.as_str().into(),
        }
    }
}

/// The missing pods of one workload: one as a pattern, and the names of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expansion {
    pub pattern: Pod,
    pub names: Vec<Name>,
}

impl Expansion {
    /// Iterates over the identities of the pods.
    pub fn ids(&self) -> impl Iterator<Item = RequestId> {
        let account = Name::from(self.pattern.metadata.namespace_or_default());
        self.names.iter().map(move |name| RequestId::new(account.clone(), name.clone()))
    }

    /// Returns true if the pods are to be placed. Scheduling gates in the template hold all of them
    /// back.
    pub fn is_pending(&self) -> bool {
        self.pattern.spec.scheduling_gates.is_empty()
    }
}

/// The missing pods of all workloads.
#[derive(Debug, Default)]
pub(super) struct Expansions {
    by_workload: BTreeMap<WorkloadKey, Expansion>,
    cut: Option<Finding>,
}

impl Expansions {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Expansion> {
        self.by_workload.values()
    }

    pub(super) fn get(&self, workload: &WorkloadKey) -> Option<&Expansion> {
        self.by_workload.get(workload)
    }

    pub(super) fn cut(&self) -> Option<&Finding> {
        self.cut.as_ref()
    }

    /// Iterates over the expansions that are missing or different in the other set.
    pub(super) fn differing<'a>(
        &'a self,
        other: &'a Expansions,
    ) -> impl Iterator<Item = &'a Expansion> {
        let differs = |(key, one): &(&WorkloadKey, &Expansion)| other.get(key) != Some(*one);
        self.by_workload.iter().filter(differs).map(|(_, one)| one)
    }
}

/// Creates the missing pods of workloads.
///
/// Workloads are visited in the order of their keys, so that names and the limit do not depend on
/// the order in which objects were read.
pub(super) fn expand<'a>(
    workloads: &BTreeMap<WorkloadKey, Workload>,
    pods: impl Iterator<Item = &'a Pod>,
) -> Expansions {
    let mut owners = Owners::new(workloads, pods);
    let missing = workloads.iter().filter_map(|(key, workload)| {
        owners.missing(key, workload).map(|expansion| (key.clone(), expansion))
    });
    let by_workload = missing.collect();
    Expansions { by_workload, cut: owners.cut }
}

/// The pods that workloads own, and the names in use.
struct Owners {
    /// Pods by the topmost workload that owns them.
    owned: BTreeMap<WorkloadKey, Tally>,
    /// ReplicaSets whose Deployment was read too and creates their pods.
    covered: BTreeSet<WorkloadKey>,
    names: BTreeSet<(Name, Name)>,
    left: u64,
    cut: Option<Finding>,
}

/// The number of pods that a workload owns.
#[derive(Clone, Copy, Default)]
struct Tally {
    /// Pods that count as replicas.
    living: u64,
    succeeded: u64,
}

impl Owners {
    fn new<'a>(
        workloads: &BTreeMap<WorkloadKey, Workload>,
        pods: impl Iterator<Item = &'a Pod>,
    ) -> Owners {
        let mut directory = Directory::new(workloads);
        let mut owners = Owners {
            owned: BTreeMap::new(),
            covered: BTreeSet::new(),
            names: BTreeSet::new(),
            left: MOST_EXPANDED,
            cut: None,
        };
        for (key, set) in workloads.iter().filter(|(key, _)| key.kind == WorkloadKind::ReplicaSet) {
            let controller = set.metadata.controller();
            if let Some(owner) = controller.and_then(|owner| directory.find(&set.metadata, owner)) {
                owners.covered.insert(key.clone());
                directory.heads.insert(key.clone(), owner);
            }
        }
        for pod in pods {
            let metadata = &pod.metadata;
            let name = (metadata.namespace_or_default().into(), metadata.name.as_str().into());
            owners.names.insert(name);
            if let Some(owner) = directory.owner_of(pod) {
                let counts = counts_as_replica(pod, owner.kind);
                let tally = owners.owned.entry(owner).or_default();
                tally.living += u64::from(counts);
                tally.succeeded += u64::from(pod.status.phase.as_deref() == Some("Succeeded"));
            }
        }
        owners
    }

    fn missing(&mut self, key: &WorkloadKey, workload: &Workload) -> Option<Expansion> {
        if workload.metadata.is_terminating() || self.covered.contains(key) {
            return None;
        }
        let tally = self.owned.get(key).copied().unwrap_or_default();
        let missing = desired_pods(workload, tally.succeeded).saturating_sub(tally.living);
        let made = missing.min(self.left);
        if made < missing {
            self.cut.get_or_insert_with(|| cut(workload, missing));
        }
        self.left -= made;
        let pattern = pattern(workload);
        let names = self.free_names(&pattern.metadata, first_ordinal(workload), made);
        (!names.is_empty()).then_some(Expansion { pattern, names })
    }

    /// Picks names that no pod has, with the first free ordinals from `first` on.
    fn free_names(&mut self, metadata: &Metadata, first: u64, count: u64) -> Vec<Name> {
        let namespace = Name::from(metadata.namespace_or_default());
        let ordinals = (first..).map(|ordinal| Name::from(format!("{}-{ordinal}", metadata.name)));
        let free = ordinals.filter(|name| !self.names.contains(&(namespace.clone(), name.clone())));
        let names: Vec<Name> = free.take(usize::try_from(count).unwrap_or(usize::MAX)).collect();
        self.names.extend(names.iter().map(|name| (namespace.clone(), name.clone())));
        names
    }
}

/// The workloads that were read, for lookup by owner reference.
#[derive(Default)]
struct Directory {
    by_uid: BTreeMap<String, WorkloadKey>,
    keys: BTreeMap<WorkloadKey, Uid>,
    /// The Deployment of each ReplicaSet that has one.
    heads: BTreeMap<WorkloadKey, WorkloadKey>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Uid {
    Known,
    Missing,
}

impl Directory {
    fn new(workloads: &BTreeMap<WorkloadKey, Workload>) -> Directory {
        let mut directory = Directory::default();
        for (key, workload) in workloads {
            let uid = workload.metadata.known_uid();
            directory.keys.insert(key.clone(), uid.map_or(Uid::Missing, |_| Uid::Known));
            if let Some(uid) = uid {
                directory.by_uid.insert(uid.to_owned(), key.clone());
            }
        }
        directory
    }

    /// Finds the workload of an owner reference: by uid, or by name where a uid is missing.
    fn find(&self, owned: &Metadata, owner: &OwnerReference) -> Option<WorkloadKey> {
        if let Some(key) = self.by_uid.get(&owner.uid) {
            return Some(key.clone());
        }
        let kind = *KINDS.iter().find(|kind| kind.name() == owner.kind)?;
        let namespace = owned.namespace_or_default().into();
        let key = WorkloadKey { namespace, kind, name: owner.name.as_str().into() };
        let uid = *self.keys.get(&key)?;
        (owner.uid.is_empty() || uid == Uid::Missing).then_some(key)
    }

    fn owner_of(&self, pod: &Pod) -> Option<WorkloadKey> {
        let owner = pod.metadata.controller()?;
        match self.find(&pod.metadata, owner) {
            Some(key) => Some(self.heads.get(&key).cloned().unwrap_or(key)),
            None => self.deployment_of(pod, owner),
        }
    }

    /// Finds the Deployment of a ReplicaSet that was not read: the ReplicaSet's name is the
    /// Deployment's name and the template hash.
    fn deployment_of(&self, pod: &Pod, owner: &OwnerReference) -> Option<WorkloadKey> {
        let hash = pod.metadata.labels.get(TEMPLATE_HASH).filter(|_| owner.kind == "ReplicaSet")?;
        let name = owner.name.strip_suffix(hash)?.strip_suffix('-')?;
        let namespace = pod.metadata.namespace_or_default().into();
        let key = WorkloadKey { namespace, kind: WorkloadKind::Deployment, name: name.into() };
        self.keys.contains_key(&key).then_some(key)
    }
}

const KINDS: [WorkloadKind; 5] = [
    WorkloadKind::Deployment,
    WorkloadKind::ReplicaSet,
    WorkloadKind::ReplicationController,
    WorkloadKind::StatefulSet,
    WorkloadKind::Job,
];

/// Returns true if a pod counts as a replica. A terminating pod is replaced at once, except in a
/// StatefulSet, whose next pod has the same name and waits for it.
fn counts_as_replica(pod: &Pod, kind: WorkloadKind) -> bool {
    let replaced = pod.metadata.is_terminating() && kind != WorkloadKind::StatefulSet;
    !pod.is_finished() && !replaced
}

/// Returns the desired number of pods, given the number of pods that succeeded.
fn desired_pods(workload: &Workload, succeeded: u64) -> u64 {
    let succeeded = i64::try_from(succeeded).unwrap_or(i64::MAX);
    if workload.kind != WorkloadKind::Job || succeeded <= workload.status.succeeded {
        return workload.desired_pods();
    }
    let mut job = workload.clone();
    job.status.succeeded = succeeded;
    job.desired_pods()
}

/// Returns the first ordinal of a workload's pods.
fn first_ordinal(workload: &Workload) -> u64 {
    match workload.kind {
        WorkloadKind::StatefulSet => u64::try_from(workload.spec.ordinals.start).unwrap_or(0),
        _ => 0,
    }
}

/// Creates a pod from the template. Its name is the workload's, without ordinal.
fn pattern(workload: &Workload) -> Pod {
    let PodTemplate { metadata, spec } = &workload.spec.template;
    let metadata = Metadata {
        name: workload.metadata.name.clone(),
        namespace: workload.metadata.namespace.clone(),
        uid: None,
        creation_timestamp: None,
        deletion_timestamp: None,
        ..metadata.clone()
    };
    Pod { metadata, spec: spec.clone(), ..Pod::default() }
}

fn cut(workload: &Workload, missing: u64) -> Finding {
    let problem = PodProblem::WorkloadCut {
        kind: workload.kind,
        name: workload.metadata.namespaced_name().into(),
        missing,
        most: MOST_EXPANDED,
    };
    Finding { node: None, device: None, problem: Problem::Pod(problem) }
}
