//! Declared models, and everything learned about them: load times, measured memory, files on
//! runners.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use plimsoll_core::units::{Bytes, Name};
use plimsoll_models::shape::Shape;
use serde::{Deserialize, Serialize};

use super::ChangeLog;
use super::served_files::{self, Files};
use crate::memory::{self, Measured, MemoryFacts, Need};
use crate::model::Model;
use crate::size::Span;
use crate::wire::FileContent;

/// The load time assumed for a model that has not been loaded yet. It is the cost of evicting a
/// slot of it, so a guess that is too low would make unknown models the first victims.
const UNKNOWN_LOAD_TIME: Span = Span::seconds(30);

/// The most files that one answer asks a runner for, and that one heartbeat may report.
pub(super) const MAX_FILES: usize = 256;

/// All models, and the facts that were learned about them.
#[derive(Clone, Debug, Default)]
pub(super) struct Models {
    declared: BTreeMap<String, Arc<Model>>,
    load_times: BTreeMap<String, Span>,
    /// The most memory that slots of a model were measured to use, by number of GPUs.
    measured: BTreeMap<String, BTreeMap<u16, Measured>>,
    /// The content of model files, by path and runner.
    files: Files,
    /// The files of models that load more than one, by model and runner; derived from `files`.
    combined: Files,
    /// The files that a model's memory must be read from; derived from the declarations.
    wanted_files: BTreeSet<String>,
    /// Models with `prewarm` that no empty fleet could hold. Not journalled: after a restart each
    /// is tried once more.
    impossible: BTreeSet<String>,
}

/// A journalled change of `Models`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelChange {
    Declared(Arc<Model>),
    Removed(String),
    Loaded {
        model: String,
        time: Span,
    },
    Measured {
        model: String,
        gpus: u16,
        measured: Box<Measured>,
    },
    FileRead {
        path: String,
        runner: Name,
        content: Box<FileContent>,
    },
    /// The files of a removed runner are forgotten.
    RunnerForgotten(Name),
}

/// The saved form of `Models`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelsState {
    declared: Vec<Arc<Model>>,
    load_times: BTreeMap<String, Span>,
    measured: BTreeMap<String, BTreeMap<u16, Measured>>,
    files: Files,
}

/// A model that cannot be decided about yet: its memory is in a file that no runner has read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileGap {
    /// No runner has inspected the file.
    NotRead { file: String },
    /// Every runner that looked has reported why it cannot read the file.
    Missing { file: String, problems: BTreeMap<Name, String> },
    /// The same, and some of them have the file, but no runtime could load it.
    Damaged { file: String, problems: BTreeMap<Name, String> },
}

impl Models {
    pub(super) fn restore(state: ModelsState) -> Models {
        let declared = state.declared.into_iter().map(|m| (m.name().to_string(), m)).collect();
        let ModelsState { load_times, measured, files, .. } = state;
        let mut models = Models { declared, load_times, measured, files, ..Models::default() };
        models.derive_wanted_files();
        models.derive_combined();
        models
    }

    pub(super) fn state(&self) -> ModelsState {
        ModelsState {
            declared: self.declared.values().cloned().collect(),
            load_times: self.load_times.clone(),
            measured: self.measured.clone(),
            files: self.files.clone(),
        }
    }

    /// Makes a change; the same for a new one and for recovery.
    pub(super) fn apply(&mut self, change: ModelChange) {
        let is_about_files =
            !matches!(change, ModelChange::Loaded { .. } | ModelChange::Measured { .. });
        match change {
            ModelChange::Declared(model) => {
                self.declared.insert(model.name().to_string(), model);
                self.derive_wanted_files();
            }
            ModelChange::Removed(name) => {
                self.declared.remove(&name);
                self.measured.remove(&name);
                self.derive_wanted_files();
            }
            ModelChange::Loaded { model, time } => {
                self.load_times.insert(model, time);
            }
            ModelChange::Measured { model, gpus, measured } => {
                self.measured.entry(model).or_default().insert(gpus, *measured);
            }
            ModelChange::FileRead { path, runner, content } => {
                self.files.entry(path).or_default().insert(runner, *content);
            }
            ModelChange::RunnerForgotten(runner) => {
                self.files.values_mut().for_each(|found| drop(found.remove(&runner)));
                self.files.retain(|_, found| !found.is_empty());
            }
        }
        if is_about_files {
            self.derive_combined();
        }
    }

    /// Combines the files of the models that load more than one.
    fn derive_combined(&mut self) {
        let several = self.declared.values().map(|model| model.declared());
        let several = several.filter(|declared| !declared.runtime.added_files().is_empty());
        let combined =
            several.map(|model| (model.name.clone(), served_files::combined(model, &self.files)));
        self.combined = combined.collect();
    }

