//! What a model takes on its GPUs, part by part, each with its source: the one computation that every question asks.

mod compute;
pub(crate) mod fixed;
mod parts;
mod weights;

#[cfg(test)]
mod tests;

pub use parts::{Part, Parts};

use plimsoll_core::units::Bytes;
use serde::Serialize;

use crate::kv;
use crate::settings::{KvType, RuntimeKind, Settings};
use crate::shape::{Cache, Format, Shape};
use crate::source::Fact;

/// The most GPUs that a model is split over.
pub const GPUS_MOST: u64 = 1024;

/// The most requests at once.
pub const PARALLEL_MOST: u64 = 65_536;

/// The longest context, and the largest batch.
pub const TOKENS_MOST: u64 = 1 << 40;

/// What a model takes on its GPUs with given settings.
pub fn estimate(shape: &Shape, settings: &Settings) -> Result<Estimate, EstimateError> {
    check(shape, settings)?;
    let placed = weights::place(shape, settings)?;
    let kv = kv_per_gpu(shape, settings, placed.layers_of.as_deref())?;
    let mut gpus = Vec::new();
    for (gpu, (weights, kv)) in placed.gpus.into_iter().zip(kv).enumerate() {
        let compute = compute::on(shape, settings, gpu)?;
        gpus.push(Parts::new(weights, kv, compute, fixed::of(settings.runtime))?);
    }
    let all = Parts::sum(&gpus)?;
    Ok(Estimate {
        settings: settings.clone(),
        all,
        gpus,
        host: placed.host,
        remarks: remarks(shape, settings),
    })
}

fn remarks(shape: &Shape, settings: &Settings) -> Vec<String> {
    let mut remarks = shape.remarks.clone();
    if settings.runtime != RuntimeKind::Vllm && !settings.flash_attention {
        remarks.push(
            "without flash attention, Vulkan was seen to book twice the compute buffers"
                .to_string(),
        );
    }
    let trained = shape.trained_context.get().copied().unwrap_or(u64::MAX);
    if settings.context > trained {
        let context = settings.context;
        remarks.push(format!(
            "the model was trained for {trained} tokens of context, not for {context}"
        ));
    }
    remarks
}

/// What a model takes on its GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// For which settings.
    pub settings: Settings,
    /// Over all GPUs.
    pub all: Parts,
    /// On each GPU, in order. They add up to `all`.
    pub gpus: Vec<Parts>,
    /// Weights that stay in the host's memory: nothing that a GPU is charged for.
    pub host: Part,
    /// What a reader should know that is no number.
    pub remarks: Vec<String>,
}

impl Estimate {
    /// The most that any one GPU holds; `None` when a part is unknown.
    pub fn largest(&self) -> Option<Bytes> {
        let totals: Option<Vec<Bytes>> = self.gpus.iter().map(|gpu| gpu.total).collect();
        totals.map(|totals| totals.into_iter().max().unwrap_or(Bytes::ZERO))
    }

    /// Whether every GPU of this size holds its share; `None` when a part is unknown.
    pub fn fits(&self, device: Bytes) -> Option<bool> {
        self.largest().map(|largest| largest <= device)
    }

    /// The field that is missing for a whole estimate.
    pub fn missing(&self) -> Option<&str> {
        self.all.missing()
    }
}

fn check(shape: &Shape, settings: &Settings) -> Result<(), EstimateError> {
    for (setting, value, most) in [
        ("context", settings.context, TOKENS_MOST),
        ("parallel", settings.parallel, PARALLEL_MOST),
        ("gpus", settings.gpus, GPUS_MOST),
        ("batch", settings.batch, TOKENS_MOST),
        ("ubatch", settings.ubatch, TOKENS_MOST),
    ] {
        if value == 0 || value > most {
            return Err(EstimateError::OutOfRange { setting, value, most });
        }
    }
    let (runtime, format) = (settings.runtime, shape.format);
    if runtime != RuntimeKind::Vllm && format != Format::Gguf {
        return Err(EstimateError::Format { runtime });
    }
    match shape.heads.get() {
        Some(heads) if runtime == RuntimeKind::Vllm => {
            let odd = heads.iter().find(|heads| !heads.is_multiple_of(settings.gpus));
            odd.map_or(Ok(()), |heads| {
                Err(EstimateError::Heads { gpus: settings.gpus, heads: *heads })
            })
        }
        _ => Ok(()),
    }
}

