//! What can be typed after `plimsoll estimate`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use plimsoll_core::units::Bytes;
use plimsoll_models::settings::{KvTypes, RuntimeKind};

use super::Format;

pub(super) const EXAMPLES: &str = "Examples:\n  plimsoll estimate qwen3-8b-q4_k_m.gguf\n  \
plimsoll estimate qwen3-8b-q4_k_m.gguf --context 32768 --kv q8_0 --parallel 4\n  \
plimsoll estimate llama-70b-00001-of-00003.gguf --gpus 2 --device 24GiB\n  \
plimsoll estimate Qwen3-32B/ --runtime vllm --gpus 4 -o json\n\n\
Only headers are read, so a file may be larger than the machine, or end after its header.\n\n\
Exit codes: 0 estimated, and it fits --device; 1 it does not fit --device; 2 error, or a number is unknown.";

#[derive(Args)]
pub(crate) struct EstimateArgs {
    /// A GGUF file (any part of a split one), a directory with safetensors files, or a config.json
    #[arg(value_name = "MODEL", value_hint = ValueHint::AnyPath)]
    pub(crate) model: PathBuf,
    /// Tokens that each request may use; what the model was trained for if not said
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<u64>,
    /// How the KV cache is stored: f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl or fp8; two as keys/values
    #[arg(long, value_name = "TYPE", default_value = "f16")]
    pub(crate) kv: KvTypes,
    /// How many requests are served at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) parallel: u64,
    /// Over how many GPUs the model is split
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) gpus: u64,
    /// What serves it: llama.cpp, vllm or ollama; llama.cpp for GGUF files and vllm for others if not said
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Option<RuntimeKind>,
    /// Tokens that are taken in at once; the runtime's own number if not said
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<u64>,
    /// Tokens that are computed at once; the runtime's own number if not said
    #[arg(long, value_name = "N")]
    pub(crate) ubatch: Option<u64>,
    /// Compute attention with its full matrix
    #[arg(long)]
    pub(crate) no_flash_attention: bool,
    /// The memory of one GPU: whether the model fits, and with which context, batch and KV type it would
    #[arg(long, value_name = "SIZE")]
    pub(crate) device: Option<Bytes>,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}
