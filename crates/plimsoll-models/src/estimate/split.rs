//! The distribution of a model over its GPUs, as each runtime does it.

use std::fmt;

use plimsoll_core::units::Bytes;
use serde::Serialize;

use crate::settings::{RuntimeKind, Settings};
use crate::shape::Shape;

/// The number of layers on each GPU of a model that llama.cpp splits. The output counts as one
/// layer after the last.
///
/// The estimate charges each GPU by these counts, and `--tensor-split` passes the same counts to
/// llama.cpp. It adds them up, divides by their sum, and puts layer `i` of `n` on the first GPU
/// whose sum exceeds `i / n`. With counts that add up to `n`, both sides are the same division, so
/// llama.cpp assigns exactly these layers. Other proportions, such as bytes, can move a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerCounts(Vec<u64>);

impl LayerCounts {
    /// Divides the layers of a model and its output in equal runs over `gpus` GPUs.
    pub fn for_shape(shape: &Shape, gpus: u64) -> LayerCounts {
        LayerCounts::equal(shape.layer_count().unwrap_or(0) as u64, gpus)
    }

    /// Divides `layers` layers and the output: item `i` of `n` goes to GPU `i * gpus / n`.
    pub(crate) fn equal(layers: u64, gpus: u64) -> LayerCounts {
        let items = u128::from(layers) + 1;
        let start = |gpu: u64| {
            let start = (items * u128::from(gpu)).div_ceil(u128::from(gpus.max(1)));
            u64::try_from(start).unwrap_or(u64::MAX)
        };
        LayerCounts((0..gpus).map(|gpu| start(gpu + 1) - start(gpu)).collect())
    }

    /// Divides the layers of another model, and its output, as llama.cpp divides them with these
    /// counts as proportions.
    pub(super) fn proportional(&self, layers: u64) -> LayerCounts {
        let sum: u128 = self.0.iter().map(|count| u128::from(*count)).sum();
        let items = u128::from(layers) + 1;
        let mut end = 0_u128;
        let mut start = 0_u64;
        let counts = self.0.iter().map(|count| {
            end += u128::from(*count);
            // The first item that is not before the end of this GPU.
            let next = (end * items).div_ceil(sum.max(1)).min(items);
            let next = u64::try_from(next).unwrap_or(u64::MAX);
            let count = next - start;
            start = next;
            count
        });
        LayerCounts(counts.collect())
    }

    /// Returns the GPU of a layer, or of the output for a number beyond the last layer.
    pub(super) fn gpu_of(&self, layer: usize) -> Option<usize> {
        let mut end = 0_u64;
        let holder = self.0.iter().position(|count| {
            end = end.saturating_add(*count);
            end > layer as u64
        });
        holder.or_else(|| self.output_gpu())
    }

    /// Returns the GPU of the output: the last one that has a layer.
    pub(super) fn output_gpu(&self) -> Option<usize> {
        self.0.iter().rposition(|count| *count > 0)
    }
}

impl fmt::Display for LayerCounts {
    /// Writes the value of `--tensor-split`: `19,18`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.pad(&counts.join(","))
    }
}

/// The distribution of a model over its GPUs.
pub(super) enum Split {
    /// llama.cpp and Ollama give each GPU whole layers.
    ByLayer { gpus: usize, counts: LayerCounts },
    /// vLLM gives each GPU a share of every layer (tensor parallelism).
    ByTensor { gpus: usize },
}

impl Split {
    pub(super) fn new(shape: &Shape, settings: &Settings) -> Split {
        let gpus = usize::try_from(settings.gpus).unwrap_or(usize::MAX);
        match settings.runtime {
            RuntimeKind::Vllm => Split::ByTensor { gpus },
            RuntimeKind::LlamaCpp | RuntimeKind::Ollama => {
                Split::ByLayer { gpus, counts: LayerCounts::for_shape(shape, settings.gpus) }
            }
        }
    }

    /// Returns the split by these counts.
    pub(super) fn by_layer(counts: LayerCounts) -> Split {
        Split::ByLayer { gpus: counts.0.len(), counts }
    }

    pub(super) fn gpus(&self) -> usize {
        match self {
            Split::ByLayer { gpus, .. } | Split::ByTensor { gpus } => *gpus,
        }
    }

    /// Returns the GPU of a layer; `None` with tensor parallelism, where every GPU has a share.
    pub(super) fn gpu_of(&self, layer: usize) -> Option<usize> {
        match self {
            Split::ByLayer { counts, .. } => counts.gpu_of(layer),
            Split::ByTensor { .. } => None,
        }
    }

    /// Returns true if the GPU computes the output. With tensor parallelism, every GPU does.
    pub(super) fn has_output(&self, gpu: usize) -> bool {
        match self {
            Split::ByLayer { counts, .. } => counts.output_gpu() == Some(gpu),
            Split::ByTensor { .. } => true,
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
            Split::ByLayer { counts, .. } => {
                for (layer, bytes) in per_layer.iter().enumerate() {
                    let sum = sums.get_mut(counts.gpu_of(layer)?)?;
                    *sum = sum.checked_add(*bytes)?;
                }
            }
        }
        Some(sums)
    }
}
