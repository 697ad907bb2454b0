//! The GPU view: one line each, with its load as a bar.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{ALARM, FAINT, WARNING, cell_style, fitted, paint};
use crate::text::age::ago;
use crate::text::live::gpu;
use crate::text::load::{self, Cell, Load, Runs, Scale};
use crate::top::state::State;
use plimsoll_api::rows::{GpuRow, RunnerRow, RunnerState, Time};

/// The cells of a bar past the line.
const OVER: usize = 4;

/// The width of a load, such as `58.685 GiB of 80 GiB`.
const SUMS: usize = 22;

/// The widths of the columns.
struct Columns {
    runner: usize,
    hull: usize,
    remarks: usize,
}

impl Columns {
    fn new(width: u16, longest: usize) -> Columns {
        let width = usize::from(width);
        let runner = longest.clamp(6, (width / 5).max(6));
        let remarks = if width >= 100 { 20 } else { 6 };
        // Mark, spaces, index, brackets and the line.
        let besides = 1 + 1 + 3 + 1 + 3 + OVER + 1 + SUMS + 1 + remarks;
        Columns { runner, hull: width.saturating_sub(runner + besides).max(4), remarks }
    }
}

/// Returns the heading and the lines on the screen.
pub(super) fn lines(state: &State, width: u16, now: Time) -> (Line<'static>, Vec<Line<'static>>) {
    let fleet = &state.fleet;
    if fleet.runners.is_empty() {
        return (Line::from("no runners; start one with plimsoll runner"), Vec::new());
    }
    let longest =
        fleet.runners.iter().map(|row| row.runner.runner_id.chars().count()).max().unwrap_or(0);
    let columns = Columns::new(width, longest);
    let position = state.position();
    let spots = fleet.spots().into_iter().skip(position.top).take(state.height);
    let line = |spot| {
        let (runner, gpu) = fleet.at_spot(spot)?;
        Some(self::line(state, &columns, runner, spot.gpu, gpu, now))
    };
    (heading(state, &columns), spots.filter_map(line).collect())
}

/// Formats the names of the columns, and the legend above the bars.
fn heading(state: &State, columns: &Columns) -> Line<'static> {
    let legend = [
        (Cell::Held, "held"),
        (Cell::Starting, "starting"),
        (Cell::Releasing, "releasing"),
        (Cell::Foreign, "foreign"),
    ];
    let mut spans = vec![Span::raw(format!(" {:name$} GPU ", "RUNNER", name = columns.runner))];
    let mut left = columns.hull + OVER + 3;
    for (cell, word) in legend {
        let text = format!("{}{word} ", cell.mark());
        if text.chars().count() <= left {
            left -= text.chars().count();
            spans.push(Span::styled(text, paint(state, cell_style(cell))));
        }
    }
    let sums = format!("{} {:SUMS$} ", " ".repeat(left), "LOAD");
    spans.push(Span::raw(format!("{sums}{}", fitted("BUSY", columns.remarks))));
    Line::from(spans)
}

fn line(
    state: &State,
    columns: &Columns,
    runner: &RunnerRow,
    at: usize,
    gpu: Option<&GpuRow>,
    now: Time,
) -> Line<'static> {
    let name = fitted(&runner.runner_id, columns.runner);
    let silent = runner.status != RunnerState::Online;
    let mut spans = vec![
        Span::styled(name, paint(state, if silent { ALARM } else { Style::new() })),
        Span::raw(format!(" {:>3} ", gpu.map_or(at, |gpu| usize::from(gpu.index)))),
    ];
    let Some(gpu) = gpu else {
        let words = if runner.gpu_count == 0 { "no GPUs" } else { "loading" };
        spans.push(Span::styled(words, paint(state, FAINT)));
        return Line::from(spans);
    };
    let load = Load::new(&gpu.device);
    spans.extend(bar(state, columns, &load));
    let sums = paint(state, if gpu.device.is_over() { ALARM } else { Style::new() });
    spans.push(Span::styled(format!(" {}", fitted(&load.sums(), SUMS)), sums));
    let remarks = remarks(runner, gpu, columns, now);
    spans.push(Span::styled(
        format!(" {}", fitted(&remarks, columns.remarks)),
        paint(state, WARNING),
    ));
    Line::from(spans)
}

fn bar(state: &State, columns: &Columns, load: &Load) -> Vec<Span<'static>> {
    let scale = Scale { hull: columns.hull as u64, over: OVER as u64 };
    let (hull, over) = load::cells(load, scale);
    let past: u64 = over.iter().map(|(_, number)| number).sum();
    let rest = OVER.saturating_sub(usize::try_from(past).unwrap_or(OVER));
    let mut spans = vec![Span::raw("[")];
    spans.extend(runs(state, &hull));
    spans.push(Span::raw("|"));
    spans.extend(runs(state, &over));
    spans.push(Span::raw(format!("]{}", " ".repeat(rest))));
    spans
}

fn runs(state: &State, runs: &Runs) -> Vec<Span<'static>> {
    let run = |(cell, number): &(Cell, u64)| {
        let text = cell.mark().repeat(usize::try_from(*number).unwrap_or(0));
        Span::styled(text, paint(state, cell_style(*cell)))
    };
    runs.iter().map(run).collect()
}

/// Formats utilisation and state, as far as there is room.
fn remarks(runner: &RunnerRow, gpu: &GpuRow, columns: &Columns, now: Time) -> String {
    let busy = gpu.utilisation.map(|percent| format!("{percent}%"));
    let silent = runner.silent_since.map(|since| format!("silent {}", ago(since, now)));
    let odd = gpu::remarks(gpu);
    let odd = (!odd.is_empty()).then(|| odd.trim_start_matches(", ").to_string());
    let parts: Vec<String> = silent.into_iter().chain(odd).chain(busy).collect();
    let text = parts.join(", ");
    if text.chars().count() <= columns.remarks {
        return text;
    }
    let first = parts.first().and_then(|part| part.split([' ', ',']).next());
    first.unwrap_or_default().to_string()
}
