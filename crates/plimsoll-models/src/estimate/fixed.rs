//! What a runtime takes that no file states: the table of measured numbers, and the reserve.

use plimsoll_core::units::Bytes;

use super::parts::{self, Part};
use super::{EstimateError, RuntimeKind};

/// What a runtime takes on each GPU outside weights, cache and compute buffers, on NVIDIA GPUs.
pub(crate) fn of(runtime: RuntimeKind) -> Part {
    let (mib, what) = match runtime {
        // nvidia-smi 23508 MiB, of which llama.cpp had booked 23199 MiB.
        RuntimeKind::LlamaCpp => {
            (512, "CUDA context and cuBLAS, NVIDIA: 309 MiB in ollama#6160, rounded up")
        }
        // Ollama's own constant for NVIDIA is 457 MiB, for others 512 MiB.
        RuntimeKind::Ollama => (512, "the minimum that Ollama 0.11 sets aside on each GPU"),
        // 0.15 GiB outside torch, and the graphs that are captured after the pool is sized.
        RuntimeKind::Vllm => {
            (1536, "CUDA context, non-torch memory (0.15 GiB in vllm#17117) and CUDA graphs")
        }
    };
    Part::table(Bytes::mib(mib), what)
}

/// One part in fifty: rounding of allocations, and the error that a comparison with the runtime may show.
pub(super) fn reserve(parts: [&Part; 3]) -> Result<Part, EstimateError> {
    let Some(sum) = parts::total(parts)? else {
        let missing = parts.into_iter().find(|part| part.bytes.is_none());
        return Ok(
            missing.map_or_else(|| Part::unknown("reserve"), |part| Part::unknown_as(&part.source))
        );
    };
    let reserve = Bytes::new(sum.get().div_ceil(50)).ceil_mib();
    Ok(Part::computed(reserve, "2 percent of weights, KV cache and compute buffers"))
}
