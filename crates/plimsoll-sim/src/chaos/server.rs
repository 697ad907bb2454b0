//! The server under test: the host with its desk, its journal, and crashes at every step around a
//! batch.
//!
//! The answer to a call leaves once everything that the call saw is durable, as in the engine.

use plimsoll_core::drive::{Record, replay};
use plimsoll_core::event::Settings;
use plimsoll_core::front::{Batch, Checkpoint, Core, Host, Recovery};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{Change, Desk, DeskConfig, DeskState, DeskView};

use super::Sabotage;
use super::auditor::{self, Auditor};
use super::counters::{Counter, Counters};
use super::random::Random;

/// Batches after which a new checkpoint is taken, so that the journal stays short.
const MAX_BATCHES: usize = 256;
/// One journal in this many is decided again before it is dropped.
const REPLAY_ONE_IN: u64 = 6;

/// The server under test. `R` is an answer that leaves it.
#[derive(Debug)]
pub(crate) struct Server<R> {
    random: Random,
    config: DeskConfig,
    host: Host<Desk>,
    checkpoint: Checkpoint<DeskState>,
    journal: Vec<Batch<Change>>,
    /// The batch that is being made durable, with the answers that wait for it.
    in_flight: Option<(Batch<Change>, Vec<R>)>,
    /// The answers to calls since the last batch.
    staged: Vec<R>,
    planned: Option<PlannedCrash>,
    /// The state that recovery must find, while the server is down.
    durable: Option<Checkpoint<DeskState>>,
    auditor: Auditor,
    /// One crash in this many batches; none for 0.
    pub crash_one_in: u64,
    sabotage: Option<Sabotage>,
    pub counters: Counters,
    pub violations: Vec<String>,
    /// A digest of all records.
    pub fingerprint: u64,
}

#[derive(Debug)]
struct PlannedCrash {
    point: CrashPoint,
    /// The durable state before the batch.
    before: Checkpoint<DeskState>,
}

/// The steps between which the server crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CrashPoint {
    BeforeBatch,
    BeforeDurable,
    BeforeCommitted,
    BeforeAnswers,
    AmongAnswers,
    WithMoreStaged,
}

const CRASH_POINTS: [(CrashPoint, Counter); 6] = [
    (CrashPoint::BeforeBatch, Counter::CrashesBeforeBatch),
    (CrashPoint::BeforeDurable, Counter::CrashesBeforeDurable),
    (CrashPoint::BeforeCommitted, Counter::CrashesBeforeCommitted),
    (CrashPoint::BeforeAnswers, Counter::CrashesBeforeAnswers),
    (CrashPoint::AmongAnswers, Counter::CrashesAmongAnswers),
    (CrashPoint::WithMoreStaged, Counter::CrashesWithMoreStaged),
];

impl<R> Server<R> {
    pub(crate) fn new(
        random: Random,
        config: DeskConfig,
        settings: Settings,
        sabotage: Option<Sabotage>,
    ) -> Self {
        let host = Host::new(Desk::new(config.clone()), settings.clone());
        Server {
            random,
            config,
            checkpoint: host.checkpoint(),
            host,
            journal: Vec::new(),
            in_flight: None,
            staged: Vec::new(),
            planned: None,
            durable: None,
            auditor: Auditor::new(settings, sabotage),
            crash_one_in: 0,
            sabotage,
            counters: Counters::default(),
            violations: Vec::new(),
            fingerprint: 0,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.durable.is_none()
    }

    pub(crate) fn view(&self) -> DeskView<'_> {
        self.host.front().view(self.host.scheduler())
    }

    pub(crate) fn config(&self) -> &DeskConfig {
        &self.config
    }

