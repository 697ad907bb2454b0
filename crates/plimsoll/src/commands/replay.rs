//! `plimsoll replay`: decides a server's journal again and compares, or shows one decision in full.

use std::io::IsTerminal;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use plimsoll_api::offline::{
    DivergenceRow, ExplainOutput, RecordedDecisionRow, ReplayOutput, ReplayedDecisionOutput,
    SCHEMA_VERSION, StateMismatchRow, StateSource, digest,
};
use plimsoll_core::drive;
use plimsoll_engine::replay::{self, Replayed, Report, StatesDiffer, Way};
use plimsoll_engine::store::{DecisionId, History};

use crate::cli::{Format, ReplayArgs};
use crate::output::{self, Outcome, Verbosity};
use crate::text;

pub(super) fn run(args: &ReplayArgs, verbosity: Verbosity) -> Result<Outcome> {
    let history = History::open(&args.dir)?;
    match args.decision {
        Some(id) => one(&history, id, args.output),
        None => all(&history, args.output, verbosity),
    }
}

fn all(history: &History, format: Format, verbosity: Verbosity) -> Result<Outcome> {
    let progress = Progress::new(history, verbosity)?;
    let report = replay::replay(history, |seq| progress.at(seq))?;
    progress.end();
    let output = replay_output(&report);
    match format {
        Format::Json => output::json(&output)?,
        Format::Yaml => output::yaml(&output)?,
        Format::Table => {
            let mut page = output::page();
            text::replay::replay(&mut page, &output);
            output::text(page.text())?;
        }
    }
    Ok(if output.same { Outcome::Fine } else { Outcome::Wanting })
}

fn replay_output(report: &Report) -> ReplayOutput {
    ReplayOutput {
        schema_version: SCHEMA_VERSION,
        same: report.holds(),
        first_seq: report.span.map(|(first, _)| first),
        last_seq: report.span.map(|(_, last)| last),
        records: report.records,
        decisions: report.decisions,
        core: drive::VERSION.to_string(),
        written_by: report.written_by.clone(),
        records_that_differ: report.differ,
        divergences: report.divergences.iter().map(DivergenceRow::from).collect(),
        states: report.states.iter().map(state).collect(),
    }
}

fn state(state: &StatesDiffer) -> StateMismatchRow {
    let way = match state.way {
        Way::Snapshot => StateSource::Snapshot,
        Way::Deciding => StateSource::Deciding,
    };
    StateMismatchRow { before_seq: state.before, way }
}

fn one(history: &History, id: DecisionId, format: Format) -> Result<Outcome> {
    let output = decision_output(&replay::one(history, id)?);
    match format {
        Format::Json => output::json(&output)?,
        Format::Yaml => output::yaml(&output)?,
        Format::Table => {
            let mut page = output::page();
            text::replay::decision_in_full(&mut page, &output);
            output::text(page.text())?;
        }
    }
    Ok(if output.same { Outcome::Fine } else { Outcome::Wanting })
}

fn decision_output(replayed: &Replayed) -> ReplayedDecisionOutput {
    let same = replayed.is_same();
    ReplayedDecisionOutput {
        schema_version: SCHEMA_VERSION,
        decision: replayed.id.to_string(),
        now: replayed.now,
        same,
        recorded: RecordedDecisionRow::from(&replayed.recorded),
        recorded_by: replayed.core.to_string(),
        digest: digest(replayed.digest),
        summary: replayed.decision.summary().to_string(),
        core: drive::VERSION.to_string(),
        explanation: same.then(|| ExplainOutput::decided(&replayed.decision)),
    }
}

/// A progress bar on a terminal.
struct Progress(Option<(ProgressBar, u64)>);

impl Progress {
    fn new(history: &History, verbosity: Verbosity) -> Result<Progress> {
        if !verbosity.is_normal() || !std::io::stderr().is_terminal() {
            return Ok(Progress(None));
        }
        let (first, last) = history.span()?.unwrap_or((0, 0));
        let style = ProgressStyle::with_template("replaying [{bar:32}] {pos} of {len}, {eta} left");
        let style = style.expect("the template is a constant").progress_chars("##-");
        Ok(Progress(Some((ProgressBar::new(last - first + 1).with_style(style), first))))
    }

    fn at(&self, seq: u64) {
        if let Some((bar, first)) = &self.0 {
            bar.set_position(seq.saturating_sub(*first));
        }
    }

    fn end(&self) {
        if let Some((bar, _)) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
