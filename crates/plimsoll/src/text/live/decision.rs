//! One decision of a server in full, and the decision that it would make now.

use plimsoll_api::rows::{DecisionRow, LoadRow, MemoryRow, Time, WhatIfRow};

use plimsoll_core::wording::SizeFormat;

use super::charged;
use crate::text::age::ago;
use crate::text::candidates::{Detail, candidates};
use crate::text::decision::{
    clauses, decided_by, help, not_chosen, placed_on, requested, without_needs,
};
use crate::text::page::{BAD, FAINT, GOOD, ODD, PLAIN, Page};
use crate::text::table::{Align, Table};
use crate::text::{common_format, or_else, row_format};

/// Prints a decision and the data that it was made from.
pub(crate) fn decision(page: &mut Page, row: &DecisionRow, now: Time, detail: Detail) {
    let explanation = &row.explanation;
    page.heading(&format!("decision {}", row.id.as_deref().unwrap_or("without id")));
    let slot = row.slot_id.as_deref().map_or(String::new(), |slot| format!(", {slot}"));
    let (age, at) = (ago(row.created, now), row.created.to_clock());
    page.line(2, &format!("model {}{slot}, {age} ago ({at})", row.model));
    match memory_text(row.memory.as_ref()) {
        Some(memory) => page.line(2, &memory),
        None => {
            requested(page, explanation);
            let missing = row.memory.as_ref().and_then(|memory| memory.missing.as_ref());
            missing.into_iter().for_each(|missing| page.line(2, &format!("unknown: {missing}")));
        }
    }
    if row.placed {
        page.styled(2, GOOD, &placed_on(runner(row), explanation));
    } else {
        page.styled(2, BAD, &format!("not placed: {}", explanation.brief));
        clauses(page, 4, without_needs(&explanation.clauses));
    }
    if let Some(allocation) = &row.gpu_allocation {
        page.line(2, &charged(allocation));
    }
    for eviction in &row.evictions {
        page.styled(2, ODD, &format!("evicts {} ({})", eviction.slot_id, eviction.model));
    }
    before_and_after(page, row);
    not_chosen(page, &explanation.lost_by);
    if explanation.candidates.is_none() {
        let replay = row.replay.as_deref().map_or(String::new(), |how| format!("; use {how}"));
        page.styled(2, FAINT, &format!("per-GPU details have expired{replay}"));
    }
    candidates(page, "Runners", explanation, Some(runner(row)).filter(|_| row.placed), detail);
    if let Some(promised) = &explanation.promised {
        page.heading("Promised");
        help(page, 2, Some(promised), &[]);
    }
    decided_by(page, explanation, row.digest.as_deref());
}

/// Formats the memory that a model needs and its source; `None` if it is unknown.
pub(super) fn memory_text(memory: Option<&MemoryRow>) -> Option<String> {
    let memory = memory?;
    let (source, per_gpu) = (memory.source?, memory.per_gpu.as_ref()?);
    let sizes = || per_gpu.iter().copied().map(Some);
    let sizes = crate::text::sizes(common_format(sizes()), sizes());
    let remarks: String = memory.remarks.iter().map(|remark| format!("; {remark}")).collect();
    Some(format!("requests {sizes} ({source}){remarks}"))
}

fn runner(row: &DecisionRow) -> &str {
    row.runner_id.as_deref().unwrap_or("?")
}

fn before_and_after(page: &mut Page, row: &DecisionRow) {
    let (Some(before), Some(after)) = (&row.before, &row.after) else { return };
    if before.is_empty() {
        return;
    }
    page.heading(&format!("GPUs of {}", runner(row)));
    let mut table = Table::new(&[
        ("GPU", Align::Left),
        ("UUID", Align::Left),
        ("BEFORE", Align::Right),
        ("AFTER", Align::Right),
        ("USABLE", Align::Right),
    ]);
    for (old, new) in before.iter().zip(after) {
        table.styled_row([
            (PLAIN, old.index.to_string()),
            (PLAIN, old.uuid.clone()),
            load(old),
            load(new),
            (PLAIN, or_else(old.usable.map(|usable| format(old).show(usable)), "?")),
        ]);
    }
    table.print(page, 2);
}

fn format(row: &LoadRow) -> SizeFormat {
    row_format(row.usable, row.load.as_slice())
}

fn load(row: &LoadRow) -> (anstyle::Style, String) {
    let is_over = row.load.zip(row.usable).is_some_and(|(load, usable)| load > usable);
    let load = row.load.map(|load| format(row).show(load));
    (if is_over { BAD } else { PLAIN }, or_else(load, "?"))
}

/// Prints the decision that the server would make now, and the changes that would help. The lines
/// about the decision before are not repeated.
pub(crate) fn now(page: &mut Page, row: &WhatIfRow, before: Option<&DecisionRow>) {
    page.heading("If decided now");
    let WhatIfRow { decision, would_fit_if } = row;
    let explanation = &decision.explanation;
    if decision.placed {
        return page.styled(2, GOOD, &format!("it would be placed on {}", runner(decision)));
    }
    page.styled(2, BAD, &format!("not placed: {}", explanation.brief));
    if before.is_none_or(|before| before.explanation.clauses != explanation.clauses) {
        clauses(page, 4, without_needs(&explanation.clauses));
    }
    let promised = explanation.promised.as_ref();
    let is_known = before.is_some_and(|before| before.explanation.promised == explanation.promised);
    help(page, 4, promised.filter(|_| !is_known), would_fit_if);
}
