//! The screen: a headline, the list, details of the selected line, and a footer.

mod details;
mod gpus;
mod lists;

use plimsoll_core::units::Bytes;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Wrap};

use super::fleet::Sort;
use super::state::{Mode, Palette, State, View};
use crate::text::load::Cell;
use crate::text::{clean, count};
use plimsoll_api::rows::{RunnerRow, RunnerStatus, SlotStage, Time};

/// The lines of details below the list, with their frame.
const DETAILS: u16 = 8;

/// The width from which on the details are beside the list.
const WIDE: u16 = 140;

/// Lower screens show the list alone.
const ROOMY: u16 = 18;

/// Draws the screen.
pub(crate) fn draw(frame: &mut Frame, state: &mut State, now: Time) {
    let below = if frame.area().height >= ROOMY { DETAILS } else { 0 };
    let is_wide = frame.area().width >= WIDE;
    let is_full = state.details || state.log.is_some();
    let parts = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(if is_full || is_wide { 0 } else { below }),
        Constraint::Length(1),
    ]);
    let [head, tabs, list, under, foot] = parts.areas(frame.area());
    frame.render_widget(Paragraph::new(headline(state, head.width, now)), head);
    frame.render_widget(Paragraph::new(tab_line(state)), tabs);
    if let Some(slot) = &state.log {
        let text = state.fleet.log.as_deref().unwrap_or("loading");
        let lines: Vec<Line> = text.lines().map(|line| Line::from(clean(line))).collect();
        // The newest lines are at the bottom.
        let skipped = lines.len().saturating_sub(usize::from(list.height.saturating_sub(1)));
        let top = u16::try_from(skipped).unwrap_or(0).saturating_sub(state.scrolled);
        framed(frame, list, &format!("output of {}", clean(slot)), lines, top);
    } else if state.details {
        let lines = details::details(state, list.width, now);
        framed(frame, list, &details::title(state), lines, state.scrolled);
    } else if is_wide {
        let columns = Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2)]).spacing(1);
        let [left, right] = columns.areas(list);
        draw_list(frame, state, left, now);
        let lines = details::details(state, right.width, now);
        framed(frame, right, &details::title(state), lines, 0);
    } else {
        draw_list(frame, state, list, now);
        let lines = details::details(state, under.width, now);
        framed(frame, under, &details::title(state), lines, 0);
    }
    frame.render_widget(Paragraph::new(foot_line(state, now)), foot);
    if state.help {
        help(frame);
    }
}

fn draw_list(frame: &mut Frame, state: &mut State, area: Rect, now: Time) {
    state.fit(usize::from(area.height).saturating_sub(1));
    let (heading, lines) = match state.view {
        View::Gpus => gpus::lines(state, area.width, now),
        View::Pending => lists::pending(state, area.width, now),
        View::Decisions => lists::decisions(state, area.width, now),
        View::Slots => lists::slots(state, area.width, now),
    };
    let position = state.position();
    let mut all = vec![heading.style(paint(state, Style::new().add_modifier(Modifier::BOLD)))];
    for (at, line) in lines.into_iter().enumerate() {
        let selected = position.top + at == position.cursor;
        let style =
            if selected { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        // The mark shows the selected line on terminals without reverse video.
        let mark = if selected { ">" } else { " " };
        let mut spans = vec![Span::raw(mark)];
        spans.extend(line.spans);
        all.push(Line::from(spans).style(style));
    }
    frame.render_widget(Paragraph::new(all), area);
}

fn framed(frame: &mut Frame, area: Rect, title: &str, lines: Vec<Line<'static>>, scrolled: u16) {
    let block = Block::new().borders(Borders::TOP).title(format!(" {title} "));
    let text = Paragraph::new(lines).wrap(Wrap { trim: false }).block(block).scroll((scrolled, 0));
    frame.render_widget(text, area);
}

/// Formats the headline: `plimsoll top  2 runners, 3 GPUs, 1 offline, 80 GiB of 160 GiB free  URL`.
/// The most important part comes first; the address is left out where it does not fit.
fn headline(state: &State, width: u16, now: Time) -> Line<'static> {
    let fleet = &state.fleet;
    let size =
        format!("{}, {}", count(fleet.runners.len(), "runner"), count(fleet.gpu_count(), "GPU"));
    let mut spans = vec![
        Span::styled("plimsoll top", paint(state, Style::new().add_modifier(Modifier::BOLD))),
        Span::raw(format!("  {size}")),
    ];
    for (number, words) in [(fleet.offline(), "offline"), (fleet.overcommitted(), "overcommitted")]
    {
        if number > 0 {
            spans.push(Span::styled(format!(", {number} {words}"), paint(state, ALARM)));
        }
    }
    if state.paused {
        spans.push(Span::styled(format!(", paused {} ago", state.age(now)), paint(state, WARNING)));
    }
    if fleet.gpu_count() > 0 {
        spans.push(Span::raw(free(&fleet.runners)));
    }
    let line = Line::from(spans);
    let server = Span::raw(format!("  {}", state.server));
    let fits = line.width() + server.width() <= usize::from(width);
    Line::from_iter(line.spans.into_iter().chain(fits.then_some(server)))
}

