//! Serving parameters: the numbers besides the model itself that decide how much memory it needs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The parameters that a model server is started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub runtime: RuntimeKind,
    /// Tokens available to each parallel request. `llama-server` gets this times `parallel`.
    pub context: u64,
    pub kv: KvTypes,
    /// The number of requests served at the same time.
    pub parallel: u64,
    /// The number of GPUs that the model is split over.
    pub gpus: u64,
    /// Tokens in one logical batch: `--batch-size`, `max_num_batched_tokens`.
    pub batch: u64,
    /// Tokens in one forward pass: `--ubatch-size`. vLLM has no such parameter.
    pub ubatch: u64,
    /// With flash attention, the matrix of attention scores is never stored as a whole.
    pub flash_attention: bool,
    /// All requests share one KV cache, instead of one cache per request: `--kv-unified`.
    pub unified: bool,
    #[serde(default)]
    pub scores: Scores,
}

/// The tokens of a pass for which the runtime keeps the scores of the whole vocabulary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scores {
    /// The last token of each request. `llama-server` does so since v0.5.0.
    #[default]
    EachRequest,
    /// All tokens, as llama.cpp's library and Ollama's own runner do.
    WholePass,
}

impl Settings {
    /// Returns the runtime's own defaults for one request with `context` tokens on one GPU.
    pub fn new(runtime: RuntimeKind, context: u64) -> Self {
        let (batch, ubatch) = match runtime {
            RuntimeKind::LlamaCpp => (2048, 512),
            RuntimeKind::Ollama => (512, 512),
            RuntimeKind::Vllm => (2048, 2048),
        };
        Settings {
            runtime,
            context,
            kv: KvTypes::both(KvType::F16),
            parallel: 1,
            gpus: 1,
            batch,
            ubatch,
            flash_attention: true,
            unified: false,
            scores: match runtime {
                RuntimeKind::LlamaCpp | RuntimeKind::Vllm => Scores::EachRequest,
                RuntimeKind::Ollama => Scores::WholePass,
            },
        }
    }
}

/// A model server that Plimsoll can estimate and configure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RuntimeKind {
    /// `llama-server` of llama.cpp.
    #[serde(rename = "llama.cpp")]
    LlamaCpp,
    #[serde(rename = "vllm")]
    Vllm,
    #[serde(rename = "ollama")]
    Ollama,
}

impl RuntimeKind {
    /// All runtimes.
    pub const ALL: [RuntimeKind; 3] =
        [RuntimeKind::LlamaCpp, RuntimeKind::Vllm, RuntimeKind::Ollama];

    /// Returns the name used in options, JSON and messages.
    pub const fn name(self) -> &'static str {
        match self {
            RuntimeKind::LlamaCpp => "llama.cpp",
            RuntimeKind::Vllm => "vllm",
            RuntimeKind::Ollama => "ollama",
        }
    }
}

impl fmt::Display for RuntimeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for text that names no runtime.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown runtime `{0}`; use llama.cpp, vllm or ollama")]
pub struct UnknownRuntime(String);

impl FromStr for RuntimeKind {
    type Err = UnknownRuntime;

    fn from_str(text: &str) -> Result<Self, UnknownRuntime> {
        let found = RuntimeKind::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| UnknownRuntime(text.to_string()))
    }
}

/// The element types of the keys and of the values in a KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvTypes {
    pub k: KvType,
    pub v: KvType,
}

impl KvTypes {
    /// Uses one type for keys and values.
    pub const fn both(kind: KvType) -> Self {
        KvTypes { k: kind, v: kind }
    }
}

impl fmt::Display for KvTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.k == self.v {
            f.pad(self.k.name())
        } else {
            f.pad(&format!("{}/{}", self.k, self.v))
        }
    }
}

impl FromStr for KvTypes {
    type Err = UnknownKvType;

