//! The loop around the machine, without I/O: journal this, and only then publish that and send these.
//!
//! ```text
//!  event ──▶ handle ──▶ staged ──▶ batch ──(the caller makes it durable)──▶ committed ──▶ effects, answers
//! ```

use serde::{Deserialize, Serialize};

use crate::decide::Decision;
use crate::digest::digest;
use crate::event::{Event, Operation, Outcome};
use crate::rejection::DecisionSummary;
use crate::request::{Request, RequestId};
use crate::scheduler::Scheduler;
use crate::units::Millis;

/// The version of this core, as records name it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its number; the next one's is one more.
    pub seq: u64,
    /// When it happened.
    pub now: Millis,
    /// What happened.
    pub event: Event,
    /// What changed.
    pub operations: Vec<Operation>,
    /// What was decided, in few words.
    pub decisions: Vec<DecisionRecord>,
    /// The version of the core that decided.
    pub core: String,
}

/// A decision as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// Who asked.
    pub request: RequestId,
    pub summary: DecisionSummary,
    /// The digest of all that was seen.
    pub digest: u64,
}

/// What came of one record, to be let out once the record is durable.
#[derive(Clone, Debug)]
pub struct Output {
    /// The record's number.
    pub seq: u64,
    /// What came of it.
    pub outcome: Outcome,
}

/// The machine with what has been decided and is not durable yet. Nothing leaves before it is.
#[derive(Debug)]
pub struct Drive {
    scheduler: Scheduler,
    staged: Vec<(Record, Outcome)>,
    in_flight: Vec<Output>,
    next_seq: u64,
}

impl Drive {
    /// Goes on from a state whose last record had the number before `next_seq`.
    pub fn resume(scheduler: Scheduler, next_seq: u64) -> Self {
        Drive { scheduler, staged: Vec::new(), in_flight: Vec::new(), next_seq }
    }

    /// The machine, to look at.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Takes an event; what came of it waits for the next batch, and is shown to plan by, not to act on. That time passed and
    /// nothing came of it is not worth a record.
    pub fn handle(&mut self, now: Millis, event: Event) -> Option<&Outcome> {
        let (record, outcome) = self.step(now, event);
        if matches!(record.event, Event::Tick | Event::Audit) && outcome.is_empty() {
            return None;
        }
        self.next_seq += 1;
        self.staged.push((record, outcome));
        self.staged.last().map(|(_, outcome)| outcome)
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

    /// The number of the next record.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// What came of the event taken last, to look at until it is batched; nothing of it leaves before it is durable.
    pub fn latest(&self) -> Option<(&Record, &Outcome)> {
        self.staged.last().map(|(record, outcome)| (record, outcome))
    }

    /// The records to make durable next, in one go; none while an earlier batch is still on its way.
    pub fn batch(&mut self) -> Vec<Record> {
        if !self.in_flight.is_empty() {
            return Vec::new();
        }
        let (records, outputs): (Vec<_>, Vec<_>) = std::mem::take(&mut self.staged)
            .into_iter()
            .map(|(record, outcome)| {
                let seq = record.seq;
                (record, Output { seq, outcome })
            })
            .unzip();
        self.in_flight = outputs;
        records
    }

    /// What came of the batch that is on its way, to get ready with. Nothing of it leaves before it is durable.
    pub fn in_flight(&self) -> &[Output] {
        &self.in_flight
    }

    /// The last batch is durable: what came of it may leave.
    pub fn committed(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.in_flight)
    }
}

/// A difference between what a journal says and what deciding again says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The record's number.
    pub seq: u64,
    /// The version of the core that decided then.
    pub core: String,
    /// What the journal says.
    pub recorded: Vec<DecisionRecord>,
    /// What deciding again says.
    pub again: Vec<DecisionRecord>,
    /// Whether what changed is not the same, with or without a difference in the decisions.
    pub operations_differ: bool,
}

impl Divergence {
    /// How two records of one event differ.
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

/// A machine that decides the events of a journal again, one after the other.
#[derive(Debug)]
pub struct Replay {
    drive: Drive,
}

impl Replay {
    /// Goes on from a state.
    pub fn from(state: Scheduler) -> Self {
        Replay { drive: Drive::resume(state, 0) }
    }

    /// The machine, to look at.
    pub fn scheduler(&self) -> &Scheduler {
        self.drive.scheduler()
    }

    /// Decides a record's event again: the record that would be written now, and what came of it.
    pub fn again(&mut self, record: &Record) -> (Record, Outcome) {
        self.drive.next_seq = record.seq;
        self.drive.step(record.now, record.event.clone())
    }
}

/// Decides every event of a journal again, from the state that it began with, and lists what differs.
pub fn replay<'a>(
    from: Scheduler,
    records: impl IntoIterator<Item = &'a Record>,
) -> Vec<Divergence> {
    let mut replay = Replay::from(from);
    let differs = |record: &Record| Divergence::between(record, &replay.again(record).0);
    records.into_iter().filter_map(differs).collect()
}
