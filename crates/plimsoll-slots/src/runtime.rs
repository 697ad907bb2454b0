//! What serves a model, as it is declared: any program by template, or a runtime that is told what was booked.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_models::settings::{KvType, KvTypes, RuntimeKind};
use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use crate::size::{Size, Span};

/// What serves a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// Any program, its arguments by template from what was booked.
    Command(Command),
    /// vLLM, which keeps to a share of each GPU.
    Vllm(Vllm),
    /// llama.cpp's `llama-server`.
    LlamaCpp(LlamaCpp),
    /// Ollama, one server for each slot.
    Ollama(Ollama),
}

/// A program with its arguments. `{memory_mib}` and the like are filled in from the charge; `{{` is a brace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables for its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// A path that answers 200 once it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// How long it may take to become ready.
    #[serde(default = "half_an_hour")]
    pub ready_within: Span,
    /// How long it may take to go before it is killed.
    #[serde(default = "ten_seconds")]
    pub grace: Span,
}

/// vLLM. What it is told stands in `docs/runtimes.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Vllm {
    /// The program, where it is not `vllm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The model's name on its hub, or its directory; the model's `file` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens that are taken in at once; 2048 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// The model's attention heads: a model is split only over so many GPUs as divide them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<u64>,
    /// What it takes on each GPU outside its share: part of `memory`, and left out of the share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Size>,
    /// Arguments that follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables for its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// How long it may take to become ready.
    #[serde(default = "half_an_hour")]
    pub ready_within: Span,
    /// How long it may take to go before it is killed.
    #[serde(default = "ten_seconds")]
    pub grace: Span,
}

/// llama.cpp's `llama-server`. What it is told stands in `docs/runtimes.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LlamaCpp {
    /// The program, where it is not `llama-server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The model's GGUF file; the model's `file` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens that are taken in at once; 2048 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Tokens that are computed at once; 512 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ubatch: Option<u64>,
    /// Whether attention is computed without its full matrix.
    #[serde(default = "yes")]
    pub flash_attention: bool,
    /// What it takes on each GPU before it has loaded anything: part of `memory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Size>,
    /// Arguments that follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables for its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// How long it may take to become ready.
    #[serde(default = "half_an_hour")]
    pub ready_within: Span,
    /// How long it may take to go before it is killed.
    #[serde(default = "ten_seconds")]
    pub grace: Span,
}

/// Ollama. What it is told, and what it does not promise, stands in `docs/runtimes.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ollama {
    /// The program, where it is not `ollama`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The model's name in Ollama's store: `qwen3:8b`.
    pub model: String,
    /// Tokens that are taken in and computed at once; 512 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Whether attention is computed without its full matrix.
    #[serde(default = "yes")]
    pub flash_attention: bool,
    /// What it takes on each GPU before it has loaded anything: part of `memory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Size>,
    /// Variables for its environment. It takes no arguments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// How long it may take to become ready.
    #[serde(default = "half_an_hour")]
    pub ready_within: Span,
    /// How long it may take to go before it is killed.
    #[serde(default = "ten_seconds")]
    pub grace: Span,
}

fn yes() -> bool {
    true
}

fn half_an_hour() -> Span {
    Span::seconds(1800)
}

fn ten_seconds() -> Span {
    Span::seconds(10)
}

impl Runtime {
    /// Which runtime it is; `None` for any other program.
    pub fn kind(&self) -> Option<RuntimeKind> {
        match self {
            Runtime::Command(_) => None,
            Runtime::Vllm(_) => Some(RuntimeKind::Vllm),
            Runtime::LlamaCpp(_) => Some(RuntimeKind::LlamaCpp),
            Runtime::Ollama(_) => Some(RuntimeKind::Ollama),
        }
    }

    /// Its key in a declaration.
    pub fn key(&self) -> &'static str {
        match self {
            Runtime::Command(_) => "command",
            Runtime::Vllm(_) => "vllm",
            Runtime::LlamaCpp(_) => "llama_cpp",
            Runtime::Ollama(_) => "ollama",
        }
    }

    /// Variables for its environment, as they were declared.
    pub fn env(&self) -> &BTreeMap<String, String> {
        match self {
            Runtime::Command(Command { env, .. })
            | Runtime::Vllm(Vllm { env, .. })
            | Runtime::LlamaCpp(LlamaCpp { env, .. })
            | Runtime::Ollama(Ollama { env, .. }) => env,
        }
    }

    /// How long it may take to become ready, and how long to go.
    pub fn patience(&self) -> (Span, Span) {
        match self {
            Runtime::Command(Command { ready_within, grace, .. })
            | Runtime::Vllm(Vllm { ready_within, grace, .. })
            | Runtime::LlamaCpp(LlamaCpp { ready_within, grace, .. })
            | Runtime::Ollama(Ollama { ready_within, grace, .. }) => (*ready_within, *grace),
        }
    }
}

/// How a model's cache is stored, as people write it: one type for keys and values, or two as `q8_0/q4_0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(value_type = String, example = "q8_0")]
pub struct Kv(pub KvTypes);

impl Default for Kv {
    fn default() -> Self {
        Kv(KvTypes::both(KvType::F16))
    }
}

impl fmt::Display for Kv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Kv {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Kv {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Kv, D::Error> {
        String::deserialize(from)?.parse().map(Kv).map_err(de::Error::custom)
    }
}
