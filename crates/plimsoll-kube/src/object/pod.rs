//! A pod: its containers' resources, its scheduling rules and its status.

use serde::{Deserialize, Deserializer};

use super::{
    Affinity, Condition, ExtendedClaimStatus, Metadata, PodClaim, PodClaimStatus, Present,
    Resources, StringMap, nullable,
};

/// A `Pod`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pod {
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    pub spec: PodSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: PodStatus,
}

impl Pod {
    /// Returns the node that the pod is bound to, if any.
    pub fn node_name(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Returns the node on which a scheduler makes room for the pod, if any.
    pub fn nominated_node(&self) -> Option<&str> {
        self.status.nominated_node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Returns true if nothing that is read differs, except for the version.
    pub(crate) fn is_same_but_version(&self, other: &Pod) -> bool {
        self.metadata.is_same_but_version(&other.metadata)
            && (&self.spec, &self.status) == (&other.spec, &other.status)
    }

    /// Returns true if all containers have terminated for good, so that the pod holds nothing.
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }
}

/// The desired state of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    pub node_name: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub node_selector: StringMap,
    pub affinity: Option<Affinity>,
    #[serde(deserialize_with = "nullable")]
    pub tolerations: Vec<Toleration>,
    /// Resolved by the API server; `None` in manifests.
    pub priority: Option<i32>,
    pub priority_class_name: Option<String>,
    /// `PreemptLowerPriority` or `Never`.
    pub preemption_policy: Option<String>,
    pub scheduler_name: Option<String>,
    /// One entry per gate that has not been removed.
    #[serde(deserialize_with = "nullable")]
    pub scheduling_gates: Vec<SchedulingGate>,
    pub scheduling_group: Option<SchedulingGroup>,
    #[serde(deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    /// Init containers and native sidecars, in start order.
    #[serde(deserialize_with = "nullable")]
    pub init_containers: Vec<Container>,
    /// Resources of the pod as a whole.
    #[serde(deserialize_with = "nullable")]
    pub resources: ContainerResources,
    /// Resources of the sandbox.
    #[serde(deserialize_with = "nullable")]
    pub overhead: Resources,
    pub runtime_class_name: Option<String>,
    pub termination_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub volumes: Vec<Volume>,
    #[serde(deserialize_with = "nullable")]
    pub topology_spread_constraints: Vec<Present>,
    /// Claims of dynamic resource allocation.
    #[serde(deserialize_with = "nullable")]
    pub resource_claims: Vec<PodClaim>,
}

/// A gate that holds a pod back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SchedulingGate {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
}

/// The group that a pod is placed with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SchedulingGroup {
    /// A PodGroup in the pod's namespace.
    pub pod_group_name: Option<String>,
}

/// `spec.tolerations[]` of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Toleration {
    /// `None` or empty together with `Exists` matches every key.
    pub key: Option<String>,
    /// `Equal` (the default) or `Exists`. Other operators tolerate nothing here.
    pub operator: Option<String>,
    pub value: Option<String>,
    /// `None` or empty matches every effect.
    pub effect: Option<String>,
}

/// `spec.containers[]` or `spec.initContainers[]` of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub resources: ContainerResources,
    /// `Always` on an init container makes it a native sidecar.
    pub restart_policy: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<ContainerPort>,
    /// The literal value of `NVIDIA_VISIBLE_DEVICES`. Other variables are not kept.
    #[serde(rename = "env", deserialize_with = "visible_devices")]
    pub visible_devices: Option<String>,
    #[serde(rename = "securityContext", deserialize_with = "privileged")]
    pub is_privileged: bool,
}

fn visible_devices<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Variable {
        #[serde(deserialize_with = "nullable")]
        name: String,
        value: Option<String>,
    }
    let variables: Vec<Variable> = nullable(from)?;
    // Of several, the kubelet uses the last.
    let last = variables.into_iter().rfind(|one| one.name == "NVIDIA_VISIBLE_DEVICES");
    Ok(last.and_then(|one| one.value))
}

fn privileged<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct SecurityContext {
        privileged: Option<bool>,
    }
    let context: SecurityContext = nullable(from)?;
    Ok(context.privileged == Some(true))
}

impl Container {
    /// Returns true if an init container is a native sidecar.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// Resources of a container, or of a pod as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerResources {
    #[serde(deserialize_with = "nullable")]
    pub limits: Resources,
    #[serde(deserialize_with = "nullable")]
    pub requests: Resources,
    /// One entry per claim of dynamic resource allocation.
    #[serde(deserialize_with = "nullable")]
    pub claims: Vec<Present>,
}

impl ContainerResources {
    /// Returns true if an extended resource is listed, which is one whose name has a domain.
    pub fn has_extended(&self) -> bool {
        let mut names = self.limits.iter().chain(self.requests.iter()).map(|(name, _)| name);
        names.any(|name| name.contains('/'))
    }
}

/// `ports[]` of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// `None` or 0 if no host port is used.
    pub host_port: Option<u16>,
}

/// A volume, as far as it restricts the nodes a pod can run on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Present if it is a claim, which may be bound to a node or zone.
    pub persistent_volume_claim: Option<Present>,
    /// Present if it is a claim that is created for this pod.
    pub ephemeral: Option<Present>,
}

/// The reported state of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: Option<String>,
    /// The node on which the scheduler makes room for the pod, or expects it to run.
    pub nominated_node_name: Option<String>,
    /// The reason of the phase, such as `OutOfcpu` or `Evicted`.
    pub reason: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    #[serde(deserialize_with = "nullable")]
    pub init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "nullable")]
    pub container_statuses: Vec<ContainerStatus>,
    /// The claims that were created from templates.
    #[serde(deserialize_with = "nullable")]
    pub resource_claim_statuses: Vec<PodClaimStatus>,
    pub extended_resource_claim_status: Option<ExtendedClaimStatus>,
}

/// `status.containerStatuses[]` of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub state: ContainerState,
    /// The runtime's id; empty or `None` until the container was created.
    #[serde(rename = "containerID")]
    pub container_id: Option<String>,
}

/// `state` of a container status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerState {
    /// Present once the container has terminated.
    pub terminated: Option<Present>,
}
