//! Rows of a server as text.

pub(crate) mod decision;
pub(crate) mod decisions;
pub(crate) mod gpu;
pub(crate) mod queue;
pub(crate) mod reservation;
pub(crate) mod reservations;
pub(crate) mod runners;
pub(crate) mod schedulerlog;
pub(crate) mod slots;

use plimsoll_api::rows::GpuAllocation;

/// Formats the GPUs of an allocation by their index: `0, 1`.
pub(crate) fn gpus(allocation: Option<&GpuAllocation>) -> String {
    let Some(allocation) = allocation.filter(|allocation| !allocation.gpus.is_empty()) else {
        return "-".to_string();
    };
    let indices = allocation.gpus.iter().map(|gpu| gpu.index.to_string());
    indices.collect::<Vec<_>>().join(", ")
}

/// Formats the memory of an allocation on each GPU: `2 x 30 GiB`.
pub(crate) fn memory(allocation: Option<&GpuAllocation>) -> String {
    super::sizes(allocation.into_iter().flat_map(|row| &row.gpus).map(|gpu| gpu.bytes))
}

/// Formats an allocation: `holds 2 x 30 GiB on GPU 0, 1`.
fn holds(allocation: &GpuAllocation) -> String {
    format!("holds {} on GPU {}", memory(Some(allocation)), gpus(Some(allocation)))
}