/// Formats the free memory of all runners; a sum with an unknown part is unknown.
fn free(runners: &[RunnerStatus]) -> String {
    let sum = |of: fn(&RunnerRow) -> Option<Bytes>| {
        runners.iter().try_fold(Bytes::ZERO, |sum, row| Some(sum.plus(of(&row.runner)?)))
    };
    match (sum(|row| row.free), sum(|row| row.usable)) {
        (Some(free), Some(usable)) => format!(", {free} of {usable} free"),
        _ => ", free unknown".to_string(),
    }
}

fn tab_line(state: &State) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, view) in View::ALL.into_iter().enumerate() {
        let count = match view {
            // Slots are requested only while they are shown.
            View::Slots if state.view != View::Slots => String::new(),
            View::Gpus => String::new(),
            view => format!(" ({})", state.lines(view)),
        };
        let shown = view == state.view;
        let name = format!("{} {}{count}", number + 1, view.name());
        let text = if shown { format!("[{name}]") } else { format!(" {name} ") };
        let style = if shown { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
        spans.push(Span::styled(text, paint(state, style)));
        spans.push(Span::raw(" "));
    }
    if !state.filter.is_empty() {
        let filter = format!(" filter: {}", clean(&state.filter));
        spans.push(Span::styled(filter, paint(state, WARNING)));
    }
    if state.sort != Sort::Usual {
        let (lists, gpus) = state.sort.names();
        let name = if state.view == View::Gpus { gpus } else { lists };
        spans.push(Span::styled(format!(" {name}"), paint(state, WARNING)));
    }
    Line::from(spans)
}

fn foot_line(state: &State, now: Time) -> Line<'static> {
    match &state.mode {
        Mode::Confirm(action) => {
            let text = format!("{} (y/n)", clean(&action.question()));
            return Line::styled(text, paint(state, ALARM));
        }
        Mode::Filter => {
            let text = format!("/{}_  enter keeps the filter, esc clears it", clean(&state.filter));
            return Line::styled(text, paint(state, WARNING));
        }
        Mode::Normal => {}
    }
    if let Some(notice) = &state.notice {
        return Line::styled(clean(notice), paint(state, WARNING));
    }
    if let Some(error) = &state.error {
        let text = format!("{} (data from {} ago)", clean(error), state.age(now));
        return Line::styled(text, paint(state, ALARM));
    }
    if state.details {
        return Line::styled(
            "enter back  j/k scroll  l output  tab view  q quit  ? help",
            paint(state, FAINT),
        );
    }
    if state.log.is_some() {
        return Line::styled("esc back  j/k scroll  q quit", paint(state, FAINT));
    }
    let keys = "q quit  j/k move  tab view  / filter  s sort  o open  l output  ? help";
    Line::styled(keys, paint(state, FAINT))
}

