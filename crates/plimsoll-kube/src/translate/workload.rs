//! The pods that workloads still miss: what they want less what they own.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Finding, Severity};
use crate::object::{Metadata, OwnerReference, Pod, PodTemplate, Workload, WorkloadKind};

/// No more pods than this are made for workloads in all. A larger number is a mistake, and would cost memory here.
const MOST_EXPANDED: u64 = 100_000;

/// The label by which a Deployment tells the pods of its ReplicaSets apart.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// What workloads own, and which names are taken.
pub(super) struct Owners {
    /// Pods by the workload that owns them in the end.
    owned: BTreeMap<Key, Tally>,
    /// ReplicaSets whose Deployment was read too, and speaks for them.
    spoken_for: BTreeSet<Key>,
    names: BTreeSet<(String, String)>,
    left: u64,
    finding: Option<Finding>,
}

/// A workload: its namespace, kind and name.
type Key = (String, &'static str, String);

/// How many pods a workload owns.
#[derive(Clone, Copy, Default)]
struct Tally {
    /// Those that count towards its replicas.
    living: u64,
    /// Those that have succeeded.
    succeeded: u64,
}

impl Owners {
    /// What these workloads own of these pods.
    pub(super) fn of<'a>(
        workloads: impl Iterator<Item = &'a Workload> + Clone,
        pods: impl Iterator<Item = &'a Pod>,
    ) -> Owners {
        let mut book = Book::default();
        for workload in workloads.clone() {
            book.enter(workload);
        }
        let mut owners = Owners {
            owned: BTreeMap::new(),
            spoken_for: BTreeSet::new(),
            names: BTreeSet::new(),
            left: MOST_EXPANDED,
            finding: None,
        };
        for set in workloads.filter(|workload| workload.kind == WorkloadKind::ReplicaSet) {
            let deployment =
                set.metadata.controller().and_then(|owner| book.find(&set.metadata, owner));
            if let Some(deployment) = deployment {
                owners.spoken_for.insert(key(set));
                book.heads.insert(key(set), deployment);
            }
        }
        for pod in pods {
            owners.names.insert((namespace(&pod.metadata).to_owned(), pod.metadata.name.clone()));
            if let Some(owner) = book.owner_of(pod) {
                let tally = owners.owned.entry(owner.clone()).or_default();
                tally.living += u64::from(counts(pod, owner.1));
                tally.succeeded += u64::from(pod.status.phase.as_deref() == Some("Succeeded"));
            }
        }
        owners
    }

    /// The pods that a workload misses: one as a pattern, and the names of all.
    pub(super) fn missing(&mut self, workload: &Workload) -> Option<(Pod, Vec<String>)> {
        if workload.metadata.is_terminating() || self.spoken_for.contains(&key(workload)) {
            return None;
        }
        let tally = self.owned.get(&key(workload)).copied().unwrap_or_default();
        let missing = wanted(workload, tally.succeeded).saturating_sub(tally.living);
        let made = missing.min(self.left);
        if made < missing {
            self.finding.get_or_insert_with(|| cut(workload, missing));
        }
        self.left -= made;
        let pattern = pattern(workload);
        let names = self.free_names(&pattern.metadata, first_ordinal(workload), made);
        (!names.is_empty()).then_some((pattern, names))
    }

    /// What could not be done, if anything.
    pub(super) fn into_finding(self) -> Option<Finding> {
        self.finding
    }

    /// So many names that nobody has, by the first free ordinals from `first` on.
    fn free_names(&mut self, metadata: &Metadata, first: u64, count: u64) -> Vec<String> {
        let taken =
            |name: &String| self.names.contains(&(namespace(metadata).to_owned(), name.clone()));
        let ordinals = (first..).map(|ordinal| format!("{}-{ordinal}", metadata.name));
        let free = ordinals.filter(|name| !taken(name));
        let names: Vec<String> = free.take(usize::try_from(count).unwrap_or(usize::MAX)).collect();
        self.names.extend(names.iter().map(|name| (namespace(metadata).to_owned(), name.clone())));
        names
    }
}

/// The workloads that were read, to be found by those they own.
#[derive(Default)]
struct Book {
    by_uid: BTreeMap<String, Key>,
    keys: BTreeSet<Key>,
    /// For a ReplicaSet, its Deployment.
    heads: BTreeMap<Key, Key>,
}

