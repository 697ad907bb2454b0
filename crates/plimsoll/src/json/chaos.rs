//! The answer of `plimsoll chaos -o json`.

use std::collections::BTreeMap;

use plimsoll_sim::chaos::{Count, Finding};
use serde::Serialize;

use super::SCHEMA_VERSION;
use crate::commands::Lived;

/// What came of days of trouble.
#[derive(Serialize)]
pub(crate) struct ChaosSheet<'a> {
    schema_version: u32,
    first_seed: u64,
    crashes: u64,
    faults: u64,
    counts: BTreeMap<&'static str, u64>,
    fingerprint: String,
    findings: Vec<FindingRow<'a>>,
}

#[derive(Serialize)]
struct FindingRow<'a> {
    seed: u64,
    event: u64,
    at_ms: u64,
    what: &'a [String],
    again: String,
    last_events: &'a [String],
}

/// What came of days of trouble.
pub(crate) fn chaos(first_seed: u64, lived: &Lived) -> ChaosSheet<'_> {
    ChaosSheet {
        schema_version: SCHEMA_VERSION,
        first_seed,
        crashes: lived.tally.crashes(),
        faults: lived.tally.faults(),
        counts: Count::ALL.iter().map(|(count, name, _)| (*name, lived.tally.of(*count))).collect(),
        fingerprint: format!("{:016x}", lived.fingerprint),
        findings: lived.findings.iter().map(|(finding, last)| row(finding, last)).collect(),
    }
}

fn row<'a>(finding: &'a Finding, last: &'a [String]) -> FindingRow<'a> {
    FindingRow {
        seed: finding.seed,
        event: finding.event,
        at_ms: finding.at.0,
        what: &finding.what,
        again: finding.command(),
        last_events: last,
    }
}
