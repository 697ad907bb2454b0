//! A pod: what its containers ask, where it may go, and how far it is.

use serde::Deserialize;

use super::{Affinity, Metadata, Present, Resources, StringMap, nullable};

/// A pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pod {
    /// Name, labels and annotations.
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    /// What is asked.
    #[serde(deserialize_with = "nullable")]
    pub spec: PodSpec,
    /// What became of it.
    #[serde(deserialize_with = "nullable")]
    pub status: PodStatus,
}

impl Pod {
    /// The node that the pod was given, if any.
    pub fn node_name(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Whether all its containers have ended for good, so that it holds nothing.
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }
}

/// What a pod asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// The node it was given.
    pub node_name: Option<String>,
    /// Labels that the node must have.
    #[serde(deserialize_with = "nullable")]
    pub node_selector: StringMap,
    /// Which nodes it needs and prefers.
    pub affinity: Option<Affinity>,
    /// The taints it tolerates.
    #[serde(deserialize_with = "nullable")]
    pub tolerations: Vec<Toleration>,
    /// Its priority, once Kubernetes has resolved it.
    pub priority: Option<i32>,
    /// The class that its priority comes from.
    pub priority_class_name: Option<String>,
    /// `PreemptLowerPriority` or `Never`.
    pub preemption_policy: Option<String>,
    /// The scheduler that it is meant for.
    pub scheduler_name: Option<String>,
    /// Present for each gate that still holds it back.
    #[serde(deserialize_with = "nullable")]
    pub scheduling_gates: Vec<Present>,
    /// The group that it is placed with.
    pub scheduling_group: Option<SchedulingGroup>,
    /// Its containers.
    #[serde(deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    /// The containers that run before them, and native sidecars.
    #[serde(deserialize_with = "nullable")]
    pub init_containers: Vec<Container>,
    /// What all its containers ask together.
    #[serde(deserialize_with = "nullable")]
    pub resources: ContainerResources,
    /// What the sandbox itself takes.
    #[serde(deserialize_with = "nullable")]
    pub overhead: Resources,
    /// The runtime it wants.
    pub runtime_class_name: Option<String>,
    /// Its volumes, as far as they can bind it to a place.
    #[serde(deserialize_with = "nullable")]
    pub volumes: Vec<Volume>,
    /// Present for each constraint that spreads it.
    #[serde(deserialize_with = "nullable")]
    pub topology_spread_constraints: Vec<Present>,
    /// Present for each dynamic resource claim.
    #[serde(deserialize_with = "nullable")]
    pub resource_claims: Vec<Present>,
}

/// The group that a pod is placed with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SchedulingGroup {
    /// The name of the PodGroup in the pod's namespace.
    pub pod_group_name: Option<String>,
}

/// A taint that a pod tolerates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Toleration {
    /// The key; `None` or empty with `Exists` means every key.
    pub key: Option<String>,
    /// `Equal` (also if not given) or `Exists`; others are not considered.
    pub operator: Option<String>,
    /// The value to equal.
    pub value: Option<String>,
    /// The effect; `None` or empty means every effect.
    pub effect: Option<String>,
}

/// A container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Its name, unique in the pod.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// What it asks.
    #[serde(deserialize_with = "nullable")]
    pub resources: ContainerResources,
    /// `Always` on an init container makes it a sidecar that stays.
    pub restart_policy: Option<String>,
    /// Its ports, of which those on the host bind it to a node.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<ContainerPort>,
}

impl Container {
    /// Whether an init container is a native sidecar.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// What a container asks, or a pod as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerResources {
    /// The most it may use.
    #[serde(deserialize_with = "nullable")]
    pub limits: Resources,
    /// What it is promised.
    #[serde(deserialize_with = "nullable")]
    pub requests: Resources,
    /// Present for each dynamic resource claim it uses.
    #[serde(deserialize_with = "nullable")]
    pub claims: Vec<Present>,
}

impl ContainerResources {
    /// Reports whether an extended resource is listed: one of a name with a domain, such as a device.
    pub fn has_extended(&self) -> bool {
        let mut names = self.limits.iter().chain(self.requests.iter()).map(|(name, _)| name);
        names.any(|name| name.contains('/'))
    }
}

/// A port of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// The port on the host; `None` or 0 if it takes none.
    pub host_port: Option<u16>,
}

/// A volume, as far as it can bind a pod to a place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    /// Its name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Present if it is a claim, which may have a place.
    pub persistent_volume_claim: Option<Present>,
    /// Present if it is a claim made for this pod.
    pub ephemeral: Option<Present>,
}

/// What became of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: Option<String>,
    /// How far its init containers are.
    #[serde(deserialize_with = "nullable")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// How far its containers are.
    #[serde(deserialize_with = "nullable")]
    pub container_statuses: Vec<ContainerStatus>,
}

/// How far a container is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    /// The container's name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Its state.
    #[serde(deserialize_with = "nullable")]
    pub state: ContainerState,
}

/// The state of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerState {
    /// Present if it has ended.
    pub terminated: Option<Present>,
}
