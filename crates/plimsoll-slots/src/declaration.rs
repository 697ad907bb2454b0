//! The declaration of a model, as an operator writes it. `model` validates it.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::runtime::{Kv, Runtime};

pub use crate::runtime::AddedFile;
use crate::size::{Memory, Span};

/// The declaration of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    pub name: String,
    pub runtime: Runtime,
    /// The memory on all GPUs together, divided evenly, or a list with the memory on each GPU. By
    /// default the measured memory is charged, else the estimate from `file`. `measure` charges
    /// whole GPUs until a slot was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// The numbers of GPUs that the model may be split over, most preferred first.
    #[serde(default, deserialize_with = "non_empty", skip_serializing_if = "Vec::is_empty")]
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
    #[serde(default, rename = "where", deserialize_with = "mapping")]
    #[serde(skip_serializing_if = "Where::is_anywhere")]
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
    /// Returns the files that a runner must have for the model: its own, and those that its server
    /// loads beside it.
    pub fn required_files(&self) -> Vec<&str> {
        let added = self.runtime.added_files();
        let added = added.into_iter().map(|(_, path)| path);
        self.required_file().into_iter().chain(added).collect()
    }

    /// Returns the model's own file, if its runtime loads it or nothing else states its memory.
    fn required_file(&self) -> Option<&str> {
        let file = self.file.as_deref()?;
        let is_loaded = match &self.runtime {
            Runtime::LlamaCpp(_) => true,
            Runtime::Vllm(options) => options.model.as_deref().is_none_or(|model| model == file),
            Runtime::Ollama(_) | Runtime::Command(_) => false,
        };
        (is_loaded || self.is_estimated()).then_some(file)
    }

    /// Returns true if the memory is estimated from the file until it was measured.
    pub fn is_estimated(&self) -> bool {
        self.memory.is_none() && self.file.is_some() && self.runtime.kind().is_some()
    }

    /// Returns true if the model gets whole GPUs until its memory was measured.
    pub fn is_measured_first(&self) -> bool {
        matches!(self.memory, Some(Memory::Measure(_)))
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
    #[serde(default, deserialize_with = "mapping")]
    #[serde(skip_serializing_if = "Selector::is_anything")]
    pub required: Selector,
    /// Is used if possible.
    #[serde(default, deserialize_with = "mapping")]
    #[serde(skip_serializing_if = "Selector::is_anything")]
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
    #[serde(default, deserialize_with = "non_empty", skip_serializing_if = "Vec::is_empty")]
    pub gpu_models: Vec<String>,
    /// GPU UUIDs.
    #[serde(default, deserialize_with = "non_empty", skip_serializing_if = "Vec::is_empty")]
    pub uuids: Vec<String>,
    /// GPU indices on their runner.
    #[serde(default, deserialize_with = "non_empty", skip_serializing_if = "Vec::is_empty")]
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

/// Reads a list that has at least one element. An empty list could mean none or any, so it is
/// rejected instead of taken as absent.
fn non_empty<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let list = Vec::deserialize(from)?;
    if list.is_empty() {
        return Err(D::Error::custom("must not be an empty list; omit it instead"));
    }
    Ok(list)
}

/// Reads a struct from a mapping only. Derived code also reads a list, field by field, so that
/// `where: []` would be taken as absent.
fn mapping<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Mapping<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Mapping<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a mapping")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    from.deserialize_map(Mapping(PhantomData))
}
