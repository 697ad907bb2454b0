//! The output of `plimsoll chaos -o json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The output of `plimsoll chaos -o json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChaosOutput {
    pub schema_version: u32,
    pub first_seed: u64,
    pub crashes: u64,
    pub faults: u64,
    pub counts: BTreeMap<String, u64>,
    /// A hexadecimal digest of all recorded events, independent of the number of threads.
    pub fingerprint: String,
    pub findings: Vec<ChaosFindingRow>,
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChaosFindingRow {
    pub seed: u64,
    /// The number of the event after which it was found.
    pub event: u64,
    /// The simulated time since the start of the day.
    pub at_ms: u64,
    pub what: Vec<String>,
    /// The command that reproduces it.
    pub again: String,
    /// The last events before it.
    pub last_events: Vec<String>,
}
