//! The memory that a model is charged, and its source: the declaration, else the use that was
//! measured, else the estimate from its file.
//!
//! The order follows trust. An operator who declares memory takes responsibility for it. A
//! measurement includes everything that the estimate can only guess, such as the allocator's
//! fragmentation, but it is valid only for the settings that it was taken with, and it never
//! undercuts what the file proves ([`LowMeasurement`]). A model whose memory has no source is not
//! placed, because a guess of 0 would overcommit a device, unless its operator asks to measure it:
//! then it gets whole devices, which is the only amount that is certainly enough.

use std::collections::BTreeMap;

use plimsoll_core::units::{Bytes, Name};
use plimsoll_models::estimate::{Estimate, EstimateError, estimate};
use serde::{Deserialize, Serialize};

use crate::launch_spec;
use crate::model::{Declaration, Model};
use crate::size::Size;
use crate::wire::FileContent;

mod evidence;
mod settings;

pub use evidence::{LowMeasurement, Measured, MeasurementLimit, Service};
pub use settings::{MemoryOptions, ServingSettings, SettingChange};

use evidence::low_measurement;

/// The facts about a model's memory besides its declaration.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryFacts<'a> {
    /// The measured use, by number of GPUs.
    pub measured: Option<&'a BTreeMap<u16, Measured>>,
    /// The content of the model's file, by runner.
    pub files: Option<&'a BTreeMap<Name, FileContent>>,
}

/// [`MemoryFacts`] that outlive the desk's state, for another thread.
#[derive(Clone, Debug, Default)]
pub struct OwnedMemoryFacts {
    measured: BTreeMap<u16, Measured>,
    files: BTreeMap<Name, FileContent>,
}

impl From<MemoryFacts<'_>> for OwnedMemoryFacts {
    fn from(facts: MemoryFacts<'_>) -> Self {
        OwnedMemoryFacts {
            measured: facts.measured.cloned().unwrap_or_default(),
            files: facts.files.cloned().unwrap_or_default(),
        }
    }
}

impl OwnedMemoryFacts {
    /// Borrows the facts.
    pub fn borrow(&self) -> MemoryFacts<'_> {
        MemoryFacts { measured: Some(&self.measured), files: Some(&self.files) }
    }
}

/// The source of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Declared,
    Measured,
    /// Estimated from the model's file.
    Estimated,
}

impl Source {
    /// Returns its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Source::Declared => "declared",
            Source::Measured => "measured",
            Source::Estimated => "estimated",
        }
    }
}

/// The memory that a model needs on one number of GPUs, with all that is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub gpus: u16,
    /// The charge on each GPU and its source.
    pub charge: Result<(Source, Vec<Size>), UnknownMemory>,
    pub measured: Option<Measured>,
    /// The setting that was changed since the measurement, which is therefore not used.
    pub outdated: Option<SettingChange>,
    /// The reason why the measurement cannot be trusted, and is therefore not used.
    pub suspicious: Option<LowMeasurement>,
    pub estimated: Option<Estimate>,
    pub file_problems: Vec<FileProblem>,
}

/// The reason why the memory of a model is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMemory {
    pub model: String,
    pub cause: UnknownMemoryCause,
}

/// The cause of unknown memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownMemoryCause {
    /// The model declares neither memory nor a file.
    NotDeclared,
    /// The model declares that its memory is measured, and no measurement can be charged yet. It
    /// gets whole GPUs.
    NotMeasured,
    /// No runner has the file.
    NoFile {
        file: String,
    },
    FileProblem(FileProblem),
    /// The file does not contain this field.
    MissingField {
        field: String,
    },
}

/// The reason why a model's file on a runner gives no estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileProblem {
    Unsupported { runner: Name, problem: String },
    NotEstimated { runner: Name, error: EstimateError },
}

/// A note for the reader of a [`Need`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    File(FileProblem),
    /// Measurement and estimate differ by more than a tenth.
    Disagreement {
        measured: Bytes,
        estimated: Bytes,
    },
    Outdated(SettingChange),
    Suspicious(LowMeasurement),
    /// A note of the estimate that is charged, such as a context beyond the trained one.
    Estimate(String),
}

impl Need {
    /// Returns true if slots get whole GPUs, because their memory is to be measured.
    pub fn takes_whole_gpus(&self) -> bool {
        let unknown = self.charge.as_ref().err();
        unknown.is_some_and(|unknown| unknown.cause == UnknownMemoryCause::NotMeasured)
    }

    /// Returns the measured and the estimated total if they differ by more than a tenth of the
    /// larger one.
    pub fn disagreement(&self) -> Option<(Bytes, Bytes)> {
        let measured = self.measured.as_ref().filter(|_| self.outdated.is_none())?;
        let measured = measured.bytes.iter().fold(Bytes::ZERO, |sum, bytes| sum.plus(*bytes));
        let estimated = self.estimated.as_ref()?.all.total?;
        let (less, more) = (measured.min(estimated), measured.max(estimated));
        (more.less(less).get() > more.get() / 10).then_some((measured, estimated))
    }

