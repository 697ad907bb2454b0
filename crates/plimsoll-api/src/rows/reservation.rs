//! Reservations and the queue as rows.

use plimsoll_slots::size::Span;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::GpuAllocation;
use crate::explanation::PromisedRow;
use crate::names::named;
use crate::time::Time;

/// A request for one reservation of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReserveBody {
    pub model: String,
    /// The client's namespace; requires `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The client's name; requires `namespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The idempotency key. The header `Idempotency-Key` means the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The time after which a reservation that is not ready expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// The time that the answer may wait for the reservation to become ready. Defaults to the
    /// deadline, or to no waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Span>,
}

/// A client's claim to one concurrency unit of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationRow {
    /// Such as `reservation-12`.
    pub id: String,
    pub model: String,
    pub status: ReservationStatus,
    /// The slot; null while every slot of the model is full, and after the end.
    pub slot_id: Option<String>,
    /// The slot's runner; null while the slot has no GPU.
    pub runner_id: Option<String>,
    /// The address of the slot, once it is ready.
    pub endpoint: Option<String>,
    pub gpu_allocation: Option<GpuAllocation>,
    /// The reason for the status, in one sentence with its numbers.
    pub reason: String,
    /// The placement that is promised to its slot.
    pub promised: Option<PromisedRow>,
    pub created: Time,
    pub deadline: Option<Time>,
    /// The time since when it is in its slot.
    pub since: Option<Time>,
    pub ended: Option<Time>,
    /// The client's namespace.
    pub namespace: Option<String>,
    /// The client's name.
    pub name: Option<String>,
    /// The idempotency key.
    pub key: Option<String>,
}

named! {
    /// The status of a reservation.
    ReservationStatus {
        /// No slot has GPUs for it yet.
        Pending = "pending",
        /// Its slot has GPUs and is not ready yet.
        Starting = "starting",
        Ready = "ready",
        Released = "released",
        /// No empty fleet could hold a slot of the model.
        Impossible = "impossible",
        /// The model was removed.
        ModelRemoved = "model_removed",
        /// Its deadline passed before it was ready.
        Expired = "expired",
        /// Its slot ended while serving it.
        Lost = "lost",
    }
}

impl ReservationStatus {
    /// Returns whether the reservation is being served or may still be.
    pub fn is_open(self) -> bool {
        matches!(
            self,
            ReservationStatus::Pending | ReservationStatus::Starting | ReservationStatus::Ready
        )
    }
}

/// An entry of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueRow {
    /// From 1.
    pub position: usize,
    pub kind: QueuedKind,
    /// The id of the pending slot or reservation.
    pub id: String,
    pub model: String,
    /// The runner of the promised placement.
    pub runner_id: Option<String>,
    pub created: Time,
    /// The reason why it is pending, in one sentence with its numbers.
    pub reason: String,
    /// The reservations in the slot; 1 for a reservation.
    pub reservations: u32,
    pub priority: i32,
    /// Created before a client asked for it. Such a slot waits behind all others.
    pub prewarmed: bool,
    /// The deadline; of a slot, the first one of its reservations.
    pub deadline: Option<Time>,
    /// Failed starts since the last successful one.
    pub failures: u32,
    /// The time of the next start after a failed one.
    pub retry_at: Option<Time>,
    pub promised: Option<PromisedRow>,
}

named! {
    /// The kind of a pending entry.
    QueuedKind {
        /// A slot is pending for GPUs.
        Slot = "slot",
        /// A reservation is pending for room in the slots of its model.
        Reservation = "reservation",
    }
}
