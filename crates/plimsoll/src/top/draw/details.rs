//! The details of the selected line, as the other commands print them.

use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::{clean, paint};
use crate::text::live::{decision, gpu, queue, reservation};
use crate::text::{Detail, Page, Width};
use crate::top::state::{State, View};
use plimsoll_api::rows::Time;

/// The samples in a sparkline.
const SPARKS: usize = 50;

/// Returns the title of the details.
pub(super) fn title(state: &State) -> String {
    let at = state.position().cursor;
    let fleet = &state.fleet;
    let name = match state.view {
        View::Gpus => fleet.spots().get(at).and_then(|spot| {
            let (runner, gpu) = fleet.at_spot(*spot)?;
            let index = gpu.map_or(spot.gpu, |gpu| usize::from(gpu.index));
            Some(format!("{} GPU {index}", runner.runner_id))
        }),
        View::Pending => fleet.queue.get(at).map(|row| row.id.clone()),
        View::Decisions => fleet.decisions.get(at).and_then(|row| row.id.clone()),
        View::Slots => fleet.slots().get(at).map(|row| row.id.clone()),
    };
    clean(&name.unwrap_or("no selection".to_string()))
}

/// Returns the details, in lines of at most a width.
pub(super) fn details(state: &State, width: u16, now: Time) -> Vec<Line<'static>> {
    let at = state.position().cursor;
    let fleet = &state.fleet;
    let mut page = Page::new(Width::Columns(usize::from(width)));
    match state.view {
        View::Gpus => {
            let selected = fleet.spots().get(at).and_then(|spot| fleet.at_spot(*spot));
            if let Some((runner, gpu)) = selected {
                gpu::gpu(&mut page, runner, gpu, now);
                let index = gpu.map(|gpu| gpu.index);
                let lines = index
                    .and_then(|index| state.history.sparklines(&runner.runner_id, index, SPARKS));
                if let Some((busy, memory)) = lines {
                    gpu::history(&mut page, &busy, &memory);
                }
            }
        }
        View::Pending => {
            if let Some(row) = fleet.queue.get(at) {
                queue::pending(&mut page, row, now);
            }
        }
        View::Decisions => {
            if let Some(row) = fleet.decisions.get(at) {
                decision::decision(&mut page, row, now, Detail::Nearest);
            }
        }
        View::Slots => {
            if let Some(row) = fleet.slots().get(at) {
                reservation::slot(&mut page, row, now, reservation::Lines::All);
            }
        }
    }
    let heading = paint(state, Style::new().add_modifier(Modifier::BOLD));
    let line = |line: &str| match line.starts_with(' ') {
        true => Line::from(line.to_string()),
        false => Line::styled(line.to_string(), heading),
    };
    page.plain().lines().map(line).collect()
}
