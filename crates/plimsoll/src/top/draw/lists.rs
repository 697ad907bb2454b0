//! The views of pending entries, decisions and slots: one line each.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{ALARM, FINE, fitted, paint, stage_style};
use crate::text::age::ago;
use crate::text::live::{gpus, memory, memory_format, queue, slots as slot_text};
use crate::top::state::State;
use plimsoll_api::rows::{DecisionRow, QueueRow, SlotRow, Time};

/// The name and the width of a column.
type Column = (&'static str, usize);

/// Returns the heading and the lines on the screen; the last column gets the remaining width.
fn table<T>(
    state: &State,
    width: u16,
    columns: &[Column],
    rows: &[T],
    empty: &str,
    cells: impl Fn(&T) -> Vec<(Style, String)>,
) -> (Line<'static>, Vec<Line<'static>>) {
    if rows.is_empty() {
        return (Line::from(empty.to_string()), Vec::new());
    }
    let taken: usize = columns.iter().map(|(_, width)| width + 1).sum();
    let last = columns.last().map_or(0, |(_, width)| *width);
    let left = last + usize::from(width).saturating_sub(taken);
    let wide = |at: usize| if at + 1 == columns.len() { left } else { columns[at].1 };
    let heading: Vec<String> =
        columns.iter().enumerate().map(|(at, (name, _))| fitted(name, wide(at))).collect();
    let line = |row: &T| {
        let cells = cells(row).into_iter().enumerate();
        let spans = cells.map(|(at, (style, text))| {
            Span::styled(format!("{} ", fitted(&text, wide(at))), paint(state, style))
        });
        Line::from(spans.collect::<Vec<_>>())
    };
    let rows = rows.iter().skip(state.position().top).take(state.height);
    (Line::from(format!(" {}", heading.join(" "))), rows.map(line).collect())
}

/// Returns the width of a column on a narrow or a wide screen.
fn wide(width: u16, narrow: usize, roomy: usize) -> usize {
    if width >= 110 { roomy } else { narrow }
}

/// Draws the pending entries.
pub(super) fn pending(state: &State, width: u16, now: Time) -> (Line<'static>, Vec<Line<'static>>) {
    let columns = [
        ("POSITION", 8),
        ("PENDING", wide(width, 10, 16)),
        ("MODEL", wide(width, 16, 28)),
        ("AGE", 6),
        ("STARTS", wide(width, 8, 14)),
        ("REASON", 10),
    ];
    let empty = "the queue is empty";
    table(state, width, &columns, &state.fleet.queue, empty, |row: &QueueRow| {
        vec![
            (Style::new(), row.position.to_string()),
            (Style::new(), row.id.clone()),
            (Style::new(), row.model.clone()),
            (Style::new(), ago(row.created, now)),
            (Style::new(), queue::starts(row)),
            (Style::new(), queue::reason(row, now)),
        ]
    })
}

/// Draws the latest decisions.
pub(super) fn decisions(
    state: &State,
    width: u16,
    now: Time,
) -> (Line<'static>, Vec<Line<'static>>) {
    let columns = [
        ("DECISION", 10),
        ("AGE", 6),
        ("MODEL", wide(width, 16, 28)),
        ("OUTCOME", 8),
        ("DETAILS", 10),
    ];
    let empty = "no decisions";
    table(state, width, &columns, &state.fleet.decisions, empty, |row: &DecisionRow| {
        let outcome = if row.placed { (FINE, "placed") } else { (ALARM, "rejected") };
        vec![
            (Style::new(), row.id.clone().unwrap_or_default()),
            (Style::new(), ago(row.created, now)),
            (Style::new(), row.model.clone()),
            (outcome.0, outcome.1.to_string()),
            (Style::new(), details(row)),
        ]
    })
}

fn details(row: &DecisionRow) -> String {
    if !row.placed {
        return row.explanation.brief.clone();
    }
    let (runner, allocation) = (row.runner_id.as_deref(), row.gpu_allocation.as_ref());
    format!(
        "{} on {}, GPU {}",
        memory(memory_format([allocation]), allocation),
        runner.unwrap_or("?"),
        gpus(allocation)
    )
}

/// Draws the slots.
pub(super) fn slots(state: &State, width: u16, now: Time) -> (Line<'static>, Vec<Line<'static>>) {
    let columns = [
        ("SLOT", wide(width, 10, 16)),
        ("MODEL", wide(width, 14, 28)),
        ("RUNNER", wide(width, 8, 16)),
        ("STAGE", 9),
        ("MEMORY", wide(width, 11, 16)),
        ("EVICTABLE", 10),
    ];
    let empty = if state.fleet.asked_slots.is_some() { "no slots" } else { "loading the slots" };
    table(state, width, &columns, state.fleet.slots(), empty, |row: &SlotRow| {
        let eviction = row.eviction.as_ref();
        let evictable = eviction.map(|eviction| slot_text::evictable(eviction, now));
        vec![
            (Style::new(), row.id.clone()),
            (Style::new(), row.model.clone()),
            (Style::new(), row.runner_id.clone().unwrap_or("-".to_string())),
            (stage_style(row.stage), row.stage.to_string()),
            (
                Style::new(),
                memory(memory_format([row.gpu_allocation.as_ref()]), row.gpu_allocation.as_ref()),
            ),
            (Style::new(), evictable.unwrap_or("-".to_string())),
        ]
    })
}
