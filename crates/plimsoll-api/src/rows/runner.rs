//! Runners and their GPUs as rows.

use std::collections::BTreeMap;

use plimsoll_core::units::Bytes;
use plimsoll_slots::wire::Process;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::breach::BreachRow;
use crate::device::DeviceRow;

/// A runner, with the sums over its GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerRow {
    /// Its name.
    pub runner_id: String,
    /// When it first registered.
    pub created: String,
    /// Whether it is heard.
    pub status: RunnerState,
    /// Since when it has been silent for longer than its lease.
    pub silent_since: Option<String>,
    /// When it was heard last; null where it was not heard since the server started.
    pub last_seen: Option<String>,
    /// The version of its agent.
    pub version: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// How many GPUs it has.
    pub gpu_count: usize,
    /// What may be booked when they are empty; null where one of them is not known. So are the following.
    #[schema(value_type = Option<u64>)]
    pub usable: Option<Bytes>,
    /// Booked and not being given back.
    #[schema(value_type = Option<u64>)]
    pub held: Option<Bytes>,
    /// Being given back, not free yet.
    #[schema(value_type = Option<u64>)]
    pub releasing: Option<Bytes>,
    /// In use by nobody's booking.
    #[schema(value_type = Option<u64>)]
    pub foreign: Option<Bytes>,
    /// What is free: the sum over its GPUs. A model that needs so much on one GPU need not fit.
    #[schema(value_type = Option<u64>)]
    pub free: Option<Bytes>,
    /// Slots that hold something there.
    pub slots: usize,
}

/// Whether a runner is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunnerState {
    /// Its last heartbeat is within its lease.
    Online,
    /// It missed its lease. Its slots are unknown and stay charged, and it gets no new work.
    Silent,
    /// It is shutting down and stops its slots; it gets no new work.
    Stopping,
}

/// A runner with its GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerStatus {
    /// The runner.
    #[serde(flatten)]
    pub runner: RunnerRow,
    /// Its GPUs, by index.
    pub gpus: Vec<GpuRow>,
    /// What is wrong with its books, if anything.
    pub breaches: Vec<BreachRow>,
}

/// A GPU: what is booked on it, in the names of `devices[]` of `plimsoll simulate`, and what is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuRow {
    /// Its index on the runner.
    pub index: u16,
    /// The books.
    #[serde(flatten)]
    pub device: DeviceRow,
    /// Being given back, and promised to somebody who waits.
    #[schema(value_type = u64)]
    pub promised: Bytes,
    /// Closed to new work, because its books and its memory disagree.
    pub closed: bool,
    /// Memory in use, by whomever, as it was measured last; null where it is not measured.
    pub used: Option<u64>,
    /// How busy its compute is, in percent, as it was measured last.
    pub utilisation: Option<u8>,
    /// `none` (placed by bookings alone), `fresh` or `stale` (takes no new work).
    pub telemetry: String,
    /// Since when it is stale.
    pub telemetry_stale_since: Option<String>,
    /// The processes that use it and belong to no slot.
    pub foreign_processes: Vec<Process>,
}