/// The caches of each GPU. vLLM has a share of every layer on each, the others whole layers.
fn kv_per_gpu(
    shape: &Shape,
    settings: &Settings,
    layers_of: Option<&[usize]>,
) -> Result<Vec<Part>, EstimateError> {
    let gpus = usize::try_from(settings.gpus).unwrap_or(usize::MAX);
    let Some(layers) = shape.layers.get() else {
        return Ok(vec![Part::unknown_as(shape.layers.source()); gpus]);
    };
    let each = kv::per_layer(layers, settings)?;
    let mut sums = vec![Bytes::ZERO; gpus];
    for (index, bytes) in each.into_iter().enumerate() {
        let here = layers_of.and_then(|gpu_of| gpu_of.get(index).copied());
        for (gpu, sum) in sums.iter_mut().enumerate() {
            if here.is_none_or(|here| here == gpu) {
                *sum = sum
                    .checked_add(bytes)
                    .ok_or(EstimateError::Overflow { what: "the KV cache" })?;
            }
        }
    }
    let from = kv_source(layers, settings, &shape.layers);
    Ok(sums.into_iter().map(|bytes| Part::computed(bytes, &from)).collect())
}

fn kv_source(layers: &[Cache], settings: &Settings, facts: &Fact<Vec<Cache>>) -> String {
    let keeping = layers.iter().filter(|layer| !matches!(layer, Cache::None)).count();
    let tokens = match settings.parallel {
        1 => format!("{} tokens", settings.context),
        parallel => format!("{parallel} x {} tokens", settings.context),
    };
    format!("{keeping} layers x {tokens} in {}; {}", settings.kv, facts.source())
}

/// Why there is no estimate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EstimateError {
    /// A number is more than 64 bits can hold.
    #[error("{what} is more memory than can be counted")]
    Overflow {
        /// Which part.
        what: &'static str,
    },
    /// A setting is nothing, or more than makes sense.
    #[error("{setting} is {value}; it must be from 1 to {most}")]
    OutOfRange {
        /// Its name.
        setting: &'static str,
        /// What was asked.
        value: u64,
        /// The most that is accepted.
        most: u64,
    },
    /// The runtime does not read such files.
    #[error("{runtime} reads GGUF files only; --runtime vllm reads this one")]
    Format {
        /// The runtime.
        runtime: RuntimeKind,
    },
    /// The runtime has no such type of cache.
    #[error("{runtime} cannot store its cache as {kv}")]
    KvType {
        /// The runtime.
        runtime: RuntimeKind,
        /// What was asked.
        kv: KvType,
    },
    /// A head cannot be cut into the blocks of the type.
    #[error(
        "a cache of {kv} has blocks of {block}, which do not divide the {length} numbers of a head's {half}"
    )]
    KvBlocks {
        /// What was asked.
        kv: KvType,
        /// Numbers in a block.
        block: u64,
        /// `key` or `value`.
        half: &'static str,
        /// Numbers in a head's key or value.
        length: u64,
    },
    /// Quantised values need flash attention.
    #[error("values can be stored as {kv} only with flash attention")]
    NeedsFlashAttention {
        /// What was asked.
        kv: KvType,
    },
    /// The model cannot be split so.
    #[error("{gpus} GPUs do not divide the model's {heads} attention heads")]
    Heads {
        /// What was asked.
        gpus: u64,
        /// The model's heads.
        heads: u64,
    },
}
