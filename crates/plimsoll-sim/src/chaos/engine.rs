//! The machine under test with its journal: the same `Drive` that serves, killed at any step and recovered from what was
//! durable.

use plimsoll_core::breach::Breach;
use plimsoll_core::drive::{Drive, Output, Record, replay};
use plimsoll_core::event::{Event, Outcome, Settings};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::snapshot::Snapshot;
use plimsoll_core::units::Millis;

use super::Sabotage;
use super::chance::Chance;
use super::judge;
use super::tally::{Count, Tally};
use super::wanted::Wanted;
use crate::witness::Witness;

/// Records after which a new base is taken, so that the journal stays short.
const RECORDS_KEPT: usize = 256;
/// Events after which the witness compares everything.
const COMPARED_AFTER: u64 = 64;

/// The machine, what is durable of it, and the witness who looks on.
#[derive(Debug)]
pub(crate) struct Engine {
    chance: Chance,
    drive: Drive,
    witness: Witness,
    wanted: Wanted,
    base: Snapshot,
    journal: Vec<Record>,
    /// The number of the next record after the last durable one.
    next_seq: u64,
    /// Records that are on their way to the journal.
    under_way: Option<Vec<Record>>,
    staged: usize,
    doom: Option<Doom>,
    /// What must be there after the crash that has just happened.
    fallen: Option<Durable>,
    /// One crash in so many commits; none where that is none.
    pub crash_one_in: u64,
    /// One replay in so many stretches of the journal.
    replay_one_in: u64,
    sabotage: Option<Sabotage>,
    pub tally: Tally,
    pub objections: Vec<String>,
    /// A number for all that was recorded, so that two runs can be compared.
    pub fingerprint: u64,
}

/// A crash that is going to happen.
#[derive(Debug)]
struct Doom {
    point: Point,
    before: Durable,
}

/// What is durable at some point, and what the witness knew then.
#[derive(Debug)]
struct Durable {
    snapshot: Snapshot,
    witness: Witness,
    wanted: Wanted,
}

/// Between which steps the machine is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    BeforeBatch,
    BeforeDurable,
    BeforeCommitted,
    BeforeEffects,
    AmongEffects,
    WithMoreStaged,
}

const POINTS: [(Point, Count); 6] = [
    (Point::BeforeBatch, Count::CrashesBeforeBatch),
    (Point::BeforeDurable, Count::CrashesBeforeDurable),
    (Point::BeforeCommitted, Count::CrashesBeforeCommitted),
    (Point::BeforeEffects, Count::CrashesBeforeEffects),
    (Point::AmongEffects, Count::CrashesAmongEffects),
    (Point::WithMoreStaged, Count::CrashesWithMoreStaged),
];

impl Engine {
    pub(crate) fn new(settings: Settings, chance: Chance, sabotage: Option<Sabotage>) -> Self {
        let scheduler = Scheduler::new(settings);
        Engine {
            chance,
            base: scheduler.snapshot(),
            drive: Drive::resume(scheduler, 0),
            witness: Witness::default(),
            wanted: Wanted::default(),
            journal: Vec::new(),
            next_seq: 0,
            under_way: None,
            staged: 0,
            doom: None,
            fallen: None,
            crash_one_in: 0,
            replay_one_in: 8,
            sabotage,
            tally: Tally::default(),
            objections: Vec::new(),
            fingerprint: 0,
        }
    }

    /// Whether it runs.
    pub(crate) fn is_up(&self) -> bool {
        self.fallen.is_none()
    }