    /// Returns the notes for its reader.
    pub fn remarks(&self) -> Vec<Remark> {
        let files = self.file_problems.iter().cloned().map(Remark::File);
        let disagreement = self
            .disagreement()
            .filter(|_| self.suspicious.is_none())
            .map(|(measured, estimated)| Remark::Disagreement { measured, estimated });
        let outdated = self.outdated.clone().map(Remark::Outdated);
        let suspicious = self.suspicious.clone().map(Remark::Suspicious);
        let notes = self.estimated.iter().flat_map(|estimate| estimate.remarks.iter().cloned());
        let estimate = notes.map(Remark::Estimate);
        files.chain(disagreement).chain(outdated).chain(suspicious).chain(estimate).collect()
    }
}

/// Returns the memory that a model needs, for every number of GPUs that it may be split over.
pub fn needs(model: &Model, facts: MemoryFacts<'_>) -> Vec<Need> {
    model.sizes().iter().map(|gpus| need(model, *gpus, facts)).collect()
}

/// Returns the memory that a model needs when it is split over this many GPUs.
pub fn need(model: &Model, gpus: u16, facts: MemoryFacts<'_>) -> Need {
    let declared = model.declared();
    let measured = facts.measured.and_then(|sizes| sizes.get(&gpus)).cloned();
    let outdated =
        measured.as_ref().and_then(|measured| measured.settings.change_to(&declared.into()));
    let (estimated, file_problems) = estimate_largest(declared, gpus, facts.files);
    let valid = measured.as_ref().filter(|_| outdated.is_none()); // mutant: outdated-measurement
    let suspicious = valid.and_then(|valid| low_measurement(valid, estimated.as_ref()));
    let valid = valid.filter(|_| suspicious.is_none()); // mutant: low-measurement
    let charge = if let Some(sizes) = model.memory_on(gpus) {
        Ok((Source::Declared, sizes))
    } else if let Some(measured) = valid {
        Ok((Source::Measured, measured.sizes(estimated.as_ref())))
    } else if declared.is_measured_first() {
        let cause = UnknownMemoryCause::NotMeasured;
        Err(UnknownMemory { model: declared.name.clone(), cause })
    } else if let Some(sizes) = estimated.as_ref().and_then(estimated_sizes) {
        Ok((Source::Estimated, sizes))
    } else {
        let cause = unknown_cause(declared, estimated.as_ref(), &file_problems);
        Err(UnknownMemory { model: declared.name.clone(), cause })
    };
    Need { gpus, charge, measured, outdated, suspicious, estimated, file_problems }
}

fn estimated_sizes(estimate: &Estimate) -> Option<Vec<Size>> {
    estimate.gpus.iter().map(|gpu| gpu.total.map(Size)).collect()
}

/// Returns the largest estimate over the files of all runners, and the problems of files without
/// one. Runners can have different files under one path, and the slot may start on any of them.
fn estimate_largest(
    declared: &Declaration,
    gpus: u16,
    files: Option<&BTreeMap<Name, FileContent>>,
) -> (Option<Estimate>, Vec<FileProblem>) {
    let (mut largest, mut problems): (Option<Estimate>, _) = (None, Vec::new());
    let Some(settings) = launch_spec::settings(declared, u64::from(gpus)) else {
        return (largest, problems);
    };
    for (runner, content) in files.into_iter().flatten() {
        let runner = runner.clone();
        let shape = match content {
            FileContent::Model { shape } => shape,
            FileContent::Unsupported { problem } => {
                problems.push(FileProblem::Unsupported { runner, problem: problem.clone() });
                continue;
            }
            FileContent::Damaged { .. } | FileContent::Unreadable { .. } => continue,
        };
        match estimate(shape, &settings) {
            Ok(estimate)
                if largest.as_ref().is_none_or(|other| estimate.all.total > other.all.total) =>
            {
                largest = Some(estimate);
            }
            Ok(_) => {}
            Err(error) => problems.push(FileProblem::NotEstimated { runner, error }),
        }
    }
    (largest, problems)
}

fn unknown_cause(
    declared: &Declaration,
    estimated: Option<&Estimate>,
    file_problems: &[FileProblem],
) -> UnknownMemoryCause {
    if let Some(field) = estimated.and_then(Estimate::missing) {
        return UnknownMemoryCause::MissingField { field: field.to_string() };
    }
    match (&declared.file, file_problems.first()) {
        (Some(_), Some(problem)) => UnknownMemoryCause::FileProblem(problem.clone()),
        (Some(file), None) => UnknownMemoryCause::NoFile { file: file.clone() },
        (None, _) => UnknownMemoryCause::NotDeclared,
    }
}

#[cfg(test)]
mod tests;
