//! Places, those who ask for one, and those who wait, as rows.

use plimsoll_slots::size::Span;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::GpuAllocation;
use crate::verdict::PromisedRow;

/// Somebody asks for one place in a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AskBody {
    /// The model.
    pub model: String,
    /// Who asks: a namespace, given together with a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Who asks: a name in that namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What tells a repeated request from a new one; the header `Idempotency-Key` does too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// After so long, waiting becomes a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// So long the answer may wait for an outcome; as long as the deadline where only that is given, else not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Span>,
}

/// One request's place in a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlaceRow {
    /// Its id, such as `place-12`.
    pub id: String,
    /// The model.
    pub model: String,
    /// `waiting`, `coming` or `ready`; and once it is over, `released`, `refused`, `expired` or `lost`.
    pub status: String,
    /// The slot; null while every slot of the model is full, and once it is over.
    pub slot_id: Option<String>,
    /// The slot's runner; null while the slot has no GPU.
    pub runner_id: Option<String>,
    /// Where the slot answers, once it does.
    pub endpoint: Option<String>,
    /// What the slot holds of GPUs.
    pub gpu_allocation: Option<GpuAllocation>,
    /// How it stands and why, in one sentence with its numbers.
    pub reason: String,
    /// A place that will be there for its slot, where one is promised.
    pub promised: Option<PromisedRow>,
    /// When it was asked for.
    pub created: String,
    /// When it gives up waiting.
    pub deadline: Option<String>,
    /// Since when it is in its slot.
    pub since: Option<String>,
    /// When it was over.
    pub ended: Option<String>,
    /// Who asked.
    pub namespace: Option<String>,
    /// Who asked.
    pub name: Option<String>,
    /// What tells a repeated request from a new one.
    pub key: Option<String>,
}

/// Somebody who waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueRow {
    /// Its turn, from 1.
    pub position: usize,
    /// What waits.
    pub kind: QueuedKind,
    /// The slot or the place that waits.
    pub id: String,
    /// The model.
    pub model: String,
    /// The runner where a place is promised; null where none is.
    pub runner_id: Option<String>,
    /// Since when it waits.
    pub created: String,
    /// Why, in one sentence with its numbers.
    pub reason: String,
    /// Places that wait with it: those in the slot, or 1.
    pub places: u32,
    /// Higher goes first.
    pub priority: i32,
    /// Whether it was made before anybody asked. Such a slot waits behind all others.
    pub prewarmed: bool,
    /// When it gives up; of a slot, the first of those who wait for it.
    pub deadline: Option<String>,
    /// How often its start has failed since it last succeeded.
    pub failures: u32,
    /// When a failed start may be tried again.
    pub retry_at: Option<String>,
    /// A place that will be there, where one is promised.
    pub promised: Option<PromisedRow>,
}

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueuedKind {
    /// A slot waits for a GPU.
    Slot,
    /// A place waits for room in the slots of its model.
    Place,
}
