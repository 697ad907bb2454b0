//! What is read of a server's answers. A name that is missing is not known; names that are not known here are passed over, so that
//! a newer server can say more.

mod decision;
mod gpu;
mod moment;
mod schedulerlog;

pub(crate) use decision::{
    CandidateRow, ContainerRow, DecisionRow, DeviceRow, LoadRow, PromisedRow, ScorePart,
};
pub(crate) use gpu::GpuRow;
pub(crate) use moment::Moment;
pub(crate) use schedulerlog::SchedulerLog;

use std::collections::BTreeMap;

use plimsoll_core::units::Bytes;
use serde::Deserialize;

/// A runner, with its GPUs where they were asked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RunnerRow {
    pub(crate) runner_id: String,
    pub(crate) status: Option<String>,
    pub(crate) silent_since: Option<Moment>,
    pub(crate) last_seen: Option<Moment>,
    pub(crate) version: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) gpu_count: usize,
    pub(crate) usable: Option<Bytes>,
    pub(crate) free: Option<Bytes>,
    pub(crate) slots: Option<usize>,
    pub(crate) gpus: Vec<GpuRow>,
}

/// A slot or a reservation: the server serves both under one path.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SlotRow {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) runner_id: Option<String>,
    pub(crate) gpu_allocation: Option<Allocation>,
    pub(crate) stage: Option<String>,
    pub(crate) created: Option<Moment>,
    pub(crate) last_activity: Option<Moment>,
    pub(crate) active_requests: Option<u32>,
    pub(crate) concurrency: Option<u32>,
    pub(crate) eviction: Option<Evictable>,
    pub(crate) endpoint: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) outgrown: bool,
}

/// What is held of GPUs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Allocation {
    pub(crate) gpus: Vec<OnGpu>,
}

/// What is held of one GPU.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OnGpu {
    pub(crate) index: Option<u16>,
    pub(crate) uuid: String,
    pub(crate) bytes: Option<Bytes>,
}

/// Whether a slot may be evicted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Evictable {
    pub(crate) evictable: Option<bool>,
    pub(crate) since: Option<Moment>,
    pub(crate) from: Option<Moment>,
    pub(crate) code: Option<String>,
    pub(crate) reason: Option<String>,
}

/// Somebody who waits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct QueueRow {
    pub(crate) position: Option<usize>,
    pub(crate) kind: Option<String>,
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) created: Option<Moment>,
    pub(crate) reason: Option<String>,
    pub(crate) reservations: Option<u32>,
    pub(crate) priority: Option<i64>,
    pub(crate) prewarmed: bool,
    pub(crate) deadline: Option<Moment>,
    pub(crate) failures: Option<u32>,
    pub(crate) retry_at: Option<Moment>,
    pub(crate) promised: Option<PromisedRow>,
}

/// A client's claim to one concurrency unit of a model.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReservationRow {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) status: Option<String>,
    pub(crate) slot_id: Option<String>,
    pub(crate) runner_id: Option<String>,
    pub(crate) endpoint: Option<String>,
    pub(crate) gpu_allocation: Option<Allocation>,
    pub(crate) reason: Option<String>,
    pub(crate) promised: Option<PromisedRow>,
    pub(crate) created: Option<Moment>,
    pub(crate) deadline: Option<Moment>,
}

impl ReservationRow {
    /// Whether it is served.
    pub(crate) fn is_ready(&self) -> bool {
        self.status.as_deref() == Some("ready")
    }

    /// Whether it may still be served.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.status.as_deref(), Some("pending" | "starting" | "ready"))
    }
}

/// A declared model.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ModelRow {
    /// As it was declared, what was left out filled in.
    pub(crate) declaration: serde_json::Value,
}
