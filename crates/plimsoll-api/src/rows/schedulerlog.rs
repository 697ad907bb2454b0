//! The scheduler log of a named client, in the shape of HAMi's proposal.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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

/// The latest decision about a named client, and the outcome of its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SchedulerLogRow {
    pub status: LogStatus,
    pub filter: FilterRow,
    pub bind: BindRow,
    pub reservation_id: String,
    pub model: String,
    /// The slot that the reservation is or was in.
    pub slot_id: Option<String>,
    pub created: Time,
    /// The decision, if it is available.
    pub decision_id: Option<String>,
    pub decided: Option<Time>,
    pub policy: Option<String>,
}

/// The choice of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FilterRow {
    pub status: Verdict,
    /// One sentence with counts if it failed, else empty.
    pub summary: String,
    /// Every runner that was judged, by name.
    pub nodes: Vec<NodeVerdictRow>,
}

/// The start on the chosen node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BindRow {
    pub status: BindStatus,
    /// The runner's reason if it failed, else empty.
    pub summary: String,
}
