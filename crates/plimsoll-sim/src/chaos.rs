//! Simulated days with faults: the real front end and its runner protocol on a virtual clock, over
//! a network that loses, delays and duplicates messages, with crashes at every step.
//!
//! ```text
//!  clients ──▶ Desk, Host ──▶ journal ──▶ answers ──▶ network ──▶ SimulatedRunner: real processes
//!               ▲     │ crash, recovery                │ late, lost, duplicated   │
//!               └─────┴────────── requests ◀───────────┴──────────────────────────┘
//! ```
//!
//! Three checkers. The [`crate::witness`] keeps accounts of its own from the journal. The physical
//! check knows what each GPU can hold and what was started there. The checks at rest and at the end
//! of a day compare the recovered state with the durable one, make the decisions of the journal
//! again, and look for pending reservations that could be served and for memory without a holder.
//!
//! Time is virtual and randomness comes from the seed: the same seed gives the same day.

pub(crate) mod random;

mod counters;

mod network;

mod schedule;

mod profile;

mod fleet;

mod models;

mod auditor;

mod server;

mod machine;

mod clients;

mod leases;

mod invariants;

mod day;

mod messages;

mod calls;

mod faults;

mod rest;

use std::fmt;

use plimsoll_core::units::Millis;

pub use counters::{Counter, Counters};

/// The options of a day.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub seed: u64,
    pub log: Log,
    pub sabotage: Option<Sabotage>,
}

/// The log of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Log {
    #[default]
    Off,
    /// Every event.
    Events,
}

/// A defect that is put in on purpose, to prove that a checker finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A runner reports a process as gone when it has only begun to stop.
    GoneTooEarly,
    /// Recovery drops the last operation of the journal.
    ForgetOperation,
    /// Answers leave although their records were never durable.
    AnswersBeforeCommit,
    /// The witness does not see a record.
    BlindWitness,
    /// A runner carries out orders that were overtaken by later ones.
    LateOrders,
    /// A runner never reports that a process is gone.
    GoneNeverReported,
    /// A runner starts every process with twice its memory.
    StartsTooLarge,
    /// The server renews the leases of clients that have vanished.
    RenewsVanished,
    /// The server takes every heartbeat for one that was sent since it started.
    EveryEpoch,
}

/// The result of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayReport {
    pub seed: u64,
    pub counters: Counters,
    /// A digest of all records: two runs of one seed have the same.
    pub fingerprint: u64,
    /// The violations, if there are any. They end the day.
    pub finding: Option<Finding>,
    /// Every event, with [`Log::Events`].
    pub log: Vec<String>,
}

/// Violated invariants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub seed: u64,
    /// The number of the event after which they were found.
    pub event: u64,
    pub at: Millis,
    pub violations: Vec<String>,
}

impl Finding {
    /// Returns the command that reproduces the finding.
    pub fn command(&self) -> String {
        format!("plimsoll chaos --seed {} --days 1", self.seed)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { seed, event, at, violations } = self;
        writeln!(f, "seed {seed}, event {event}, {} ms into the day:", at.0)?;
        violations.iter().try_for_each(|violation| writeln!(f, "  {violation}"))?;
        write!(f, "  reproduce with: {}", self.command())
    }
}

/// Simulates one day.
pub fn day(options: Options) -> DayReport {
    day::Day::new(options).run()
}
