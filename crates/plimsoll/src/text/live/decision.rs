//! One decision of a server in full, and the decision that it would make now.

use plimsoll_api::rows::{DecisionRow, LoadRow, MemoryRow, Time, WhatIfRow};

use super::holds;
use crate::text::age::ago;
use crate::text::decision::{candidates, decided_by, help, not_chosen, placed_on, requested};
use crate::text::or_else;
use crate::text::page::{BAD, FAINT, GOOD, ODD, PLAIN, Page};
use crate::text::table::{Align, Table};

/// Prints a decision and the data that it was made from.
pub(crate) fn decision(page: &mut Page, row: &DecisionRow, now: Time) {
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
        page.styled(2, BAD, &format!("rejected: {}", row.why()));
    }
    if let Some(allocation) = &row.gpu_allocation {
        page.line(2, &holds(allocation));
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
    candidates(page, "Runners", explanation, Some(runner(row)).filter(|_| row.placed));
    if let Some(promised) = &explanation.promised {
        page.heading("Promised");
        help(page, 2, Some(promised), &[]);
    }
    decided_by(page, explanation, row.digest.as_deref());
}

/// Formats the memory that a model needs and its source; `None` if it is unknown.
fn memory_text(memory: Option<&MemoryRow>) -> Option<String> {
    let memory = memory?;
    let (source, per_gpu) = (memory.source?, memory.per_gpu.as_ref()?);
    let sizes = crate::text::sizes(per_gpu.iter().copied().map(Some));
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
            (PLAIN, or_else(old.usable, "?")),
        ]);
    }
    table.print(page, 2);
}

fn load(row: &LoadRow) -> (anstyle::Style, String) {
    let is_over = row.load.zip(row.usable).is_some_and(|(load, usable)| load > usable);
    (if is_over { BAD } else { PLAIN }, or_else(row.load, "?"))
}

/// Prints the decision that the server would make now, and the changes that would help.
pub(crate) fn now(page: &mut Page, row: &WhatIfRow) {
    page.heading("If decided now");
    let decision = &row.decision;
    if decision.placed {
        return page.styled(2, GOOD, &format!("it would be placed on {}", runner(decision)));
    }
    page.styled(2, BAD, &format!("rejected: {}", decision.why()));
    help(page, 2, decision.explanation.promised.as_ref(), &row.would_fit_if);
}
