//! The memory that a model is charged, and its source: the declaration, else the use that was
//! measured, else the estimate from its file.
//!
//! The order follows trust. An operator who declares memory takes responsibility for it. A
//! measurement includes everything that the estimate can only guess, such as the allocator's
//! fragmentation, but it is valid only for the settings that it was taken with, and it never
//! undercuts what the file proves ([`LowMeasurement`]). A model whose memory has no source is not
//! placed: a guess of 0 would overcommit a device.

use std::collections::BTreeMap;

use plimsoll_core::units::{Bytes, Millis, Name};
use plimsoll_models::estimate::{Breakdown, Estimate, EstimateError, estimate};
use plimsoll_models::settings::RuntimeKind;
use serde::{Deserialize, Serialize};

use crate::launch_spec;
use crate::model::{Declaration, Model};
use crate::runtime::Kv;
use crate::size::Size;
use crate::wire::FileContent;

/// The settings that decide the memory of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServingSettings {
    /// `None` for a program whose flags Plimsoll does not render.
    pub runtime: Option<RuntimeKind>,
    pub context: Option<u64>,
    pub kv: Option<Kv>,
    pub concurrency: u32,
    pub file: Option<String>,
}

impl From<&Declaration> for ServingSettings {
    fn from(declared: &Declaration) -> Self {
        ServingSettings {
            runtime: declared.runtime.kind(),
            context: declared.context,
            kv: declared.kv,
            concurrency: declared.concurrency,
            file: declared.file.clone(),
        }
    }
}

impl ServingSettings {
    /// Returns the first setting that differs from the declared ones.
    fn change_to(&self, declared: &ServingSettings) -> Option<SettingChange> {
        let ServingSettings { runtime, context, kv, concurrency, file } = declared;
        if self.runtime != *runtime {
            Some(SettingChange::Runtime { measured: self.runtime, declared: *runtime })
        } else if self.context != *context {
            Some(SettingChange::Context { measured: self.context, declared: *context })
        } else if self.kv != *kv {
            Some(SettingChange::Kv { measured: self.kv, declared: *kv })
        } else if self.concurrency != *concurrency {
            let (measured, declared) = (self.concurrency, *concurrency);
            Some(SettingChange::Concurrency { measured, declared })
        } else if self.file != *file {
            Some(SettingChange::File { measured: self.file.clone(), declared: file.clone() })
        } else {
            None
        }
    }
}

/// A setting that was changed since a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingChange {
    Runtime { measured: Option<RuntimeKind>, declared: Option<RuntimeKind> },
    Context { measured: Option<u64>, declared: Option<u64> },
    Kv { measured: Option<Kv>, declared: Option<Kv> },
    Concurrency { measured: u32, declared: u32 },
    File { measured: Option<String>, declared: Option<String> },
}

/// The largest use that was measured of the slots of a model, for one number of GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// The bytes on each GPU.
    pub bytes: Vec<Bytes>,
    pub at: Millis,
    /// The settings that the slots were served with.
    pub settings: ServingSettings,
}

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
    /// The reason why the measurement is too low to be true, and therefore not used.
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

/// A measurement on one GPU that is too low to be charged.
///
/// A runtime that found no GPU, a probe that sees another process and a model that is not loaded
/// yet all show less memory than the model needs. If it were charged, the next slot would
/// overcommit its device; the estimate is charged instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowMeasurement {
    /// The position of the GPU among those of the slot, from 0.
    pub gpu: usize,
    pub measured: Bytes,
    pub limit: MeasurementLimit,
}

/// The limit that a [`LowMeasurement`] is below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasurementLimit {
    /// A model uses some memory on each of its GPUs.
    AboveZero,
    /// The weights and the KV cache on the GPU, which are computed exactly.
    Contents(Bytes),
    /// The estimate, from which a measurement may be lower by a tenth.
    Estimate(Bytes),
}

/// A measurement may be lower than the estimate by one part in this many.
const TOLERATED_PART: u64 = 10;

/// Returns the first GPU whose measurement is too low.
fn low_measurement(measured: &Measured, estimated: Option<&Estimate>) -> Option<LowMeasurement> {
    let gpus = estimated.map_or(&[][..], |estimate| &estimate.gpus);
    measured.bytes.iter().enumerate().find_map(|(gpu, measured)| {
        let limit = limit_above(*measured, gpus.get(gpu))?;
        Some(LowMeasurement { gpu, measured: *measured, limit })
    })
}

fn limit_above(measured: Bytes, estimated: Option<&Breakdown>) -> Option<MeasurementLimit> {
    if measured.is_zero() {
        return Some(MeasurementLimit::AboveZero);
    }
    let estimated = estimated?;
    let [weights, kv] =
        [&estimated.weights, &estimated.kv].map(|part| part.bytes.unwrap_or(Bytes::ZERO));
    let contents = weights.plus(kv);
    if measured < contents {
        return Some(MeasurementLimit::Contents(contents));
    }
    let total = estimated.total?;
    let tolerated = Bytes::new(total.get() / TOLERATED_PART);
    (measured < total.less(tolerated)).then_some(MeasurementLimit::Estimate(total))
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
        Ok((Source::Measured, measured.bytes.iter().copied().map(Size).collect()))
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
            FileContent::Unreadable { .. } => continue,
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
