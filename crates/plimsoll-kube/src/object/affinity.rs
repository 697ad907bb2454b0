//! Node affinity of a pod. Of affinity between pods only its presence is read.

use serde::Deserialize;

use super::{Present, nullable};

/// `spec.affinity` of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    pub node_affinity: Option<NodeAffinity>,
    /// Present if the pod must or should run near other pods.
    pub pod_affinity: Option<Present>,
    /// Present if the pod must or should run away from other pods.
    pub pod_anti_affinity: Option<Present>,
}

/// The nodes that a pod requires and prefers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "nullable"
    )]
    pub preferred: Vec<PreferredTerm>,
}

/// Alternatives: a node that satisfies one term matches. A selector without terms matches no node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelector {
    #[serde(deserialize_with = "nullable")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// A preference and its weight.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PreferredTerm {
    /// 1 to 100.
    #[serde(deserialize_with = "nullable")]
    pub weight: i32,
    #[serde(deserialize_with = "nullable")]
    pub preference: NodeSelectorTerm,
}

/// Requirements that must all hold. A term without any matches no node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    #[serde(deserialize_with = "nullable")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// Kubernetes knows the field `metadata.name` only.
    #[serde(deserialize_with = "nullable")]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// One requirement on a label or field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeSelectorRequirement {
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    #[serde(deserialize_with = "nullable")]
    pub operator: String,
    #[serde(deserialize_with = "nullable")]
    pub values: Vec<String>,
}
