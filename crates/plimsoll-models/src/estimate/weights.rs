//! The weights on each GPU and on the host.
//!
//! The sizes are sums of exact tensor sizes, so the only question is which GPU holds which tensor.
//! The number of parameters times a size per parameter would be simpler and wrong: quantised files
//! mix types from tensor to tensor.

use plimsoll_core::units::Bytes;

use super::error::EstimateError;
use super::parts::Part;
use super::split::{LayerCounts, Split};
use crate::settings::Settings;
use crate::shape::{Shape, Weights};

const OVERFLOW: EstimateError = EstimateError::Overflow { what: "the weights" };

/// The location of the weights.
pub(super) struct PlacedWeights {
    pub(super) gpus: Vec<Part>,
    pub(super) host: Part,
}

/// Distributes the weights.
pub(super) fn per_gpu(
    shape: &Shape,
    settings: &Settings,
    split: &Split,
) -> Result<PlacedWeights, EstimateError> {
    let source = shape.weights.source();
    let Some(weights) = shape.weights.get() else {
        let unknown = Part::unknown_like(source);
        return Ok(PlacedWeights { gpus: vec![unknown.clone(); split.gpus()], host: unknown });
    };
    let (sums, host) = match split {
        Split::ByLayer { counts, .. } => {
            (whole_layers(weights, split, counts).ok_or(OVERFLOW)?, weights.embedding)
        }
        Split::ByTensor { gpus } => {
            (vec![tensor_share(weights, settings).ok_or(OVERFLOW)?; *gpus], Bytes::ZERO)
        }
    };
    Ok(PlacedWeights {
        gpus: sums.into_iter().map(|bytes| Part::with_source(bytes, source)).collect(),
        host: Part::with_source(host, source),
    })
}

/// Returns the weights on each GPU if it holds whole layers, or `None` on overflow.
///
/// llama.cpp keeps the token embeddings on the host. If the model uses them as output matrix too,
/// it loads a second copy next to the output. Tensors of no layer count on every GPU: they are
/// small, and which GPU holds them depends on the architecture.
fn whole_layers(weights: &Weights, split: &Split, counts: &LayerCounts) -> Option<Vec<Bytes>> {
    let mut sums = split.sum_layers(&weights.layers, weights.other)?;
    let first = sums.first_mut()?;
    *first = first.checked_add(weights.input)?;
    let output = weights.output.checked_add(weights.tied.unwrap_or(Bytes::ZERO))?;
    let sum = sums.get_mut(counts.output_gpu()?)?;
    *sum = sum.checked_add(output)?;
    Some(sums)
}

/// Returns the weights on each GPU under tensor parallelism, or `None` on overflow.
///
/// vLLM keeps everything on the GPUs. It divides matrices, and copies vectors (norms, biases) to
/// each GPU.
fn tensor_share(weights: &Weights, settings: &Settings) -> Option<Bytes> {
    let parts = [weights.embedding, weights.input, weights.output, weights.other];
    let mut parts = parts.into_iter().chain(weights.layers.iter().copied());
    let sum = parts.try_fold(Bytes::ZERO, Bytes::checked_add)?;
    let matrices = sum.less(weights.vectors);
    let share = Bytes::new(matrices.get().div_ceil(settings.gpus.max(1)));
    share.checked_add(weights.vectors)
}
