//! The text of everything that the desk states as data: reasons, endings and remarks. No other
//! module of this crate renders them.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_core::units::{Millis, Name};
use plimsoll_core::wording::{Clause, Topic};

use crate::desk::{Ending, FileGap, Loss, PendingLimit, SlotEnding, SlotFailure, StatusReason};
use crate::memory::{
    FileProblem, LowMeasurement, MeasurementLimit, Remark, SettingChange, UnknownMemory,
    UnknownMemoryCause,
};

/// The number of runners that a sentence lists.
const MAX_LISTED: usize = 3;

impl fmt::Display for StatusReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatusReason::NoRunner => f.write_str(
                "no runner is registered; start one with `plimsoll runner --server URL`",
            ),
            StatusReason::File(gap) => gap.fmt(f),
            StatusReason::ModelFull { model, slots, max_slots, concurrency } => {
                let plural = if *max_slots == 1 { "slot" } else { "slots" };
                write!(f, "model {model} has {slots} of at most {max_slots} {plural}, with ")?;
                match concurrency {
                    1 => f.write_str("its only reservation taken"),
                    _ => write!(f, "all {concurrency} reservations taken"),
                }
            }
            StatusReason::NotPlaced { reason, failure } => {
                reason.fmt(f)?;
                in_brackets(f, failure)
            }
            StatusReason::RunnerSilent { slot, runner, since } => write!(
                f,
                "the state of {slot} is unknown: runner {runner} has been silent since {since}; \
                 restore that runner, or remove it"
            ),
            StatusReason::Queued { slot, runner } => {
                write!(f, "{slot} is queued on {runner} behind another start or stop on its GPUs")
            }
            StatusReason::Starting { slot, runner, failure } => {
                write!(f, "{slot} is starting on {runner}")?;
                in_brackets(f, failure)
            }
            StatusReason::Running { slot, runner } => write!(f, "{slot} is ready on {runner}"),
            StatusReason::Releasing { slot, runner, report } => {
                write!(f, "{slot} is releasing its memory on {runner}")?;
                in_brackets(f, report)
            }
            StatusReason::SlotGone { slot } => write!(f, "{slot} no longer exists"),
            StatusReason::Ended(ending) => ending.fmt(f),
        }
    }
}

impl StatusReason {
    /// Renders the reason in a few words for a list.
    pub fn brief(&self) -> String {
        match self {
            StatusReason::NotPlaced { reason, .. } => reason.brief(),
            StatusReason::RunnerSilent { runner, .. } => format!("runner {runner} is silent"),
            StatusReason::Releasing { runner, .. } => format!("releasing its memory on {runner}"),
            StatusReason::Starting { slot, runner, .. } => {
                format!("{slot} is starting on {runner}")
            }
            StatusReason::Ended(ending) => ending.brief(),
            StatusReason::ModelFull { slots, max_slots, concurrency, .. } => {
                let plural = if *max_slots == 1 { "slot" } else { "slots" };
                let taken = match concurrency {
                    1 => "its reservation taken".to_string(),
                    _ => format!("all {concurrency} reservations taken"),
                };
                format!("full: {slots} of {max_slots} {plural}, {taken}")
            }
            other => other.to_string(),
        }
    }

    /// Returns the lines about the reason.
    pub fn clauses(&self, now: Millis) -> Vec<Clause> {
        let because = |text: String| vec![Clause { topic: Topic::Reason, text }];
        match self {
            StatusReason::NotPlaced { reason, .. } => reason.clauses(now),
            StatusReason::RunnerSilent { runner, .. } => because(format!(
                "runner {runner} is silent and its slots stay charged; restart it, or `plimsoll \
                 runners delete {runner}`"
            )),
            StatusReason::Ended(Ending::Impossible { rejection, .. }) => {
                rejection.clauses(Some(now))
            }
            StatusReason::Ended(Ending::Expired { pending }) => {
                let mut clauses = because("deadline exceeded while it was pending".to_string());
                clauses.extend(pending.clauses(now));
                clauses
            }
            StatusReason::Ended(ending) => because(ending.brief()),
            StatusReason::ModelFull { .. } => because(self.to_string()),
            other => because(other.brief()),
        }
    }

