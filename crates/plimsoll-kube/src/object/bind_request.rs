//! KAI's orders to bind a pod, which its scheduler writes and its binder carries out.

use serde::Deserialize;

use super::{Metadata, nullable};

/// A `BindRequest` (`scheduling.run.ai`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BindRequest {
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    pub spec: BindRequestSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: BindRequestStatus,
}

impl BindRequest {
    /// Returns true if the binder has given up, so that the pod is pending again.
    pub fn has_failed(&self) -> bool {
        self.status.phase.as_deref() == Some("Failed")
    }

    /// Returns true if the request can be for this pod, and not for an earlier one of its name.
    pub fn is_for(&self, pod: &Metadata) -> bool {
        let mut owners = self.metadata.owner_references.iter();
        let owner = owners.find(|owner| owner.kind == "Pod" && !owner.uid.is_empty());
        match (owner, pod.known_uid()) {
            (Some(owner), Some(uid)) => owner.uid == uid,
            _ => true,
        }
    }
}

/// The content of a bind request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BindRequestSpec {
    /// A pod in the namespace of the request.
    #[serde(deserialize_with = "nullable")]
    pub pod_name: String,
    #[serde(deserialize_with = "nullable")]
    pub selected_node: String,
    /// The groups of GPUs that the pod shares; empty for whole GPUs.
    #[serde(rename = "selectedGPUGroups", deserialize_with = "nullable")]
    pub selected_gpu_groups: Vec<String>,
}

/// The state of a bind request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct BindRequestStatus {
    /// `Pending`, `Succeeded` or `Failed`; `None` until the binder has seen it.
    pub phase: Option<String>,
}
