//! The steps of indexers that select blocks or pools of cached tokens.
//!
//! They grow with the context and with the tokens of a pass, and on several GPUs with the number of
//! layers, so that they can be larger than the KV cache.

use super::error::EstimateError;
use super::kv;
use super::split::Split;
use crate::settings::Settings;
use crate::shape::{IndexerSteps, Shape};

/// llama.cpp computes in 32-bit floats.
const FLOAT_BYTES: u128 = 4;

/// Returns the steps of indexers that select among the cached tokens. Without flash attention, the
/// models attend to all tokens instead.
pub(super) fn on_gpu(
    shape: &Shape,
    settings: &Settings,
    split: &Split,
    gpu: usize,
) -> Result<u128, EstimateError> {
    let steps = shape.split_inputs.indexer;
    if steps == IndexerSteps::default() || !settings.flash_attention {
        return Ok(0);
    }
    let layers = shape.layers.get().map(Vec::as_slice).unwrap_or_default();
    let is_on_gpu = |layer: usize| split.gpu_of(layer).is_none_or(|holder| holder == gpu);
    let indexers = layers.iter().enumerate().filter(|(layer, _)| is_on_gpu(*layer));
    let indexers = indexers.filter(|(_, layer)| layer.has_indexer()).count() as u128;
    let elements = match gpu {
        _ if settings.gpus == 1 => steps.on_single_gpu.into(),
        0 => steps.on_first_gpu.into(),
        _ => u128::from(steps.on_further_gpus) + u128::from(steps.per_layer) * indexers,
    };
    let cells = u128::from(kv::cells(None, settings)?);
    let bytes = cells.checked_mul(kv::tokens_per_pass(settings) * FLOAT_BYTES);
    let overflow = EstimateError::Overflow { what: "the compute buffers" };
    bytes.and_then(|bytes| bytes.checked_mul(elements)).ok_or(overflow)
}
