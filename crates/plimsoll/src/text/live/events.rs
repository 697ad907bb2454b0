//! Events of slots and runners. Alike events share a line with their count and span.

use plimsoll_api::rows::{ActivityRow, Time};

use super::decisions::Grouping;
use crate::text::age::{ago, between};
use crate::text::page::{BAD, FAINT, PLAIN, Page};
use crate::text::table::{Align, Table};

/// Prints the latest lines, the oldest first.
pub(crate) fn events(
    page: &mut Page,
    rows: &[ActivityRow],
    now: Time,
    (grouping, most): (Grouping, usize),
) {
    if rows.is_empty() {
        return page.styled(0, FAINT, "no events");
    }
    let mut table = Table::new(&[
        ("LAST", Align::Right),
        ("COUNT", Align::Left),
        ("EVENT", Align::Left),
        ("MODEL", Align::Left),
        ("SLOT", Align::Left),
        ("RUNNER", Align::Left),
        ("DETAIL", Align::Left),
    ]);
    let groups = grouped(rows, grouping);
    for group in &groups[groups.len().saturating_sub(most)..] {
        let newest = group[group.len() - 1];
        let several = match group.len() {
            1 => "1".to_string(),
            number => format!("x{number} over {}", between(group[0].at, newest.at)),
        };
        let kind = newest.kind.name().replace('_', " ");
        let slot = match group.iter().all(|row| row.slot_id == newest.slot_id) {
            true => newest.slot_id.clone().unwrap_or("-".to_string()),
            false => "several".to_string(),
        };
        let or_none = |value: &Option<String>| value.clone().unwrap_or("-".to_string());
        table.styled_row([
            (PLAIN, ago(newest.at, now)),
            (PLAIN, several),
            (if newest.kind.is_warning() { BAD } else { PLAIN }, kind),
            (PLAIN, or_none(&newest.model)),
            (PLAIN, slot),
            (PLAIN, or_none(&newest.runner_id)),
            (PLAIN, newest.detail.clone()),
        ]);
    }
    table.print(page, 0);
}

/// Groups the events of one kind about one model on one runner, in the order of the newest of each.
fn grouped(rows: &[ActivityRow], grouping: Grouping) -> Vec<Vec<&ActivityRow>> {
    let mut groups: Vec<Vec<&ActivityRow>> = Vec::new();
    for row in rows {
        let at = groups.iter().position(|group| {
            grouping == Grouping::Alike
                && (group[0].kind, &group[0].model) == (row.kind, &row.model)
                && group[0].runner_id == row.runner_id
        });
        let mut group = at.map(|at| groups.remove(at)).unwrap_or_default();
        group.push(row);
        groups.push(group);
    }
    groups
}
