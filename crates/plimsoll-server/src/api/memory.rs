//! The memory of models as rows, with its source.

use plimsoll_slots::desk::DeskView;
use plimsoll_slots::memory::{Measured, Need};
use plimsoll_slots::model::Model;
use plimsoll_slots::size::Size;

use plimsoll_api::rows::{DecisionRow, EstimatedRow, MeasuredRow, MemoryRow, MemorySource, time};

/// Returns the memory of a model, for every number of GPUs that it may use.
pub(crate) fn memory_rows(desk: DeskView<'_>, model: &Model) -> Vec<MemoryRow> {
    desk.needs(model).into_iter().map(row).collect()
}

/// Returns the need that a decision was made with: that of its size, else the last one tried.
pub(crate) fn of_size(needs: &[Need], decision: &DecisionRow) -> Option<MemoryRow> {
    let size = decision.gpu_allocation.as_ref().map(|allocation| allocation.tensor_parallel_size);
    let is_it = |need: &&Need| Some(usize::from(need.gpus)) == size;
    needs.iter().find(is_it).or(needs.last()).cloned().map(row)
}

fn row(need: Need) -> MemoryRow {
    let disagrees = need.disagreement().is_some();
    let remarks = need.remarks().iter().map(ToString::to_string).collect();
    let (source, per_gpu, missing) = match need.charge {
        Ok((source, sizes)) => (Some(source), Some(sizes), None),
        Err(missing) => (None, None, Some(missing.to_string())),
    };
    let stale_reason = need.outdated.map(|change| change.to_string());
    MemoryRow {
        tensor_parallel_size: need.gpus,
        source: source.map(MemorySource::from),
        per_gpu: per_gpu.map(|sizes| sizes.into_iter().map(|Size(bytes)| bytes).collect()),
        missing,
        measured: need.measured.map(|measured| measured_row(measured, stale_reason)),
        estimated: need.estimated.map(|estimate| EstimatedRow {
            total: estimate.all.total,
            per_gpu: estimate.gpus.iter().map(|gpu| gpu.total).collect(),
            parts: estimate.all,
        }),
        disagrees,
        remarks,
    }
}

fn measured_row(measured: Measured, stale_reason: Option<String>) -> MeasuredRow {
    let Measured { bytes, at, settings, .. } = measured;
    MeasuredRow {
        per_gpu: bytes,
        at: time(at),
        context: settings.context,
        kv: settings.kv.map(|kv| kv.to_string()),
        concurrency: settings.concurrency,
        stale_reason,
    }
}
