//! The events of the event stream: the records of the journal of any front end.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{RequestRow, ReservationStatus};
use crate::time::Time;

/// A record of the journal: an event, the decisions about it, and the changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventRow {
    /// The number of the record, which is the id of the event.
    pub seq: u64,
    pub created: Time,
    /// The name of the event, such as `submit` or `started`.
    pub event: String,
    pub decisions: Vec<DecidedRow>,
    /// Changes, in order.
    pub changes: Vec<ChangeRow>,
}

impl EventRow {
    /// Returns the name that readers select by.
    pub fn kind(&self) -> &'static str {
        if self.decisions.is_empty() { "ledger" } else { "decision" }
    }
}

/// A decision as a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecidedRow {
    /// The id for `/api/v1/scheduler/decisions/{id}`.
    pub id: String,
    pub request: RequestRow,
    pub placed: bool,
    /// The chosen node, or that of the nearest miss.
    pub node: Option<String>,
    #[serde(flatten)]
    pub slot: SlotNames,
    /// The answer in one sentence.
    pub summary: String,
}

/// One change of the ledger or of the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangeRow {
    /// The kind of change: `hold`, `restage`, `drop`, `drop_charges`, `raise`, `act`, `claim`,
    /// `measure`, `promise`, `unpromise`, `put_node`, `drop_node`, `enqueue`, `dequeue`,
    /// `clear_failures` or `configure`.
    pub op: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(flatten)]
    pub slot: SlotNames,
    /// The index of the device on its node, if the change is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// The amount, if the change is about memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The stage that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
}

/// The names of a request and of its node in the rest of the API for model slots. Other front ends
/// leave them out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotNames {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
}

/// A reservation that has ended. Such an event is sent live only, and has no id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationEndedRow {
    pub reservation_id: String,
    pub model: String,
    /// The client's namespace.
    pub namespace: Option<String>,
    /// The client's name.
    pub name: Option<String>,
    pub created: Time,
    pub ended: Time,
    /// The kind of end, such as `released` or `lease_expired`.
    pub status: ReservationStatus,
    /// The reason, in one sentence with its numbers.
    pub reason: String,
}

/// A notice that the reader misses events, or gets them late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LaggedRow {
    /// The number of missed records.
    pub missed: u64,
    /// The cause, and what follows.
    pub reason: String,
}
