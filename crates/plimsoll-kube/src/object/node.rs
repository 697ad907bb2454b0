//! A node: what it has, and what keeps work off it.

use serde::Deserialize;

use super::{Metadata, Resources, nullable};

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Node {
    /// Name, labels and annotations.
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    /// What was decided about it.
    #[serde(deserialize_with = "nullable")]
    pub spec: NodeSpec,
    /// What it reports.
    #[serde(deserialize_with = "nullable")]
    pub status: NodeStatus,
}

impl Node {
    /// Whether the node reports itself ready; `None` if it says nothing about it, as in manifests.
    pub fn is_ready(&self) -> Option<bool> {
        let ready = self.status.conditions.iter().find(|condition| condition.kind == "Ready")?;
        Some(ready.status == "True")
    }
}

/// What was decided about a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSpec {
    /// Whether it is cordoned.
    #[serde(deserialize_with = "nullable")]
    pub unschedulable: bool,
    /// What pods must tolerate.
    #[serde(deserialize_with = "nullable")]
    pub taints: Vec<Taint>,
}

/// One taint of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    /// The key.
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    /// The value, often empty.
    #[serde(deserialize_with = "nullable")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[serde(deserialize_with = "nullable")]
    pub effect: String,
}

/// What a node reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    /// All that the node has.
    #[serde(deserialize_with = "nullable")]
    pub capacity: Resources,
    /// What pods may use of it.
    #[serde(deserialize_with = "nullable")]
    pub allocatable: Resources,
    /// Its conditions, `Ready` among them.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}

/// One condition of a node, or of a Job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// What it is about, such as `Ready` or `Complete`.
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "nullable")]
    pub status: String,
}
