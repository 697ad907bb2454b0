//! What a model takes on its GPUs, part by part, each with its source: the one computation that every question asks.

use plimsoll_core::units::Bytes;
use serde::Serialize;

use crate::settings::{KvType, RuntimeKind, Settings};
use crate::shape::Shape;
use crate::source::Source;

/// What a model takes on its GPUs with given settings.
pub fn estimate(shape: &Shape, settings: &Settings) -> Result<Estimate, EstimateError> {
    let _ = (shape, settings);
    Err(EstimateError::Overflow { what: "everything" })
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
    /// What stays in the host's memory: nothing that a GPU is charged for.
    pub host: Part,
    /// What a reader should know that is no number.
    pub remarks: Vec<String>,
}

/// The parts of what a model takes, and their sum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// The model's tensors.
    pub weights: Part,
    /// What is kept for the tokens of running requests.
    pub kv: Part,
    /// Buffers for the numbers in between.
    pub compute: Part,
    /// What the runtime takes before it has loaded anything.
    pub fixed: Part,
    /// What is added so that small things which nobody counts do not exceed the sum.
    pub reserve: Part,
    /// The sum; unknown when a part is.
    pub total: Option<Bytes>,
}

/// One part of what a model takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// How much; `None` exactly when the source is [`Source::Unknown`].
    pub bytes: Option<Bytes>,
    /// Where the number comes from.
    pub source: Source,
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
