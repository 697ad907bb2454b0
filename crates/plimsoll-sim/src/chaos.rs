//! Days of trouble from a seed: the very machine that serves, in a world that loses, delays and doubles what it is told,
//! killed at every step, with judges who look on.
//!
//! ```text
//!  askers ──▶ events ──▶ Drive ──▶ journal ──▶ effects ──▶ wire ──▶ runners, cards, processes: what is really there
//!               ▲          │ killed, recovered               │ late, lost, doubled          │
//!               └──────────┴──────── desk ◀── words ◀────────┴──────────────────────────────┘
//! ```
//!
//! Three judges look on. The [`crate::witness`] keeps books of its own. The physical judge knows what every card can hold
//! and what really runs there, and asks nobody. The last one looks at the end: what was recovered is what was durable, what is
//! decided again comes out the same, nobody waits in vain, and nothing is left when all have gone.
//!
//! Time is virtual and chance comes from the seed: the same seed is the same day, byte for byte.

mod chance;

mod tally;

mod wire;

mod agenda;

mod fleet;

mod work;

mod askers;

mod machine;

mod desk;

mod judge;

mod wanted;

mod engine;

mod temper;

mod day;

mod talk;

mod trouble;

mod calm;

use std::fmt;

use plimsoll_core::units::Millis;

pub use tally::{Count, Tally};

/// Which day it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// All chance comes from it.
    pub seed: u64,
    /// Whether every event is written down.
    pub log: bool,
    /// What is broken on purpose.
    pub sabotage: Option<Sabotage>,
}

/// Something broken on purpose, to see that the judges see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A runner says that a process is gone when it has only begun to stop.
    FreedTooEarly,
    /// Recovery forgets the journal's last operation.
    ForgetOperation,
    /// Effects leave although their records were never durable.
    EffectsBeforeCommit,
    /// The witness does not hear of one event.
    BlindWitness,
    /// A runner starts what it is told to start, however late.
    LateOrdersCount,
    /// A runner never says that something is gone.
    GoneUnsaid,
    /// A runner lets everything use twice what it may.
    StartsTooLarge,
}

/// What came of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayReport {
    /// The day's seed.
    pub seed: u64,
    /// What happened.
    pub tally: Tally,
    /// A number for all that was recorded: two runs of one seed have the same.
    pub fingerprint: u64,
    /// What was wrong, where anything was; the day ends there.
    pub finding: Option<Finding>,
    /// Every event, where that was asked.
    pub log: Vec<String>,
}

/// Something that should not have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The day's seed.
    pub seed: u64,
    /// The number of the event after which it was seen.
    pub event: u64,
    /// When that was.
    pub at: Millis,
    /// What is wrong.
    pub what: Vec<String>,
}

impl Finding {
    /// What to type to see it again.
    pub fn command(&self) -> String {
        format!("plimsoll chaos --seed {} --days 1", self.seed)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, event {}, {} ms into the day:", self.seed, self.event, self.at.0)?;
        self.what.iter().try_for_each(|what| writeln!(f, "  {what}"))?;
        write!(f, "  again: {}", self.command())
    }
}

/// Lives through one day.
pub fn day(options: Options) -> DayReport {
    day::Day::new(options).run()
}
