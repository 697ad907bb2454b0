//! Runners and their GPUs as rows.

use std::collections::BTreeMap;

use plimsoll_core::units::Bytes;
use plimsoll_slots::size::Span;
use plimsoll_slots::wire::Process;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::breach::BreachRow;
use crate::device::DeviceRow;
use crate::names::named;
use crate::time::Time;

/// A runner, with the sums over its GPUs. A sum is null if one of its parts is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerRow {
    /// The name of the runner.
    pub runner_id: String,
    /// The time of its first registration.
    pub created: Time,
    pub status: RunnerState,
    /// The readiness for new slots, as set by an operator.
    #[serde(default)]
    pub intake: Intake,
    /// The time at which a drain stops the slots that are still busy, if it does.
    #[serde(default)]
    pub drain_deadline: Option<Time>,
    /// The time since when it is silent, if it missed its lease.
    pub silent_since: Option<Time>,
    /// The time of its last heartbeat; null if it sent none since the server started.
    pub last_seen: Option<Time>,
    /// The version of its agent.
    pub version: String,
    pub labels: BTreeMap<String, String>,
    pub gpu_count: usize,
    #[schema(value_type = Option<u64>)]
    pub usable: Option<Bytes>,
    /// Charged and not being released.
    #[schema(value_type = Option<u64>)]
    pub held: Option<Bytes>,
    /// Being released, not free yet.
    #[schema(value_type = Option<u64>)]
    pub releasing: Option<Bytes>,
    /// In use outside of any charge.
    #[schema(value_type = Option<u64>)]
    pub foreign: Option<Bytes>,
    /// The free memory of all GPUs. A model that needs this much on one GPU may not fit.
    #[schema(value_type = Option<u64>)]
    pub free: Option<Bytes>,
    /// The slots that hold memory there.
    pub slots: usize,
}

named! {
    /// The connection state of a runner.
    RunnerState {
        /// Its last heartbeat is within its lease.
        Online = "online",
        /// It missed its lease. Its slots are unknown and stay charged, and it gets no new work.
        Silent = "silent",
        /// It is shutting down and stops its slots; it gets no new work.
        Stopping = "stopping",
    }
}

named! {
    /// The readiness of a runner for new slots.
    #[derive(Default)]
    Intake {
        #[default]
        Open = "open",
        /// It gets no new slots, and keeps those that it has.
        Cordoned = "cordoned",
        /// It gets no new slots; those that it has are stopped when they are idle.
        Draining = "draining",
    }
}

/// The options of a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainBody {
    /// The time after which slots that are still busy are stopped, such as `10m`. Without it they
    /// are never stopped while they are busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "10m")]
    pub deadline: Option<Span>,
}

/// A runner with its GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerStatus {
    #[serde(flatten)]
    pub runner: RunnerRow,
    /// The GPUs by index.
    pub gpus: Vec<GpuRow>,
    pub breaches: Vec<BreachRow>,
}

named! {
    /// The age of the measurements of a GPU.
    Telemetry {
        /// Not measured; placed by charges alone.
        None = "none",
        Fresh = "fresh",
        /// Too old; the GPU takes no new work.
        Stale = "stale",
    }
}

/// A GPU: its account, in the fields of `devices[]` of `plimsoll simulate`, and its measurements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuRow {
    /// The index on the runner.
    pub index: u16,
    #[serde(flatten)]
    pub device: DeviceRow,
    /// Memory promised to pending requests.
    #[schema(value_type = u64)]
    pub promised: Bytes,
    /// The measured memory in use; null if it is not measured.
    pub used: Option<u64>,
    /// The measured compute utilisation in percent.
    pub utilisation: Option<u8>,
    pub telemetry: Telemetry,
    pub telemetry_stale_since: Option<Time>,
    /// Processes on the GPU that belong to no slot.
    pub foreign_processes: Vec<Process>,
}
