//! The log of one who asked by name, in the shape of HAMi's proposal.

use serde::Deserialize;

/// How one who asked fared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SchedulerLog {
    pub(crate) status: String,
    pub(crate) filter: Filter,
    pub(crate) bind: Bind,
    pub(crate) model: String,
    pub(crate) decision_id: Option<String>,
}

/// What was found on every node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Filter {
    pub(crate) status: String,
    pub(crate) summary: String,
    pub(crate) nodes: Vec<Node>,
}

/// A node as it was judged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) score: Option<serde_json::Number>,
    pub(crate) containers: Vec<Container>,
}

/// A container as it was judged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
}

/// What became of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Bind {
    pub(crate) status: String,
    pub(crate) summary: String,
}
