//! The state of the screen, and the effects of keys.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::fleet::Fleet;
use super::poll::{Polled, Wanted};
use crate::text::age::ago;
use plimsoll_api::rows::Time;

/// The use of colours on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Palette {
    Coloured,
    Plain,
}

/// The list that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Gpus,
    Pending,
    Decisions,
    Slots,
}

impl View {
    /// All views in the order of their numbers.
    pub(crate) const ALL: [View; 4] = [View::Gpus, View::Pending, View::Decisions, View::Slots];

    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            View::Gpus => "GPUs",
            View::Pending => "Pending",
            View::Decisions => "Decisions",
            View::Slots => "Slots",
        }
    }

    fn number(self) -> usize {
        View::ALL.iter().position(|view| *view == self).unwrap_or(0)
    }

    fn turned(self, by: usize) -> View {
        View::ALL[(self.number() + by) % View::ALL.len()]
    }
}

/// A position in a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The selected line.
    pub(crate) cursor: usize,
    /// The first line on the screen.
    pub(crate) top: usize,
}

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct State {
    /// The address of the server.
    pub(crate) server: String,
    pub(crate) fleet: Fleet,
    pub(crate) view: View,
    /// The details of the selected line fill the screen.
    pub(crate) details: bool,
    /// The first line of the details that is shown.
    pub(crate) scrolled: u16,
    pub(crate) help: bool,
    pub(crate) paused: bool,
    /// The error of the last poll.
    pub(crate) error: Option<String>,
    pub(crate) palette: Palette,
    /// The lines of the list on the screen when it was last drawn.
    pub(crate) height: usize,
    positions: [Position; 4],
}

impl State {
    /// Creates the first screen.
    pub(crate) fn new(server: &str, fleet: Fleet, palette: Palette) -> Self {
        State {
            server: server.to_string(),
            fleet,
            view: View::Gpus,
            details: false,
            scrolled: 0,
            help: false,
            paused: false,
            error: None,
            palette,
            height: 1,
            positions: [Position::default(); 4],
        }
    }

    /// Returns the number of lines of a list.
    pub(crate) fn lines(&self, view: View) -> usize {
        match view {
            View::Gpus => self.fleet.spots().len(),
            View::Pending => self.fleet.queue.len(),
            View::Decisions => self.fleet.decisions.len(),
            View::Slots => self.fleet.slots().len(),
        }
    }

    /// Returns the position in the list that is shown.
    pub(crate) fn position(&self) -> Position {
        self.positions[self.view.number()]
    }

    /// Keeps the selected line in the list, and on a screen of a height.
    pub(crate) fn fit(&mut self, height: usize) {
        let lines = self.lines(self.view);
        let position = &mut self.positions[self.view.number()];
        self.height = height.max(1);
        position.cursor = position.cursor.min(lines.saturating_sub(1));
        let lowest = position.cursor.saturating_sub(self.height - 1);
        position.top =
            position.top.clamp(lowest, position.cursor).min(lines.saturating_sub(self.height));
    }

    /// Returns what to request from the server.
    pub(crate) fn wanted(&self) -> Wanted {
        let Position { top, .. } = self.position();
        let mut runners: Vec<String> = Vec::new();
        if self.view == View::Gpus {
            for spot in self.fleet.spots().into_iter().skip(top).take(self.height) {
                let id = &self.fleet.runners[spot.runner].runner.runner_id;
                if runners.last() != Some(id) {
                    runners.push(id.clone());
                }
            }
        }
        Wanted { runners, slots: self.view == View::Slots }
    }

    /// Shows the result of a poll, unless the screen is paused.
    pub(crate) fn update(&mut self, polled: Polled) {
        match polled {
            _ if self.paused => {}
            Ok(fleet) => {
                self.follow(&fleet);
                (self.fleet, self.error) = (*fleet, None);
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Keeps the same decision selected while newer ones arrive. In the first line, the newest
    /// stays selected.
    fn follow(&mut self, fleet: &Fleet) {
        let position = &mut self.positions[View::Decisions.number()];
        let selected = self.fleet.decisions.get(position.cursor).map(|row| &row.id);
        if position.cursor == 0 && !(self.details && self.view == View::Decisions) {
            return;
        }
        if let Some(now) = fleet.decisions.iter().position(|row| Some(&row.id) == selected) {
            position.top = (position.top + now).saturating_sub(position.cursor);
            position.cursor = now;
        }
    }

    /// Handles a key; returns `false` to quit.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return false;
        }
        if self.help {
            self.help = false;
            return key.code != KeyCode::Char('q');
        }
        match key.code {
            KeyCode::Char('q') => return false,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Tab | KeyCode::Right => self.show(self.view.turned(1)),
            KeyCode::BackTab | KeyCode::Left => self.show(self.view.turned(View::ALL.len() - 1)),
            KeyCode::Char(number @ '1'..='4') => {
                let at = usize::try_from(u32::from(number) - u32::from('1')).unwrap_or(0);
                self.show(View::ALL[at]);
            }
            KeyCode::Enter => (self.details, self.scrolled) = (!self.details, 0),
            KeyCode::Esc => self.details = false,
            code => self.navigate(code),
        }
        true
    }

    fn show(&mut self, view: View) {
        (self.view, self.details, self.scrolled) = (view, false, 0);
    }

    fn navigate(&mut self, code: KeyCode) {
        let page = isize::try_from(self.height).unwrap_or(isize::MAX);
        let by = match code {
            KeyCode::Up | KeyCode::Char('k') => -1,
            KeyCode::Down | KeyCode::Char('j') => 1,
            KeyCode::PageUp => -page,
            KeyCode::PageDown => page,
            KeyCode::Home | KeyCode::Char('g') => isize::MIN,
            KeyCode::End | KeyCode::Char('G') => isize::MAX,
            _ => return,
        };
        if self.details {
            let by = i32::try_from(by.clamp(-30_000, 30_000)).unwrap_or(0);
            let to = (i32::from(self.scrolled) + by).clamp(0, 30_000);
            self.scrolled = u16::try_from(to).unwrap_or(0);
        } else {
            let last = self.lines(self.view).saturating_sub(1);
            let position = &mut self.positions[self.view.number()];
            position.cursor = position.cursor.saturating_add_signed(by).min(last);
        }
    }

    /// Returns the age of the data on the screen.
    pub(crate) fn age(&self, now: Time) -> String {
        ago(self.fleet.at, now)
    }
}
