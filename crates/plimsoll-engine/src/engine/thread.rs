//! The decision thread. Batches leave it for the journal, and are published once they are durable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Result;
use plimsoll_core::front::{Batch, Committed, Front, Host};
use plimsoll_core::units::Millis;
use tokio::sync::oneshot;

use super::committer::{Committer, Done};
use super::lanes::Lanes;
use super::{Decided, Durable, Message, Observer, Reply, Watcher, Watching, Work};
use crate::clock::Clock;
use crate::journal::{Journal, JournalBatch, JournalledChanges};
use crate::recovery;

/// The most answers that wait for a commit; then the thread waits for the commit too.
const WAITING_LIMIT: usize = 1024;
/// The interval of ticks.
const TICK: Duration = Duration::from_millis(500);
/// The interval of full audits. Devices that changed are audited after each step anyway.
const AUDIT: Duration = Duration::from_secs(60);

type Pending<F> = (Work<F>, Option<Watcher<<F as Front>::Topic>>);

/// The state, and the part of it that is not durable yet.
pub(super) struct Thread<F: Front> {
    host: Host<F>,
    observers: Vec<Box<dyn Observer<F>>>,
    watchers: BTreeMap<F::Topic, Vec<oneshot::Sender<()>>>,
    clock: Clock,
    committer: Committer,
    /// The next batch should bring a snapshot.
    is_snapshot_due: bool,
    pending: Lanes<Pending<F>>,
    /// The time of the last commit.
    committed_at: Option<Instant>,
    /// The least time between two commits; an idle server commits at once.
    interval: Duration,
    staged: Staged,
    in_flight: Option<Flight>,
}

/// The times of the next tick and the next audit.
struct Due {
    tick: Instant,
    audit: Instant,
}

/// Answers that wait until what they saw is durable.
#[derive(Default)]
struct Staged {
    replies: Vec<Reply>,
    deciding: Duration,
    /// Work was done that may have to be committed.
    is_due: bool,
}

/// A batch that is being made durable. The committer has its answers.
struct Flight {
    batch: Arc<JournalBatch>,
    deciding: Duration,
}

impl<F: Front> Thread<F> {
    pub(super) fn new(
        host: Host<F>,
        clock: Clock,
        journal: impl Journal,
        observers: Vec<Box<dyn Observer<F>>>,
        nudge: impl Fn() + Send + 'static,
    ) -> Result<Thread<F>> {
        let interval = journal.interval();
        Ok(Thread {
            host,
            observers,
            watchers: BTreeMap::new(),
            clock,
            committer: Committer::start(journal, nudge)?,
            is_snapshot_due: false,
            pending: Lanes::default(),
            committed_at: None,
            interval,
            staged: Staged::default(),
            in_flight: None,
        })
    }

