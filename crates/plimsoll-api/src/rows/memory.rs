//! What a model needs, and who says so.

use plimsoll_core::units::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a model needs when it is split over so many GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryRow {
    /// Over so many.
    pub tensor_parallel_size: u16,
    /// Who says it: `declared`, `measured` or `estimated`; null where nobody does, and then it is not placed.
    pub source: Option<String>,
    /// What is charged on each GPU; null where nobody says it.
    #[schema(value_type = Option<Vec<u64>>)]
    pub per_gpu: Option<Vec<Bytes>>,
    /// What is missing where nobody says it.
    pub missing: Option<String>,
    /// The most that its slots were seen to use.
    pub measured: Option<MeasuredRow>,
    /// What its file says, part by part.
    pub estimated: Option<EstimatedRow>,
    /// Whether what was measured and what the file says differ by more than a tenth.
    pub disagrees: bool,
    /// What a reader should know.
    pub remarks: Vec<String>,
}

/// The most that slots of a model were seen to use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MeasuredRow {
    /// On each GPU.
    #[schema(value_type = Vec<u64>)]
    pub per_gpu: Vec<Bytes>,
    /// When.
    pub at: String,
    /// The context length that it was measured with.
    pub context: Option<u64>,
    /// The type of cache that it was measured with.
    pub kv: Option<String>,
    /// The concurrency that it was measured with.
    pub concurrency: u32,
    /// Why it says nothing about the model as it is declared now; null where it does.
    pub stale_reason: Option<String>,
}

/// What a model's file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EstimatedRow {
    /// In all; null where a part is unknown.
    #[schema(value_type = Option<u64>)]
    pub total: Option<Bytes>,
    /// On each GPU; null where a part is unknown.
    #[schema(value_type = Vec<Option<u64>>)]
    pub per_gpu: Vec<Option<Bytes>>,
    /// The parts over all GPUs, each with its source, as `plimsoll estimate` shows them.
    #[schema(value_type = Object)]
    pub parts: serde_json::Value,
}
