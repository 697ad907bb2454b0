//! The slots of a server, one line each.

use anstyle::Style;
use plimsoll_api::rows::{EvictionStatusRow, SlotRow, SlotStage, Time};

use super::{gpus, memory};
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
    ]);
    for row in rows {
        let idle = (row.active_requests == 0).then(|| ago(row.last_activity, now));
        let eviction = row.eviction.as_ref().map(|eviction| evictable(eviction, now));
        table.styled_row([
            (PLAIN, row.id.clone()),
            (PLAIN, row.model.clone()),
            (PLAIN, or_else(row.runner_id.as_ref(), "-")),
            (PLAIN, gpus(row.gpu_allocation.as_ref())),
            (PLAIN, memory(row.gpu_allocation.as_ref())),
            (stage_style(row.stage), row.stage.to_string()),
            (PLAIN, format!("{}/{}", row.active_requests, row.concurrency)),
            (PLAIN, or_else(idle, "-")),
            (PLAIN, ago(row.created, now)),
            (PLAIN, or_else(eviction, "-")),
        ]);
    }
    table.print(page, 0);
    for row in rows.iter().filter(|row| needs_reason(row.stage)) {
        page.pieces(0, &[(ODD, &row.id), (PLAIN, ": "), (PLAIN, &row.reason)]);
    }
    for row in rows.iter().filter(|row| row.outgrown) {
        let text = " uses more than its model declares, and is charged what it uses";
        page.pieces(0, &[(BAD, &row.id), (PLAIN, text)]);
    }
}

/// Returns whether the reason says more than the stage.
fn needs_reason(stage: SlotStage) -> bool {
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
