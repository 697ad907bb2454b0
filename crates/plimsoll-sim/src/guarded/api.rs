//! A simulated API server: pods with versions, preconditions, and a log that watches follow.

use std::collections::BTreeMap;

use plimsoll_core::units::Name;
use plimsoll_kube::live::{Admission, ErrandOutcome, TOUCHED};
use plimsoll_kube::object::{
    Container, ContainerState, ContainerStatus, Metadata, Pod, PodSpec, PodStatus, Present,
    StringMap,
};

/// The namespace of all pods.
pub(super) const NAMESPACE: &str = "team";

/// The grace period of all pods, in seconds.
const GRACE: i64 = 30;

/// One change of a pod, as watches deliver it.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Applied(Box<Pod>),
    Deleted(Box<Pod>),
}

/// The lease of the leader.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lease {
    pub(super) holder: Option<usize>,
    /// The number of the term, which each new holder raises.
    pub(super) number: u64,
    pub(super) renewed: u64,
}

/// The result of writing a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Bound,
    /// 404, or 409 for another reason than the version.
    Failed,
    /// 409: the version is another one.
    Conflict,
}

/// The API server.
#[derive(Debug, Default)]
pub(super) struct ApiServer {
    pub(super) revision: u64,
    pub(super) pods: BTreeMap<Name, Pod>,
    pub(super) log: Vec<Change>,
    pub(super) lease: Lease,
    created: u64,
}

impl ApiServer {
    /// Creates a pod that asks for memory of one card.
    pub(super) fn create(&mut self, mib: u64) {
        self.created += 1;
        let name = format!("p{}", self.created);
        let metadata = Metadata {
            name: name.clone(),
            namespace: Some(NAMESPACE.to_owned()),
            uid: Some(format!("u{}", self.created)),
            creation_timestamp: Some(format!("2026-01-01T00:00:00.{:09}Z", self.created)),
            annotations: StringMap::from_iter([("gpu-memory", mib.to_string())]),
            ..Metadata::default()
        };
        let spec = PodSpec {
            termination_grace_period_seconds: Some(GRACE),
            containers: vec![Container { name: "main".to_owned(), ..Container::default() }],
            ..PodSpec::default()
        };
        let status = PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() };
        self.write(&name.into(), Pod { metadata, spec, status });
    }

    /// Writes a pod at the next version.
    fn write(&mut self, name: &Name, mut pod: Pod) {
        self.revision += 1;
        pod.metadata.resource_version = Some(self.revision.to_string());
        self.log.push(Change::Applied(Box::new(pod.clone())));
        self.pods.insert(name.clone(), pod);
    }

    /// Changes a pod that exists.
    pub(super) fn update(&mut self, name: &Name, change: impl FnOnce(&mut Pod)) {
        if let Some(mut pod) = self.pods.get(name).cloned() {
            change(&mut pod);
            self.write(name, pod);
        }
    }

    /// Removes a pod.
    pub(super) fn remove(&mut self, name: &Name) {
        if let Some(mut pod) = self.pods.remove(name) {
            self.revision += 1;
            pod.metadata.resource_version = Some(self.revision.to_string());
            self.log.push(Change::Deleted(Box::new(pod)));
        }
    }

    /// Writes a binding, with the preconditions and annotations of its admission.
    pub(super) fn bind(&mut self, pod: &Name, node: &str, admission: &Admission) -> Written {
        let Some(known) = self.pods.get(pod) else { return Written::Failed };
        let metadata = &known.metadata;
        let is_free = known.node_name().is_none() && !metadata.is_terminating();
        if metadata.uid.as_deref() != Some(&*admission.uid) || !is_free {
            return Written::Failed;
        }
        if admission.resource_version.is_some()
            && admission.resource_version != metadata.resource_version
        {
            return Written::Conflict;
        }
        let written = admission.annotations.clone();
        self.update(pod, |pod| {
            pod.spec.node_name = Some(node.to_owned());
            annotate(pod, written);
        });
        Written::Bound
    }

    /// Touches a pod, with its uid and version as preconditions.
    pub(super) fn touch(
        &mut self,
        name: &Name,
        uid: &str,
        version: &str,
        mark: &str,
    ) -> ErrandOutcome {
        let ErrandOutcome::Object(known) = self.read(name, uid) else {
            return ErrandOutcome::Gone;
        };
        if known.metadata.resource_version.as_deref() != Some(version) {
            return ErrandOutcome::Conflict;
        }
        self.update(name, |pod| annotate(pod, [(TOUCHED.to_owned(), mark.to_owned())]));
        self.read(name, uid)
    }

    /// Reads a pod.
    pub(super) fn read(&self, name: &Name, uid: &str) -> ErrandOutcome {
        match self.pods.get(name) {
            Some(pod) if pod.metadata.uid.as_deref() == Some(uid) => {
                ErrandOutcome::Object(Box::new(pod.clone()))
            }
            _ => ErrandOutcome::Gone,
        }
    }

    /// Reports the container of a pod.
    pub(super) fn report(&mut self, name: &Name, phase: &str, container: Reported) {
        self.update(name, |pod| {
            pod.status.phase = Some(phase.to_owned());
            let terminated = (container == Reported::Terminated).then_some(Present);
            pod.status.container_statuses = vec![ContainerStatus {
                name: "main".to_owned(),
                state: ContainerState { terminated },
                container_id: Some("containerd://1".to_owned()),
            }];
        });
    }
}

/// The state of a container as its kubelet reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reported {
    Running,
    Terminated,
}

fn annotate(pod: &mut Pod, more: impl IntoIterator<Item = (String, String)>) {
    let known = pod.metadata.annotations.iter();
    let known = known.map(|(key, value)| (key.to_owned(), value.to_owned()));
    pod.metadata.annotations = known.chain(more).collect();
}

/// Returns the memory that a pod asks for, in MiB.
pub(super) fn mib_of(pod: &Pod) -> u64 {
    pod.metadata.annotations.get("gpu-memory").and_then(|mib| mib.parse().ok()).unwrap_or(0)
}

/// Returns true for a pod that may still hold memory of its node.
pub(super) fn holds(pod: &Pod) -> bool {
    let statuses = &pod.status.container_statuses;
    let has_ended =
        !statuses.is_empty() && statuses.iter().all(|one| one.state.terminated.is_some());
    pod.node_name().is_some() && !pod.is_finished() && !has_ended
}
