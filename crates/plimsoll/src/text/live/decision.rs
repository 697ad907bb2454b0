//! One decision of a server in full: every runner and GPU, what was chosen, what lost; and what would help by now.

use anstyle::Style;
use plimsoll_core::units::Bytes;

use super::{gpus, memory, or_unknown};
use crate::client::rows::{
    CandidateRow, ContainerRow, DecisionRow, DeviceRow, LoadRow, Moment, ScorePart,
};
use crate::text::page::{BAD, FAINT, GOOD, ODD, PLAIN, Page, STRONG};
use crate::text::table::{Align, Table};

/// A decision, and what it was made from.
pub(crate) fn decision(page: &mut Page, row: &DecisionRow, now: Moment) {
    let id = row.id.as_deref().map_or("what if".to_string(), |id| format!("decision {id}"));
    page.heading(&id);
    let slot = row.slot_id.as_deref().map_or(String::new(), |slot| format!(", {slot}"));
    let when =
        row.created.map_or(String::new(), |at| format!(", {} ago ({})", at.ago(now), at.full()));
    page.line(2, &format!("model {}{slot}{when}", row.model));
    answer(page, row);
    if let Some(memory) = &row.memory
        && let Some(words) = memory.words()
    {
        page.line(2, &words);
    }
    for eviction in &row.evictions {
        page.styled(2, ODD, &format!("evicts {} ({})", eviction.slot_id, eviction.model));
    }
    before_and_after(page, row);
    lost(page, row);
    candidates(page, row);
    promised(page, row);
    decided_by(page, row);
}

fn answer(page: &mut Page, row: &DecisionRow) {
    if !row.placed {
        return page.styled(2, BAD, &format!("refused: {}", row.why()));
    }
    let score = row
        .score
        .map_or(String::new(), |score| format!(", score {}", score_words(score, &row.score_parts)));
    let runner = row.runner_id.as_deref().unwrap_or("?");
    page.styled(2, GOOD, &format!("placed on {runner}{score}"));
    if let Some(allocation) = row.gpu_allocation.as_ref() {
        page.line(
            2,
            &format!("holds {} on GPU {}", memory(Some(allocation)), gpus(Some(allocation))),
        );
    }
    // That it is placed there has been said.
    if !row.summary.is_empty() && row.summary != format!("placed on {runner}") {
        page.line(2, &row.summary);
    }
}

/// `12345 (node 10000, device 2345)`: the sum and the terms that add something to it.
fn score_words(score: i64, parts: &[ScorePart]) -> String {
    let parts = parts.iter().filter(|part| part.points != 0);
    let parts: Vec<String> = parts.map(|part| format!("{} {}", part.term, part.points)).collect();
    if parts.is_empty() { score.to_string() } else { format!("{score} ({})", parts.join(", ")) }
}

fn before_and_after(page: &mut Page, row: &DecisionRow) {
    let (Some(before), Some(after)) = (&row.before, &row.after) else { return };
    if before.is_empty() {
        return;
    }
    page.heading(&format!("GPUs of {}", row.runner_id.as_deref().unwrap_or("?")));
    let mut table = Table::new(&[
        ("GPU", Align::Left),
        ("UUID", Align::Left),
        ("BEFORE", Align::Right),
        ("AFTER", Align::Right),
        ("LINE", Align::Right),
    ]);
    for old in before {
        let new = after.iter().find(|new| new.index == old.index && new.uuid == old.uuid);
        let over =
            |row: &LoadRow| row.load.zip(row.usable).is_some_and(|(load, usable)| load > usable);
        let style = |row: Option<&LoadRow>| if row.is_some_and(over) { BAD } else { PLAIN };
        table.styled_row([
            (PLAIN, or_unknown(old.index)),
            (PLAIN, old.uuid.clone()),
            (style(Some(old)), or_unknown(old.load)),
            (style(new), or_unknown(new.and_then(|new| new.load))),
            (PLAIN, or_unknown(old.usable)),
        ]);
    }
    table.print(page, 2);
}

fn lost(page: &mut Page, row: &DecisionRow) {
    if row.lost_by.is_empty() {
        return;
    }
    page.heading("What lost, and by which term");
    for lost in &row.lost_by {
        let name =
            lost.device.as_ref().map_or(lost.node.clone(), |gpu| format!("{gpu} on {}", lost.node));
        page.line(2, &format!("{name}: {}", lost.text));
    }
}

fn candidates(page: &mut Page, row: &DecisionRow) {
    let Some(candidates) = &row.candidates else {
        let how = row.replay.as_deref().map_or(String::new(), |how| format!(": {how}"));
        return page.styled(2, FAINT, &format!("what every GPU said is not at hand any more{how}"));
    };
    if candidates.is_empty() {
        return;
    }
    page.heading("Runners");
    let several = candidates
        .iter()
        .any(|other| other.tensor_parallel_size != candidates[0].tensor_parallel_size);
    for candidate in candidates {
        let shape = candidate.tensor_parallel_size.filter(|_| several);
        judged(page, row, candidate, shape);
    }
}

