//! Replays a journal: decides every event again from the oldest snapshot on, and compares the
//! results with the recorded ones at every step.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use anyhow::{Context, Result, bail};
use plimsoll_core::decide::Decision;
use plimsoll_core::drive::{self, DecisionRecord, Divergence, Record, Replay};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::Millis;

use crate::store::{DecisionId, History, HostSnapshot, SnapshotOrigin};

/// The most differences to keep; the rest are counted.
const SHOWN: usize = 1000;

/// The result of a replay.
#[derive(Debug, Default)]
pub struct Report {
    /// The numbers of the first and the last record; `None` for an empty journal.
    pub span: Option<(u64, u64)>,
    pub records: u64,
    pub decisions: u64,
    /// The versions of the core that wrote the records.
    pub written_by: BTreeSet<String>,
    /// The number of records that differ.
    pub differ: u64,
    /// The first of the differences.
    pub divergences: Vec<Divergence>,
    /// Points where two ways to the same state lead to different ones.
    pub states: Vec<StatesDiffer>,
}

impl Report {
    /// Returns whether everything is the same.
    pub fn holds(&self) -> bool {
        self.differ == 0 && self.states.is_empty()
    }

    /// Returns whether another version of the core wrote some of the records.
    pub fn crosses_versions(&self) -> bool {
        self.written_by.iter().any(|version| version != drive::VERSION)
    }
}

/// A state before a record that differs between two ways to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatesDiffer {
    pub before: u64,
    /// The way that disagrees with the recorded operations.
    pub way: Way,
}

/// A way to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Starting from the snapshot that the server saved there.
    Snapshot,
    /// Deciding the events again.
    Deciding,
}

/// Replays a whole journal. `each` is called with the number of every record before it is replayed.
pub fn replay(history: &History, mut each: impl FnMut(u64)) -> Result<Report> {
    history.hold()?;
    let mut snapshots = history.snapshots()?.into_iter();
    let first = snapshots.next().context(NO_SNAPSHOT)?;
    let from = first.next_seq;
    let mut course = Course::from(first)?;
    let mut snapshots = snapshots.peekable();
    let mut failed = None;
    history.each_record(from, |record| {
        each(record.seq);
        let passed = snapshots.next_if(|snapshot| snapshot.next_seq == record.seq);
        if let Some(error) = passed.and_then(|snapshot| course.pass(snapshot).err()) {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        course.take(&record);
        ControlFlow::Continue(())
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(course.end()),
    }
}

const NO_SNAPSHOT: &str =
    "no snapshot that the journal continues from; a server saves one at its first start";

/// Two schedulers on their way through a journal.
struct Course {
    /// Applies the recorded operations, as a restart does.
    recorded: Scheduler,
    /// Decides the recorded events again.
    again: Replay,
    next: u64,
    report: Report,
}

impl Course {
    fn from(snapshot: HostSnapshot) -> Result<Course> {
        let next = snapshot.next_seq;
        let recorded = restore(snapshot)?;
        Ok(Course {
            again: Replay::from(recorded.clone()),
            recorded,
            next,
            report: Report::default(),
        })
    }

    fn take(&mut self, record: &Record) {
        let (again, _) = self.again.again(record);
        for operation in &record.operations {
            self.recorded.recover_next(operation);
        }
        let report = &mut self.report;
        report.span = Some((report.span.map_or(record.seq, |(first, _)| first), record.seq));
        report.records += 1;
        report.decisions += record.decisions.len() as u64;
        if !report.written_by.contains(&record.core) {
            report.written_by.insert(record.core.clone());
        }
        self.next = record.seq + 1;
        if let Some(divergence) = Divergence::between(record, &again) {
            report.differ += 1;
            if report.divergences.len() < SHOWN {
                report.divergences.push(divergence);
            }
            // Continue from the recorded state: otherwise one difference would show up as many.
            self.again = Replay::from(self.recorded.clone());
        }
    }

    /// Compares with a snapshot on the way, and continues from it, because the settings may have
    /// changed with the restart that saved it.
    fn pass(&mut self, snapshot: HostSnapshot) -> Result<()> {
        self.compare();
        let mut arrived = self.recorded.snapshot();
        arrived.settings = snapshot.core.settings.clone();
        // A state that was read from another system has no way here.
        if snapshot.origin == SnapshotOrigin::Journal && arrived != snapshot.core {
            self.report.states.push(StatesDiffer { before: self.next, way: Way::Snapshot });
        }
        self.recorded = restore(snapshot)?;
        self.again = Replay::from(self.recorded.clone());
        Ok(())
    }

    fn end(mut self) -> Report {
        self.compare();
        self.report
    }

    fn compare(&mut self) {
        if self.again.scheduler().snapshot() != self.recorded.snapshot() {
            self.report.states.push(StatesDiffer { before: self.next, way: Way::Deciding });
        }
    }
}

/// A decision that was made again.
#[derive(Debug)]
pub struct Replayed {
    pub id: DecisionId,
    pub now: Millis,
    /// The version of the core that made the recorded decision.
    pub core: String,
    pub recorded: DecisionRecord,
    pub decision: Decision,
    pub digest: u64,
}

impl Replayed {
    /// Returns whether it is the recorded decision. If not, its explanation is not the recorded
    /// one's and must not be shown as such.
    pub fn is_same(&self) -> bool {
        self.recorded.digest == self.digest
    }
}

/// Makes one decision of a journal again, from the state that it was made from.
pub fn one(history: &History, id: DecisionId) -> Result<Replayed> {
    history.hold()?;
    let Some((oldest, newest)) = history.span()? else { bail!("the journal is empty") };
    let snapshot = history.snapshots()?.into_iter().rfind(|snapshot| snapshot.next_seq <= id.seq);
    let Some(snapshot) = snapshot.filter(|_| id.seq <= newest) else {
        bail!("decision {id} is not in the journal, which holds the records {oldest} to {newest}");
    };
    let from = snapshot.next_seq;
    let mut state = restore(snapshot)?;
    let mut wanted = None;
    history.each_record(from, |record| {
        if record.seq == id.seq {
            wanted = Some(record);
            return ControlFlow::Break(());
        }
        for operation in &record.operations {
            state.recover_next(operation);
        }
        ControlFlow::Continue(())
    })?;
    let record = wanted.context("the journal ends before that record")?;
    let (again, outcome) = Replay::from(state).again(&record);
    let index = usize::try_from(id.index)?;
    let Some(recorded) = record.decisions.get(index) else {
        bail!("record {} holds {} decisions, counted from 0", id.seq, record.decisions.len());
    };
    let decided = outcome.decisions.into_iter().nth(index).zip(again.decisions.get(index));
    let Some((decision, decided)) = decided else {
        bail!(
            "core {} made {} decisions for record {}, and this one ({}) makes {}: decision {id} cannot be shown",
            record.core,
            record.decisions.len(),
            id.seq,
            drive::VERSION,
            again.decisions.len()
        );
    };
    let (recorded, digest) = (recorded.clone(), decided.digest);
    Ok(Replayed { id, now: record.now, core: record.core, recorded, decision, digest })
}

fn restore(snapshot: HostSnapshot) -> Result<Scheduler> {
    let next_seq = snapshot.next_seq;
    Scheduler::restore(snapshot.core)
        .with_context(|| format!("snapshot-{next_seq}.json cannot be started from"))
}

#[cfg(test)]
mod tests;
