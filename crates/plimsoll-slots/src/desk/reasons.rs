//! The reasons that the desk gives for the state of a reservation or slot, as data, and their only
//! wording.

use std::fmt;

use plimsoll_core::queue::PendingReason;
use plimsoll_core::units::{Millis, Name};
use serde::{Deserialize, Serialize};

use super::models::FileGap;
use super::reservations::Ending;

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
        failure: Option<String>,
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
        failure: Option<String>,
    },
    Running {
        slot: Name,
        runner: Name,
    },
    Releasing {
        slot: Name,
        runner: Name,
        report: Option<String>,
    },
    /// The slot is not there any more.
    SlotGone {
        slot: Name,
    },
    Ended(Ending),
}

impl fmt::Display for StatusReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatusReason::NoRunner => {
                f.write_str("there is no runner yet; start one with `plimsoll runner --server URL`")
            }
            StatusReason::File(gap) => gap.fmt(f),
            StatusReason::ModelFull { model, slots, max_slots, concurrency } => {
                let plural = if *max_slots == 1 { "slot" } else { "slots" };
                write!(f, "model {model} has {slots} of at most {max_slots} {plural}, with ")?;
                match concurrency {
                    1 => f.write_str("its only reservation taken"),
                    _ => write!(f, "all {concurrency} reservations taken"),
                }
            }
            StatusReason::NotPlaced { reason, failure } => {
                reason.fmt(f)?;
                in_brackets(f, failure)
            }
            StatusReason::RunnerSilent { slot, runner, since } => write!(
                f,
                "the state of {slot} is unknown: runner {runner} has been silent since {since}; \
                 restore that runner, or remove it"
            ),
            StatusReason::Queued { slot, runner } => {
                write!(f, "{slot} is queued on {runner} behind another start or stop on its GPUs")
            }
            StatusReason::Starting { slot, runner, failure } => {
                write!(f, "{slot} is starting on {runner}")?;
                in_brackets(f, failure)
            }
            StatusReason::Running { slot, runner } => write!(f, "{slot} is ready on {runner}"),
            StatusReason::Releasing { slot, runner, report } => {
                write!(f, "{slot} is releasing its memory on {runner}")?;
                in_brackets(f, report)
            }
            StatusReason::SlotGone { slot } => write!(f, "{slot} no longer exists"),
            StatusReason::Ended(ending) => ending.fmt(f),
        }
    }
}

fn in_brackets(f: &mut fmt::Formatter<'_>, text: &Option<String>) -> fmt::Result {
    match text {
        Some(text) => write!(f, " ({text})"),
        None => Ok(()),
    }
}

impl fmt::Display for FileGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileGap::NotRead { file } => write!(f, "no runner has reported yet what is in {file}"),
            FileGap::Missing { file, problems } => {
                let problems: Vec<String> =
                    problems.iter().map(|(runner, why)| format!("{runner}: {why}")).collect();
                write!(f, "no runner has {file} ({})", problems.join("; "))
            }
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Released => f.write_str("released by the client"),
            Ending::Impossible { rejection, .. } => rejection.fmt(f),
            Ending::ModelRemoved => f.write_str("the model was removed"),
            Ending::Expired { pending } => write!(f, "deadline exceeded: {pending}"),
            Ending::Lost(loss) => loss.fmt(f),
        }
    }
}

/// The cause of the end of a slot that was serving.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// It was evicted to make room for another request.
    Evicted,
    /// An operator stopped it.
    Stopped,
    ModelRemoved,
    /// Its process ended; `reason` is what its runner reported.
    Ended {
        reason: Option<String>,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Evicted => f.write_str("its slot was evicted to make room"),
            Loss::Stopped => f.write_str("its slot was stopped by an operator"),
            Loss::ModelRemoved => f.write_str("the model was removed"),
            Loss::Ended { reason: None } => f.write_str("its slot ended"),
            Loss::Ended { reason: Some(reason) } => write!(f, "its slot ended: {reason}"),
        }
    }
}