    /// Returns the content of a model's files, by runner.
    fn files_of(&self, model: &Model) -> Option<&BTreeMap<Name, FileContent>> {
        match self.combined.get(model.name()) {
            Some(combined) => Some(combined),
            None => self.files.get(model.declared().file.as_ref()?),
        }
    }

    fn change(&mut self, log: &mut ChangeLog, change: ModelChange) {
        log.push(change.clone());
        self.apply(change);
    }

    fn derive_wanted_files(&mut self) {
        let files = self.declared.values().flat_map(|model| model.declared().required_files());
        self.wanted_files = files.map(str::to_string).collect();
    }

    /// Declares a model or replaces its declaration; `false` if it is declared like this already.
    pub(super) fn declare(&mut self, log: &mut ChangeLog, model: Model) -> bool {
        if self.get(model.name()).is_some_and(|known| **known == model) {
            return false;
        }
        self.impossible.remove(model.name());
        self.change(log, ModelChange::Declared(Arc::new(model)));
        true
    }

    /// Removes a declaration; `false` if there is none.
    pub(super) fn remove(&mut self, log: &mut ChangeLog, name: &str) -> bool {
        let is_declared = self.declared.contains_key(name);
        if is_declared {
            self.change(log, ModelChange::Removed(name.to_string()));
        }
        is_declared
    }

    /// Remembers how long the last load of a model took.
    pub(super) fn note_load(&mut self, log: &mut ChangeLog, model: &str, time: Span) {
        self.change(log, ModelChange::Loaded { model: model.to_string(), time });
    }

    /// Remembers the most memory that slots of a model were measured to use. Growth by less than
    /// one percent is not worth a row of the journal.
    pub(super) fn note_use(&mut self, log: &mut ChangeLog, model: &str, mut seen: Measured) {
        let gpus = u16::try_from(seen.bytes.len()).unwrap_or(u16::MAX);
        let known = self.measured.get(model).and_then(|sizes| sizes.get(&gpus));
        if let Some(known) = known.filter(|known| known.settings == seen.settings) {
            seen = seen.peak_with(known);
            let (before, after) = (sum(&known.bytes), sum(&seen.bytes));
            let is_growth = after.saturating_sub(before) > before / 100;
            if !is_growth && seen.service == known.service {
                return;
            }
        }
        let (model, measured) = (model.to_string(), Box::new(seen));
        self.change(log, ModelChange::Measured { model, gpus, measured });
    }

    /// Remembers the content of a file on a runner; returns the models that depend on it.
    pub(super) fn note_file(
        &mut self,
        log: &mut ChangeLog,
        runner: &Name,
        path: String,
        content: FileContent,
    ) -> Vec<String> {
        let needs_it =
            |model: &&Arc<Model>| model.declared().required_files().contains(&path.as_str());
        let affected = self.declared.values().filter(needs_it);
        let affected = affected.map(|model| model.name().to_string()).collect();
        if self.files.get(&path).and_then(|known| known.get(runner)) != Some(&content) {
            let (runner, content) = (runner.clone(), Box::new(content));
            self.change(log, ModelChange::FileRead { path, runner, content });
        }
        affected
    }

    /// Forgets the files of a runner that was removed.
    pub(super) fn forget_runner(&mut self, log: &mut ChangeLog, runner: &Name) {
        if self.files.values().any(|found| found.contains_key(runner)) {
            self.change(log, ModelChange::RunnerForgotten(runner.clone()));
        }
    }

    /// Stops prewarming a model that no empty fleet could hold, until the fleet or its declaration
    /// changes.
    pub(super) fn mark_impossible(&mut self, model: &str) {
        self.impossible.insert(model.to_string());
    }

    /// Reconsiders all models for prewarming: the fleet has changed.
    pub(super) fn on_fleet_changed(&mut self) {
        self.impossible.clear();
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<Model>> {
        self.declared.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.declared.values()
    }

    pub(super) fn after<'a>(
        &'a self,
        name: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Model>> {
        self.declared.range::<str, _>(after(name)).map(|(_, model)| model)
    }

    /// Returns the models with `prewarm` that a fleet could hold.
    pub(super) fn to_prewarm(&self) -> impl Iterator<Item = &Arc<Model>> {
        let wants = |model: &&Arc<Model>| {
            model.declared().prewarm && !self.impossible.contains(model.name())
        };
        self.declared.values().filter(wants)
    }

    /// Returns the time of the last load; `None` if the model has not been loaded yet.
    pub(super) fn load_time(&self, model: &str) -> Option<Span> {
        self.load_times.get(model).copied()
    }

    /// Returns the cost of evicting a slot of a model: the time to load it again.
    pub(super) fn reload_cost(&self, model: &str) -> Span {
        self.load_time(model).unwrap_or(UNKNOWN_LOAD_TIME)
    }

    /// Returns the facts about a model's memory besides its declaration.
    pub(super) fn memory_facts(&self, model: &Model) -> MemoryFacts<'_> {
        MemoryFacts { measured: self.measured.get(model.name()), files: self.files_of(model) }
    }