    /// Returns the failure of the last start, or the reason for the end.
    pub fn failure(&self) -> Option<&SlotFailure> {
        match self {
            StatusReason::NotPlaced { failure, .. } | StatusReason::Starting { failure, .. } => {
                failure.as_ref()
            }
            StatusReason::Ended(Ending::Lost(Loss::Ended { failure })) => failure.as_ref(),
            StatusReason::Ended(Ending::Expired { pending }) => pending.failure(),
            _ => None,
        }
    }
}

impl Ending {
    /// Renders the end in a few words.
    pub fn brief(&self) -> String {
        match self {
            Ending::Impossible { rejection, .. } => rejection.brief(),
            Ending::Expired { pending } => format!("deadline exceeded: {}", pending.brief()),
            Ending::Lost(Loss::Ended { failure: Some(_) }) => "its slot ended".to_string(),
            other => other.to_string(),
        }
    }
}

fn in_brackets(f: &mut fmt::Formatter<'_>, text: &Option<impl fmt::Display>) -> fmt::Result {
    match text {
        Some(text) => write!(f, " ({text})"),
        None => Ok(()),
    }
}

impl fmt::Display for FileGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileGap::NotRead { file } => write!(f, "no runner has inspected {file} yet"),
            FileGap::Missing { file, problems } => {
                write!(f, "no runner has {file}")?;
                by_runner(f, problems)
            }
            FileGap::Damaged { file, problems } => {
                write!(f, "no runner can load {file}")?;
                by_runner(f, problems)
            }
        }
    }
}

fn by_runner(f: &mut fmt::Formatter<'_>, problems: &BTreeMap<Name, String>) -> fmt::Result {
    let shown = problems.iter().take(MAX_LISTED);
    let shown: Vec<String> =
        shown.map(|(runner, problem)| format!("{runner}: {problem}")).collect();
    write!(f, " ({}", shown.join("; "))?;
    match problems.len().saturating_sub(MAX_LISTED) {
        0 => f.write_str(")"),
        more => write!(f, "; and {more} more)"),
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Released => f.write_str("released by the client"),
            Ending::Impossible { rejection, .. } => rejection.fmt(f),
            Ending::UnusableFile { file, problems } => {
                write!(f, "no runner can load {file}")?;
                by_runner(f, problems)?;
                f.write_str("; copy the file again, then reserve again")
            }
            Ending::ModelRemoved => f.write_str("the model was removed"),
            Ending::Expired { pending } => write!(f, "deadline exceeded: {pending}"),
            Ending::Lost(loss) => loss.fmt(f),
            Ending::LeaseExpired { lease } => {
                write!(f, "released: the client did not renew its lease of {lease}")
            }
        }
    }
}

impl fmt::Display for PendingLimit {
    /// Prints the beginning of a sentence that ends with the value of the limit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PendingLimit::Total => f.write_str(
                "too many pending reservations: the limit of the server (pending.total) is",
            ),
            PendingLimit::Namespace(namespace) => {
                f.write_str("too many pending reservations: the limit ")?;
                match namespace {
                    Some(namespace) => write!(f, "of namespace {namespace}")?,
                    None => f.write_str("of clients without a namespace")?,
                }
                f.write_str(" (pending.per_namespace) is")
            }
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Evicted => f.write_str("its slot was evicted to make room"),
            Loss::Stopped => f.write_str("its slot was stopped by an operator"),
            Loss::Drained { runner } => {
                write!(f, "its slot was stopped because an operator drained {runner}")
            }
            Loss::ModelRemoved => f.write_str("the model was removed"),
            Loss::Ended { failure: None } => f.write_str("its slot ended"),
            Loss::Ended { failure: Some(failure) } => write!(f, "its slot ended: {failure}"),
        }
    }
}

impl SlotEnding {
    /// Renders the end in a few words.
    pub fn brief(&self) -> String {
        match self {
            SlotEnding::Withdrawn => "no reservation needs it any more".to_string(),
            SlotEnding::Impossible { rejection } => rejection.brief(),
            SlotEnding::Lost(Loss::Evicted) => "evicted to make room".to_string(),
            SlotEnding::Lost(Loss::Stopped) => "stopped by an operator".to_string(),
            SlotEnding::Lost(Loss::Drained { runner }) => format!("stopped: {runner} was drained"),
            SlotEnding::Lost(Loss::ModelRemoved) => "its model was removed".to_string(),
            SlotEnding::Lost(Loss::Ended { failure: None }) => "its process ended".to_string(),
            SlotEnding::Lost(Loss::Ended { failure: Some(failure) }) => {
                let text = failure.to_string();
                text.lines().next().unwrap_or_default().to_string()
            }
        }
    }

