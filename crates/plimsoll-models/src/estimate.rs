//! The memory that a model needs on its GPUs, part by part, each with its source.
//!
//! `plimsoll estimate`, the charge of a slot and the reverse search in [`crate::fit`] all call
//! [`estimate`], so they cannot disagree. All arithmetic is checked: the numbers are read from
//! untrusted files, and a sum that wraps would charge almost nothing for an enormous model.

mod error;

mod parts;

pub(crate) mod fixed;

mod kv;

mod split;

mod weights;

mod indexers;

mod compute;

mod additions;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod files_beside;

#[cfg(test)]
mod several_gpus;

#[cfg(test)]
mod architectures;

pub use error::EstimateError;
pub use parts::{Breakdown, Part};
pub use split::LayerCounts;

use plimsoll_core::units::Bytes;
use serde::Serialize;

use crate::settings::{RuntimeKind, Settings};
use crate::shape::{Cache, FlashAttention, Format, LayerPasses, Shape};
use split::Split;

/// The largest number of GPUs that a model is split over.
pub const MAX_GPUS: u64 = 1024;

/// The largest number of parallel requests.
pub const MAX_PARALLEL: u64 = 65_536;

/// The longest context, and the largest batch.
pub const MAX_TOKENS: u64 = 1 << 40;

/// Estimates the memory of a model with the given settings.
///
/// Each GPU needs five parts: its weights, its KV cache, its compute buffers, the fixed overhead
/// of the runtime, and a reserve. An unknown part makes the sum unknown; it does not count as 0.
pub fn estimate(shape: &Shape, settings: &Settings) -> Result<Estimate, EstimateError> {
    estimate_on(shape, settings, &Split::new(shape, settings))
}

fn estimate_on(
    shape: &Shape,
    settings: &Settings,
    split: &Split,
) -> Result<Estimate, EstimateError> {
    check_settings(shape, settings)?;
    additions::check(shape, settings)?;
    let settings = &as_served(shape, settings);
    let additions = additions::per_gpu(shape, settings, split)?;
    let weights = weights::per_gpu(shape, settings, split)?;
    let kv = kv_per_gpu(shape, settings, split)?;
    let mut gpus = Vec::new();
    let parts = weights.gpus.into_iter().zip(kv).zip(additions);
    for (gpu, ((weights, kv), addend)) in parts.enumerate() {
        let compute = compute::on_gpu(shape, settings, split, gpu)?.plus(&addend.compute)?;
        let (weights, kv) = (weights.plus(&addend.weights)?, kv.plus(&addend.kv)?);
        gpus.push(Breakdown::new(weights, kv, compute, fixed::overhead_of(settings.runtime))?);
    }
    Ok(Estimate {
        settings: settings.clone(),
        all: Breakdown::sum(&gpus)?,
        gpus,
        host: weights.host,
        remarks: remarks(shape, settings),
    })
}

/// Returns the settings that the runtime really uses for this model.
fn as_served(shape: &Shape, settings: &Settings) -> Settings {
    let is_off = is_flash_attention_switched_off(shape, settings);
    Settings { flash_attention: settings.flash_attention && !is_off, ..settings.clone() }
}

fn is_flash_attention_switched_off(shape: &Shape, settings: &Settings) -> bool {
    let is_off = shape.flash_attention == FlashAttention::SwitchedOff;
    is_off && settings.runtime != RuntimeKind::Vllm
}

fn remarks(shape: &Shape, settings: &Settings) -> Vec<String> {
    let mut remarks = shape.remarks.clone();
    if settings.runtime != RuntimeKind::Vllm && !settings.flash_attention {
        remarks.push(
            "without flash attention, Vulkan devices have used up to twice the compute buffers"
                .to_string(),
        );
    }
    if is_flash_attention_switched_off(shape, settings) {
        let architecture = &shape.architecture;
        remarks.push(format!("llama.cpp switches flash attention off for {architecture} models"));
    }
    remarks.extend(context_remark(shape, settings));
    remarks.extend(shape.additions.iter().map(additions::remark));
    remarks
}

/// Returns a note on a context beyond the trained one. llama.cpp's server allocates it and then
/// limits each request to the trained length, so the rest of the cache is never used.
fn context_remark(shape: &Shape, settings: &Settings) -> Option<String> {
    let context = settings.context;
    let trained = shape.trained_context.get().filter(|trained| context > **trained)?;
    let remark =
        format!("context {context} is longer than the {trained} tokens the model was trained for");
    Some(match settings.runtime {
        RuntimeKind::Vllm => remark,
        RuntimeKind::LlamaCpp => {
            format!("{remark}; llama-server allocates it and serves {trained} of them")
        }
        RuntimeKind::Ollama => format!("{remark}; Ollama reduces it to {trained}"),
    })
}

