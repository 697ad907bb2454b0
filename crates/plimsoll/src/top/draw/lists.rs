//! The views of those who wait, of decisions and of slots: one line each.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{ALARM, FINE, fitted, paint, stage_style};
use crate::client::rows::{DecisionRow, Moment, QueueRow, SlotRow};
use crate::text::live::{gpus, memory, queue, slots as slot_words};
use crate::top::state::State;

/// A column: its name, how wide it is, and how it looks in a row.
type Column = (&'static str, usize);

/// The heading, and the lines on the screen; the last column has what is left of the width.
fn table<T>(
    state: &State,
    width: u16,
    columns: &[Column],
    rows: &[T],
    none: &str,
    cells: impl Fn(&T) -> Vec<(Style, String)>,
) -> (Line<'static>, Vec<Line<'static>>) {
    if rows.is_empty() {
        return (Line::from(none.to_string()), Vec::new());
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
    let rows = rows.iter().skip(state.place().top).take(state.height);
    (Line::from(format!(" {}", heading.join(" "))), rows.map(line).collect())
}

/// What fits when a screen is wide, and what it shrinks to.
fn wide(width: u16, narrow: usize, roomy: usize) -> usize {
    if width >= 110 { roomy } else { narrow }
}

pub(super) fn waiting(
    state: &State,
    width: u16,
    now: Moment,
) -> (Line<'static>, Vec<Line<'static>>) {
    let columns = [
        ("POS", 4),
        ("WAITS", wide(width, 10, 16)),
        ("MODEL", wide(width, 16, 28)),
        ("FOR", 6),
        ("WHY", 10),
    ];
    table(state, width, &columns, &state.fleet.queue, "nothing is pending", |row: &QueueRow| {
        vec![
            (Style::new(), row.position.map_or("?".to_string(), |turn| turn.to_string())),
            (Style::new(), row.id.clone()),
            (Style::new(), row.model.clone()),
            (Style::new(), row.created.map_or("?".to_string(), |since| since.ago(now))),
            (Style::new(), queue::why(row)),
        ]
    })
}

pub(super) fn decisions(
    state: &State,
    width: u16,
    now: Moment,
) -> (Line<'static>, Vec<Line<'static>>) {
    let columns =
        [("DECISION", 10), ("AGO", 6), ("MODEL", wide(width, 16, 28)), ("ANSWER", 8), ("HOW", 10)];
    table(
        state,
        width,
        &columns,
        &state.fleet.decisions,
        "no decisions yet",
        |row: &DecisionRow| {
            let allocation = row.gpu_allocation.as_ref();
            let placed = || {
                let runner = row.runner_id.as_deref().unwrap_or("?");
                format!("{} on {runner}, GPU {}", memory(allocation), gpus(allocation))
            };
            vec![
                (Style::new(), row.id.clone().unwrap_or_default()),
                (Style::new(), row.created.map_or("?".to_string(), |at| at.ago(now))),
                (Style::new(), row.model.clone()),
                if row.placed {
                    (FINE, "placed".to_string())
                } else {
                    (ALARM, "refused".to_string())
                },
                (Style::new(), if row.placed { placed() } else { row.summary.clone() }),
            ]
        },
    )
}

pub(super) fn slots(state: &State, width: u16, now: Moment) -> (Line<'static>, Vec<Line<'static>>) {
    let columns = [
        ("SLOT", wide(width, 10, 16)),
        ("MODEL", wide(width, 14, 28)),
        ("RUNNER", wide(width, 8, 16)),
        ("STAGE", 9),
        ("MEMORY", wide(width, 11, 16)),
        ("EVICTABLE", 10),
    ];
    let none = if state.fleet.asked_slots.is_some() { "no slots" } else { "asking for the slots" };
    table(state, width, &columns, state.fleet.slots(), none, |row: &SlotRow| {
        let stage = row.stage.clone().unwrap_or("?".to_string());
        let may_go = row
            .eviction
            .as_ref()
            .map_or("-".to_string(), |evictable| slot_words::may_go(evictable, now));
        vec![
            (Style::new(), row.id.clone()),
            (Style::new(), row.model.clone()),
            (Style::new(), row.runner_id.clone().unwrap_or("-".to_string())),
            (stage_style(&stage), stage),
            (Style::new(), memory(row.gpu_allocation.as_ref())),
            (Style::new(), may_go),
        ]
    })
}
