//! Rows of a server as text.

pub(crate) mod accounts;
pub(crate) mod contexts;
pub(crate) mod decision;
pub(crate) mod decisions;
pub(crate) mod events;
pub(crate) mod gpu;
pub(crate) mod models;
pub(crate) mod plan;
pub(crate) mod queue;
pub(crate) mod reservation;
pub(crate) mod reservations;
pub(crate) mod runners;
pub(crate) mod schedulerlog;
pub(crate) mod slots;

use plimsoll_api::rows::GpuAllocation;
use plimsoll_core::units::Bytes;
use plimsoll_core::wording::SizeFormat;

/// Formats the GPUs of an allocation by their index: `0, 1`.
pub(crate) fn gpus(allocation: Option<&GpuAllocation>) -> String {
    let Some(allocation) = allocation.filter(|allocation| !allocation.gpus.is_empty()) else {
        return "-".to_string();
    };
    let indices = allocation.gpus.iter().map(|gpu| gpu.index.to_string());
    indices.collect::<Vec<_>>().join(", ")
}

/// Formats the memory of an allocation on each GPU: `2 x 30.0 GiB`.
pub(crate) fn memory(format: SizeFormat, allocation: Option<&GpuAllocation>) -> String {
    super::sizes(format, shares(allocation))
}

/// Returns the one unit of the allocations in a list.
pub(crate) fn memory_format<'a>(
    allocations: impl IntoIterator<Item = Option<&'a GpuAllocation>>,
) -> SizeFormat {
    super::common_format(allocations.into_iter().flat_map(shares))
}

fn shares(allocation: Option<&GpuAllocation>) -> impl Iterator<Item = Option<Bytes>> {
    allocation.into_iter().flat_map(|row| &row.gpus).map(|gpu| gpu.bytes)
}

/// Formats an allocation: `holds 2 x 30.0 GiB on GPUs 0, 1`.
fn holds(allocation: &GpuAllocation) -> String {
    format!("holds {}", share_text(allocation))
}

/// Formats what a decision charged, which may have been released since.
fn charged(allocation: &GpuAllocation) -> String {
    format!("charged {}", share_text(allocation))
}

fn share_text(allocation: &GpuAllocation) -> String {
    let memory = memory(memory_format([Some(allocation)]), Some(allocation));
    let noun = if allocation.gpus.len() == 1 { "GPU" } else { "GPUs" };
    format!("{memory} on {noun} {}", gpus(Some(allocation)))
}