    /// Whether all that was decided is durable, so that orders may be made from it.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_up() && self.staged == 0 && self.under_way.is_none()
    }

    /// The machine, to look at.
    pub(crate) fn scheduler(&self) -> &Scheduler {
        self.drive.scheduler()
    }

    /// Takes an event, and lets out what may leave; the machine may be dead afterwards.
    pub(crate) fn take(&mut self, now: Millis, event: Event) -> Vec<Output> {
        if self.is_settled() && self.doom.is_none() && self.chance.one_in(self.crash_one_in) {
            let point = POINTS[self.chance.index(POINTS.len())].0;
            self.doom = Some(Doom { point, before: self.durable() });
        }
        let taken = event.clone();
        let is_news = self.drive.handle(now, event).is_some();
        self.staged += usize::from(is_news);
        if is_news {
            self.look();
        } else {
            judge::count(&mut self.tally, &taken, &Outcome::default());
            let glanced =
                self.witness.glance(now, &taken, &Outcome::default(), self.drive.scheduler());
            self.objections.extend(glanced.into_iter().map(|objection| objection.0));
        }
        if let Some(records) = self.under_way.take() {
            if let Some(doom) = self.doom.take() {
                self.fall(doom.point, doom.before);
                return Vec::new();
            }
            return self.land(records);
        }
        // Now and then several events share a batch.
        if self.chance.percent(25) { Vec::new() } else { self.commit() }
    }

    /// Makes durable what is staged, and lets it out; or dies on the way.
    pub(crate) fn commit(&mut self) -> Vec<Output> {
        if self.staged == 0 || self.under_way.is_some() {
            return Vec::new();
        }
        if let Some(doom) = self.doom.take() {
            return self.commit_and_fall(doom);
        }
        self.staged = 0;
        let records = self.drive.batch();
        // Now and then the disk is slow, and the next event comes before the batch is durable.
        if self.chance.percent(10) {
            self.under_way = Some(records);
            return Vec::new();
        }
        self.land(records)
    }

    /// Everything that is staged or under way becomes durable now.
    pub(crate) fn flush(&mut self) -> Vec<Output> {
        let mut outputs = match self.under_way.take() {
            Some(records) => self.land(records),
            None => Vec::new(),
        };
        if self.staged > 0 {
            self.staged = 0;
            let records = self.drive.batch();
            outputs.extend(self.land(records));
        }
        self.doom = None;
        outputs
    }

    fn land(&mut self, records: Vec<Record>) -> Vec<Output> {
        if !self.drive.batch().is_empty() {
            self.objections
                .push("a batch was given out while an earlier one was under way".to_string());
        }
        self.write(records);
        let outputs = self.drive.committed();
        self.renew();
        outputs
    }

    fn write(&mut self, records: Vec<Record>) {
        for record in &records {
            self.next_seq = record.seq + 1;
            let digests = record.decisions.iter().map(|decision| decision.digest);
            let print = [record.seq, record.now.0, record.operations.len() as u64];
            let numbers = print.into_iter().chain(digests);
            self.fingerprint = numbers.fold(self.fingerprint, |sum, number| {
                (sum ^ number).wrapping_mul(0x0100_0000_01b3).rotate_left(17)
            });
        }
        self.journal.extend(records);
    }

    fn commit_and_fall(&mut self, doom: Doom) -> Vec<Output> {
        let Doom { point, before } = doom;
        if point == Point::BeforeBatch {
            self.fall(point, before);
            return Vec::new();
        }
        self.staged = 0;
        let records = self.drive.batch();
        if point == Point::BeforeDurable {
            self.fall(point, before);
            return self.sabotaged_leak();
        }
        self.write(records);
        let after = self.durable();
        match point {
            Point::WithMoreStaged => {
                // The batch is durable, nobody knows yet, and the next event comes first.
                self.under_way = Some(Vec::new());
                self.doom = Some(Doom { point, before: after });
                Vec::new()
            }
            Point::BeforeEffects | Point::AmongEffects => {
                let mut outputs = self.drive.committed();
                let left = if point == Point::AmongEffects {
                    self.chance.index(outputs.len() + 1)
                } else {
                    0
                };
                outputs.truncate(left);
                self.fall(point, after);
                outputs
            }
            _ => {
                self.fall(point, after);
                Vec::new()
            }
        }
    }

    /// What would leave if effects did not wait for their records.
    fn sabotaged_leak(&mut self) -> Vec<Output> {
        if self.sabotage == Some(Sabotage::EffectsBeforeCommit) {
            self.drive.committed()
        } else {
            Vec::new()
        }
    }

    fn durable(&self) -> Durable {
        let snapshot = self.scheduler().snapshot();
        Durable { snapshot, witness: self.witness.clone(), wanted: self.wanted.clone() }
    }

    fn fall(&mut self, point: Point, durable: Durable) {
        let counted = POINTS.iter().find(|(named, _)| *named == point).map(|(_, count)| *count);
        self.tally.count(counted.expect("every point is counted"));
        (self.staged, self.under_way, self.doom) = (0, None, None);
        self.fallen = Some(durable);
    }

    /// Starts again from what is durable: from the last snapshot and the journal's operations, or from rows that were
    /// written down and read again. Neither decides anything.
    pub(crate) fn restart(&mut self) {
        let Some(durable) = self.fallen.take() else { return };
        let from_rows = self.chance.percent(30);
        self.tally.count(if from_rows { Count::FromRows } else { Count::FromJournal });
        let recovered =
            if from_rows { self.read_rows(&durable.snapshot) } else { self.read_journal() };
        let Some(recovered) = recovered else { return };
        if recovered.snapshot() != durable.snapshot {
            self.objections.push(format!(
                "the state after recovery is not the durable one: {}",
                judge::first_difference(&durable.snapshot, &recovered.snapshot())
            ));
        }
        (self.witness, self.wanted) = (durable.witness, durable.wanted);
        let objections = self.witness.compare(&recovered);
        self.objections.extend(objections.into_iter().map(|objection| objection.0));
        self.drive = Drive::resume(recovered, self.next_seq);
    }

    fn read_rows(&mut self, durable: &Snapshot) -> Option<Scheduler> {
        let text = serde_json::to_string(durable).expect("a snapshot can be written");
        let read: Snapshot = match serde_json::from_str(&text) {
            Ok(read) => read,
            Err(error) => return self.give_up(&format!("the rows cannot be read again: {error}")),
        };
        match Scheduler::restore(read) {
            Ok(restored) => Some(restored),
            Err(error) => self.give_up(&format!("the rows cannot be started from: {error}")),
        }
    }

    fn read_journal(&mut self) -> Option<Scheduler> {
        let mut recovered = match Scheduler::restore(self.base.clone()) {
            Ok(restored) => restored,
            Err(error) => {
                return self.give_up(&format!("the snapshot cannot be started from: {error}"));
            }
        };
        // What a disk gives back was written down and read.
        if self.chance.one_in(8) {
            let text = serde_json::to_string(&self.journal).expect("a journal can be written");
            match serde_json::from_str::<Vec<Record>>(&text) {
                Ok(read) if read == self.journal => self.journal = read,
                Ok(_) => {
                    return self.give_up("the journal reads differently from how it was written");
                }
                Err(error) => {
                    return self.give_up(&format!("the journal cannot be read again: {error}"));
                }
            }
        }
        let operations: Vec<_> =
            self.journal.iter().flat_map(|record| &record.operations).collect();
        let forgotten = usize::from(self.sabotage == Some(Sabotage::ForgetOperation));
        let kept = operations.len().saturating_sub(forgotten);
        for operation in &operations[..kept] {
            recovered.recover_next(operation);
        }
        Some(recovered)
    }

    fn give_up(&mut self, why: &str) -> Option<Scheduler> {
        self.objections.push(why.to_string());
        None
    }

    /// Has the witness and the judge look at what came of the event taken last.
    fn look(&mut self) {
        let (record, outcome) = self.drive.latest().expect("an event was taken");
        let tally = &mut self.tally;
        judge::count(tally, &record.event, outcome);
        let is_blind =
            self.sabotage == Some(Sabotage::BlindWitness) && tally.of(Count::Events) == 500;
        let after = self.drive.scheduler();
        let mut objections = Vec::new();
        if !is_blind {
            objections.extend(self.witness.glance(record.now, &record.event, outcome, after));
        }
        if tally.of(Count::Events).is_multiple_of(COMPARED_AFTER) {
            tally.count(Count::Compared);
            objections.extend(self.witness.compare(after));
        }
        self.objections.extend(objections.into_iter().map(|objection| objection.0));
        self.objections.extend(judge::step(&record.event, outcome, after));
        self.objections.extend(self.wanted.step(&record.event, outcome, after));
        if outcome.breaches.iter().any(|breach| matches!(breach, Breach::SumsDiffer { .. })) {
            self.objections.push(format!("the core's own check found {:?}", outcome.breaches));
        }
    }

    /// Takes a new base when the journal has become long, and sometimes decides the old stretch again first.
    fn renew(&mut self) {
        if self.journal.len() >= RECORDS_KEPT && self.is_settled() {
            if self.chance.one_in(self.replay_one_in) {
                self.replay();
            }
            self.base = self.scheduler().snapshot();
            self.journal.clear();
        }
    }

    /// Decides the journal again from its base; nothing may come out differently.
    pub(crate) fn replay(&mut self) {
        let Ok(base) = Scheduler::restore(self.base.clone()) else {
            return self
                .objections
                .push("the base of the journal cannot be started from".to_string());
        };
        self.tally.count_all(Count::Replayed, self.journal.len());
        for difference in replay(base, &self.journal) {
            self.objections.push(format!(
                "record {} comes out differently when it is decided again: {:?}, and then {:?}",
                difference.seq, difference.recorded, difference.again
            ));
        }
    }
}
