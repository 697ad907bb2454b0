//! Events of slots and runners, for people.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::named;
use crate::time::Time;

named! {
    /// The kind of a happening.
    ActivityKind {
        RunnerJoined = "runner_joined",
        RunnerSilent = "runner_silent",
        /// A silent runner reports again.
        RunnerBack = "runner_back",
        RunnerRemoved = "runner_removed",
        RunnerCordoned = "runner_cordoned",
        RunnerDraining = "runner_draining",
        RunnerUncordoned = "runner_uncordoned",
        /// A slot waits for GPUs.
        Pending = "pending",
        /// No empty fleet could hold the slot.
        Impossible = "impossible",
        Placed = "placed",
        /// The runner was ordered to start the slot.
        Started = "started",
        Ready = "ready",
        /// The start failed, or the process ended by itself.
        Failed = "failed",
        Evicted = "evicted",
        /// The slot was stopped for another reason than an eviction.
        Stopped = "stopped",
        /// The memory of the slot is free again.
        Released = "released",
    }
}

impl ActivityKind {
    /// Returns true if it needs the attention of an operator.
    pub fn is_warning(self) -> bool {
        matches!(
            self,
            ActivityKind::RunnerSilent
                | ActivityKind::RunnerRemoved
                | ActivityKind::Impossible
                | ActivityKind::Failed
        )
    }
}

/// Something that happened to a slot or to a runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActivityRow {
    /// Its number since the start of the server.
    pub id: u64,
    pub at: Time,
    pub kind: ActivityKind,
    /// Null for a runner.
    pub model: Option<String>,
    /// Null for a runner.
    pub slot_id: Option<String>,
    pub runner_id: Option<String>,
    /// The reason or the result in a few words; empty if the kind says it all.
    pub detail: String,
}
