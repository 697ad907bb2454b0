//! How a model is to be served: the numbers that decide its memory beside the model itself.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a model is to be served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The program that serves it.
    pub runtime: RuntimeKind,
    /// Tokens that each of the parallel requests may use. `llama-server` is told this times `parallel`.
    pub context: u64,
    /// How the cache of keys and values is stored.
    pub kv: KvTypes,
    /// How many requests are served at once.
    pub parallel: u64,
    /// Over how many GPUs the model is split.
    pub gpus: u64,
    /// Tokens that are taken in at once: `--batch-size`, `max_num_batched_tokens`.
    pub batch: u64,
    /// Tokens that are computed at once: `--ubatch-size`. vLLM has no such number.
    pub ubatch: u64,
    /// Whether attention is computed without its full matrix.
    pub flash_attention: bool,
    /// Whether all requests share one cache; else each has its own. llama.cpp's `--kv-unified`.
    pub unified: bool,
}

impl Settings {
    /// What the runtime does by itself, with so many tokens for one request on one GPU.
    pub fn new(runtime: RuntimeKind, context: u64) -> Self {
        let (batch, ubatch) = match runtime {
            RuntimeKind::LlamaCpp => (2048, 512),
            RuntimeKind::Ollama => (512, 512),
            RuntimeKind::Vllm => (2048, 2048),
        };
        let kv = KvTypes::both(KvType::F16);
        Settings {
            runtime,
            context,
            kv,
            parallel: 1,
            gpus: 1,
            batch,
            ubatch,
            flash_attention: true,
            unified: false,
        }
    }
}

/// A program that serves models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RuntimeKind {
    /// llama.cpp's `llama-server`.
    #[serde(rename = "llama.cpp")]
    LlamaCpp,
    /// vLLM.
    #[serde(rename = "vllm")]
    Vllm,
    /// Ollama.
    #[serde(rename = "ollama")]
    Ollama,
}

impl RuntimeKind {
    /// All of them.
    pub const ALL: [RuntimeKind; 3] =
        [RuntimeKind::LlamaCpp, RuntimeKind::Vllm, RuntimeKind::Ollama];

    /// Its name, as it is written.
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

impl FromStr for RuntimeKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = RuntimeKind::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("`{text}` is not a runtime; write llama.cpp, vllm or ollama"))
    }
}

/// How the two halves of the cache are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvTypes {
    /// The keys.
    pub k: KvType,
    /// The values.
    pub v: KvType,
}

impl KvTypes {
    /// Keys and values alike.
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
    type Err = String;

    /// One type for both, or two as `keys/values`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (k, v) = text.split_once('/').unwrap_or((text, text));
        Ok(KvTypes { k: k.parse()?, v: v.parse()? })
    }
}

/// How one half of the cache is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvType {
    /// Four bytes a number.
    F32,
    /// Two bytes a number.
    F16,
    /// Two bytes a number.
    Bf16,
    /// One byte a number, with scales outside the cache; vLLM's `fp8`.
    Fp8,
    /// 32 numbers in 34 bytes.
    #[serde(rename = "q8_0")]
    Q8_0,
    /// 32 numbers in 24 bytes.
    #[serde(rename = "q5_1")]
    Q5_1,
    /// 32 numbers in 22 bytes.
    #[serde(rename = "q5_0")]
    Q5_0,
    /// 32 numbers in 20 bytes.
    #[serde(rename = "q4_1")]
    Q4_1,
    /// 32 numbers in 18 bytes.
    #[serde(rename = "q4_0")]
    Q4_0,
    /// 32 numbers in 18 bytes.
    #[serde(rename = "iq4_nl")]
    Iq4Nl,
}

impl KvType {
    /// All of them, from the largest to the smallest.
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

    /// Its name, as it is written.
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

    /// How many numbers stand in one block, and how many bytes it has.
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

    /// Bytes that 32 numbers take.
    pub const fn bytes_of_32(self) -> u64 {
        let (numbers, bytes) = self.block();
        bytes * 32 / numbers
    }

    /// Whether it is stored in blocks with a scale.
    pub const fn is_quantised(self) -> bool {
        self.block().0 > 1
    }

    /// Whether the runtime can store its cache so.
    pub const fn is_known_to(self, runtime: RuntimeKind) -> bool {
        match runtime {
            RuntimeKind::LlamaCpp => !matches!(self, KvType::Fp8),
            RuntimeKind::Vllm => matches!(self, KvType::F16 | KvType::Bf16 | KvType::Fp8),
            RuntimeKind::Ollama => matches!(self, KvType::F16 | KvType::Q8_0 | KvType::Q4_0),
        }
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for KvType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        KvType::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<_> = KvType::ALL.into_iter().map(KvType::name).collect();
            format!("`{text}` is not a type of cache; write one of {}", names.join(", "))
        })
    }
}
