//! Files of models: which runners are asked to look at them, and what they found there.

use plimsoll_core::device::Node;
use plimsoll_core::units::{Bytes, Millis, Name};

use super::Desk;
use super::state::{Operation, Slot};
use crate::memory::{self, Found, Known, Measured, Need, Served};
use crate::model::Model;
use crate::translate;
use crate::wire::{FileReport, SlotReport, SlotState};

/// The most that one heartbeat may say of files.
pub(super) const MOST_FILES: usize = 256;

impl Desk {
    /// What a model needs for every size that it may have, with everything that is known about it.
    pub fn needs(&self, model: &Model) -> Vec<Need> {
        memory::needs(model, self.state.known(model))
    }

    /// Everything that is known of a model's memory besides its declaration.
    pub fn known(&self, model: &Model) -> Known<'_> {
        self.state.known(model)
    }

    /// The files that a runner is asked to look at: those that it has said nothing of since its agent started.
    pub(super) fn files_wanted(&self, runner: &str) -> Vec<String> {
        let said = self.live.get(runner).map(|live| &live.files);
        let unsaid = |file: &&String| said.is_none_or(|said| !said.contains(*file));
        self.state.wanted_files.iter().filter(unsaid).take(MOST_FILES).cloned().collect()
    }

    /// Takes what a runner found; says whether the runner has other files now.
    pub(super) fn take_files(&mut self, runner: &Name, reports: Vec<FileReport>) -> bool {
        // Most heartbeats say nothing of files.
        if reports.is_empty() {
            return false;
        }
        let before = self.has_files(runner);
        for report in reports {
            let FileReport { path, is_there, shape, problem } = report;
            if !self.state.wanted_files.contains(&path) {
                continue;
            }
            let why = problem.unwrap_or_else(|| "the runner gives no reason".to_string());
            let found = match shape {
                Some(shape) => Found::Shape((*shape).into()),
                None if is_there => Found::Odd(why),
                None => Found::Nothing(why),
            };
            if let Some(live) = self.live.get_mut(runner) {
                live.files.insert(path.clone());
            }
            if self.state.files.get(&path).and_then(|known| known.get(runner)) != Some(&found) {
                let models =
                    self.state.models.values().filter(|m| translate::needs_file(m) == Some(&path));
                let models: Vec<String> = models.map(|model| model.name().to_string()).collect();
                self.unserved.extend(models);
                self.note(Operation::Found(path, runner.clone(), Box::new(found)));
            }
        }
        before != self.has_files(runner)
    }

    /// The files that a runner has.
    fn has_files(&self, runner: &Name) -> Vec<String> {
        let is_there = |found: &&Found| matches!(found, Found::Shape(_) | Found::Odd(_));
        let has = self
            .state
            .files
            .iter()
            .filter(|(_, found)| found.get(runner).filter(is_there).is_some());
        has.map(|(path, _)| path.clone()).collect()
    }

    /// Labels a node with the files that its runner has.
    pub(super) fn label_files(&self, node: &mut Node) {
        let labels = self.has_files(&node.name).into_iter();
        node.labels
            .extend(labels.map(|file| {
                (translate::file_label(&file).into(), translate::FILE_IS_THERE.into())
            }));
    }

    /// Why nobody can say yet what a model needs; `None` once it can be decided about.
    pub(super) fn awaits_file(&self, model: &Model) -> Option<String> {
        let file = translate::needs_file(model)?;
        if self.needs(model).iter().any(|need| need.charge.is_ok()) {
            return None;
        }
        let found = self.state.files.get(file);
        let nothing = found.into_iter().flatten().filter_map(|(runner, found)| match found {
            Found::Nothing(why) => Some(format!("{runner}: {why}")),
            _ => None,
        });
        let nothing: Vec<String> = nothing.collect();
        match found.map_or(0, std::collections::BTreeMap::len) {
            0 => Some(format!("no runner has said yet what is in {file}")),
            all if all == nothing.len() => {
                Some(format!("no runner has {file} ({})", nothing.join("; ")))
            }
            _ => None,
        }
    }

    /// Remembers the most that a slot was seen to use, while it is served as its model is declared now.
    pub(super) fn note_use(&mut self, now: Millis, slot: &Slot, report: &SlotReport) {
        let Some(made_from) =
            slot.made_from.as_ref().filter(|_| report.state == SlotState::Running)
        else {
            return;
        };
        let served = Served::of(made_from.declared());
        let current = self.state.models.get(&slot.model).map(|model| Served::of(model.declared()));
        let devices = self
            .holding(slot)
            .map_or(0, |(_, holding)| holding.charges.iter().map(|c| c.on.len()).sum());
        let gpus = u16::try_from(report.used.len()).unwrap_or(0);
        if gpus == 0 || usize::from(gpus) != devices || current.as_ref() != Some(&served) {
            return;
        }
        let mut used: Vec<_> =
            report.used.iter().map(|on| (on.index, Bytes::new(on.bytes))).collect();
        used.sort_unstable();
        let mut bytes: Vec<Bytes> = used.into_iter().map(|(_, bytes)| bytes).collect();
        let known = self.state.measured.get(&slot.model).and_then(|sizes| sizes.get(&gpus));
        if let Some(known) = known.filter(|known| known.served == served) {
            bytes = bytes.iter().zip(&known.bytes).map(|(now, before)| *now.max(before)).collect();
            let sum = |bytes: &[Bytes]| {
                bytes.iter().fold(Bytes::ZERO, |sum, bytes| sum.plus(*bytes)).get()
            };
            // What grows by less than a hundredth is not worth a row of the journal.
            if sum(&bytes).saturating_sub(sum(&known.bytes)) <= sum(&known.bytes) / 100 {
                return;
            }
        }
        let measured = Measured { bytes, at: now, served };
        self.note(Operation::Measured(slot.model.clone(), gpus, Box::new(measured)));
    }
}
