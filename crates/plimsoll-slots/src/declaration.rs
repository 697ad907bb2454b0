//! The declaration of a model, as an operator writes it. `model` validates it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::runtime::{Kv, Runtime};
use crate::size::{Memory, Span};

/// The declaration of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    pub name: String,
    pub runtime: Runtime,
    /// The memory on all GPUs together, divided evenly, or a list with the memory on each GPU. By
    /// default the measured memory is charged, else the estimate from `file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// The numbers of GPUs that the model may be split over, most preferred first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensor_parallel: Vec<u16>,
    /// The number of GPUs, if there is only one possibility; 0 for a model that runs on the CPU
    /// only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u16>,
    /// The vendor of its GPUs.
    #[serde(default = "nvidia")]
    pub vendor: String,
    /// The context length of each request in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// The KV cache type; `f16` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<Kv>,
    /// The absolute path of its file or directory on the runners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The number of requests that one slot serves at once.
    #[serde(default = "one")]
    pub concurrency: u32,
    /// The largest number of its slots.
    #[serde(default = "one")]
    pub max_slots: u32,
    /// The runners and GPUs that it may or should use.
    #[serde(default, rename = "where", skip_serializing_if = "Where::is_anywhere")]
    pub placement: Where,
    /// Never evicts its slots.
    #[serde(default)]
    pub pinned: bool,
    /// Starts a slot before the first request. Such a slot evicts nothing, overtakes no pending
    /// request, and is evicted first.
    #[serde(default)]
    pub prewarm: bool,
    /// A higher priority is placed first.
    #[serde(default)]
    pub priority: i32,
    /// The time that a slot must be idle before it can be evicted.
    #[serde(default = "five_minutes")]
    pub idle_limit: Span,
    /// The slots that may be evicted to make room for it.
    #[serde(default)]
    pub eviction: Eviction,
    /// The time to load it again; measured by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload_cost: Option<Span>,
}

fn nvidia() -> String {
    "NVIDIA".to_string()
}

fn one() -> u32 {
    1
}

fn five_minutes() -> Span {
    Span::seconds(300)
}

impl Declaration {
    /// Returns the file that a runner must have for the model because nothing else states its
    /// memory.
    pub fn required_file(&self) -> Option<&str> {
        let needs_file = self.memory.is_none() && self.runtime.kind().is_some();
        self.file.as_deref().filter(|_| needs_file)
    }
}

/// The slots that may be evicted to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Eviction {
    /// None.
    Never,
    /// Slots that are idle longer than their limit.
    #[default]
    Idle,
    /// Also active slots of a lower priority.
    LowerPriority,
}

/// The runners and GPUs that a model may or should use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Where {
    /// Must match.
    #[serde(default, skip_serializing_if = "Selector::is_anything")]
    pub required: Selector,
    /// Is used if possible.
    #[serde(default, skip_serializing_if = "Selector::is_anything")]
    pub preferred: Selector,
}

impl Where {
    fn is_anywhere(&self) -> bool {
        self.required.is_anything() && self.preferred.is_anything()
    }
}

/// A selection of runners and GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Selector {
    /// Labels of the runner; all must match.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Parts of GPU model names, of which one must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_models: Vec<String>,
    /// GPU UUIDs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uuids: Vec<String>,
    /// GPU indices on their runner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indices: Vec<u16>,
}

impl Selector {
    fn is_anything(&self) -> bool {
        self.labels.is_empty() && !self.selects_gpus()
    }

    /// Returns true if it restricts the GPUs.
    pub fn selects_gpus(&self) -> bool {
        !(self.gpu_models.is_empty() && self.uuids.is_empty() && self.indices.is_empty())
    }
}
