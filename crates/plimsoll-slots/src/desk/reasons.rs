//! The reasons for the state of a reservation or slot. `wording` renders them.

use plimsoll_core::queue::PendingReason;
use plimsoll_core::units::{Millis, Name};
use serde::{Deserialize, Serialize};

use super::models::FileGap;
use super::reservation::Ending;

/// The reason for the state that a reservation or a slot is in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusReason {
    NoRunner,
    /// The model's memory is not known yet.
    File(FileGap),
    /// Every slot of the model is full, and there may be no more of them.
    ModelFull {
        model: String,
        slots: u32,
        max_slots: u32,
        concurrency: u32,
    },
    /// The core has not placed the slot; `failure` is why its last start failed.
    NotPlaced {
        reason: PendingReason,
        failure: Option<SlotFailure>,
    },
    RunnerSilent {
        slot: Name,
        runner: Name,
        since: Millis,
    },
    /// The slot's start waits until no other slot starts or stops on its GPUs.
    Queued {
        slot: Name,
        runner: Name,
    },
    Starting {
        slot: Name,
        runner: Name,
        failure: Option<SlotFailure>,
    },
    Running {
        slot: Name,
        runner: Name,
    },
    Releasing {
        slot: Name,
        runner: Name,
        /// The reason that the runner reports.
        report: Option<String>,
    },
    /// The slot was removed.
    SlotGone {
        slot: Name,
    },
    Ended(Ending),
}

/// The reason for a failed start, or for the end of a process that was not ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotFailure {
    /// The runner's own words.
    Reported { reason: String },
    /// The runner reported the end without a reason.
    NoReason,
    /// The runner stops the slot without an order and without a reason.
    StoppedByRunner,
}

/// The cause of the end of a slot that was serving.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// It was evicted to make room for another request.
    Evicted,
    /// An operator stopped it.
    Stopped,
    /// An operator drained its runner.
    Drained {
        runner: Name,
    },
    ModelRemoved,
    /// Its process ended.
    Ended {
        failure: Option<SlotFailure>,
    },
}
