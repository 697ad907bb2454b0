//! The details of the chosen line, in the words of the other commands.

use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::{clean, fitted, paint};
use crate::client::rows::Moment;
use crate::text::Page;
use crate::text::live::{decision, gpu, queue, reservation};
use crate::top::state::{State, View};

/// What the details are about.
pub(super) fn title(state: &State) -> String {
    let at = state.place().cursor;
    let fleet = &state.fleet;
    let name = match state.view {
        View::Gpus => fleet.spots().get(at).and_then(|spot| {
            let (runner, gpu) = fleet.at_spot(*spot)?;
            let index = gpu
                .and_then(|gpu| gpu.index)
                .map_or(spot.gpu.to_string(), |index| index.to_string());
            Some(format!("{} GPU {index}", runner.runner_id))
        }),
        View::Waiting => fleet.queue.get(at).map(|row| row.id.clone()),
        View::Decisions => fleet.decisions.get(at).and_then(|row| row.id.clone()),
        View::Slots => fleet.slots().get(at).map(|row| row.id.clone()),
    };
    clean(&name.unwrap_or("nothing to show".to_string()))
}

/// As much of it as fits under the list: rows of tables are cut off there, where they would only be torn apart.
pub(super) fn brief(state: &State, width: usize, now: Moment) -> Vec<Line<'static>> {
    let is_row = |line: &Line| line.to_string().trim().contains("  ");
    let cut = |line: Line<'static>| match is_row(&line) {
        true => Line::styled(fitted(&line.to_string(), width), line.style),
        false => line,
    };
    details(state, now).into_iter().map(cut).collect()
}

/// All that is known of it.
pub(super) fn details(state: &State, now: Moment) -> Vec<Line<'static>> {
    let at = state.place().cursor;
    let fleet = &state.fleet;
    let mut page = Page::default();
    match state.view {
        View::Gpus => {
            let chosen = fleet.spots().get(at).and_then(|spot| fleet.at_spot(*spot));
            if let Some((runner, gpu)) = chosen {
                gpu::gpu(&mut page, runner, gpu, now);
            }
        }
        View::Waiting => {
            if let Some(row) = fleet.queue.get(at) {
                queue::waiting(&mut page, row, now);
            }
        }
        View::Decisions => {
            if let Some(row) = fleet.decisions.get(at) {
                decision::decision(&mut page, row, now);
            }
        }
        View::Slots => {
            if let Some(row) = fleet.slots().get(at) {
                reservation::slot(&mut page, row, now);
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
