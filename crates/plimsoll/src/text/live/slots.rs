//! The slots of a server, one line each.

use anstyle::Style;
use plimsoll_api::rows::{EvictionStatusRow, SlotRow, SlotStage, Time};

use super::queue::backoff;
use super::{gpus, memory, memory_format};
use crate::text::age::{ago, ahead};
use crate::text::or_else;
use crate::text::page::{BAD, FAINT, GOOD, NEW, ODD, PLAIN, Page};
use crate::text::table::{Align, Table};

/// Prints the slots, and below the table the reasons of pending and unknown slots.
pub(crate) fn slots(page: &mut Page, rows: &[SlotRow], now: Time) {
    if rows.is_empty() {
        return page.styled(0, FAINT, "no slots");
    }
    let mut table = Table::new(&[
        ("SLOT", Align::Left),
        ("MODEL", Align::Left),
        ("RUNNER", Align::Left),
        ("GPUS", Align::Left),
        ("MEMORY", Align::Right),
        ("STAGE", Align::Left),
        ("ACTIVE", Align::Right),
        ("IDLE", Align::Right),
        ("AGE", Align::Right),
        ("EVICTABLE", Align::Left),
    ])
    .optional(&["IDLE", "AGE", "ACTIVE", "GPUS"]);
    let format = memory_format(rows.iter().map(|row| row.gpu_allocation.as_ref()));
    for row in rows {
        let idle = (row.active_requests == 0).then(|| ago(row.last_activity, now));
        let eviction = row.eviction.as_ref().map(|eviction| evictable(eviction, now));
        table.styled_row([
            (PLAIN, row.id.clone()),
            (PLAIN, row.model.clone()),
            (PLAIN, or_else(row.runner_id.as_ref(), "-")),
            (PLAIN, gpus(row.gpu_allocation.as_ref())),
            (PLAIN, memory(format, row.gpu_allocation.as_ref())),
            (stage_style(row.stage), stage(row)),
            (PLAIN, format!("{}/{}", row.active_requests, row.concurrency)),
            (PLAIN, or_else(idle, "-")),
            (PLAIN, ago(row.created, now)),
            (PLAIN, or_else(eviction, "-")),
        ]);
    }
    table.print(page, 0);
    for row in rows.iter().filter(|row| needs_reason(row.stage)) {
        page.pieces(0, &[(ODD, &row.id), (PLAIN, ": "), (PLAIN, &reason(row, now))]);
    }
    for row in rows.iter().filter(|row| row.outgrown) {
        let text = " uses more than its model declares, and is charged what it uses";
        page.pieces(0, &[(BAD, &row.id), (PLAIN, text)]);
    }
}

/// Prints slots that have ended.
pub(crate) fn ended(page: &mut Page, rows: &[SlotRow], now: Time) {
    if rows.is_empty() {
        return page.styled(0, FAINT, "no ended slots");
    }
    let mut table = Table::new(&[
        ("SLOT", Align::Left),
        ("MODEL", Align::Left),
        ("RUNNER", Align::Left),
        ("ENDED", Align::Right),
        ("CAUSE", Align::Left),
        ("REASON", Align::Left),
    ]);
    for row in rows {
        let ended = row.ended.as_ref();
        table.row([
            row.id.clone(),
            row.model.clone(),
            or_else(row.runner_id.as_ref(), "-"),
            ended.map_or("-".to_string(), |ended| format!("{} ago", ago(ended.at, now))),
            ended.map_or("-".to_string(), |ended| ended.cause.clone()),
            row.why.brief.clone(),
        ]);
    }
    table.print(page, 0);
}

/// Formats the stage of a slot; one whose start failed waits for its next try.
fn stage(row: &SlotRow) -> String {
    match (row.stage, row.failures, row.retry_at) {
        (SlotStage::Pending, 1.., Some(_)) => "back-off".to_string(),
        (stage, ..) => stage.to_string(),
    }
}

/// Formats why a slot is in its stage.
pub(crate) fn reason(row: &SlotRow, now: Time) -> String {
    match row.retry_at.filter(|_| row.failures > 0) {
        Some(at) => backoff(row.failures, at, now),
        None => row.why.brief.clone(),
    }
}

/// Returns whether the reason says more than the stage.
pub(crate) fn needs_reason(stage: SlotStage) -> bool {
    matches!(stage, SlotStage::Pending | SlotStage::Unknown)
}

/// Returns the style of a stage.
pub(crate) fn stage_style(stage: SlotStage) -> Style {
    match stage {
        SlotStage::Running => GOOD,
        SlotStage::Starting => NEW,
        SlotStage::Pending | SlotStage::Releasing => ODD,
        SlotStage::Unknown | SlotStage::Gone => PLAIN,
    }
}

/// Formats whether a slot is evictable: `yes, for 5m`, `in 3m`, `no, pinned`.
pub(crate) fn evictable(eviction: &EvictionStatusRow, now: Time) -> String {
    match (eviction.evictable, eviction.since, eviction.from) {
        (true, Some(since), _) => format!("yes, for {}", ago(since, now)),
        (true, None, _) => "yes".to_string(),
        (false, _, Some(from)) => format!("in {}", ahead(from, now)),
        (false, _, None) => {
            let code = eviction.code.map(|code| code.name().to_string());
            format!("no, {}", or_else(eviction.reason.clone().or(code), "reason unknown"))
        }
    }
}
