//! Reservations and the queue as rows.

use std::fmt;
use std::str::FromStr;

use plimsoll_slots::lease::Lease;
use plimsoll_slots::size::Span;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::GpuAllocation;
use crate::clause::WhyRow;
use crate::explanation::PromisedRow;
use crate::forecast::ForecastRow;
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
    #[schema(value_type = Option<String>, example = "60s")]
    pub deadline: Option<Span>,
    /// The time that the answer may wait for the reservation to become ready. Defaults to the
    /// deadline, or to no waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "30s")]
    pub wait: Option<Span>,
    /// The time that the reservation lasts without a renewal, or `off`. Defaults to that of the
    /// server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "10m")]
    pub lease: Option<Lease>,
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
    #[serde(flatten)]
    pub why: WhyRow,
    /// The placement that is promised to its slot.
    pub promised: Option<PromisedRow>,
    /// The prospects of its slot while that is pending.
    #[serde(default)]
    pub forecast: Option<ForecastRow>,
    pub created: Time,
    pub deadline: Option<Time>,
    /// The time that it lasts without a renewal, or `off`.
    #[schema(value_type = String, example = "10m")]
    pub lease: Lease,
    /// The time at which it is released unless it is renewed; null if the lease is off, and after
    /// the end.
    pub lease_expires: Option<Time>,
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
        /// Its client did not renew the lease in time.
        LeaseExpired = "lease_expired",
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

/// Selects reservations by their status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatusFilter {
    /// Those that have not ended.
    #[default]
    Open,
    Ended,
    All,
    Only(ReservationStatus),
}

/// An error of parsing a [`StatusFilter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusFilterError {
    text: String,
}

impl fmt::Display for StatusFilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statuses: Vec<&str> = ReservationStatus::ALL.iter().map(|one| one.name()).collect();
        let (text, statuses) = (&self.text, statuses.join(", "));
        write!(f, "there is no status {text:?}; write open, ended, all, or one of {statuses}")
    }
}

impl std::error::Error for StatusFilterError {}

impl FromStr for StatusFilter {
    type Err = StatusFilterError;

    fn from_str(text: &str) -> Result<Self, StatusFilterError> {
        let status = ReservationStatus::ALL.iter().find(|status| status.name() == text);
        match (text, status) {
            ("open", _) => Ok(StatusFilter::Open),
            ("ended", _) => Ok(StatusFilter::Ended),
            ("all", _) => Ok(StatusFilter::All),
            (_, Some(status)) => Ok(StatusFilter::Only(*status)),
            (_, None) => Err(StatusFilterError { text: text.to_string() }),
        }
    }
}

impl fmt::Display for StatusFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            StatusFilter::Open => "open",
            StatusFilter::Ended => "ended",
            StatusFilter::All => "all",
            StatusFilter::Only(status) => status.name(),
        })
    }
}

impl StatusFilter {
    /// Returns whether a reservation with this status is selected.
    pub fn selects(self, status: ReservationStatus) -> bool {
        match self {
            StatusFilter::Open => status.is_open(),
            StatusFilter::Ended => !status.is_open(),
            StatusFilter::All => true,
            StatusFilter::Only(only) => status == only,
        }
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
    #[serde(flatten)]
    pub why: WhyRow,
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
    /// The account and the expected start of a slot; null for a reservation, which waits for room
    /// in the slots of its model.
    #[serde(default)]
    pub forecast: Option<ForecastRow>,
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
