//! The distribution of a model over its GPUs, as each runtime does it.

use plimsoll_core::units::Bytes;

use crate::settings::{RuntimeKind, Settings};
use crate::shape::Shape;

/// The distribution of a model over its GPUs.
pub(super) enum Split {
    /// llama.cpp and Ollama give each GPU whole layers.
    ByLayer {
        gpus: usize,
        /// The GPU of each layer, and of the output as the last entry.
        gpu_of: Vec<usize>,
    },
    /// vLLM gives each GPU a share of every layer (tensor parallelism).
    ByTensor { gpus: usize },
}

impl Split {
    pub(super) fn new(shape: &Shape, settings: &Settings) -> Split {
        let gpus = usize::try_from(settings.gpus).unwrap_or(usize::MAX);
        match settings.runtime {
            RuntimeKind::Vllm => Split::ByTensor { gpus },
            RuntimeKind::LlamaCpp | RuntimeKind::Ollama => {
                Split::ByLayer { gpus, gpu_of: assign_layers(layer_count(shape), gpus) }
            }
        }
    }

    pub(super) fn gpus(&self) -> usize {
        match self {
            Split::ByLayer { gpus, .. } | Split::ByTensor { gpus } => *gpus,
        }
    }

    /// Returns the bytes on each GPU, or `None` on overflow: `base` on every GPU, plus the layers
    /// that the GPU holds. With tensor parallelism `per_layer` is one GPU's share of each layer,
    /// and every GPU holds all of them.
    pub(super) fn sum_layers(&self, per_layer: &[Bytes], base: Bytes) -> Option<Vec<Bytes>> {
        let mut sums = vec![base; self.gpus()];
        match self {
            Split::ByTensor { .. } => {
                let sum = per_layer.iter().copied().try_fold(base, Bytes::checked_add)?;
                sums.fill(sum);
            }
            Split::ByLayer { gpu_of, .. } => {
                for (layer, bytes) in per_layer.iter().enumerate() {
                    // A layer beyond the declared ones is added where the output is.
                    let gpu = gpu_of.get(layer).or(gpu_of.last())?;
                    let sum = sums.get_mut(*gpu)?;
                    *sum = sum.checked_add(*bytes)?;
                }
            }
        }
        Some(sums)
    }
}

fn layer_count(shape: &Shape) -> usize {
    let from_caches = shape.layers.get().map(Vec::len);
    from_caches.or_else(|| shape.weights.get().map(|weights| weights.layers.len())).unwrap_or(0)
}

/// Assigns `count` layers and the output to GPUs in equal runs: item `i` of `n` goes to GPU
/// `i * gpus / n`, which is llama.cpp's default for equal devices.
pub(super) fn assign_layers(count: usize, gpus: usize) -> Vec<usize> {
    (0..=count).map(|item| item.saturating_mul(gpus) / (count + 1)).collect()
}
