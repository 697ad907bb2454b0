//! Runners and their GPUs as rows.

use std::collections::BTreeMap;

use plimsoll_core::units::Bytes;
use plimsoll_slots::wire::Process;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::{BreachRow, DeviceRow};

/// A runner, with the sums over its GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RunnerRow {
    /// Its name.
    pub(crate) runner_id: String,
    /// When it first registered.
    pub(crate) created: String,
    /// Whether it is heard.
    pub(crate) status: RunnerState,
    /// Since when it has been silent for longer than its lease.
    pub(crate) silent_since: Option<String>,
    /// When it was heard last; null where it was not heard since the server started.
    pub(crate) last_seen: Option<String>,
    /// The version of its agent.
    pub(crate) version: String,
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// How many GPUs it has.
    pub(crate) gpu_count: usize,
    /// What may be booked when they are empty; null where one of them is not known. So are the following.
    #[schema(value_type = Option<u64>)]
    pub(crate) usable: Option<Bytes>,
    /// Booked and not being given back.
    #[schema(value_type = Option<u64>)]
    pub(crate) held: Option<Bytes>,
    /// Being given back, not free yet.
    #[schema(value_type = Option<u64>)]
    pub(crate) releasing: Option<Bytes>,
    /// In use by nobody's booking.
    #[schema(value_type = Option<u64>)]
    pub(crate) foreign: Option<Bytes>,
    /// What is free: the sum over its GPUs. A model that needs so much on one GPU need not fit.
    #[schema(value_type = Option<u64>)]
    pub(crate) free: Option<Bytes>,
    /// Slots that hold something there.
    pub(crate) slots: usize,
}

/// Whether a runner is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunnerState {
    /// It was heard within its lease.
    Online,
    /// It was not: its slots are unknown and still charged, and it gets no new work.
    Silent,
    /// It is about to end with its slots, and gets no new work.
    Ending,
}

/// A runner with its GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RunnerStatus {
    /// The runner.
    #[serde(flatten)]
    pub(crate) runner: RunnerRow,
    /// Its GPUs, by index.
    pub(crate) gpus: Vec<GpuRow>,
    /// What is wrong with its books, if anything.
    pub(crate) breaches: Vec<BreachRow>,
}

/// A GPU: what is booked on it, in the names of `devices[]` of `plimsoll simulate`, and what is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct GpuRow {
    /// Its index on the runner.
    pub(crate) index: u16,
    /// The books.
    #[serde(flatten)]
    pub(crate) device: DeviceRow,
    /// Being given back, and promised to somebody who waits.
    #[schema(value_type = u64)]
    pub(crate) promised: Bytes,
    /// Closed to new work, because its books and its memory disagree.
    pub(crate) closed: bool,
    /// Memory in use, by whomever, as it was measured last; null where it is not measured.
    pub(crate) used: Option<u64>,
    /// How busy its compute is, in percent, as it was measured last.
    pub(crate) utilisation: Option<u8>,
    /// `none` (placed by bookings alone), `fresh` or `stale` (takes no new work).
    pub(crate) telemetry: String,
    /// Since when it is stale.
    pub(crate) telemetry_stale_since: Option<String>,
    /// The processes that use it and belong to no slot.
    pub(crate) foreign_processes: Vec<Process>,
}
