//! What a runtime takes on a GPU outside the memory that it counts itself, and who says so.

use std::fmt;

use plimsoll_core::units::Bytes;
use serde::Serialize;

use crate::settings::RuntimeKind;

/// What a runtime takes on each GPU beside what it counts itself. It is part of the charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outside {
    /// How much, on each GPU.
    pub bytes: Bytes,
    /// Who says so.
    pub source: OutsideSource,
}

/// Who says what a runtime takes outside its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutsideSource {
    /// The declaration.
    Declared,
    /// A number that was published once.
    Table(&'static str),
}

impl Outside {
    /// As it was declared.
    pub fn declared(bytes: Bytes) -> Self {
        Outside { bytes, source: OutsideSource::Declared }
    }

    /// The number that counts where nobody declares one. Each is the highest that was found published, rounded up to 256 MiB.
    pub fn of(runtime: RuntimeKind) -> Self {
        let (mib, what) = match runtime {
            // The ratio covers what is allocated after vLLM's first look at the GPU. The CUDA context and NCCL's buffers are there
            // by then, and the graphs are estimated before they are captured.
            RuntimeKind::Vllm => (1792, "vllm-project/vllm#7553: 23859 MiB in use at 0.9 of 24564 MiB"),
            RuntimeKind::LlamaCpp => (512, "ggml-org/llama.cpp#15860: 451 to 456 MiB unaccounted for"),
            RuntimeKind::Ollama => (512, "ollama 0.34.4 sets 457 MiB aside for each GPU"),
        };
        Outside { bytes: Bytes::mib(mib), source: OutsideSource::Table(what) }
    }
}

impl fmt::Display for OutsideSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutsideSource::Declared => f.write_str("declared"),
            OutsideSource::Table(what) => write!(f, "table: {what}"),
        }
    }
}
