//! The one thread that decides. What it decided leaves for the disk in batches, and gets out once it is durable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Result;
use plimsoll_core::units::{Millis, Name};
use plimsoll_slots::desk::{self, Desk, Told};
use tokio::sync::oneshot;

use super::committer::{Committer, Done};
use super::lanes::Lanes;
use super::{Decided, Durable, Message, Observer, Reply, Topic, Watch, Work};
use crate::clock::Clock;
use crate::recovery;
use crate::store::{Batch, Note, Store};

/// So many answers wait for the disk at most; then the thread waits for it too.
const WAITING_MOST: usize = 1024;
/// A batch leaves so long after the one before it at the earliest: each costs the disk and the processors something, and one in a
/// thousand takes many times as long as the others, while everybody waits for it. Nobody waits for this where little is asked.
const GATHERING: Duration = Duration::from_millis(2);
/// How often time is noticed.
const TICK: Duration = Duration::from_millis(500);
/// How often every device is checked, whether it changed or not.
const AUDIT: Duration = Duration::from_secs(60);

/// What somebody wants done, and what they want to hear of afterwards.
type Served = (Work, Option<Watch>);

/// The state, and what of it is not durable yet.
pub(super) struct Thread {
    desk: Desk,
    observers: Vec<Box<dyn Observer>>,
    watchers: BTreeMap<Topic, Vec<oneshot::Sender<()>>>,
    clock: Clock,
    committer: Committer,
    /// Whether the next batch should bring the whole state.
    wants_base: bool,
    /// What came and was not served yet.
    waiting: Lanes<Served>,
    /// When the last batch left.
    left: Option<Instant>,
    /// What was decided since then.
    staged: Staged,
    /// The batch that is on its way.
    flight: Option<Flight>,
}

/// When time is to be noticed next.
struct Due {
    tick: Instant,
    audit: Instant,
}

/// Answers that wait until what they saw is durable.
#[derive(Default)]
struct Staged {
    replies: Vec<Reply>,
    deciding: Duration,
    /// Whether anything may have come of it.
    is_due: bool,
}

/// A batch on its way to the disk; the answers are with it.
struct Flight {
    batch: Arc<Batch>,
    deciding: Duration,
}

impl Thread {
    pub(super) fn new(
        desk: Desk,
        clock: Clock,
        store: Store,
        observers: Vec<Box<dyn Observer>>,
        nudge: impl Fn() + Send + 'static,
    ) -> Result<Thread> {
        Ok(Thread {
            desk,
            observers,
            watchers: BTreeMap::new(),
            clock,
            committer: Committer::start(store, nudge)?,
            wants_base: false,
            waiting: Lanes::default(),
            left: None,
            staged: Staged::default(),
            flight: None,
        })
    }

