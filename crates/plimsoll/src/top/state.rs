//! The state of the screen, and the effects of keys.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::action::Action;
use super::fleet::{Fleet, Sort};
use super::history::History;
use super::poll::{Polled, Wanted};
use crate::text::age::ago;
use plimsoll_api::rows::{Intake, QueuedKind, Time};

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

/// The meaning of the next key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Normal,
    /// It is part of the filter.
    Filter,
    /// It confirms or cancels a change.
    Confirm(Action),
}

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct State {
    /// The address of the server.
    pub(crate) server: String,
    /// The rows that are shown: those that the filter selects, in the order that was chosen.
    pub(crate) fleet: Fleet,
    /// All rows of the last poll.
    all: Fleet,
    pub(crate) filter: String,
    pub(crate) sort: Sort,
    pub(crate) mode: Mode,
    pub(crate) history: History,
    /// The outcome of the last change.
    pub(crate) notice: Option<String>,
    /// The slot whose output fills the screen.
    pub(crate) log: Option<String>,
    /// A slot to select once the slots are known.
    slot_to_select: Option<String>,
    /// A change to send.
    to_do: Option<Action>,
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
        let mut history = History::default();
        history.add(&fleet.runners);
        State {
            server: server.to_string(),
            all: fleet.clone(),
            fleet,
            filter: String::new(),
            sort: Sort::default(),
            mode: Mode::default(),
            history,
            notice: None,
            log: None,
            slot_to_select: None,
            to_do: None,
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
        Wanted { runners, slots: self.view == View::Slots, log: self.log.clone() }
    }

    /// Returns a change that was confirmed, once.
    pub(crate) fn take_action(&mut self) -> Option<Action> {
        self.to_do.take()
    }

    /// Shows the result of a poll, unless the screen is paused.
    pub(crate) fn update(&mut self, polled: Polled) {
        match polled {
            Polled::Notice(notice) => self.notice = Some(notice),
            _ if self.paused => {}
            Polled::Fleet(fleet) => {
                self.history.add(&fleet.runners);
                self.all = *fleet;
                let shown = self.all.selected(&self.filter, self.sort);
                self.follow(&shown);
                (self.fleet, self.error) = (shown, None);
                self.select_slot();
            }
            Polled::Failed(error) => self.error = Some(error),
        }
    }

    /// Applies a changed filter or order.
    fn select_again(&mut self) {
        self.fleet = self.all.selected(&self.filter, self.sort);
    }

    fn select_slot(&mut self) {
        let Some(wanted) = &self.slot_to_select else { return };
        if let Some(at) = self.fleet.slots().iter().position(|row| row.id == *wanted) {
            self.positions[View::Slots.number()].cursor = at;
            self.slot_to_select = None;
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
        match std::mem::take(&mut self.mode) {
            Mode::Filter => self.edit_filter(key.code),
            Mode::Confirm(action) => {
                let is_confirmed = matches!(key.code, KeyCode::Char('y' | 'Y'));
                self.to_do = is_confirmed.then_some(action);
                self.notice = (!is_confirmed).then(|| "cancelled".to_string());
            }
            Mode::Normal if self.log.is_some() && leaves_output(key.code) => self.log = None,
            Mode::Normal => return self.command(key.code),
        }
        true
    }

    fn command(&mut self, code: KeyCode) -> bool {
        self.notice = None;
        match code {
            KeyCode::Char('q') => return false,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.select_again();
            }
            KeyCode::Char('o') => self.open_next(),
            KeyCode::Char('l') => {
                self.log = self.selected_slot();
                self.fleet.log = None;
                self.scrolled = 0;
            }
            KeyCode::Char('x') => self.ask_to_stop(),
            KeyCode::Char('c') => self.ask_to_cordon(),
            KeyCode::Tab | KeyCode::Right => self.show(self.view.turned(1)),
            KeyCode::BackTab | KeyCode::Left => self.show(self.view.turned(View::ALL.len() - 1)),
            KeyCode::Char(number @ '1'..='4') => {
                let at = usize::try_from(u32::from(number) - u32::from('1')).unwrap_or(0);
                self.show(View::ALL[at]);
            }
            KeyCode::Enter => (self.details, self.scrolled) = (!self.details, 0),
            KeyCode::Esc if self.details => self.details = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.select_again();
            }
            code => self.navigate(code),
        }
        true
    }

    fn edit_filter(&mut self, code: KeyCode) {
        self.mode = Mode::Filter;
        match code {
            KeyCode::Enter => self.mode = Mode::Normal,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Normal;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if !c.is_control() => self.filter.push(c),
            _ => {}
        }
        self.select_again();
    }

    /// Returns the slot of the selected line: itself, the subject of a decision, or the first
    /// holder of a GPU.
    fn selected_slot(&self) -> Option<String> {
        let at = self.position().cursor;
        match self.view {
            View::Gpus => {
                let spot = self.fleet.spots().get(at).copied()?;
                let (_, gpu) = self.fleet.at_spot(spot)?;
                Some(gpu?.device.tenants.first()?.pod.to_string())
            }
            View::Pending => {
                let row = self.fleet.queue.get(at)?;
                (row.kind == QueuedKind::Slot).then(|| row.id.clone())
            }
            View::Decisions => self.fleet.decisions.get(at)?.slot_id.clone(),
            View::Slots => Some(self.fleet.slots().get(at)?.id.clone()),
        }
    }

    /// Opens what the selected line leads to: from a GPU or a decision its slot, from a slot or a
    /// pending entry its last decision.
    fn open_next(&mut self) {
        let Some(slot) = self.selected_slot() else {
            return self.notice = Some("no slot is selected".to_string());
        };
        match self.view {
            View::Gpus | View::Decisions => {
                self.show(View::Slots);
                self.slot_to_select = Some(slot);
                self.select_slot();
            }
            View::Pending | View::Slots => {
                let decisions = &self.fleet.decisions;
                match decisions.iter().position(|row| row.slot_id.as_deref() == Some(&*slot)) {
                    Some(at) => {
                        self.show(View::Decisions);
                        self.positions[View::Decisions.number()].cursor = at;
                    }
                    None => self.notice = Some(format!("no recent decision about {slot}")),
                }
            }
        }
    }

    fn ask_to_stop(&mut self) {
        let slot = self.selected_slot();
        let known = self.fleet.slots().iter().find(|row| Some(&row.id) == slot.as_ref());
        match (slot, known, self.view) {
            (_, Some(row), _) => {
                let (id, reservations) = (row.id.clone(), row.active_requests);
                self.mode = Mode::Confirm(Action::StopSlot { id, reservations });
            }
            // Only the list of slots says what would be lost.
            (Some(slot), None, _) => {
                self.show(View::Slots);
                self.slot_to_select = Some(slot);
                self.notice = Some("press x again to stop it".to_string());
            }
            (None, ..) => self.notice = Some("no slot is selected".to_string()),
        }
    }

    fn ask_to_cordon(&mut self) {
        let at = self.position().cursor;
        let spot = self.fleet.spots().get(at).copied().filter(|_| self.view == View::Gpus);
        let Some((row, _)) = spot.and_then(|spot| self.fleet.at_spot(spot)) else {
            return self.notice = Some("select a GPU of a runner to cordon it".to_string());
        };
        let runner = row.runner_id.clone();
        self.mode = Mode::Confirm(match row.intake {
            Intake::Open => Action::Cordon { runner },
            Intake::Cordoned | Intake::Draining => Action::Uncordon { runner },
        });
    }

    fn show(&mut self, view: View) {
        (self.view, self.details, self.scrolled, self.log) = (view, false, 0, None);
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
        if self.details || self.log.is_some() {
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

/// Returns whether a key closes the output of a slot.
fn leaves_output(code: KeyCode) -> bool {
    matches!(code, KeyCode::Enter | KeyCode::Esc | KeyCode::Char('l'))
}
