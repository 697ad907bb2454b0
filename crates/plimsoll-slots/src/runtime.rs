//! The declared runtime of a model: any program by template, or a model server whose flags Plimsoll
//! renders.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_models::settings::{KvType, KvTypes, RuntimeKind};
use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use crate::size::{Size, Span};

/// The environment variables that confine a process to its devices. Plimsoll sets them from the
/// charge; a declaration must not.
pub const CONFINING_VARIABLES: [&str; 5] = [
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ASCEND_RT_VISIBLE_DEVICES",
];

/// The runtime of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// Any program, with arguments by template from the charge.
    Command(Command),
    /// vLLM, which limits itself to a fraction of each GPU.
    Vllm(ServerOptions),
    /// llama.cpp's `llama-server`.
    LlamaCpp(ServerOptions),
    /// Ollama, one server for each slot.
    Ollama(ServerOptions),
}

impl Runtime {
    /// Returns its name in a declaration.
    pub fn name(&self) -> &'static str {
        match self {
            Runtime::Command(_) => "command",
            Runtime::Vllm(_) => "vllm",
            Runtime::LlamaCpp(_) => "llama_cpp",
            Runtime::Ollama(_) => "ollama",
        }
    }
}

/// A kind of file that a server loads beside a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddedFile {
    Projector,
    Adapter,
    Draft,
}

/// A program with its arguments. `{memory_mib}` and others are replaced from the charge; `{{` is a
/// brace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// A path that answers 200 once the program is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// The time to become ready.
    #[serde(default = "half_an_hour")]
    pub ready_within: Span,
    /// The time between SIGTERM and SIGKILL.
    #[serde(default = "ten_seconds")]
    pub grace: Span,
}

/// The options of a model server whose flags Plimsoll renders. `docs/runtimes.md` lists the flags.
///
/// The servers share one struct, because most options are common to them. A `model` rejects the
/// options that its server does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerOptions {
    /// The program, if it is not found under its usual name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The model as the server names it: a name on its hub, a directory, a GGUF file, or a name in
    /// Ollama's store. The model's `file` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The number of tokens that are processed at once; 2048 by default, 512 for Ollama.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// llama.cpp only: the number of tokens that are computed at once; 512 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ubatch: Option<u64>,
    /// Not for vLLM: computes attention without its full matrix; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash_attention: Option<bool>,
    /// llama.cpp only: the absolute path of a projector for images on the runners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mmproj: Option<String>,
    /// llama.cpp only: the absolute paths of LoRA adapters on the runners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lora: Vec<String>,
    /// llama.cpp only: the absolute path of a draft model for speculative decoding on the runners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
    /// vLLM only: the number of attention heads. The number of GPUs must divide it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<u64>,
    /// The memory on each GPU that the server uses outside its own pool. It is part of `memory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Size>,
    /// Arguments after Plimsoll's own. Not for Ollama, which takes none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The time to become ready.
    #[serde(default = "half_an_hour")]
    pub ready_within: Span,
    /// The time between SIGTERM and SIGKILL.
    #[serde(default = "ten_seconds")]
    pub grace: Span,
}

fn half_an_hour() -> Span {
    Span::seconds(1800)
}

fn ten_seconds() -> Span {
    Span::seconds(10)
}

impl Runtime {
    /// Returns the model server and its options; `None` for any other program.
    pub fn server(&self) -> Option<(RuntimeKind, &ServerOptions)> {
        match self {
            Runtime::Command(_) => None,
            Runtime::Vllm(options) => Some((RuntimeKind::Vllm, options)),
            Runtime::LlamaCpp(options) => Some((RuntimeKind::LlamaCpp, options)),
            Runtime::Ollama(options) => Some((RuntimeKind::Ollama, options)),
        }
    }

    /// Returns the files that the server loads beside the model, with their paths.
    pub fn added_files(&self) -> Vec<(AddedFile, &str)> {
        let Runtime::LlamaCpp(options) = self else { return Vec::new() };
        let ServerOptions { mmproj, lora, draft, .. } = options;
        let projector = mmproj.iter().map(|path| (AddedFile::Projector, path.as_str()));
        let adapters = lora.iter().map(|path| (AddedFile::Adapter, path.as_str()));
        let draft = draft.iter().map(|path| (AddedFile::Draft, path.as_str()));
        projector.chain(adapters).chain(draft).collect()
    }

    /// Returns the kind of model server; `None` for any other program.
    pub fn kind(&self) -> Option<RuntimeKind> {
        self.server().map(|(kind, _)| kind)
    }

    /// Returns the key of the runtime in a declaration.
    pub fn key(&self) -> &'static str {
        match self {
            Runtime::Command(_) => "command",
            Runtime::Vllm(_) => "vllm",
            Runtime::LlamaCpp(_) => "llama_cpp",
            Runtime::Ollama(_) => "ollama",
        }
    }

    /// Returns the declared environment variables.
    pub fn env(&self) -> &BTreeMap<String, String> {
        match self {
            Runtime::Command(Command { env, .. })
            | Runtime::Vllm(ServerOptions { env, .. })
            | Runtime::LlamaCpp(ServerOptions { env, .. })
            | Runtime::Ollama(ServerOptions { env, .. }) => env,
        }
    }

    /// Returns the time between SIGTERM and SIGKILL.
    pub fn grace(&self) -> Span {
        match self {
            Runtime::Command(Command { grace, .. })
            | Runtime::Vllm(ServerOptions { grace, .. })
            | Runtime::LlamaCpp(ServerOptions { grace, .. })
            | Runtime::Ollama(ServerOptions { grace, .. }) => *grace,
        }
    }
}

/// The KV cache type as people write it: one for keys and values, or two as `q8_0/q4_0`.
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
