//! Which nodes a pod wants. Affinity between pods is only noted as present.

use serde::Deserialize;

use super::{Present, nullable};

/// The affinity of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    /// Which nodes it needs and prefers.
    pub node_affinity: Option<NodeAffinity>,
    /// Present if the pod wants to be near others.
    pub pod_affinity: Option<Present>,
    /// Present if the pod wants to be away from others.
    pub pod_anti_affinity: Option<Present>,
}

/// Which nodes a pod needs and prefers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// What a node must satisfy.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    /// What makes a node better.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "nullable"
    )]
    pub preferred: Vec<PreferredTerm>,
}

/// Alternatives: a node satisfies it by satisfying one term. Without any term, none does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelector {
    /// The alternatives.
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
    /// What the node should satisfy.
    #[serde(deserialize_with = "nullable")]
    pub preference: NodeSelectorTerm,
}

/// Requirements that hold together. A term without any is satisfied by no node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    /// About labels.
    #[serde(deserialize_with = "nullable")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// About fields; Kubernetes knows `metadata.name` only.
    #[serde(deserialize_with = "nullable")]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// One requirement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeSelectorRequirement {
    /// The label or field.
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    #[serde(deserialize_with = "nullable")]
    pub operator: String,
    /// What to compare with.
    #[serde(deserialize_with = "nullable")]
    pub values: Vec<String>,
}