    /// Makes a call on the desk; returns the answers that leave now. The server may be down
    /// afterwards.
    pub(crate) fn call(
        &mut self,
        now: Millis,
        call: impl FnOnce(&mut Desk, &mut Core<'_>) -> Option<R>,
    ) -> Vec<R> {
        let is_settled = self.staged.is_empty() && self.in_flight.is_none();
        if is_settled && self.planned.is_none() && self.random.one_in(self.crash_one_in) {
            // What calls without an answer have changed belongs to the durable state.
            let answers = self.flush();
            debug_assert!(answers.is_empty(), "no answer is staged");
            let point = CRASH_POINTS[self.random.index(CRASH_POINTS.len())].0;
            self.planned = Some(PlannedCrash { point, before: self.host.checkpoint() });
        }
        let answer = self.host.with(now, call);
        self.staged.extend(answer);
        if let Some((batch, answers)) = self.in_flight.take() {
            if let Some(PlannedCrash { point, before }) = self.planned.take() {
                self.crash(point, before);
                return Vec::new();
            }
            return self.land(batch, answers);
        }
        // Some calls share a batch.
        if self.random.percent(25) { Vec::new() } else { self.commit() }
    }

    /// Makes the staged calls durable, and returns their answers; or crashes.
    fn commit(&mut self) -> Vec<R> {
        if let Some(planned) = self.planned.take() {
            return self.commit_and_crash(planned);
        }
        let (batch, answers) = self.take_batch();
        // A slow disk: the next call comes before the batch is durable.
        if self.random.percent(10) {
            self.in_flight = Some((batch, answers));
            return Vec::new();
        }
        self.land(batch, answers)
    }

    fn take_batch(&mut self) -> (Batch<Change>, Vec<R>) {
        (self.host.batch(), std::mem::take(&mut self.staged))
    }

    /// Makes everything durable now, and returns all answers.
    pub(crate) fn flush(&mut self) -> Vec<R> {
        if !self.is_up() {
            return Vec::new();
        }
        self.planned = None;
        let mut answers = match self.in_flight.take() {
            Some((batch, answers)) => self.land(batch, answers),
            None => Vec::new(),
        };
        let (batch, more) = self.take_batch();
        answers.extend(self.land(batch, more));
        answers
    }

    fn land(&mut self, batch: Batch<Change>, answers: Vec<R>) -> Vec<R> {
        if !self.host.batch().is_empty() {
            self.violations.push("a batch was given out while one was in flight".to_string());
        }
        self.write(batch);
        self.host.committed();
        self.start_new_journal();
        answers
    }

    /// Makes the batch in flight durable.
    fn write(&mut self, batch: Batch<Change>) {
        if batch.is_empty() {
            return;
        }
        for (record, output) in batch.records.iter().zip(self.host.in_flight().outputs) {
            let digests = record.decisions.iter().map(|decision| decision.digest);
            let numbers = [record.seq, record.now.0, record.operations.len() as u64];
            self.fingerprint =
                numbers.into_iter().chain(digests).fold(self.fingerprint, |sum, number| {
                    (sum ^ number).wrapping_mul(0x0100_0000_01b3).rotate_left(17)
                });
            let found = self.auditor.follow(record, &output.outcome, &mut self.counters);
            self.violations.extend(found);
        }
        self.journal.push(batch);
    }

    fn commit_and_crash(&mut self, planned: PlannedCrash) -> Vec<R> {
        let PlannedCrash { point, before } = planned;
        if point == CrashPoint::BeforeBatch {
            self.crash(point, before);
            return Vec::new();
        }
        let (batch, mut answers) = self.take_batch();
        if point == CrashPoint::BeforeDurable {
            self.crash(point, before);
            let leave = self.sabotage == Some(Sabotage::AnswersBeforeCommit);
            return if leave { answers } else { Vec::new() };
        }
        self.write(batch);
        let after = self.host.checkpoint();
        match point {
            CrashPoint::WithMoreStaged => {
                // The batch is durable, and the next call comes before it is acknowledged.
                let nothing = Batch { records: Vec::new(), changes: None };
                self.in_flight = Some((nothing, answers));
                self.planned = Some(PlannedCrash { point, before: after });
                return Vec::new();
            }
            CrashPoint::AmongAnswers => answers.truncate(self.random.index(answers.len() + 1)),
            _ => answers.clear(),
        }
        self.crash(point, after);
        answers
    }

    fn crash(&mut self, point: CrashPoint, durable: Checkpoint<DeskState>) {
        let counter = CRASH_POINTS.iter().find(|(other, _)| *other == point);
        self.counters.increment(counter.expect("every point is listed").1);
        self.staged.clear();
        (self.in_flight, self.planned) = (None, None);
        self.durable = Some(durable);
    }

    /// Starts again from what is durable, and compares it with the state before the crash.
    pub(crate) fn start(&mut self) {
        let Some(durable) = self.durable.take() else { return };
        let recovered = if self.random.percent(30) {
            self.counters.increment(Counter::FromStoredState);
            self.recover_from_text(&durable)
        } else {
            self.counters.increment(Counter::FromJournal);
            self.recover_from_journal()
        };
        let host = match recovered {
            Ok(host) => host,
            Err(problem) => return self.violations.push(problem),
        };
        let found = host.checkpoint();
        if found.core != durable.core {
            let difference = auditor::first_difference(&durable.core, &found.core);
            self.violations.push(format!("recovered scheduler differs: {difference}"));
        }
        if found.front != durable.front {
            let difference = auditor::first_difference(&durable.front, &found.front);
            self.violations.push(format!("recovered desk differs: {difference}"));
        }
        if found.next != durable.next {
            let what = format!("recovered numbers differ: {:?}, {:?}", durable.next, found.next);
            self.violations.push(what);
        }
        self.violations.extend(self.auditor.compare(host.scheduler()));
        self.host = host;
    }

    /// Recovers from the durable state after writing it as text and reading it again.
    fn recover_from_text(&self, durable: &Checkpoint<DeskState>) -> Result<Host<Desk>, String> {
        let unreadable = |error: serde_json::Error| format!("stored state cannot be read: {error}");
        let core = serde_json::to_string(&durable.core).map_err(unreadable)?;
        let front = serde_json::to_string(&durable.front).map_err(unreadable)?;
        let checkpoint = Checkpoint {
            next: durable.next,
            core: serde_json::from_str(&core).map_err(unreadable)?,
            front: serde_json::from_str(&front).map_err(unreadable)?,
        };
        let recovery = Recovery::from_checkpoint(Desk::new(self.config.clone()), checkpoint);
        Ok(recovery.map_err(|error| format!("stored state is invalid: {error}"))?.finish())
    }

    /// Recovers from the last checkpoint and the journal; sometimes the journal is written as text
    /// and read again first.
    fn recover_from_journal(&mut self) -> Result<Host<Desk>, String> {
        let unreadable = |error: serde_json::Error| format!("journal cannot be read: {error}");
        let as_text = self.random.one_in(4);
        let checkpoint = self.checkpoint.clone();
        let mut recovery = Recovery::from_checkpoint(Desk::new(self.config.clone()), checkpoint)
            .map_err(|error| format!("checkpoint is invalid: {error}"))?;
        let last = self.journal.iter().flat_map(|batch| &batch.records).last();
        let last = last.map(|record| record.seq);
        for batch in &self.journal {
            for record in &batch.records {
                let mut record = record.clone();
                if as_text {
                    let text = serde_json::to_string(&record).map_err(unreadable)?;
                    record = serde_json::from_str(&text).map_err(unreadable)?;
                }
                if self.sabotage == Some(Sabotage::ForgetOperation) && last == Some(record.seq) {
                    record.operations.pop();
                }
                recovery.apply_record(&record);
            }
            if let Some(set) = &batch.changes {
                let mut set = set.clone();
                if as_text {
                    let text = serde_json::to_string(&set.changes).map_err(unreadable)?;
                    set.changes = serde_json::from_str(&text).map_err(unreadable)?;
                }
                recovery.apply_changes(set);
            }
        }
        Ok(recovery.finish())
    }

    /// Takes a new checkpoint once the journal is long, and sometimes decides the old one again.
    fn start_new_journal(&mut self) {
        if self.journal.len() < MAX_BATCHES || !self.staged.is_empty() {
            return;
        }
        if self.random.one_in(REPLAY_ONE_IN) {
            self.replay();
        }
        // Calls without an answer may have changed something since the batch was taken.
        let batch = self.host.batch();
        self.write(batch);
        self.host.committed();
        self.checkpoint = self.host.checkpoint();
        self.journal.clear();
    }

    /// Compares all accounts with the live scheduler. Everything must be durable.
    pub(crate) fn compare(&mut self) {
        let found = self.auditor.compare(self.host.scheduler());
        self.violations.extend(found);
    }

    /// Decides the journal again; every decision must be the recorded one.
    pub(crate) fn replay(&mut self) {
        let start = match Scheduler::restore(self.checkpoint.core.clone()) {
            Ok(start) => start,
            Err(error) => return self.violations.push(format!("checkpoint is invalid: {error}")),
        };
        let records: Vec<&Record> = self.journal.iter().flat_map(|batch| &batch.records).collect();
        self.counters.add(Counter::Replayed, records.len());
        for difference in replay(start, records) {
            self.violations.push(format!(
                "record {} is decided differently again: {:?}, then {:?}",
                difference.seq, difference.recorded, difference.again
            ));
        }
    }
}
