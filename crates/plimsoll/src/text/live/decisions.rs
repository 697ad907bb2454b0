//! The latest decisions of a server. Equal ones about a slot share a line with count and span: a
//! pending slot is decided again at every change, mostly with the same answer.

use anstyle::Style;
use plimsoll_api::rows::{DecisionRow, Time};

use super::{gpus, memory, memory_format};
use crate::text::age::{ago, between};
use crate::text::or_else;
use crate::text::page::{BAD, FAINT, GOOD, PLAIN, Page};
use crate::text::table::{Align, Table};

/// The decisions that share a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// Those about one slot with the same outcome on the same runner.
    Alike,
    /// None: every decision has its own line.
    Each,
}

/// Prints at most `most` lines, the newest first.
pub(crate) fn decisions(
    page: &mut Page,
    rows: &[DecisionRow],
    now: Time,
    (grouping, most): (Grouping, usize),
) {
    if rows.is_empty() {
        return page.styled(0, FAINT, "no decisions");
    }
    let mut table = Table::new(&[
        ("DECISION", Align::Left),
        ("LAST", Align::Right),
        ("COUNT", Align::Left),
        ("MODEL", Align::Left),
        ("SLOT", Align::Left),
        ("GPUS", Align::Left),
        ("MEMORY", Align::Right),
        ("OUTCOME", Align::Left),
    ])
    .optional(&["GPUS", "MEMORY"]);
    let groups = grouped(rows, grouping);
    let format = memory_format(rows.iter().map(|row| row.gpu_allocation.as_ref()));
    for group in groups.iter().take(most) {
        let newest = group[0];
        let allocation = newest.gpu_allocation.as_ref();
        table.styled_row([
            (PLAIN, or_else(newest.id.as_ref(), "-")),
            (PLAIN, ago(newest.created, now)),
            (PLAIN, times(group)),
            (PLAIN, newest.model.clone()),
            (PLAIN, or_else(newest.slot_id.as_ref(), "-")),
            (PLAIN, gpus(allocation)),
            (PLAIN, memory(format, allocation)),
            outcome(newest),
        ]);
    }
    table.print(page, 0);
}

/// Formats where a decision placed its slot, or why it did not.
fn outcome(row: &DecisionRow) -> (Style, String) {
    match (row.placed, &row.runner_id) {
        (true, Some(runner)) => (GOOD, format!("placed on {runner}")),
        (true, None) => (GOOD, "placed".to_string()),
        (false, _) => (BAD, format!("not placed: {}", row.explanation.brief)),
    }
}

/// Groups the decisions about one slot with the same outcome, in the order of the newest of each.
fn grouped(rows: &[DecisionRow], grouping: Grouping) -> Vec<Vec<&DecisionRow>> {
    let mut groups: Vec<Vec<&DecisionRow>> = Vec::new();
    for row in rows {
        let group = groups.iter_mut().find(|group| {
            grouping == Grouping::Alike
                && (&group[0].slot_id, group[0].placed) == (&row.slot_id, row.placed)
                && (group[0].model == row.model)
                && (!row.placed || group[0].runner_id == row.runner_id)
        });
        match group {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// Formats the number of decisions and the time that they span: `x14 over 22s`.
fn times(group: &[&DecisionRow]) -> String {
    let oldest = group.iter().map(|row| row.created).min();
    match (group.len(), oldest) {
        (2.., Some(oldest)) => {
            format!("x{} over {}", group.len(), between(oldest, group[0].created))
        }
        _ => "1".to_string(),
    }
}