    /// Returns the lines about the end.
    pub fn clauses(&self, now: Millis) -> Vec<Clause> {
        match self {
            SlotEnding::Impossible { rejection } => rejection.clauses(Some(now)),
            other => vec![Clause { topic: Topic::Reason, text: other.brief() }],
        }
    }
}

impl fmt::Display for SlotFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SlotFailure::Reported { reason } => reason,
            SlotFailure::NoReason => "the runner reported no reason",
            SlotFailure::StoppedByRunner => "its runner stopped it",
        })
    }
}

impl fmt::Display for UnknownMemory {
    /// Prints a noun phrase, which the core completes to a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the memory of model {} ({})", self.model, self.cause)
    }
}

impl fmt::Display for UnknownMemoryCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnknownMemoryCause::NotDeclared => f.write_str("declare `memory` or `file`"),
            UnknownMemoryCause::NotMeasured => f.write_str(
                "not measured yet: a slot takes whole GPUs until one was measured and a client \
                 that used it has released it",
            ),
            UnknownMemoryCause::NoFile { file } => write!(f, "no runner has {file}"),
            UnknownMemoryCause::FileProblem(problem) => {
                write!(f, "{problem}; declare `memory`")
            }
            UnknownMemoryCause::MissingField { field } => {
                write!(f, "its file lacks {field}; declare `memory`")
            }
        }
    }
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileProblem::Unsupported { runner, problem } => {
                write!(f, "the file on {runner} is not supported: {problem}")
            }
            FileProblem::NotEstimated { runner, error } => {
                write!(f, "the file on {runner} gives no estimate: {error}")
            }
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remark::File(problem) => problem.fmt(f),
            Remark::Disagreement { measured, estimated } => {
                write!(f, "its slots were measured to use {measured}; the estimate is {estimated}")
            }
            Remark::Outdated(change) => change.fmt(f),
            Remark::Suspicious(low) => low.fmt(f),
            Remark::Estimate(note) => f.write_str(note),
        }
    }
}

impl fmt::Display for LowMeasurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LowMeasurement { gpu, measured, limit } = self;
        write!(f, "the measured {measured} on GPU {gpu} of a slot are not charged: ")?;
        match limit {
            MeasurementLimit::Served => {
                return f.write_str("no client that used the slot has released it yet");
            }
            MeasurementLimit::AboveZero => f.write_str("a loaded model uses memory there"),
            MeasurementLimit::Contents(contents) => {
                write!(f, "weights and KV cache alone are {contents}")
            }
            MeasurementLimit::Estimate(estimated) => {
                write!(f, "they are more than a tenth below the estimate of {estimated}")
            }
        }?;
        f.write_str("; check that the runtime uses the GPU")
    }
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingChange::Runtime { measured, declared } => {
                changed(f, "runtime", &or(measured, "command"), &or(declared, "command"))
            }
            SettingChange::Context { measured, declared } => {
                changed(f, "context", &or(measured, "none"), &or(declared, "none"))
            }
            SettingChange::Kv { measured, declared } => {
                changed(f, "kv", &or(measured, "none"), &or(declared, "none"))
            }
            SettingChange::Concurrency { measured, declared } => {
                changed(f, "concurrency", measured, declared)
            }
            SettingChange::File { measured, declared } => {
                changed(f, "file", &or(measured, "none"), &or(declared, "none"))
            }
            SettingChange::Option { option } => {
                write!(f, "measured with another `{option}` of the runtime")
            }
            SettingChange::UnknownOptions => {
                f.write_str("measured by a version that did not record the options of the runtime")
            }
        }
    }
}

fn changed(
    f: &mut fmt::Formatter<'_>,
    setting: &str,
    measured: &dyn fmt::Display,
    declared: &dyn fmt::Display,
) -> fmt::Result {
    write!(f, "measured with {setting} {measured}, but the model now has {declared}")
}

fn or(value: &Option<impl fmt::Display>, none: &str) -> String {
    value.as_ref().map_or_else(|| none.to_string(), ToString::to_string)
}