/// The memory that a model needs with the given settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Estimate {
    pub settings: Settings,
    /// The sums over all GPUs.
    pub all: Breakdown,
    /// The parts on each GPU, in order. They add up to `all`.
    pub gpus: Vec<Breakdown>,
    /// Weights in the host's memory, which no GPU is charged for.
    pub host: Part,
    /// Notes for the reader of the estimate.
    pub remarks: Vec<String>,
}

impl Estimate {
    /// Returns the memory of the GPU that needs the most; `None` if a part is unknown.
    pub fn largest(&self) -> Option<Bytes> {
        let totals: Option<Vec<Bytes>> = self.gpus.iter().map(|gpu| gpu.total).collect();
        totals.map(|totals| totals.into_iter().max().unwrap_or(Bytes::ZERO))
    }

    /// Returns true if GPUs with `device` bytes each hold the model; `None` if a part is unknown.
    pub fn fits(&self, device: Bytes) -> Option<bool> {
        self.largest().map(|largest| largest <= device)
    }

    /// Returns the first field that is missing for a complete estimate.
    pub fn missing(&self) -> Option<&str> {
        self.all.missing()
    }
}

fn check_settings(shape: &Shape, settings: &Settings) -> Result<(), EstimateError> {
    for (setting, value, limit) in [
        ("context", settings.context, MAX_TOKENS),
        ("parallel", settings.parallel, MAX_PARALLEL),
        ("gpus", settings.gpus, MAX_GPUS),
        ("batch", settings.batch, MAX_TOKENS),
        ("ubatch", settings.ubatch, MAX_TOKENS),
    ] {
        if value == 0 || value > limit {
            return Err(EstimateError::OutOfRange { setting, value, limit });
        }
    }
    match settings.runtime {
        RuntimeKind::Vllm => check_heads(shape, settings.gpus),
        runtime if shape.format != Format::Gguf => Err(EstimateError::Format { runtime }),
        _ if shape.passes == LayerPasses::Several && settings.gpus > 1 => {
            Err(EstimateError::SeveralPasses { architecture: shape.architecture.clone() })
        }
        RuntimeKind::LlamaCpp | RuntimeKind::Ollama => check_latent_types(shape, settings),
    }
}

/// Checks that a compressed cache has one type, as llama.cpp does.
fn check_latent_types(shape: &Shape, settings: &Settings) -> Result<(), EstimateError> {
    let mut layers = shape.layers.get().into_iter().flatten();
    let is_latent =
        layers.any(|layer| matches!(layer, Cache::Latent { .. } | Cache::Compressed { .. }));
    match is_latent && settings.kv.k != settings.kv.v {
        true => Err(EstimateError::KvTypesDiffer { kv: settings.kv }),
        false => Ok(()),
    }
}

/// Checks that vLLM can give each GPU the same number of attention heads.
fn check_heads(shape: &Shape, gpus: u64) -> Result<(), EstimateError> {
    let mut heads = shape.heads.get().into_iter().flatten();
    match heads.find(|heads| !heads.is_multiple_of(gpus)) {
        Some(heads) => Err(EstimateError::Heads { gpus, heads: *heads }),
        None => Ok(()),
    }
}

/// Returns the KV cache of each GPU, which follows the layers.
fn kv_per_gpu(
    shape: &Shape,
    settings: &Settings,
    split: &Split,
) -> Result<Vec<Part>, EstimateError> {
    let Some(layers) = shape.layers.get() else {
        return Ok(vec![Part::unknown_like(shape.layers.source()); split.gpus()]);
    };
    let with_drafts = additions::caches_with_drafts(shape, layers);
    let per_layer = kv::per_layer(&with_drafts, settings)?;
    let sums = split.sum_layers(&per_layer, Bytes::ZERO);
    let sums = sums.ok_or(EstimateError::Overflow { what: "the KV cache" })?;
    let from = format!("{}; {}", kv_summary(layers, settings), shape.layers.source());
    Ok(sums.into_iter().map(|bytes| Part::computed(bytes, &from)).collect())
}

fn kv_summary(layers: &[Cache], settings: &Settings) -> String {
    let has_cache = |layer: &&Cache| match layer {
        Cache::None | Cache::Shared { .. } => false,
        Cache::Grouped { kv_heads, .. } => *kv_heads > 0,
        Cache::GroupedWithState { .. }
        | Cache::GroupedWithIndexer { .. }
        | Cache::Latent { .. }
        | Cache::Compressed { .. }
        | Cache::Recurrent { .. } => true,
    };
    let with_cache = layers.iter().filter(has_cache).count();
    let tokens = match settings.parallel {
        1 => format!("{} tokens", settings.context),
        parallel => format!("{parallel} x {} tokens", settings.context),
    };
    format!("{with_cache} layers x {tokens} in {}", settings.kv)
}