    /// Returns the content of a model's file on a runner, if that has read it.
    pub(super) fn shape_on(&self, model: &Model, runner: &str) -> Option<&Shape> {
        match self.files_of(model)?.get(runner)? {
            FileContent::Model { shape } => Some(shape),
            FileContent::Unsupported { .. }
            | FileContent::Damaged { .. }
            | FileContent::Unreadable { .. } => None,
        }
    }

    /// Returns a model's memory for every allowed number of GPUs.
    pub(super) fn needs(&self, model: &Model) -> Vec<Need> {
        memory::needs(model, self.memory_facts(model))
    }

    pub(super) fn is_wanted_file(&self, path: &str) -> bool {
        self.wanted_files.contains(path)
    }

    /// Returns the wanted files that are not in `reported`.
    pub(super) fn files_to_read(&self, reported: Option<&BTreeSet<String>>) -> Vec<String> {
        let is_unread = |file: &&String| reported.is_none_or(|files| !files.contains(*file));
        self.wanted_files.iter().filter(is_unread).take(MAX_FILES).cloned().collect()
    }

    /// Returns the files on a runner that can be loaded, including unsupported ones.
    pub(super) fn files_on(&self, runner: &str) -> BTreeSet<Name> {
        let has_it =
            |on: &BTreeMap<Name, FileContent>| on.get(runner).is_some_and(FileContent::is_loadable);
        let files = self.files.iter().filter(|(_, on)| has_it(on));
        files.map(|(path, _)| path.as_str().into()).collect()
    }

    /// Returns why no runner can start a model; `None` if one has its files, or if it needs none.
    pub(super) fn file_gap(&self, model: &Model) -> Option<FileGap> {
        let mut everywhere: Option<BTreeSet<&Name>> = None;
        let mut problems = BTreeMap::new();
        let files = model.declared().required_files();
        for file in &files {
            let found = self.files.get(*file).filter(|found| !found.is_empty());
            let Some(found) = found else {
                return Some(FileGap::NotRead { file: (*file).to_string() });
            };
            let loadable = found.iter().filter(|(_, content)| content.is_loadable());
            let loadable: BTreeSet<&Name> = loadable.map(|(runner, _)| runner).collect();
            if loadable.is_empty() {
                return Some(gap_of(file, found));
            }
            problems.extend(problems_of(found));
            everywhere = Some(match everywhere {
                Some(runners) => runners.intersection(&loadable).copied().collect(),
                None => loadable,
            });
        }
        // Each file is on some runner, and all of them are on none.
        let is_nowhere = everywhere.is_some_and(|runners| runners.is_empty());
        is_nowhere.then(|| FileGap::Missing { file: files.join(" with "), problems })
    }

    /// Returns the runners that reported a problem with a file of a model, with that file.
    pub(super) fn unusable_files(&self, model: &Model) -> Vec<(Name, String)> {
        let files = model.declared().required_files().into_iter();
        let found = files.filter_map(|file| Some((file, self.files.get(file)?)));
        let lacking = found.flat_map(|(file, found)| {
            let lacking = found.iter().filter(|(_, content)| !content.is_loadable());
            lacking.map(move |(runner, _)| (runner.clone(), file.to_string()))
        });
        lacking.collect()
    }
}

/// Returns why no runner can load a file.
fn gap_of(file: &str, found: &BTreeMap<Name, FileContent>) -> FileGap {
    let (file, problems) = (file.to_string(), problems_of(found));
    let is_damaged = |content: &FileContent| matches!(content, FileContent::Damaged { .. });
    match found.values().any(is_damaged) {
        true => FileGap::Damaged { file, problems },
        false => FileGap::Missing { file, problems },
    }
}

/// Returns the problems that runners have with a file.
fn problems_of(found: &BTreeMap<Name, FileContent>) -> BTreeMap<Name, String> {
    let problem = |(runner, content): (&Name, &FileContent)| {
        Some((runner.clone(), content.problem()?.to_string()))
    };
    found.iter().filter_map(problem).collect()
}

fn sum(bytes: &[Bytes]) -> u64 {
    bytes.iter().fold(Bytes::ZERO, |sum, bytes| sum.plus(*bytes)).get()
}

/// Returns the range of keys after a name; all of them without one.
pub(super) fn after(name: Option<&str>) -> (Bound<&str>, Bound<&str>) {
    (name.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}
