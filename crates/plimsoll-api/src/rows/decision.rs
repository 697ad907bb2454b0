//! Decisions as rows: what was chosen, what was judged, and the GPUs before and after.

use plimsoll_core::units::Bytes;
use plimsoll_slots::model::Declaration;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{GpuAllocation, MemoryRow};
use crate::lost_by::LostBy;
use crate::verdict::{NodeVerdictRow, PromisedRow, RemedyRow, ScorePart};

/// A decision about one slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecisionRow {
    /// Its id, `SEQ.INDEX`: the journal record, and which decision of it. Null for what-if, which is not recorded.
    pub id: Option<String>,
    /// When it was made.
    pub created: String,
    /// The model.
    pub model: String,
    /// The slot; null for what-if.
    pub slot_id: Option<String>,
    /// Whether a place was found.
    pub placed: bool,
    /// The runner that was chosen; on a refusal that of the nearest miss, or the first that was judged. Null without runners.
    pub runner_id: Option<String>,
    /// The answer in one sentence.
    pub summary: String,
    /// What the one who waits was told on a refusal: the summary, and who may not go for it and why. Null where only the summary is
    /// still at hand.
    pub reason: Option<String>,
    /// What the place is charged; null on a refusal, and where no GPU is needed.
    pub gpu_allocation: Option<GpuAllocation>,
    /// What the model needs and who says so: the very row that was charged, or would have been. Null where only the summary is still
    /// at hand, and for slots that nobody here made.
    pub memory: Option<MemoryRow>,
    /// The policy that chose; null for one that is no longer at hand in full.
    pub policy: Option<String>,
    /// The ledger's revision that was looked at; null likewise.
    pub ledger_revision: Option<u64>,
    /// How good the place is; null on a refusal.
    pub score: Option<i64>,
    /// The terms of that score.
    pub score_parts: Vec<ScorePart>,
    /// Places that fit and were not chosen.
    pub lost_by: Vec<LostBy>,
    /// Every runner that was judged, for every shape that was tried, with the first rule that failed and its numbers. Null where
    /// only the summary is still at hand: `replay` says how to see the rest.
    pub candidates: Option<Vec<CandidateRow>>,
    /// Slots that were asked to go so that this one finds a place.
    pub evictions: Vec<EvictionRow>,
    /// A place that will be there once these and others have gone.
    pub promised: Option<PromisedRow>,
    /// The GPUs of the runner before the decision; null where only the summary is still at hand.
    pub before: Option<Vec<LoadRow>>,
    /// The same with what was placed; equal to `before` on a refusal.
    pub after: Option<Vec<LoadRow>>,
    /// The digest of all that was seen, in hexadecimal; null for what-if.
    pub digest: Option<String>,
    /// How to see all of it, where only the summary is still at hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
}

/// A runner as it was judged for one shape of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CandidateRow {
    /// Over how many GPUs this shape is split; 0 where it needs none.
    pub tensor_parallel_size: u32,
    /// The verdict, as in `nodes[]` of `plimsoll explain`.
    #[serde(flatten)]
    pub verdict: NodeVerdictRow,
}

/// A slot that is to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EvictionRow {
    /// The slot.
    pub slot_id: String,
    /// Its model.
    pub model: String,
    /// Its runner.
    pub runner_id: Option<String>,
}

/// What counts against the line of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoadRow {
    /// Its index on the runner.
    pub index: u16,
    /// Its UUID, or `runner/gpu-INDEX`.
    pub uuid: String,
    /// What may be used when it is empty.
    #[schema(value_type = Option<u64>)]
    pub usable: Option<Bytes>,
    /// Booked, being given back and foreign, together; null where somebody is there whose use nobody declared.
    #[schema(value_type = Option<u64>)]
    pub load: Option<Bytes>,
    /// What is left; 0 where it is over-full.
    #[schema(value_type = Option<u64>)]
    pub free: Option<Bytes>,
}

/// What to decide without doing it: a declared model, or a declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIf {
    /// A declared model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A declaration, as for `PUT /api/v1/models/{name}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declaration: Option<Declaration>,
}

/// What would be decided for one more slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhatIfRow {
    /// The decision.
    #[serde(flatten)]
    pub decision: DecisionRow,
    /// Changes that would make it fit, those that harm nobody first; each was tried and found to.
    pub would_fit_if: Vec<RemedyRow>,
}
