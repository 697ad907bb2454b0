//! The output of `plimsoll replay -o json`.

use std::collections::BTreeSet;

use plimsoll_core::drive::{DecisionRecord, Divergence};
use plimsoll_core::units::{Millis, Name};
use serde::{Deserialize, Serialize};

use super::ExplainOutput;
use crate::names::named;

/// The output of `plimsoll replay -o json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayOutput {
    pub schema_version: u32,
    pub same: bool,
    pub first_seq: Option<u64>,
    pub last_seq: Option<u64>,
    pub records: u64,
    pub decisions: u64,
    /// The version of the core that replays.
    pub core: String,
    /// The versions of the core that wrote the records.
    pub written_by: BTreeSet<String>,
    pub records_that_differ: u64,
    /// The first of them.
    pub divergences: Vec<DivergenceRow>,
    pub states: Vec<StateMismatchRow>,
}

/// A record that is decided differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DivergenceRow {
    pub seq: u64,
    /// The version of the core that wrote the record.
    pub core: String,
    pub operations_differ: bool,
    pub recorded: Vec<RecordedDecisionRow>,
    pub again: Vec<RecordedDecisionRow>,
}

impl From<&Divergence> for DivergenceRow {
    fn from(divergence: &Divergence) -> DivergenceRow {
        DivergenceRow {
            seq: divergence.seq,
            core: divergence.core.to_string(),
            operations_differ: divergence.operations_differ,
            recorded: divergence.recorded.iter().map(RecordedDecisionRow::from).collect(),
            again: divergence.again.iter().map(RecordedDecisionRow::from).collect(),
        }
    }
}

/// A decision as the journal records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDecisionRow {
    pub account: Name,
    pub name: Name,
    pub uid: Name,
    pub summary: String,
    /// Hexadecimal: many JSON readers round numbers of 64 bits.
    pub digest: String,
}

impl From<&DecisionRecord> for RecordedDecisionRow {
    fn from(decision: &DecisionRecord) -> RecordedDecisionRow {
        RecordedDecisionRow {
            account: decision.request.account.clone(),
            name: decision.request.name.clone(),
            uid: decision.request.uid.clone(),
            summary: decision.summary.to_string(),
            digest: digest(decision.digest),
        }
    }
}

named! {
    /// The source of a state that differs from the recorded operations.
    StateSource {
        /// The snapshot that the server saved.
        Snapshot = "snapshot",
        /// The events, decided again.
        Deciding = "deciding",
    }
}

/// A state that two sources disagree about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateMismatchRow {
    pub before_seq: u64,
    pub way: StateSource,
}

/// The output of `plimsoll replay --decision SEQ.INDEX -o json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayedDecisionOutput {
    pub schema_version: u32,
    /// The id, as `SEQ.INDEX`.
    pub decision: String,
    pub now: Millis,
    pub same: bool,
    pub recorded: RecordedDecisionRow,
    /// The version of the core that recorded it.
    pub recorded_by: String,
    /// The digest of the decision made again.
    pub digest: String,
    /// The summary of the decision made again.
    pub summary: String,
    pub core: String,
    /// Null if the decision differs: the explanation of another decision would mislead.
    pub explanation: Option<ExplainOutput>,
}

/// Formats a digest.
pub fn digest(digest: u64) -> String {
    format!("{digest:016x}")
}
