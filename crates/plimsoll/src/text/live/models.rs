//! The declared models of a server.

use plimsoll_api::rows::{MemoryRow, ModelRow};
use plimsoll_core::wording::SizeFormat;

use crate::text::page::{FAINT, ODD, Page};
use crate::text::table::{Align, Table};
use crate::text::{common_format, count, sizes};

/// Prints the models, one line each.
pub(crate) fn models(page: &mut Page, rows: &[ModelRow]) {
    if rows.is_empty() {
        return page.styled(0, FAINT, "no models; declare one with plimsoll apply");
    }
    let mut table = Table::new(&[
        ("MODEL", Align::Left),
        ("RUNTIME", Align::Left),
        ("MEMORY", Align::Right),
        ("SOURCE", Align::Left),
        ("SLOTS", Align::Right),
        ("RESERVATIONS", Align::Right),
        ("CONCURRENCY", Align::Right),
        ("PRIORITY", Align::Right),
        ("LOAD", Align::Right),
    ])
    .optional(&["LOAD", "PRIORITY", "CONCURRENCY", "SOURCE"]);
    let needs =
        rows.iter().flat_map(|row| row.memory.first()).filter_map(|row| row.per_gpu.as_ref());
    let format = common_format(needs.flatten().copied().map(Some));
    for row in rows {
        let declared = &row.declaration;
        let memory = row.memory.first();
        table.row([
            row.name.clone(),
            declared.runtime.name().to_string(),
            memory.map_or("-".to_string(), |memory| need(memory, format)),
            memory
                .and_then(|memory| memory.source)
                .map_or("-".to_string(), |source| source.to_string()),
            format!("{}/{}", row.slots, declared.max_slots),
            row.active_requests.to_string(),
            declared.concurrency.to_string(),
            declared.priority.to_string(),
            row.load_ms.map_or("-".to_string(), |millis| format!("{}s", millis / 1000)),
        ]);
    }
    table.print(page, 0);
}

/// Formats the memory on each GPU.
fn need(memory: &MemoryRow, format: SizeFormat) -> String {
    match &memory.per_gpu {
        Some(per_gpu) => sizes(format, per_gpu.iter().copied().map(Some)),
        None => "unknown".to_string(),
    }
}

/// Prints one model: its declaration as YAML, and its memory.
pub(crate) fn model(page: &mut Page, row: &ModelRow) {
    page.heading(&row.name);
    let most = usize::try_from(row.declaration.max_slots).unwrap_or(usize::MAX);
    let reservations = usize::try_from(row.active_requests).unwrap_or(usize::MAX);
    let (slots, reservations) = (count(most, "slot"), count(reservations, "reservation"));
    page.line(2, &format!("{} of {slots}, {reservations}", row.slots));
    for memory in &row.memory {
        let gpus = count(usize::from(memory.tensor_parallel_size), "GPU");
        let per_gpu = memory.per_gpu.iter().flatten().copied().map(Some);
        let text = need(memory, common_format(per_gpu));
        let source = memory.source.map_or(String::new(), |source| format!(" ({source})"));
        page.line(2, &format!("memory on {gpus}: {text}{source}"));
        for note in memory.missing.iter().chain(&memory.remarks) {
            page.styled(4, ODD, note);
        }
    }
    page.heading("Declaration");
    let declaration = serde_saphyr::to_string(&row.declaration).unwrap_or_default();
    declaration.lines().for_each(|line| page.verbatim(2, line));
}
