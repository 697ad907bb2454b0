//! What is on the screen, and what a key does to it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::fleet::Fleet;
use super::poll::{Seen, Wanted};
use crate::client::rows::Moment;

/// Which list is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Every GPU with its line.
    Gpus,
    /// Who waits, and why.
    Waiting,
    /// The last decisions.
    Decisions,
    /// The slots.
    Slots,
}

impl View {
    /// In the order of their numbers.
    pub(crate) const ALL: [View; 4] = [View::Gpus, View::Waiting, View::Decisions, View::Slots];

    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            View::Gpus => "GPUs",
            View::Waiting => "Waiting",
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

/// Where in a list one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The line that is chosen.
    pub(crate) cursor: usize,
    /// The first line on the screen.
    pub(crate) top: usize,
}

/// What is on the screen.
#[derive(Debug)]
pub(crate) struct State {
    /// The server's address.
    pub(crate) server: String,
    /// What was seen.
    pub(crate) fleet: Fleet,
    /// Which list is shown.
    pub(crate) view: View,
    /// Whether the details of the chosen line fill the screen.
    pub(crate) details: bool,
    /// How far the details are scrolled.
    pub(crate) scrolled: u16,
    /// Whether the help is shown.
    pub(crate) help: bool,
    /// Whether what is shown stands still.
    pub(crate) paused: bool,
    /// Why the last look brought nothing.
    pub(crate) trouble: Option<String>,
    /// Whether to use colour.
    pub(crate) colour: bool,
    /// Lines of the list that were on the screen when it was drawn last.
    pub(crate) height: usize,
    places: [Place; 4],
}

impl State {
    /// The first screen.
    pub(crate) fn new(server: &str, fleet: Fleet, colour: bool) -> Self {
        State {
            server: server.to_string(),
            fleet,
            view: View::Gpus,
            details: false,
            scrolled: 0,
            help: false,
            paused: false,
            trouble: None,
            colour,
            height: 1,
            places: [Place::default(); 4],
        }
    }

    /// How many lines a list has.
    pub(crate) fn lines(&self, view: View) -> usize {
        match view {
            View::Gpus => self.fleet.spots().len(),
            View::Waiting => self.fleet.queue.len(),
            View::Decisions => self.fleet.decisions.len(),
            View::Slots => self.fleet.slots().len(),
        }
    }

    /// Where one is in the list that is shown.
    pub(crate) fn place(&self) -> Place {
        self.places[self.view.number()]
    }

    /// Keeps the chosen line in the list, and on a screen of so many lines.
    pub(crate) fn fit(&mut self, height: usize) {
        let lines = self.lines(self.view);
        let place = &mut self.places[self.view.number()];
        self.height = height.max(1);
        place.cursor = place.cursor.min(lines.saturating_sub(1));
        let lowest = place.cursor.saturating_sub(self.height - 1);
        place.top = place.top.clamp(lowest, place.cursor).min(lines.saturating_sub(self.height));
    }

    /// What to ask the server for.
    pub(crate) fn wanted(&self) -> Wanted {
        let Place { top, .. } = self.place();
        let mut runners: Vec<String> = Vec::new();
        if self.view == View::Gpus {
            for spot in self.fleet.spots().into_iter().skip(top).take(self.height) {
                let id = &self.fleet.runners[spot.runner].runner_id;
                if runners.last() != Some(id) {
                    runners.push(id.clone());
                }
            }
        }
        Wanted { runners, slots: self.view == View::Slots }
    }

    /// Takes in what a look brought, unless what is shown is to stand still.
    pub(crate) fn take(&mut self, seen: Seen) {
        match seen {
            _ if self.paused => {}
            Ok(fleet) => {
                self.follow(&fleet);
                (self.fleet, self.trouble) = (*fleet, None);
            }
            Err(trouble) => self.trouble = Some(trouble),
        }
    }

    /// Keeps the same decision chosen while newer ones come in before it. At the newest one stays with the newest.
    fn follow(&mut self, fleet: &Fleet) {
        let place = &mut self.places[View::Decisions.number()];
        let chosen = self.fleet.decisions.get(place.cursor).map(|row| &row.id);
        if place.cursor == 0 && !(self.details && self.view == View::Decisions) {
            return;
        }
        if let Some(now) = fleet.decisions.iter().position(|row| Some(&row.id) == chosen) {
            place.top = (place.top + now).saturating_sub(place.cursor);
            place.cursor = now;
        }
    }

    /// Does what a key says; `false` ends it.
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
            code => self.go(code),
        }
        true
    }

    fn show(&mut self, view: View) {
        (self.view, self.details, self.scrolled) = (view, false, 0);
    }

    fn go(&mut self, code: KeyCode) {
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
            let place = &mut self.places[self.view.number()];
            place.cursor = place.cursor.saturating_add_signed(by).min(last);
        }
    }

    /// How old what is shown is.
    pub(crate) fn age(&self, now: Moment) -> String {
        self.fleet.at.ago(now)
    }
}