impl Book {
    fn enter(&mut self, workload: &Workload) {
        let uid = workload.metadata.uid.as_ref().filter(|uid| !uid.is_empty());
        if let Some(uid) = uid {
            self.by_uid.insert(uid.clone(), key(workload));
        }
        self.keys.insert(key(workload));
    }

    /// The workload that a reference means, if it was read: by its uid, or by its name where a uid is missing.
    fn find(&self, owned: &Metadata, owner: &OwnerReference) -> Option<Key> {
        if let Some(key) = self.by_uid.get(&owner.uid) {
            return Some(key.clone());
        }
        let kind = KINDS.iter().find(|kind| kind.name() == owner.kind)?;
        let key = (namespace(owned).to_owned(), kind.name(), owner.name.clone());
        let known_by_uid = || self.by_uid.values().any(|known| *known == key);
        (self.keys.contains(&key) && (owner.uid.is_empty() || !known_by_uid())).then_some(key)
    }

    fn owner_of(&self, pod: &Pod) -> Option<Key> {
        let owner = pod.metadata.controller()?;
        match self.find(&pod.metadata, owner) {
            Some(key) => Some(self.heads.get(&key).cloned().unwrap_or(key)),
            None => self.deployment_of(pod, owner),
        }
    }

    /// The Deployment behind a ReplicaSet that was not read: the set's name is the Deployment's with the hash of the template.
    fn deployment_of(&self, pod: &Pod, owner: &OwnerReference) -> Option<Key> {
        let hash = pod.metadata.labels.get(TEMPLATE_HASH).filter(|_| owner.kind == "ReplicaSet")?;
        let name = owner.name.strip_suffix(hash)?.strip_suffix('-')?;
        let key =
            (namespace(&pod.metadata).to_owned(), WorkloadKind::Deployment.name(), name.to_owned());
        self.keys.contains(&key).then_some(key)
    }
}

const KINDS: [WorkloadKind; 5] = [
    WorkloadKind::Deployment,
    WorkloadKind::ReplicaSet,
    WorkloadKind::ReplicationController,
    WorkloadKind::StatefulSet,
    WorkloadKind::Job,
];

fn key(workload: &Workload) -> Key {
    (namespace(&workload.metadata).to_owned(), workload.kind.name(), workload.metadata.name.clone())
}

fn namespace(metadata: &Metadata) -> &str {
    metadata.namespace.as_deref().unwrap_or("default")
}

/// Whether a pod counts towards its workload's number. One that is going is replaced at once, except in a StatefulSet,
/// whose next pod has the same name and waits for it.
fn counts(pod: &Pod, kind: &str) -> bool {
    let replaced = pod.metadata.is_terminating() && kind != WorkloadKind::StatefulSet.name();
    !pod.is_finished() && !replaced
}

/// How many pods a workload wants, given those of its pods that were seen to succeed.
fn wanted(workload: &Workload, succeeded: u64) -> u64 {
    let succeeded = i64::try_from(succeeded).unwrap_or(i64::MAX);
    if workload.kind != WorkloadKind::Job || succeeded <= workload.status.succeeded {
        return workload.pods_wanted();
    }
    let mut job = workload.clone();
    job.status.succeeded = succeeded;
    job.pods_wanted()
}

/// Where the names of a workload's pods begin to count.
fn first_ordinal(workload: &Workload) -> u64 {
    match workload.kind {
        WorkloadKind::StatefulSet => u64::try_from(workload.spec.ordinals.start).unwrap_or(0),
        _ => 0,
    }
}

/// A pod as the workload would make it; its name is the workload's, before the ordinal.
fn pattern(workload: &Workload) -> Pod {
    let PodTemplate { metadata, spec } = &workload.spec.template;
    let metadata = Metadata {
        name: workload.metadata.name.clone(),
        namespace: workload.metadata.namespace.clone(),
        uid: None,
        deletion_timestamp: None,
        ..metadata.clone()
    };
    Pod { metadata, spec: spec.clone(), ..Pod::default() }
}

fn cut(workload: &Workload, missing: u64) -> Finding {
    let name = format!("{} {}", workload.kind.name(), workload.metadata.namespaced_name());
    Finding {
        code: "workload-cut",
        severity: Severity::Warning,
        node: None,
        uuid: None,
        message: format!(
            "{name} misses {missing} pods; no more than {MOST_EXPANDED} are made in all"
        ),
        numbers: [("missing", missing), ("most", MOST_EXPANDED)].into(),
        remedy: "lower its replicas".to_owned(),
    }
}
