//! Slots, and what they hold of GPUs, as rows.

use plimsoll_core::units::Bytes;
use plimsoll_slots::wire::OnDevice;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A process that serves a model, or is to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlotRow {
    /// Its id.
    pub id: String,
    /// The model.
    pub model: String,
    /// The runner; null while it waits for a GPU.
    pub runner_id: Option<String>,
    /// What it holds of GPUs; null while it waits for one, and where it needs none.
    pub gpu_allocation: Option<GpuAllocation>,
    /// `pending`, `starting`, `running`, `releasing`, or `gone`.
    pub stage: String,
    /// When it was made.
    pub created: String,
    /// When it last did anything.
    pub last_activity: String,
    /// Places in it that are taken.
    pub active_requests: u32,
    /// Places that it has.
    pub concurrency: u32,
    /// Whether it may be evicted, since when, or why not; null while it holds nothing.
    pub eviction: Option<EvictionStatusRow>,
    /// Who says what it is charged: `declared`, `measured` or `estimated`. Null while it holds nothing, and for one that was adopted.
    pub memory_source: Option<String>,
    /// Where it answers, once it does.
    pub endpoint: Option<String>,
    /// How it stands, in a sentence: why it waits, or why its last start failed.
    pub reason: String,
    /// What evidence of it names: every start has a new one. Null while it holds nothing.
    pub generation: Option<u64>,
    /// Whether it was started before anybody asked. Such a slot goes first.
    pub prewarmed: bool,
    /// Whether a runner reported it and nobody here made it.
    pub adopted: bool,
    /// What it is measured to use on each GPU, where that can be measured.
    pub used: Vec<OnDevice>,
    /// Whether it was seen to use more than it was declared to need. It is charged what it uses.
    pub outgrown: bool,
}

/// What a slot holds of GPUs, everywhere in the same words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuAllocation {
    /// How many GPUs.
    pub gpu_count: usize,
    /// The GPUs, by index.
    pub gpus: Vec<GpuShare>,
    /// The most that it holds on one of them; null where nobody declared it.
    #[schema(value_type = Option<u64>)]
    pub memory_per_gpu: Option<Bytes>,
    /// What it holds on all of them together; null likewise.
    #[schema(value_type = Option<u64>)]
    pub total_memory_required: Option<Bytes>,
    /// Over how many GPUs it is split.
    pub tensor_parallel_size: usize,
}

/// What is held of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuShare {
    /// Its index on the runner.
    pub index: u16,
    /// Its UUID, or `runner/gpu-INDEX`.
    pub uuid: String,
    /// How much; null where nobody declared it.
    #[schema(value_type = Option<u64>)]
    pub bytes: Option<Bytes>,
}

/// Whether a slot could be evicted for a request that may evict anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EvictionStatusRow {
    /// Whether the slot is evictable now.
    pub evictable: bool,
    /// The time since when it is evictable.
    pub since: Option<String>,
    /// The time from when on it will be evictable, if known.
    pub from: Option<String>,
    /// The code of the reason why it is not evictable: `pinned`, `starting`, `releasing`, `recently_started`, `active`,
    /// `activity_unknown`, `no_idle_limit` or `not_idle_yet`.
    pub code: Option<String>,
    /// The same in words.
    pub reason: Option<String>,
}
