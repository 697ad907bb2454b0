//! The scheduler log of a named client, in the shape of HAMi's proposal.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{RequestRow, ReservationStatus};
use crate::names::named;
use crate::time::Time;
use crate::verdict::{NodeVerdictRow, Verdict};

named! {
    /// The overall status.
    LogStatus {
        /// Placed and observed running.
        Succeeded = "succeeded",
        Failed = "failed",
    }
}

named! {
    /// The status of the start.
    BindStatus {
        NotReached = "",
        Passed = "passed",
        Failed = "failed",
    }
}

/// The latest decision about named work of any front end, and the outcome of its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SchedulerLogRow {
    pub status: LogStatus,
    pub filter: FilterRow,
    pub bind: BindRow,
    /// The request that was decided about; null before there is one.
    pub request: Option<RequestRow>,
    /// The decision, if it is available.
    pub decision_id: Option<String>,
    pub decided: Option<Time>,
    pub policy: Option<String>,
    /// The reservation with this name; only for model slots.
    #[serde(flatten)]
    pub reservation: Option<LoggedReservation>,
}

/// A reservation with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoggedReservation {
    pub reservation_id: String,
    pub model: String,
    /// The slot that the reservation is or was in.
    pub slot_id: Option<String>,
    pub created: Time,
    /// The end of the reservation; null before it.
    pub ended: Option<ReservationEndRow>,
}

/// The end of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationEndRow {
    pub status: ReservationStatus,
    /// The reason, in one sentence with its numbers.
    pub reason: String,
    pub at: Time,
}

/// The choice of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FilterRow {
    pub status: Verdict,
    /// One sentence with counts if it failed, else empty.
    pub summary: String,
    /// Every node that was judged, by name.
    pub nodes: Vec<NodeVerdictRow>,
}

/// The start on the chosen node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BindRow {
    pub status: BindStatus,
    /// The reason if it failed, else empty.
    pub summary: String,
}
