//! The commit protocol around the scheduler, without I/O: a record becomes durable before its
//! effects and answers leave the process.
//!
//! ```text
//!  event ──▶ handle ──▶ waiting ──▶ batch ──▶ in flight ──▶ committed ──▶ effects, answers
//!                                               (the caller makes it durable)
//! ```
//!
//! At most one batch is in flight. Events that arrive meanwhile form the next batch, so that one
//! write of the journal serves all of them. Steps are taken on state that is not durable yet; that
//! is safe because nothing of it has left, and a crash loses the steps together with their records.
//! Waiting for the disk in each step was rejected: it limits the scheduler to one event per write.
//!
//! [`replay`] decides the events of a journal again and compares the results with the records. It
//! needs the state that the journal began with; recovery does not use it, because operations are
//! applied and not decided again (`snapshot`).

use serde::{Deserialize, Serialize};

use crate::decide::Decision;
use crate::digest::digest;
use crate::event::{Event, Operation, Outcome};
use crate::rejection::DecisionSummary;
use crate::request::{Request, RequestId};
use crate::scheduler::Scheduler;
use crate::units::{Millis, Name};

/// The version of this core, which every record carries.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Consecutive.
    pub seq: u64,
    pub now: Millis,
    pub event: Event,
    /// The changes of the state. Recovery applies them and does not read the event.
    pub operations: Vec<Operation>,
    pub decisions: Vec<DecisionRecord>,
    /// The version of the core that decided.
    pub core: String,
}

/// A decision as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRecord {
    pub request: RequestId,
    pub summary: DecisionSummary,
    /// See [`digest`](mod@crate::digest).
    pub digest: u64,
}

/// The outcome of one record. Its effects and answers leave once the record is durable.
#[derive(Clone, Debug)]
pub struct Output {
    pub seq: u64,
    pub outcome: Outcome,
}

/// A scheduler with the outcomes that are not durable yet. None of them has left the process.
#[derive(Clone, Debug)]
pub struct Drive {
    scheduler: Scheduler,
    /// Not part of a batch yet.
    waiting: Vec<(Record, Outcome)>,
    in_flight: Vec<Output>,
    next_seq: u64,
}

impl Drive {
    /// Continues from a state; `next_seq` is the number of the next record.
    pub fn resume(scheduler: Scheduler, next_seq: u64) -> Self {
        Drive { scheduler, waiting: Vec::new(), in_flight: Vec::new(), next_seq }
    }

    /// Returns the scheduler.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Handles an event and returns its outcome, to plan by and not to act on: it is not durable
    /// yet. Ticks and audits without a result get no record; then it returns `None`.
    pub fn handle(&mut self, now: Millis, event: Event) -> Option<&Outcome> {
        let (record, outcome) = self.step(now, event);
        if matches!(record.event, Event::Tick | Event::Audit) && outcome.is_empty() {
            return None;
        }
        self.next_seq += 1;
        self.waiting.push((record, outcome));
        self.waiting.last().map(|(_, outcome)| outcome)
    }

    fn step(&mut self, now: Millis, event: Event) -> (Record, Outcome) {
        let outcome = self.scheduler.step(now, event.clone());
        let decided = |decision: &Decision| DecisionRecord {
            request: decision.request.clone(),
            summary: decision.summary(),
            digest: digest(decision),
        };
        let record = Record {
            seq: self.next_seq,
            now,
            event,
            operations: outcome.operations.clone(),
            decisions: outcome.decisions.iter().map(decided).collect(),
            core: VERSION.to_string(),
        };
        (record, outcome)
    }

    /// Decides without changing anything.
    pub fn what_if(&mut self, request: &Request) -> Decision {
        self.scheduler.what_if(request)
    }

    /// Decides on one node, by devices alone, without changing anything. `None` if the node is not
    /// known.
    pub fn what_if_on(&self, request: &Request, node: &Name) -> Option<Decision> {
        self.scheduler.what_if_on(request, node)
    }

    /// Returns the number of the next record.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Gives the next record another number.
    ///
    /// # Panics
    ///
    /// If records wait that have numbers already.
    pub(crate) fn renumber(&mut self, next_seq: u64) {
        let has_numbered = !self.waiting.is_empty() || !self.in_flight.is_empty();
        assert!(!has_numbered, "records that wait have numbers");
        self.next_seq = next_seq;
    }

    /// Returns the last event that is not part of a batch yet, with its outcome.
    pub fn latest(&self) -> Option<(&Record, &Outcome)> {
        self.waiting.last().map(|(record, outcome)| (record, outcome))
    }

    /// Returns the records to make durable next, in one write; none while a batch is in flight.
    pub fn batch(&mut self) -> Vec<Record> {
        if !self.in_flight.is_empty() {
            return Vec::new();
        }
        let (records, outputs): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .map(|(record, outcome)| {
                let seq = record.seq;
                (record, Output { seq, outcome })
            })
            .unzip();
        self.in_flight = outputs;
        records
    }

    /// Returns the outputs of the batch in flight, to prepare for. None may leave yet.
    pub fn in_flight(&self) -> &[Output] {
        &self.in_flight
    }

    /// Confirms that the batch in flight is durable. Its outputs may now leave the process.
    pub fn committed(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.in_flight)
    }
}

/// A difference between a record and the result of deciding its event again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    pub seq: u64,
    /// The version of the core that made the record.
    pub core: String,
    pub recorded: Vec<DecisionRecord>,
    pub again: Vec<DecisionRecord>,
    /// The operations differ, with or without a difference in the decisions.
    pub operations_differ: bool,
}

impl Divergence {
    /// Compares two records of one event; `None` if they agree.
    pub fn between(recorded: &Record, again: &Record) -> Option<Divergence> {
        let operations_differ = recorded.operations != again.operations;
        (operations_differ || recorded.decisions != again.decisions).then(|| Divergence {
            seq: recorded.seq,
            core: recorded.core.clone(),
            recorded: recorded.decisions.clone(),
            again: again.decisions.clone(),
            operations_differ,
        })
    }
}

/// A scheduler that decides the events of a journal again, one after the other.
#[derive(Debug)]
pub struct Replay {
    drive: Drive,
}

impl Replay {
    /// Starts from the state before the first record.
    pub fn from(state: Scheduler) -> Self {
        Replay { drive: Drive::resume(state, 0) }
    }

    /// Returns the scheduler.
    pub fn scheduler(&self) -> &Scheduler {
        self.drive.scheduler()
    }

    /// Decides the event of a record again. Returns the record that would be written now, and its
    /// outcome.
    pub fn again(&mut self, record: &Record) -> (Record, Outcome) {
        self.drive.next_seq = record.seq;
        self.drive.step(record.now, record.event.clone())
    }
}

/// Decides every event of a journal again, from the state that it began with, and returns the
/// differences.
pub fn replay<'a>(
    from: Scheduler,
    records: impl IntoIterator<Item = &'a Record>,
) -> Vec<Divergence> {
    let mut replay = Replay::from(from);
    let differs = |record: &Record| Divergence::between(record, &replay.again(record).0);
    records.into_iter().filter_map(differs).collect()
}
