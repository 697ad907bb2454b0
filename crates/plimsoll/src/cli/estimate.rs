//! Arguments of `plimsoll estimate`.

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
    /// Context length per request [default: the model's trained length]
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<u64>,
    /// KV cache type: f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl, fp8; two as keys/values
    #[arg(long, value_name = "TYPE", default_value = "f16")]
    pub(crate) kv: KvTypes,
    /// Requests that are served at once [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) parallel: Option<u64>,
    /// The number of GPUs that the model is split over
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) gpus: u64,
    /// The runtime: llama.cpp, vllm or ollama [default: llama.cpp for GGUF files, vllm for others]
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Option<RuntimeKind>,
    /// Logical batch size in tokens [default: the runtime's]
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<u64>,
    /// Physical batch size in tokens [default: the runtime's]
    #[arg(long, value_name = "N")]
    pub(crate) ubatch: Option<u64>,
    /// Disable flash attention
    #[arg(long)]
    pub(crate) no_flash_attention: bool,
    /// A projector that llama.cpp loads beside the model
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) mmproj: Option<PathBuf>,
    /// A LoRA adapter that llama.cpp loads beside the model; can be repeated
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) lora: Vec<PathBuf>,
    /// A draft model that llama.cpp loads beside the model
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) draft: Option<PathBuf>,
    /// Check whether the model fits GPUs of this size, and which context, number of requests, KV
    /// type and number of GPUs would
    #[arg(long, value_name = "SIZE")]
    pub(crate) device: Option<Bytes>,
    /// The output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}