    /// Parses one type for both, or two as `keys/values`.
    fn from_str(text: &str) -> Result<Self, UnknownKvType> {
        let (k, v) = text.split_once('/').unwrap_or((text, text));
        Ok(KvTypes { k: k.parse()?, v: v.parse()? })
    }
}

/// An element type of a KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvType {
    F32,
    F16,
    Bf16,
    /// vLLM's `fp8`: one byte per element, with the scales outside the cache.
    Fp8,
    #[serde(rename = "q8_0")]
    Q8_0,
    #[serde(rename = "q5_1")]
    Q5_1,
    #[serde(rename = "q5_0")]
    Q5_0,
    #[serde(rename = "q4_1")]
    Q4_1,
    #[serde(rename = "q4_0")]
    Q4_0,
    #[serde(rename = "iq4_nl")]
    Iq4Nl,
}

impl KvType {
    /// All types, from the largest to the smallest.
    pub const ALL: [KvType; 10] = [
        KvType::F32,
        KvType::F16,
        KvType::Bf16,
        KvType::Q8_0,
        KvType::Fp8,
        KvType::Q5_1,
        KvType::Q5_0,
        KvType::Q4_1,
        KvType::Q4_0,
        KvType::Iq4Nl,
    ];

    /// Returns the name used in options, JSON and launch flags.
    pub const fn name(self) -> &'static str {
        match self {
            KvType::F32 => "f32",
            KvType::F16 => "f16",
            KvType::Bf16 => "bf16",
            KvType::Fp8 => "fp8",
            KvType::Q8_0 => "q8_0",
            KvType::Q5_1 => "q5_1",
            KvType::Q5_0 => "q5_0",
            KvType::Q4_1 => "q4_1",
            KvType::Q4_0 => "q4_0",
            KvType::Iq4Nl => "iq4_nl",
        }
    }

    /// Returns the number of elements in one block and the bytes of that block, as ggml defines
    /// them.
    pub const fn block(self) -> (u64, u64) {
        match self {
            KvType::F32 => (1, 4),
            KvType::F16 | KvType::Bf16 => (1, 2),
            KvType::Fp8 => (1, 1),
            KvType::Q8_0 => (32, 34),
            KvType::Q5_1 => (32, 24),
            KvType::Q5_0 => (32, 22),
            KvType::Q4_1 => (32, 20),
            KvType::Q4_0 | KvType::Iq4Nl => (32, 18),
        }
    }

    /// Returns the bytes of 32 elements, the smallest count that is whole for every type.
    pub const fn bytes_of_32(self) -> u64 {
        let (elements, bytes) = self.block();
        bytes * 32 / elements
    }

    /// Returns true for types that store blocks of elements with a shared scale.
    pub const fn is_quantised(self) -> bool {
        self.block().0 > 1
    }

    /// Returns true if the runtime supports this type.
    pub const fn is_known_to(self, runtime: RuntimeKind) -> bool {
        match runtime {
            RuntimeKind::LlamaCpp => !matches!(self, KvType::Fp8),
            RuntimeKind::Vllm => matches!(self, KvType::F16 | KvType::Bf16 | KvType::Fp8),
            RuntimeKind::Ollama => matches!(self, KvType::F16 | KvType::Q8_0 | KvType::Q4_0),
        }
    }

    /// Lists the types that the runtime supports, for messages.
    pub(crate) fn names_for(runtime: RuntimeKind) -> String {
        join_names(KvType::ALL.into_iter().filter(|kind| kind.is_known_to(runtime)))
    }
}

fn join_names(kinds: impl IntoIterator<Item = KvType>) -> String {
    kinds.into_iter().map(KvType::name).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for text that names no type of KV cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown KV cache type `{0}`; use one of {names}", names = join_names(KvType::ALL))]
pub struct UnknownKvType(String);

impl FromStr for KvType {
    type Err = UnknownKvType;

    fn from_str(text: &str) -> Result<Self, UnknownKvType> {
        let found = KvType::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| UnknownKvType(text.to_string()))
    }
}
