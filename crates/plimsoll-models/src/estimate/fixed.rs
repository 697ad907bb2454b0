//! The fixed overhead of each runtime on a GPU: a table of measured numbers.
//!
//! No file states this memory, and no formula derives it: the driver's context, libraries and
//! captured graphs depend on versions and hardware. So these are published measurements, rounded
//! up, with their source in the output. A user who has measured a machine declares the number of
//! that machine instead.

use plimsoll_core::units::Bytes;

use super::parts::Part;
use crate::settings::RuntimeKind;

/// Returns the memory that a runtime uses on each NVIDIA GPU besides weights, KV cache and compute
/// buffers.
pub(crate) fn overhead_of(runtime: RuntimeKind) -> Part {
    let (mib, what) = match runtime {
        // nvidia-smi showed 23508 MiB, of which llama.cpp had allocated 23199 MiB.
        RuntimeKind::LlamaCpp => {
            (512, "CUDA context and cuBLAS, NVIDIA: 309 MiB in ollama#6160, rounded up")
        }
        // Ollama's own constant is 457 MiB for NVIDIA and 512 MiB for others.
        RuntimeKind::Ollama => (512, "the minimum that Ollama 0.11 sets aside on each GPU"),
        // 0.15 GiB outside torch, and the graphs that are captured after the pool is sized.
        RuntimeKind::Vllm => {
            (1536, "CUDA context, non-torch memory (0.15 GiB in vllm#17117) and CUDA graphs")
        }
    };
    Part::table(Bytes::mib(mib), what)
}
