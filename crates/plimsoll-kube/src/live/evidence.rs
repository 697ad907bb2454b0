//! Evidence that a pod holds no device memory any more.

use crate::object::{ContainerStatus, Pod};

/// The reasons by which a kubelet rejects a pod before it starts a container.
const REJECTED_BY_KUBELET: [&str; 7] = [
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "NodeSelectorMismatching",
    "AppArmor",
    "SysctlForbidden",
    "TopologyAffinityError",
    "InvalidNodeInfo",
];

/// The state of a bound pod, by what its object proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing says that it stops.
    Holds,
    /// It was asked to stop, and a container may still run.
    Stopping,
    /// Its phase is final, but no status says that its containers have terminated: the garbage
    /// collector and the node controller write such a phase for a node that they cannot reach.
    PhaseAlone,
    /// Its containers have terminated for good, or never started.
    Released,
}

/// Judges what the object of a bound pod proves.
pub fn evidence(pod: &Pod) -> Evidence {
    let is_stopping = pod.metadata.is_terminating();
    match pod.status.phase.as_deref() {
        // Only the kubelet writes it, after all containers have terminated.
        Some("Succeeded") => Evidence::Released,
        Some("Failed") if was_rejected(pod) || have_terminated(pod) => Evidence::Released,
        Some("Failed") => Evidence::PhaseAlone,
        _ if is_stopping && have_terminated(pod) => Evidence::Released,
        _ if is_stopping => Evidence::Stopping,
        _ => Evidence::Holds,
    }
}

/// Returns true if every container that is known to the kubelet has terminated, and every
/// container of the spec is known. Init containers that have not run yet hold nothing.
fn have_terminated(pod: &Pod) -> bool {
    let statuses = &pod.status.container_statuses;
    let is_known = |name: &str| statuses.iter().any(|status| status.name == name);
    !statuses.is_empty()
        && pod.spec.containers.iter().all(|container| is_known(&container.name))
        && statuses.iter().chain(&pod.status.init_container_statuses).all(is_over)
}

fn is_over(status: &ContainerStatus) -> bool {
    status.state.terminated.is_some() || !was_created(status)
}

fn was_created(status: &ContainerStatus) -> bool {
    status.container_id.as_deref().is_some_and(|id| !id.is_empty())
}

/// Returns true if the kubelet rejected the pod, and no container was ever created.
fn was_rejected(pod: &Pod) -> bool {
    let reason = pod.status.reason.as_deref().unwrap_or_default();
    let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let is_rejection = reason.starts_with("OutOf") || REJECTED_BY_KUBELET.contains(&reason);
    is_rejection && !statuses.into_iter().any(was_created)
}
