//! The slots of a server, one line each.

use anstyle::Style;

use super::{ago, gpus, memory, or_none, or_unknown};
use crate::client::rows::{Evictable, Moment, SlotRow};
use crate::text::page::{BAD, FAINT, GOOD, NEW, ODD, PLAIN, Page};
use crate::text::table::{Align, Table};

/// The table of slots.
pub(crate) fn slots(page: &mut Page, rows: &[SlotRow], now: Moment) {
    if rows.is_empty() {
        return page.styled(0, FAINT, "there are no slots");
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
        let stage = row.stage.as_deref().unwrap_or_default();
        table.styled_row([
            (PLAIN, row.id.clone()),
            (PLAIN, row.model.clone()),
            (PLAIN, or_none(row.runner_id.as_deref())),
            (PLAIN, gpus(row.gpu_allocation.as_ref())),
            (PLAIN, memory(row.gpu_allocation.as_ref())),
            (stage_style(stage), or_unknown(row.stage.as_deref())),
            (PLAIN, active(row)),
            (PLAIN, idle(row, now)),
            (PLAIN, ago(row.created, now)),
            (
                PLAIN,
                row.eviction.as_ref().map_or("-".to_string(), |evictable| may_go(evictable, now)),
            ),
        ]);
    }
    table.print(page, 0);
    // Why a slot does not serve is too long for a column, and what matters most about it.
    for row in rows.iter().filter(|row| row.stage.as_deref() != Some("running")) {
        if let Some(reason) = row.reason.as_deref().filter(|reason| !reason.is_empty()) {
            match reason.strip_prefix(&*row.id) {
                Some(rest) => page.pieces(0, &[(ODD, &row.id), (PLAIN, rest)]),
                None => page.pieces(0, &[(ODD, &row.id), (PLAIN, ": "), (PLAIN, reason)]),
            }
        }
    }
    for row in rows.iter().filter(|row| row.outgrown) {
        page.pieces(
            0,
            &[
                (BAD, &row.id),
                (PLAIN, " uses more than its model declares, and is charged what it uses"),
            ],
        );
    }
}

/// How a stage looks.
pub(crate) fn stage_style(stage: &str) -> Style {
    match stage {
        "running" => GOOD,
        "starting" => NEW,
        "pending" | "releasing" => ODD,
        _ => PLAIN,
    }
}

fn active(row: &SlotRow) -> String {
    match (row.active_requests, row.concurrency) {
        (Some(active), Some(most)) => format!("{active}/{most}"),
        (active, _) => or_unknown(active),
    }
}

fn idle(row: &SlotRow, now: Moment) -> String {
    match row.active_requests {
        Some(0) => ago(row.last_activity, now),
        _ => "-".to_string(),
    }
}

/// `yes, for 5m`, `in 3m`, `no, it is pinned`.
pub(crate) fn may_go(evictable: &Evictable, now: Moment) -> String {
    let why = evictable.reason.as_deref().or(evictable.code.as_deref());
    match (evictable.evictable, evictable.since, evictable.from) {
        (Some(true), Some(since), _) => format!("yes, for {}", since.ago(now)),
        (Some(true), None, _) => "yes".to_string(),
        (Some(false), _, Some(from)) => format!("in {}", from.ahead(now)),
        (Some(false), _, None) => format!("no, {}", why.unwrap_or("it does not say why")),
        (None, ..) => "?".to_string(),
    }
}
