//! Simulated days of a guarded cluster: the real guard, twice, before a simulated API server.
//!
//! ```text
//!  schedulers ──▶ API server ──▶ review ──▶ replica (Watch, Host) ──▶ answer, late or lost
//!                  ▲   │ watch: late, doubled, out of order, lost, listed again     │
//!   kubelets ──────┘   └──────────────────────▶ both replicas      binding ◀────────┘
//! ```
//!
//! The API server has versions, preconditions, a lease and nothing of the guard. The checks know
//! what runs on which card and never ask the ledger for a sum: no card is over its line, and the
//! replica that may decide has a charge for everything that holds memory.
//!
//! Replicas are stopped at any point, also between a decision and its answer, and continued after
//! another one took over. Every message in flight is delivered at a random time, so that answers of
//! a former leader arrive long after its lease has expired. Time is virtual and randomness comes
//! from the seed: the same seed gives the same day.

mod api;

mod machines;

mod replica;

mod checks;

mod day;

use std::fmt;

use plimsoll_core::units::Millis;

/// The options of a day.
#[derive(Clone, Copy, Debug)]
pub struct GuardedOptions {
    pub seed: u64,
    /// The number of events.
    pub events: u64,
    pub sabotage: Option<GuardedSabotage>,
}

impl GuardedOptions {
    /// Returns the options of the day of a seed.
    pub fn new(seed: u64) -> GuardedOptions {
        GuardedOptions { seed, events: 6_000, sabotage: None }
    }
}

/// A defect that is put in on purpose, to prove that a check finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardedSabotage {
    /// Bindings are written without the version that their admission names.
    NoVersion,
    /// Touches are reported as done and never written.
    NoTouch,
    /// A replica decides for as long as it likes after its lease expired.
    EndlessLease,
    /// The kubelet keeps the containers of pods that were deleted by force for an hour.
    SlowKubelet,
}

/// The result of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardedReport {
    pub seed: u64,
    pub counts: GuardedCounts,
    /// A digest of everything that happened: two runs of one seed have the same.
    pub fingerprint: u64,
    /// The violation that ended the day, if there was one.
    pub finding: Option<GuardedFinding>,
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardedFinding {
    pub seed: u64,
    /// The number of the event after which it was found.
    pub event: u64,
    pub at: Millis,
    pub violation: String,
}

impl fmt::Display for GuardedFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GuardedFinding { seed, event, at, violation } = self;
        write!(f, "seed {seed}, event {event}, {} ms into the day: {violation}", at.0)
    }
}

/// Counts of what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardedCounts {
    pub events: u64,
    pub reviews: u64,
    pub admitted: u64,
    pub rejected: u64,
    pub unavailable: u64,
    /// Bindings that the API server wrote.
    pub bound: u64,
    /// Bindings that failed on their precondition.
    pub conflicts: u64,
    /// Conflicts of answers that a former leader gave.
    pub stale_approvals: u64,
    pub answers_lost: u64,
    pub touches: u64,
    pub settled: u64,
    pub takeovers: u64,
    pub pauses: u64,
    pub crashes: u64,
    pub watches_lost: u64,
    pub forced_deletions: u64,
    pub reboots: u64,
}

impl GuardedCounts {
    /// Iterates over the counts with their names.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let GuardedCounts {
            events,
            reviews,
            admitted,
            rejected,
            unavailable,
            bound,
            conflicts,
            stale_approvals,
            answers_lost,
            touches,
            settled,
            takeovers,
            pauses,
            crashes,
            watches_lost,
            forced_deletions,
            reboots,
        } = *self;
        [
            ("events", events),
            ("reviews", reviews),
            ("admitted", admitted),
            ("rejected", rejected),
            ("unavailable", unavailable),
            ("bound", bound),
            ("conflicts", conflicts),
            ("stale_approvals", stale_approvals),
            ("answers_lost", answers_lost),
            ("touches", touches),
            ("settled", settled),
            ("takeovers", takeovers),
            ("pauses", pauses),
            ("crashes", crashes),
            ("watches_lost", watches_lost),
            ("forced_deletions", forced_deletions),
            ("reboots", reboots),
        ]
        .into_iter()
    }

    /// Adds the counts of another day.
    pub fn merge(&mut self, other: &GuardedCounts) {
        self.events += other.events;
        self.reviews += other.reviews;
        self.admitted += other.admitted;
        self.rejected += other.rejected;
        self.unavailable += other.unavailable;
        self.bound += other.bound;
        self.conflicts += other.conflicts;
        self.stale_approvals += other.stale_approvals;
        self.answers_lost += other.answers_lost;
        self.touches += other.touches;
        self.settled += other.settled;
        self.takeovers += other.takeovers;
        self.pauses += other.pauses;
        self.crashes += other.crashes;
        self.watches_lost += other.watches_lost;
        self.forced_deletions += other.forced_deletions;
        self.reboots += other.reboots;
    }
}

/// Simulates one day.
pub fn day(options: GuardedOptions) -> GuardedReport {
    day::Day::new(options).run()
}