    /// Decides until it is told to stop, or nobody can ask any more.
    pub(super) fn run(mut self, receiver: &Receiver<Message>) -> Result<()> {
        let mut due = Due { tick: Instant::now(), audit: Instant::now() + AUDIT };
        let mut is_ending = false;
        while !is_ending {
            match receiver.recv_timeout(self.patience(due.tick)) {
                Ok(message) => is_ending = self.enqueue(message),
                Err(RecvTimeoutError::Disconnected) => is_ending = true,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = self.notice_time(&mut due);
            is_ending |= self.serve(receiver, now)?;
        }
        while let Some(work) = self.waiting.next(Instant::now()) {
            let now = self.clock.now();
            self.take(now, work);
        }
        self.settle()
    }

    fn notice_time(&mut self, due: &mut Due) -> Millis {
        let (started, now) = (Instant::now(), self.clock.now());
        if started >= due.tick {
            self.desk.tick(now);
            self.staged.is_due = true;
            due.tick = started + TICK;
        }
        if started >= due.audit {
            self.desk.audit(now);
            due.audit = started + AUDIT;
        }
        self.staged.deciding += started.elapsed();
        now
    }

    /// Serves those who wait and those who come meanwhile, until nobody is left or many were served; `true` where nothing more will
    /// come.
    fn serve(&mut self, receiver: &Receiver<Message>, now: Millis) -> Result<bool> {
        let mut is_ending = false;
        for _ in 0..WAITING_MOST {
            while !is_ending
                && self.waiting.len() < WAITING_MOST
                && let Ok(message) = receiver.try_recv()
            {
                is_ending = self.enqueue(message);
            }
            // What somebody was answered is told before they are served again.
            self.land()?;
            self.leave();
            let Some(work) = self.waiting.next(Instant::now()) else { break };
            self.take(now, work);
        }
        if self.staged.replies.len() >= WAITING_MOST {
            self.settle()?;
        }
        Ok(is_ending)
    }

    /// Lets somebody wait for their turn; `true` where nothing more will come.
    fn enqueue(&mut self, message: Message) -> bool {
        match message {
            Message::Work(work, watch) => self.waiting.ask((work, watch)),
            Message::Report(work) => self.waiting.report(Instant::now(), (work, None)),
            Message::Landed => {}
            Message::Stop => return true,
        }
        false
    }

    /// How long to wait for somebody to ask: until time is to be noticed, or the next batch may leave.
    fn patience(&self, next_tick: Instant) -> Duration {
        if self.waiting.len() > 0 {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let leaves = self.left.filter(|_| self.flight.is_none() && self.staged.is_due);
        let due = leaves.map_or(next_tick, |left| next_tick.min(left + GATHERING));
        due.saturating_duration_since(now)
    }

    fn take(&mut self, now: Millis, (work, watch): Served) {
        let started = Instant::now();
        self.staged.is_due = true;
        let (reply, is_watched) = work(&mut self.desk, now);
        self.staged.replies.push(reply);
        if let Some((topic, sender)) = watch.filter(|_| is_watched) {
            let watchers = self.watchers.entry(topic).or_default();
            watchers.retain(|watcher| !watcher.is_closed());
            watchers.push(sender);
        }
        self.staged.deciding += started.elapsed();
    }

    /// Lets the next batch leave, where none is on its way and the last one did not leave just now.
    fn leave(&mut self) {
        let is_early = self.left.is_some_and(|left| left.elapsed() < GATHERING);
        if self.staged.is_due && self.flight.is_none() && !is_early {
            self.send();
        }
    }

    fn send(&mut self) {
        let batch = Arc::new(to_store(self.desk.batch()));
        let Staged { replies, deciding, .. } = std::mem::take(&mut self.staged);
        let flight = Flight { batch: batch.clone(), deciding };
        if batch.records.is_empty() && batch.notes.is_empty() {
            self.let_out(&flight, Duration::ZERO);
            return replies.into_iter().for_each(|reply| reply());
        }
        let base = std::mem::take(&mut self.wants_base)
            .then(|| recovery::base(&self.desk, self.clock.now()));
        self.committer.commit(batch.clone(), base, replies);
        self.left = Some(Instant::now());
        let (outputs, places) = self.desk.in_flight();
        let decided = Decided { desk: &self.desk, records: &batch.records, outputs, places };
        self.observers.iter_mut().for_each(|observer| observer.decided(&decided));
        self.flight = Some(flight);
    }

    /// Lets out what came of the batch on its way, if that is durable by now.
    fn land(&mut self) -> Result<()> {
        if self.flight.is_some()
            && let Some(done) = self.committer.done()?
        {
            self.landed(done);
        }
        Ok(())
    }

    /// Waits until everything is durable.
    fn settle(&mut self) -> Result<()> {
        loop {
            if self.flight.is_some() {
                let done = self.committer.wait()?;
                self.landed(done);
            }
            self.send();
            if self.flight.is_none() {
                return Ok(());
            }
        }
    }

    fn landed(&mut self, done: Done) {
        self.wants_base = done.wants_base;
        if let Some(flight) = self.flight.take() {
            self.let_out(&flight, done.took);
        }
    }

    /// Tells those who watch what came of a batch that is durable.
    fn let_out(&mut self, flight: &Flight, committing: Duration) {
        let told = self.desk.committed();
        let (records, notes) = (&flight.batch.records[..], flight.batch.notes.len());
        let durable =
            Durable { records, notes, told: &told, deciding: flight.deciding, committing };
        self.observers.iter_mut().for_each(|observer| observer.durable(&durable));
        self.wake(&told);
    }

    fn wake(&mut self, told: &Told) {
        let topics = told.places.iter().map(|place| Topic::Place(*place));
        let topics =
            topics.chain(told.runners.iter().map(|runner: &Name| Topic::Runner(runner.clone())));
        for sender in topics.filter_map(|topic| self.watchers.remove(&topic)).flatten() {
            // Whoever watched may have gone.
            let _ = sender.send(());
        }
    }
}

fn to_store(batch: desk::Batch) -> Batch {
    let note = |(seq, operations)| Note {
        seq,
        body: serde_json::to_string(&operations).expect("operations are plain data"),
    };
    Batch { records: batch.records, notes: batch.notes.into_iter().map(note).collect() }
}
