//! What came of deciding a journal again, as JSON.

use std::collections::BTreeSet;

use plimsoll_core::drive::{self, DecisionRecord, Divergence};
use plimsoll_core::units::{Millis, Name};
use serde::Serialize;

use super::SCHEMA_VERSION;
use super::explain::{ExplainSheet, explained};
use plimsoll_engine::replay::{Replayed, Report, StatesDiffer, Way};

/// The answer of `plimsoll replay -o json`.
#[derive(Serialize)]
pub(crate) struct ReplaySheet<'a> {
    schema_version: u32,
    same: bool,
    first_seq: Option<u64>,
    last_seq: Option<u64>,
    records: u64,
    decisions: u64,
    core: &'static str,
    written_by: &'a BTreeSet<String>,
    records_that_differ: u64,
    divergences: Vec<DivergenceRow<'a>>,
    states: Vec<StateRow>,
}

/// A record that came out differently.
#[derive(Serialize)]
struct DivergenceRow<'a> {
    seq: u64,
    core: &'a str,
    operations_differ: bool,
    recorded: Vec<DecisionRow<'a>>,
    again: Vec<DecisionRow<'a>>,
}

/// A decision as the journal keeps it. Its digest is text: as a number it would not survive every reader.
#[derive(Serialize)]
struct DecisionRow<'a> {
    account: &'a Name,
    name: &'a Name,
    uid: &'a Name,
    summary: String,
    digest: String,
}

/// A state to which two ways led differently.
#[derive(Serialize)]
struct StateRow {
    before_seq: u64,
    way: &'static str,
}

/// All of a journal.
pub(crate) fn replay(report: &Report) -> ReplaySheet<'_> {
    ReplaySheet {
        schema_version: SCHEMA_VERSION,
        same: report.holds(),
        first_seq: report.span.map(|(first, _)| first),
        last_seq: report.span.map(|(_, last)| last),
        records: report.records,
        decisions: report.decisions,
        core: drive::VERSION,
        written_by: &report.written_by,
        records_that_differ: report.differ,
        divergences: report.divergences.iter().map(divergence).collect(),
        states: report.states.iter().map(state).collect(),
    }
}

fn divergence(divergence: &Divergence) -> DivergenceRow<'_> {
    DivergenceRow {
        seq: divergence.seq,
        core: &divergence.core,
        operations_differ: divergence.operations_differ,
        recorded: divergence.recorded.iter().map(decision).collect(),
        again: divergence.again.iter().map(decision).collect(),
    }
}

fn decision(decision: &DecisionRecord) -> DecisionRow<'_> {
    DecisionRow {
        account: &decision.request.account,
        name: &decision.request.name,
        uid: &decision.request.uid,
        summary: decision.summary.to_string(),
        digest: digest(decision.digest),
    }
}

fn state(state: &StatesDiffer) -> StateRow {
    let way = match state.way {
        Way::Snapshot => "snapshot",
        Way::Deciding => "deciding",
    };
    StateRow { before_seq: state.before, way }
}

/// The answer of `plimsoll replay --decision … -o json`.
#[derive(Serialize)]
pub(crate) struct ReplayedSheet<'a> {
    schema_version: u32,
    decision: String,
    now: Millis,
    same: bool,
    recorded: DecisionRow<'a>,
    recorded_by: &'a str,
    digest: String,
    core: &'static str,
    /// Only where it is the decision that was made.
    explanation: Option<ExplainSheet<'a>>,
}

/// One decision.
pub(crate) fn replayed(replayed: &Replayed) -> ReplayedSheet<'_> {
    ReplayedSheet {
        schema_version: SCHEMA_VERSION,
        decision: replayed.id.to_string(),
        now: replayed.now,
        same: replayed.is_same(),
        recorded: decision(&replayed.recorded),
        recorded_by: &replayed.core,
        digest: digest(replayed.digest),
        core: drive::VERSION,
        explanation: replayed.is_same().then(|| explained(&replayed.decision, None, &[])),
    }
}

fn digest(digest: u64) -> String {
    format!("{digest:016x}")
}
