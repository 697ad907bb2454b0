//! Slots and their GPUs as rows.

use plimsoll_core::units::Bytes;
use plimsoll_slots::desk;
use plimsoll_slots::wire::OnDevice;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::MemorySource;
use crate::clause::WhyRow;
use crate::forecast::ForecastRow;
use crate::names::named;
use crate::time::Time;

named! {
    /// The stage of a slot.
    SlotStage {
        /// It waits for GPUs.
        Pending = "pending",
        Starting = "starting",
        Running = "running",
        /// Its runner is silent.
        Unknown = "unknown",
        /// It is stopping; its memory counts until its release is observed.
        Releasing = "releasing",
        Gone = "gone",
    }
}

impl From<desk::SlotStage> for SlotStage {
    fn from(stage: desk::SlotStage) -> SlotStage {
        match stage {
            desk::SlotStage::Pending => SlotStage::Pending,
            desk::SlotStage::Starting => SlotStage::Starting,
            desk::SlotStage::Running => SlotStage::Running,
            desk::SlotStage::Unknown => SlotStage::Unknown,
            desk::SlotStage::Releasing => SlotStage::Releasing,
        }
    }
}

/// A model server process on GPUs of one runner, or a pending one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotRow {
    pub id: String,
    pub model: String,
    /// Null while the slot is pending.
    pub runner_id: Option<String>,
    /// Null while the slot is pending, and if it needs no GPU.
    pub gpu_allocation: Option<GpuAllocation>,
    pub stage: SlotStage,
    pub created: Time,
    pub last_activity: Time,
    /// Reservations in the slot.
    pub active_requests: u32,
    /// The maximum number of reservations in it.
    pub concurrency: u32,
    /// Null while the slot holds nothing.
    pub eviction: Option<EvictionStatusRow>,
    /// The source of its charge; null while it holds nothing, and for an adopted slot.
    pub memory_source: Option<MemorySource>,
    /// The address of the model server, once it is ready.
    pub endpoint: Option<String>,
    /// Its state in one sentence: why it is pending, or why its last start failed.
    pub reason: String,
    #[serde(flatten)]
    pub why: WhyRow,
    /// Failed starts since the last successful one.
    #[serde(default)]
    pub failures: u32,
    /// The time of the next start after a failed one.
    #[serde(default)]
    pub retry_at: Option<Time>,
    /// The number of its start, which reports refer to; null while it holds nothing.
    pub generation: Option<u64>,
    /// Started before a client asked for it. Such a slot is evicted first.
    pub prewarmed: bool,
    /// Reported by a runner and not created by this server.
    pub adopted: bool,
    /// Its prospects while it is pending.
    #[serde(default)]
    pub forecast: Option<ForecastRow>,
    /// Its end; null while it exists.
    #[serde(default)]
    pub ended: Option<EndedRow>,
    /// The measured memory on each GPU, if it can be measured.
    pub used: Vec<OnDevice>,
    /// It used more than its model declares, and is charged what it uses.
    pub outgrown: bool,
}

/// The end of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndedRow {
    pub at: Time,
    /// `withdrawn`, `impossible`, `evicted`, `stopped`, `drained`, `model_removed` or `ended`.
    pub cause: String,
}

/// A part of the output of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogRow {
    pub slot_id: String,
    pub runner_id: String,
    /// The offset of the text in bytes.
    pub from: u64,
    /// The offset after it, for the next request.
    pub next: u64,
    pub text: String,
    /// The slot has ended; no more output follows.
    pub has_ended: bool,
}

/// The GPUs that a slot holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuAllocation {
    pub gpu_count: usize,
    /// The GPUs by index.
    pub gpus: Vec<GpuShare>,
    /// The largest share; null if undeclared.
    #[schema(value_type = Option<u64>)]
    pub memory_per_gpu: Option<Bytes>,
    /// The sum of all shares; null if undeclared.
    #[schema(value_type = Option<u64>)]
    pub total_memory_required: Option<Bytes>,
    /// The number of GPUs that the model is split over.
    pub tensor_parallel_size: usize,
}

/// A share of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuShare {
    /// The index on the runner.
    pub index: u16,
    /// The UUID, or `runner/gpu-INDEX`.
    pub uuid: String,
    /// Null if undeclared.
    #[schema(value_type = Option<u64>)]
    pub bytes: Option<Bytes>,
}

named! {
    /// The reason why a slot is not evictable.
    NotEvictable {
        RequesterMayNotEvict = "requester_may_not_evict",
        Pinned = "pinned",
        SameModel = "same_model",
        Starting = "starting",
        Releasing = "releasing",
        RecentlyStarted = "recently_started",
        Active = "active",
        ActivityUnknown = "activity_unknown",
        NoIdleLimit = "no_idle_limit",
        NotIdleYet = "not_idle_yet",
    }
}

/// The evictability of a slot, for a request that may evict anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EvictionStatusRow {
    /// The slot is evictable now.
    pub evictable: bool,
    /// The time since when it is evictable.
    pub since: Option<Time>,
    /// The time from when on it will be evictable, if known.
    pub from: Option<Time>,
    /// The reason why it is not evictable.
    pub code: Option<NotEvictable>,
    /// The same in words.
    pub reason: Option<String>,
}