fn help(frame: &mut Frame) {
    const KEYS: [(&str, &str); 14] = [
        ("q, Ctrl-C", "quit"),
        ("tab, 1 to 4, left, right", "switch view: GPUs, pending, decisions, slots"),
        ("j, k, down, up", "next or previous line; in details: scroll"),
        ("page down, page up", "next or previous screen"),
        ("g, G, home, end", "first or last line"),
        ("enter, esc", "show all details of the selected line, and back"),
        ("/", "filter by name, model, slot or label; esc clears"),
        ("s", "next order of the list"),
        ("o", "open the slot, or the decision about it"),
        ("l", "show the output of the slot"),
        ("x, c", "stop the slot; cordon or uncordon the runner"),
        ("p, space", "pause or resume"),
        ("?", "show this help; any key closes it"),
        ("", ""),
    ];
    let mut lines: Vec<Line> =
        KEYS.iter().map(|(keys, does)| Line::from(format!("{keys:25} {does}"))).collect();
    let cells = [
        Cell::Held,
        Cell::Starting,
        Cell::Releasing,
        Cell::Foreign,
        Cell::Free,
        Cell::Unknown,
        Cell::Over,
    ];
    let legend: Vec<String> =
        cells.iter().map(|cell| format!("{} {}", cell.mark(), cell.meaning())).collect();
    lines.push(Line::from(format!("bar: {}", legend[..4].join(", "))));
    lines.push(Line::from(format!("     {}, | the line", legend[4..].join(", "))));
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let area = centred(frame.area(), 78, height);
    // Beside the frame too, so that no half words remain.
    let margin = Rect { x: 0, width: frame.area().width, ..area };
    frame.render_widget(Clear, margin);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), area);
}

fn centred(within: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(within.width), height.min(within.height));
    let x = within.x + (within.width - width) / 2;
    let y = within.y + (within.height - height) / 2;
    Rect { x, y, width, height }
}

/// Errors.
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
/// Warnings.
const WARNING: Style = Style::new().fg(Color::Yellow);
/// Success.
const FINE: Style = Style::new().fg(Color::Green);
/// Work that has started and is not ready yet.
const NEW: Style = Style::new().fg(Color::Cyan);
/// Secondary information.
const FAINT: Style = Style::new().add_modifier(Modifier::DIM);

/// Returns a style, or none without colour.
fn paint(state: &State, style: Style) -> Style {
    match state.palette {
        Palette::Coloured => style,
        Palette::Plain => Style::new(),
    }
}

/// Returns the style of a cell of a bar.
fn cell_style(cell: Cell) -> Style {
    match cell {
        Cell::Held => FINE,
        Cell::Starting => NEW,
        Cell::Releasing | Cell::Unknown | Cell::MaybeOver => WARNING,
        Cell::Foreign => Style::new().fg(Color::Magenta),
        Cell::Floating => Style::new().fg(Color::Blue),
        Cell::Free => FAINT,
        Cell::Over => ALARM,
    }
}

/// Returns the style of a stage.
fn stage_style(stage: SlotStage) -> Style {
    match stage {
        SlotStage::Running => FINE,
        SlotStage::Starting => NEW,
        SlotStage::Pending | SlotStage::Releasing => WARNING,
        SlotStage::Unknown | SlotStage::Gone => Style::new(),
    }
}

/// Fits a text into a number of cells: padded with spaces, or cut off with an ellipsis.
fn fitted(text: &str, width: usize) -> String {
    let text = clean(text);
    let long = text.chars().count() > width;
    let kept: String =
        text.chars().take(if long { width.saturating_sub(1) } else { width }).collect();
    if long && width > 0 { format!("{kept}…") } else { format!("{kept:width$}") }
}
