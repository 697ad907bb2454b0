//! What the API says: rows with stable names. Sizes are bytes, times RFC 3339 with milliseconds, and what is not known is null.

mod decision;
mod memory;
mod reservation;
mod runner;
mod slot;

pub use decision::{CandidateRow, DecisionRow, EvictionRow, LoadRow, WhatIf, WhatIfRow};
pub use memory::{EstimatedRow, MeasuredRow, MemoryRow};
pub use reservation::{QueueRow, QueuedKind, ReservationRow, ReservationStatus, ReserveBody};
pub use runner::{GpuRow, RunnerRow, RunnerState, RunnerStatus};
pub use slot::{EvictionStatusRow, GpuAllocation, GpuShare, SlotRow};

use plimsoll_core::units::Millis;
use plimsoll_slots::model::Declaration;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A declared model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelRow {
    /// Its name.
    pub name: String,
    /// As it was declared, what was left out filled in. It can be sent back as it is.
    pub declaration: Declaration,
    /// Slots of it that there are, whether they serve or not.
    pub slots: usize,
    /// Reservations in these slots.
    pub active_requests: u32,
    /// How long it took to load the last time, in milliseconds; null before it was seen to load.
    pub load_ms: Option<u64>,
    /// What it needs and who says so, for every number of GPUs that it may be split over.
    pub memory: Vec<MemoryRow>,
}

/// Why a request was not served, as RFC 9457 has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemRow {
    /// A stable address of the kind of problem: `urn:plimsoll:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem in few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong here, and what to do about it.
    pub detail: String,
    /// The stable code of the kind of problem.
    pub code: String,
    /// The reason for the reservation's status, in one sentence with its numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The field or parameter that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The reservation that the problem is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
}

/// A point in time as the API writes it: RFC 3339 with milliseconds.
pub fn time(at: Millis) -> String {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    let at = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_never_fail() {
        assert_eq!(time(Millis(1_753_862_400_007)), "2025-07-30T08:00:00.007Z");
        assert_eq!(time(Millis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(Millis(u64::MAX)), "9999-12-30T22:00:00.999Z");
    }
}
