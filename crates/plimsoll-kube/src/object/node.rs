//! A node: its resources, labels and taints.

use serde::Deserialize;

use super::{Metadata, Resources, nullable};

/// A `Node`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Node {
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    pub spec: NodeSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: NodeStatus,
}

impl Node {
    /// Returns the `Ready` condition; `None` if the node reports none, as in manifests.
    pub fn is_ready(&self) -> Option<bool> {
        let ready = self.status.conditions.iter().find(|condition| condition.kind == "Ready")?;
        Some(ready.status == "True")
    }
}

/// The desired state of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSpec {
    /// True for a cordoned node.
    #[serde(deserialize_with = "nullable")]
    pub unschedulable: bool,
    #[serde(deserialize_with = "nullable")]
    pub taints: Vec<Taint>,
}

/// `spec.taints[]` of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    #[serde(deserialize_with = "nullable")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[serde(deserialize_with = "nullable")]
    pub effect: String,
}

/// The reported state of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    #[serde(deserialize_with = "nullable")]
    pub capacity: Resources,
    /// The part of the capacity that pods can use.
    #[serde(deserialize_with = "nullable")]
    pub allocatable: Resources,
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    #[serde(deserialize_with = "nullable")]
    pub node_info: NodeInfo,
}

/// `status.nodeInfo` of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeInfo {
    /// Another one after each boot of the machine.
    #[serde(rename = "bootID")]
    pub boot_id: Option<String>,
}

/// A condition of a node, a pod or a Job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// The type, such as `Ready` or `Complete`.
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "nullable")]
    pub status: String,
    pub message: Option<String>,
}