    /// Decides until a stop message comes or no handle is left.
    pub(super) fn run(mut self, receiver: &Receiver<Message<F>>) -> Result<()> {
        let mut due = Due { tick: Instant::now(), audit: Instant::now() + AUDIT };
        let mut is_ending = false;
        while !is_ending {
            match receiver.recv_timeout(self.idle_time(due.tick)) {
                Ok(message) => is_ending = self.enqueue(message),
                Err(RecvTimeoutError::Disconnected) => is_ending = true,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = self.pass_time(&mut due);
            is_ending |= self.serve(receiver, now)?;
        }
        while let Some(work) = self.pending.next(Instant::now()) {
            let now = self.clock.now();
            self.call(now, work);
        }
        self.commit_all()
    }

    fn pass_time(&mut self, due: &mut Due) -> Millis {
        let started = Instant::now();
        let now = self.clock.now();
        if started >= due.tick {
            self.host.tick(now);
            self.staged.is_due = true;
            due.tick = started + TICK;
        }
        if started >= due.audit {
            self.host.audit(now);
            due.audit = started + AUDIT;
        }
        self.staged.deciding += started.elapsed();
        now
    }

    /// Serves pending work and what arrives meanwhile, until nothing is left or a bounded amount
    /// was done, so that time passes under constant load too. Returns whether the thread ends.
    fn serve(&mut self, receiver: &Receiver<Message<F>>, now: Millis) -> Result<bool> {
        let mut is_ending = false;
        for _ in 0..WAITING_LIMIT {
            while !is_ending
                && self.pending.len() < WAITING_LIMIT
                && let Ok(message) = receiver.try_recv()
            {
                is_ending = self.enqueue(message);
            }
            // A batch is published before the clients that it answered are served again.
            self.publish_if_durable()?;
            self.commit_if_due();
            let Some(work) = self.pending.next(Instant::now()) else { break };
            self.call(now, work);
        }
        if self.staged.replies.len() >= WAITING_LIMIT {
            self.commit_all()?;
        }
        Ok(is_ending)
    }

    /// Adds a message to the pending work. Returns whether it asks the thread to end.
    fn enqueue(&mut self, message: Message<F>) -> bool {
        match message {
            Message::Call(work, watcher) => self.pending.push_call((work, watcher)),
            Message::Report(work) => self.pending.push_report(Instant::now(), (work, None)),
            Message::Landed => {}
            Message::Stop => return true,
        }
        false
    }

    /// Returns how long to wait for a message: until the next tick, or until the next commit is
    /// allowed.
    fn idle_time(&self, next_tick: Instant) -> Duration {
        if self.pending.len() > 0 {
            return Duration::ZERO;
        }
        let committed_at =
            self.committed_at.filter(|_| self.in_flight.is_none() && self.staged.is_due);
        let due = committed_at.map_or(next_tick, |at| next_tick.min(at + self.interval));
        due.saturating_duration_since(Instant::now())
    }

    fn call(&mut self, now: Millis, (work, watcher): Pending<F>) {
        let started = Instant::now();
        self.staged.is_due = true;
        let (reply, watching) = self.host.with(now, work);
        self.staged.replies.push(reply);
        if let Some(watcher) = watcher.filter(|_| watching == Watching::Continues) {
            let watchers = self.watchers.entry(watcher.topic).or_default();
            watchers.retain(|changed| !changed.is_closed());
            watchers.push(watcher.changed);
        }
        self.staged.deciding += started.elapsed();
    }

    /// Commits the next batch, unless one is in flight or the last one left just now.
    fn commit_if_due(&mut self) {
        let is_early = self.committed_at.is_some_and(|at| at.elapsed() < self.interval);
        if self.staged.is_due && self.in_flight.is_none() && !is_early {
            self.commit();
        }
    }

    fn commit(&mut self) {
        let batch = Arc::new(to_journal(self.host.batch()));
        let Staged { replies, deciding, .. } = std::mem::take(&mut self.staged);
        let flight = Flight { batch: batch.clone(), deciding };
        if batch.is_empty() {
            self.publish(&flight, Duration::ZERO);
            return replies.into_iter().for_each(|reply| reply());
        }
        let snapshot = std::mem::take(&mut self.is_snapshot_due)
            .then(|| recovery::snapshot(&self.host, self.clock.now()));
        self.committer.commit(batch.clone(), snapshot, replies);
        self.committed_at = Some(Instant::now());
        let results = self.host.in_flight();
        let decided = Decided {
            front: self.host.front(),
            scheduler: self.host.scheduler(),
            records: &batch.records,
            outputs: results.outputs,
            topics: results.topics,
        };
        self.observers.iter_mut().for_each(|observer| observer.decided(&decided));
        self.in_flight = Some(flight);
    }

    fn publish_if_durable(&mut self) -> Result<()> {
        if self.in_flight.is_some()
            && let Some(done) = self.committer.done()?
        {
            self.landed(done);
        }
        Ok(())
    }

    /// Waits until everything that was decided is durable.
    fn commit_all(&mut self) -> Result<()> {
        loop {
            if self.in_flight.is_some() {
                let done = self.committer.wait()?;
                self.landed(done);
            }
            self.commit();
            if self.in_flight.is_none() {
                return Ok(());
            }
        }
    }

    fn landed(&mut self, done: Done) {
        self.is_snapshot_due = done.is_snapshot_due;
        if let Some(flight) = self.in_flight.take() {
            self.publish(&flight, done.took);
        }
    }

    /// Shows a durable batch to the observers, and wakes the watchers of what changed.
    fn publish(&mut self, flight: &Flight, committing: Duration) {
        let Committed { outputs, topics } = self.host.committed();
        let durable = Durable {
            records: &flight.batch.records,
            outputs: &outputs,
            topics: &topics,
            change_sets: flight.batch.changes.len(),
            deciding: flight.deciding,
            committing,
        };
        self.observers.iter_mut().for_each(|observer| observer.durable(&durable));
        self.wake(&topics);
    }

    fn wake(&mut self, topics: &BTreeSet<F::Topic>) {
        let watchers = topics.iter().filter_map(|topic| self.watchers.remove(topic)).flatten();
        for changed in watchers.collect::<Vec<_>>() {
            // The watcher may have gone.
            let _ = changed.send(());
        }
    }
}

fn to_journal<C: serde::Serialize>(batch: Batch<C>) -> JournalBatch {
    let changes = batch.changes.map(|set| JournalledChanges {
        seq: set.seq,
        body: serde_json::to_string(&set.changes).expect("changes are plain data"),
    });
    JournalBatch { records: batch.records, changes: changes.into_iter().collect() }
}
