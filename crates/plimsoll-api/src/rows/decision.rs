//! Decisions about slots as rows.

use plimsoll_core::units::Bytes;
use plimsoll_slots::model::Declaration;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{GpuAllocation, MemoryRow};
use crate::explanation::{Explanation, RemedyRow};
use crate::time::Time;

/// A decision about one slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecisionRow {
    /// The journal record and the index of the decision in it, as `SEQ.INDEX`; null for a what-if.
    pub id: Option<String>,
    pub created: Time,
    pub model: String,
    /// Null for a what-if.
    pub slot_id: Option<String>,
    pub placed: bool,
    /// The chosen runner. If rejected, that of the nearest miss, else the first that was judged.
    pub runner_id: Option<String>,
    /// The reason that the client received if rejected: the summary, and which holders are not
    /// evictable. Null if only the summary is available.
    pub reason: Option<String>,
    /// The charges of the placement; null if rejected, and if no GPU is needed.
    pub gpu_allocation: Option<GpuAllocation>,
    /// The memory that the model needs, and its source. Null if only the summary is available, and
    /// for slots that the server did not create.
    pub memory: Option<MemoryRow>,
    #[serde(flatten)]
    pub explanation: Explanation,
    /// Slots that were asked to stop to make room.
    pub evictions: Vec<EvictionRow>,
    /// The GPUs of the runner before the decision; null if only the summary is available.
    pub before: Option<Vec<LoadRow>>,
    /// The same with the placement; equal to `before` if rejected.
    pub after: Option<Vec<LoadRow>>,
    /// The digest of the data that was judged, in hexadecimal; null for a what-if.
    pub digest: Option<String>,
    /// The command that shows the whole decision, if only the summary is available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
}

impl DecisionRow {
    /// Returns the reason of a rejection, as detailed as it is available.
    pub fn why(&self) -> &str {
        self.reason.as_deref().unwrap_or(&self.explanation.summary)
    }
}

/// A slot that is evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EvictionRow {
    pub slot_id: String,
    pub model: String,
    pub runner_id: Option<String>,
}

/// The load of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoadRow {
    /// The index on the runner.
    pub index: u16,
    /// The UUID, or `runner/gpu-INDEX`.
    pub uuid: String,
    #[schema(value_type = Option<u64>)]
    pub usable: Option<Bytes>,
    /// Held, releasing and foreign memory together; null if a tenant's memory is undeclared.
    #[schema(value_type = Option<u64>)]
    pub load: Option<Bytes>,
    #[schema(value_type = Option<u64>)]
    pub free: Option<Bytes>,
}

/// A question for a decision that is not carried out: either a declared model, or a declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIf {
    /// The name of a declared model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A declaration, as for `PUT /api/v1/models/{name}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declaration: Option<Declaration>,
}

/// The decision for one more slot, not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhatIfRow {
    #[serde(flatten)]
    pub decision: DecisionRow,
    /// Verified changes that would make it fit; those that affect no other slot come first.
    pub would_fit_if: Vec<RemedyRow>,
}