fn judged(page: &mut Page, row: &DecisionRow, candidate: &CandidateRow, shape: Option<u32>) {
    let over = match shape {
        None => String::new(),
        Some(1) => " on one GPU".to_string(),
        Some(number) => format!(" over {number} GPUs"),
    };
    let name = format!("{}{over}", candidate.name);
    let (style, words) = match (&*candidate.status, &candidate.reason) {
        ("passed", _) => (
            GOOD,
            format!(" passed, score {}", score_words(candidate.score, &candidate.score_parts)),
        ),
        (status, Some(reason)) => (BAD, format!(" {status}: {} ({})", reason.code, reason.text)),
        (status, None) => (BAD, format!(" {status}")),
    };
    page.pieces(2, &[(STRONG, &name), (style, &words)]);
    for container in &candidate.containers {
        let chosen = |gpu: &DeviceRow| {
            let here = row.placed && row.runner_id.as_deref() == Some(&*candidate.name);
            let held = row.gpu_allocation.iter().flat_map(|allocation| &allocation.gpus);
            here && held.into_iter().any(|held| held.uuid == gpu.uuid)
        };
        container_on(page, container, chosen);
    }
}

fn container_on(page: &mut Page, container: &ContainerRow, chosen: impl Fn(&DeviceRow) -> bool) {
    let passed = container.status == "passed";
    match &container.reason {
        Some(reason) => {
            page.pieces(4, &[(PLAIN, &container.name), (BAD, " failed: "), (PLAIN, reason)]);
        }
        None if container.devices.is_empty() && passed => {
            page.pieces(4, &[(PLAIN, &container.name), (FAINT, " passed: wants no device")]);
        }
        None => {
            let style = if passed { GOOD } else { BAD };
            page.pieces(4, &[(PLAIN, &container.name), (style, &format!(" {}", container.status))]);
        }
    }
    let mut table = Table::new(&[
        ("DEVICE", Align::Left),
        ("NEED", Align::Right),
        ("FREE", Align::Right),
        ("SHORT BY", Align::Right),
        ("VERDICT", Align::Left),
    ]);
    for gpu in &container.devices {
        let short_by = gpu.short_by.filter(|short_by| !short_by.is_zero());
        table.styled_row([
            (PLAIN, gpu.uuid.clone()),
            (PLAIN, or_unknown(gpu.need)),
            (PLAIN, or_unknown(gpu.free)),
            (PLAIN, short_by.map_or("-".to_string(), |short_by: Bytes| short_by.to_string())),
            verdict(gpu, chosen(gpu)),
        ]);
    }
    table.print(page, 6);
}

fn verdict(gpu: &DeviceRow, chosen: bool) -> (Style, String) {
    let held = gpu.held_by.as_ref().map_or(String::new(), |holders| format!("; held by {holders}"));
    match (&gpu.reason, &gpu.text) {
        (Some(code), Some(text)) => (PLAIN, format!("{code}: {text}{held}")),
        (Some(code), None) => (PLAIN, format!("{code}{held}")),
        (None, _) if chosen => (GOOD, "fits, chosen".to_string()),
        (None, _) => (GOOD, "fits".to_string()),
    }
}

fn promised(page: &mut Page, row: &DecisionRow) {
    if let Some(promised) = &row.promised {
        page.heading("What was promised");
        page.line(2, &promised.words());
    }
}

/// What the same question is answered now, and what would help.
pub(crate) fn now(page: &mut Page, row: &DecisionRow) {
    page.heading("If it were decided now");
    if row.placed {
        let runner = row.runner_id.as_deref().unwrap_or("?");
        return page.styled(2, GOOD, &format!("it would be placed on {runner}"));
    }
    page.styled(2, BAD, &format!("refused: {}", row.why()));
    if let Some(promised) = &row.promised {
        page.line(2, &promised.words());
    }
    for remedy in &row.would_fit_if {
        page.line(2, &format!("would fit if {}", remedy.text));
    }
}

fn decided_by(page: &mut Page, row: &DecisionRow) {
    let policy = row.policy.as_ref().map(|policy| format!("policy {policy}"));
    let revision = row.ledger_revision.map(|revision| format!("ledger revision {revision}"));
    let digest = row.digest.as_ref().map(|digest| format!("digest {digest}"));
    let parts: Vec<String> = policy.into_iter().chain(revision).chain(digest).collect();
    if !parts.is_empty() {
        page.heading("Decided by");
        page.styled(2, FAINT, &parts.join(", "));
    }
}
