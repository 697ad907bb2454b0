//! Decisions as rows: what was chosen, what was judged, and the GPUs before and after.

use plimsoll_core::units::Bytes;
use plimsoll_slots::model::Declaration;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{GpuAllocation, MemoryRow};
use crate::json::{LostBy, NodeVerdictRow, PromisedRow, RemedyRow, ScorePart};

/// A decision about one slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct DecisionRow {
    /// Its id, `SEQ.INDEX`: the journal record, and which decision of it. Null for what-if, which is not recorded.
    pub(crate) id: Option<String>,
    /// When it was made.
    pub(crate) created: String,
    /// The model.
    pub(crate) model: String,
    /// The slot; null for what-if.
    pub(crate) slot_id: Option<String>,
    /// Whether a place was found.
    pub(crate) placed: bool,
    /// The runner that was chosen; on a refusal that of the nearest miss, or the first that was judged. Null without runners.
    pub(crate) runner_id: Option<String>,
    /// The answer in one sentence.
    pub(crate) summary: String,
    /// What the one who waits was told on a refusal: the summary, and who may not go for it and why. Null where only the summary is
    /// still at hand.
    pub(crate) reason: Option<String>,
    /// What the place is charged; null on a refusal, and where no GPU is needed.
    pub(crate) gpu_allocation: Option<GpuAllocation>,
    /// What the model needs and who says so: the very row that was charged, or would have been. Null where only the summary is still
    /// at hand, and for slots that nobody here made.
    pub(crate) memory: Option<MemoryRow>,
    /// The policy that chose; null for one that is no longer at hand in full.
    pub(crate) policy: Option<String>,
    /// The ledger's revision that was looked at; null likewise.
    pub(crate) ledger_revision: Option<u64>,
    /// How good the place is; null on a refusal.
    pub(crate) score: Option<i64>,
    /// The terms of that score.
    pub(crate) score_parts: Vec<ScorePart>,
    /// Places that fit and were not chosen.
    pub(crate) lost_by: Vec<LostBy>,
    /// Every runner that was judged, for every shape that was tried, with the first rule that failed and its numbers. Null where
    /// only the summary is still at hand: `replay` says how to see the rest.
    pub(crate) candidates: Option<Vec<CandidateRow>>,
    /// Slots that were asked to go so that this one finds a place.
    pub(crate) evictions: Vec<EvictionRow>,
    /// A place that will be there once these and others have gone.
    pub(crate) promised: Option<PromisedRow>,
    /// The GPUs of the runner before the decision; null where only the summary is still at hand.
    pub(crate) before: Option<Vec<LoadRow>>,
    /// The same with what was placed; equal to `before` on a refusal.
    pub(crate) after: Option<Vec<LoadRow>>,
    /// The digest of all that was seen, in hexadecimal; null for what-if.
    pub(crate) digest: Option<String>,
    /// How to see all of it, where only the summary is still at hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replay: Option<String>,
}

/// A runner as it was judged for one shape of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct CandidateRow {
    /// Over how many GPUs this shape is split; 0 where it needs none.
    pub(crate) tensor_parallel_size: u32,
    /// The verdict, as in `nodes[]` of `plimsoll explain`.
    #[serde(flatten)]
    pub(crate) verdict: NodeVerdictRow,
}

/// A slot that is to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct EvictionRow {
    /// The slot.
    pub(crate) slot_id: String,
    /// Its model.
    pub(crate) model: String,
    /// Its runner.
    pub(crate) runner_id: Option<String>,
}

/// What counts against the line of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct LoadRow {
    /// Its index on the runner.
    pub(crate) index: u16,
    /// Its UUID, or `runner/gpu-INDEX`.
    pub(crate) uuid: String,
    /// What may be used when it is empty.
    #[schema(value_type = Option<u64>)]
    pub(crate) usable: Option<Bytes>,
    /// Booked, being given back and foreign, together; null where somebody is there whose use nobody declared.
    #[schema(value_type = Option<u64>)]
    pub(crate) load: Option<Bytes>,
    /// What is left; 0 where it is over-full.
    #[schema(value_type = Option<u64>)]
    pub(crate) free: Option<Bytes>,
}

/// What to decide without doing it: a declared model, or a declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhatIf {
    /// A declared model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// A declaration, as for `PUT /api/v1/models/{name}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) declaration: Option<Declaration>,
}

/// What would be decided for one more slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct WhatIfRow {
    /// The decision.
    #[serde(flatten)]
    pub(crate) decision: DecisionRow,
    /// Changes that would make it fit, those that harm nobody first; each was tried and found to.
    pub(crate) would_fit_if: Vec<RemedyRow>,
}
