//! The memory that a model needs, and its source.

use plimsoll_core::units::Bytes;
use plimsoll_models::estimate::Breakdown;
use plimsoll_slots::memory::Source;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::named;
use crate::time::Time;

named! {
    /// The source of a model's memory.
    MemorySource {
        /// The declaration.
        Declared = "declared",
        /// The peak use of its slots.
        Measured = "measured",
        /// Its file.
        Estimated = "estimated",
    }
}

impl From<Source> for MemorySource {
    fn from(source: Source) -> MemorySource {
        match source {
            Source::Declared => MemorySource::Declared,
            Source::Measured => MemorySource::Measured,
            Source::Estimated => MemorySource::Estimated,
        }
    }
}

/// The memory that a model needs on a number of GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryRow {
    pub tensor_parallel_size: u16,
    /// Null if the memory is unknown; then the model is not placed.
    pub source: Option<MemorySource>,
    /// The charge on each GPU; null if unknown.
    #[schema(value_type = Option<Vec<u64>>)]
    pub per_gpu: Option<Vec<Bytes>>,
    /// The missing data, if the memory is unknown.
    pub missing: Option<String>,
    pub measured: Option<MeasuredRow>,
    pub estimated: Option<EstimatedRow>,
    /// Measurement and estimate differ by more than a tenth.
    pub disagrees: bool,
    /// Notes for people.
    pub remarks: Vec<String>,
}

/// The peak use of the slots of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MeasuredRow {
    #[schema(value_type = Vec<u64>)]
    pub per_gpu: Vec<Bytes>,
    pub at: Time,
    /// The context length at that time.
    pub context: Option<u64>,
    /// The KV cache type at that time.
    pub kv: Option<String>,
    /// The concurrency at that time.
    pub concurrency: u32,
    /// The reason why the measurement does not apply to the current declaration, if it does not.
    pub stale_reason: Option<String>,
}

/// The estimate from a model's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EstimatedRow {
    /// Null if a part is unknown.
    #[schema(value_type = Option<u64>)]
    pub total: Option<Bytes>,
    /// Null where a part is unknown.
    #[schema(value_type = Vec<Option<u64>>)]
    pub per_gpu: Vec<Option<Bytes>>,
    /// The parts over all GPUs, each with its source, as `plimsoll estimate` shows them.
    #[schema(value_type = Object)]
    pub parts: Breakdown,
}
