//! The seam between the scheduler and the outside world: a front end turns outside input into core
//! events, and core outcomes into outside effects.
//!
//! ```text
//!  outside input ──▶ Front ──▶ Core::step ──▶ records ─┐
//!                      └────────────────────▶ changes ─┴─▶ Host::batch ──▶ Host::committed
//! ```
//!
//! The core journals records; a front end has state of its own (declared models, the holders of
//! reservations) and journals changes of it. [`Host`] keeps both in step: one batch holds the
//! records and the changes of the same calls, so that a crash can never separate them. A front end
//! owns no memory sums. It reads those of the ledger.

use std::collections::BTreeSet;
use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::decide::Decision;
use crate::drive::{Drive, Output, Record};
use crate::event::{Event, Outcome, Settings};
use crate::ledger::Ledger;
use crate::queue::Queue;
use crate::request::Request;
use crate::scheduler::Scheduler;
use crate::snapshot::{Snapshot, SnapshotError};
use crate::units::{Millis, Name};

/// A front end: model slots, a Kubernetes cluster, a simulation.
///
/// Its own methods take `&mut Core` where they step the scheduler, and `&Scheduler` where they only
/// read it.
pub trait Front: Sized + Send + 'static {
    /// One journalled change of the front end's own state.
    type Change: Clone + Debug + Serialize + DeserializeOwned + Send + Sync;
    /// The front end's whole own state, for a snapshot.
    type State: Default + Serialize + DeserializeOwned + Send;
    /// Something that a client can wait for a change of.
    type Topic: Clone + Debug + Ord + Send + Sync;

    /// Replaces the own state by one that [`Front::state`] gave earlier.
    fn restore(&mut self, state: Self::State);

    /// Makes one journalled change again. Recovery only: nothing is decided, and nothing is
    /// journalled.
    fn apply(&mut self, change: Self::Change);

    /// Returns the whole own state.
    fn state(&self) -> Self::State;

    /// Handles the passing of time, and steps the scheduler with [`Event::Tick`].
    fn tick(&mut self, core: &mut Core<'_>);

    /// Steps the scheduler with an event that comes from the host and not from a client (an audit,
    /// new settings), and follows what came of it.
    fn handle(&mut self, core: &mut Core<'_>, event: Event);

    /// Takes the changes made since the last call, in order.
    fn take_changes(&mut self) -> Vec<Self::Change>;

    /// Takes the topics that changed since the last call.
    fn take_topics(&mut self) -> BTreeSet<Self::Topic>;
}

/// The scheduler as a front end sees it during one call.
#[derive(Debug)]
pub struct Core<'a> {
    drive: &'a mut Drive,
    now: Millis,
    next_changes: u64,
}

impl Core<'_> {
    /// Returns the time of this call. It does not advance during the call.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// Returns the scheduler, to read.
    pub fn scheduler(&self) -> &Scheduler {
        self.drive.scheduler()
    }

    /// Returns the scheduler's ledger, to read.
    pub fn ledger(&self) -> &Ledger {
        self.drive.scheduler().ledger()
    }

    /// Returns the scheduler's queue, to read.
    pub fn queue(&self) -> &Queue {
        self.drive.scheduler().queue()
    }

    /// Steps the scheduler. The outcome is there to plan by; nothing of it may leave the process
    /// before it is durable. `None` for a tick or an audit that changed nothing, which is not worth
    /// a record.
    pub fn step(&mut self, event: Event) -> Option<&Outcome> {
        self.drive.handle(self.now, event)
    }

    /// Returns the number that the next record gets.
    pub fn next_seq(&self) -> u64 {
        self.drive.next_seq()
    }

    /// Returns the numbers that the next record and the next group of changes get.
    pub fn next_numbers(&self) -> NextNumbers {
        NextNumbers { record: self.next_seq(), changes: self.next_changes }
    }

    /// Decides without changing anything.
    pub fn what_if(&mut self, request: &Request) -> Decision {
        self.drive.what_if(request)
    }

    /// Decides on one node, by devices alone, without changing anything. `None` if the node is not
    /// known.
    pub fn what_if_on(&self, request: &Request, node: &Name) -> Option<Decision> {
        self.drive.what_if_on(request, node)
    }
}

/// The numbers that the next record and the next group of changes get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextNumbers {
    pub record: u64,
    pub changes: u64,
}

/// The changes of a front end that belong to one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet<C> {
    /// Consecutive within one journal, counted separately from records.
    pub seq: u64,
    pub changes: Vec<C>,
}

/// Everything to make durable in one transaction.
#[derive(Clone, Debug)]
pub struct Batch<C> {
    pub records: Vec<Record>,
    pub changes: Option<ChangeSet<C>>,
}

impl<C> Batch<C> {
    /// Returns whether there is nothing to make durable.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.changes.is_none()
    }
}

/// The results of a batch that is being made durable, to prepare answers from.
#[derive(Debug)]
pub struct InFlight<'a, T> {
    pub outputs: &'a [Output],
    pub topics: &'a BTreeSet<T>,
}

/// The results of a batch that is durable, to publish.
#[derive(Debug)]
pub struct Committed<T> {
    pub outputs: Vec<Output>,
    pub topics: BTreeSet<T>,
}

/// The whole state of a host at one moment.
#[derive(Clone, Debug)]
pub struct Checkpoint<S> {
    pub next: NextNumbers,
    pub core: Snapshot,
    pub front: S,
}

/// A scheduler and its front end: one state, journalled in one batch.
///
/// At most one batch is in flight. Calls go on meanwhile; what they decide waits for the next
/// batch.
#[derive(Clone, Debug)]
pub struct Host<F: Front> {
    drive: Drive,
    front: F,
    next_changes: u64,
    is_in_flight: bool,
    /// The topics of the batch that is in flight.
    topics: BTreeSet<F::Topic>,
}

impl<F: Front> Host<F> {
    /// Starts with an empty ledger.
    pub fn new(front: F, settings: Settings) -> Self {
        Recovery::new(front, settings).finish()
    }

    /// Returns the front end, to read.
    pub fn front(&self) -> &F {
        &self.front
    }

    /// Returns the scheduler, to read.
    pub fn scheduler(&self) -> &Scheduler {
        self.drive.scheduler()
    }

    /// Calls the front end at one time, with the scheduler to step.
    pub fn with<R>(&mut self, now: Millis, call: impl FnOnce(&mut F, &mut Core<'_>) -> R) -> R {
        let next_changes = self.next_changes;
        call(&mut self.front, &mut Core { drive: &mut self.drive, now, next_changes })
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Millis) {
        self.with(now, Front::tick);
    }

    /// Checks every device for breaches, whether it changed or not.
    pub fn audit(&mut self, now: Millis) {
        self.with(now, |front, core| front.handle(core, Event::Audit));
    }

    /// Changes the scheduler's settings, where they differ.
    pub fn configure(&mut self, now: Millis, settings: Settings) {
        if *self.scheduler().settings() != settings {
            let event = Event::Configured { settings: Box::new(settings) };
            self.with(now, |front, core| front.handle(core, event));
        }
    }

    /// Takes everything that was decided since the last batch, to make it durable in one
    /// transaction. While a batch is in flight the result is empty: effects and answers of two
    /// batches must not become durable in the wrong order.
    pub fn batch(&mut self) -> Batch<F::Change> {
        if self.is_in_flight {
            return Batch { records: Vec::new(), changes: None };
        }
        self.is_in_flight = true;
        self.topics = self.front.take_topics();
        let changes = self.front.take_changes();
        let changes = (!changes.is_empty()).then(|| {
            let seq = self.next_changes;
            self.next_changes += 1;
            ChangeSet { seq, changes }
        });
        Batch { records: self.drive.batch(), changes }
    }

    /// Returns the results of the batch in flight. Nothing of them may leave the process yet.
    pub fn in_flight(&self) -> InFlight<'_, F::Topic> {
        InFlight { outputs: self.drive.in_flight(), topics: &self.topics }
    }

    /// Confirms that the batch in flight is durable, and returns its results, which may now leave
    /// the process.
    pub fn committed(&mut self) -> Committed<F::Topic> {
        self.is_in_flight = false;
        Committed { outputs: self.drive.committed(), topics: std::mem::take(&mut self.topics) }
    }

    /// Returns the numbers that the next record and the next group of changes get.
    pub fn next_numbers(&self) -> NextNumbers {
        NextNumbers { record: self.drive.next_seq(), changes: self.next_changes }
    }

    /// Continues with other numbers: those of a journal to which the state so far does not belong.
    ///
    /// # Panics
    ///
    /// If a record waits to become durable, because it has a number already.
    pub fn renumber(&mut self, next: NextNumbers) {
        assert!(!self.is_in_flight, "a batch in flight has numbers");
        self.drive.renumber(next.record);
        self.next_changes = next.changes;
    }

    /// Returns the whole state, to recover from later.
    pub fn checkpoint(&self) -> Checkpoint<F::State> {
        Checkpoint {
            next: self.next_numbers(),
            core: self.scheduler().snapshot(),
            front: self.front.state(),
        }
    }
}

/// A host that is being rebuilt: a checkpoint, then the journal since. Nothing is decided again.
#[derive(Debug)]
pub struct Recovery<F> {
    front: F,
    scheduler: Scheduler,
    next: NextNumbers,
}

impl<F: Front> Recovery<F> {
    /// Starts from nothing.
    pub fn new(front: F, settings: Settings) -> Self {
        Recovery { front, scheduler: Scheduler::new(settings), next: NextNumbers::default() }
    }

    /// Starts from a checkpoint; `front` brings its configuration and gets its state from there.
    pub fn from_checkpoint(
        mut front: F,
        checkpoint: Checkpoint<F::State>,
    ) -> Result<Self, SnapshotError> {
        let scheduler = Scheduler::restore(checkpoint.core)?;
        front.restore(checkpoint.front);
        Ok(Recovery { front, scheduler, next: checkpoint.next })
    }

    /// Applies the next record of the journal.
    pub fn apply_record(&mut self, record: &Record) {
        record.operations.iter().for_each(|operation| self.scheduler.recover_next(operation));
        self.next.record = record.seq + 1;
    }

    /// Applies the next group of changes of the journal. Records and changes do not depend on each
    /// other, so that either kind may be applied first.
    pub fn apply_changes(&mut self, set: ChangeSet<F::Change>) {
        set.changes.into_iter().for_each(|change| self.front.apply(change));
        self.next.changes = set.seq + 1;
    }

    /// Returns the host, ready for calls.
    pub fn finish(self) -> Host<F> {
        Host {
            drive: Drive::resume(self.scheduler, self.next.record),
            front: self.front,
            next_changes: self.next.changes,
            is_in_flight: false,
            topics: BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Node, Source};
    use crate::request::{Amount, Need, RequestId, Shape, Spec, Terms};
    use crate::units::Bytes;

    /// Counts, for each tenant, the jobs that were submitted for it.
    #[derive(Debug, Default)]
    struct Counter {
        submitted: std::collections::BTreeMap<Name, u64>,
        changes: Vec<Name>,
        topics: BTreeSet<Name>,
    }

    impl Counter {
        fn submit(&mut self, core: &mut Core<'_>, tenant: &str) {
            let tenant = Name::from(tenant);
            self.apply(tenant.clone());
            self.changes.push(tenant.clone());
            self.topics.insert(tenant.clone());
            let id = RequestId::new(tenant.clone(), self.submitted[&tenant].to_string());
            let need = Need::one("NVIDIA", Amount::bytes(Bytes::gib(10)));
            let spec = Spec::from_shapes(vec![Shape::single("app", need)]).into();
            let request = Request { id, spec, terms: Terms { waits: true, ..Terms::default() } };
            self.handle(core, Event::Submit { request, deadline: None });
        }
    }

    impl Front for Counter {
        type Change = Name;
        type State = std::collections::BTreeMap<Name, u64>;
        type Topic = Name;

        fn restore(&mut self, state: Self::State) {
            self.submitted = state;
        }
        fn apply(&mut self, tenant: Name) {
            *self.submitted.entry(tenant).or_default() += 1;
        }
        fn state(&self) -> Self::State {
            self.submitted.clone()
        }
        fn tick(&mut self, core: &mut Core<'_>) {
            self.handle(core, Event::Tick);
        }
        fn handle(&mut self, core: &mut Core<'_>, event: Event) {
            core.step(event);
        }
        fn take_changes(&mut self) -> Vec<Name> {
            std::mem::take(&mut self.changes)
        }
        fn take_topics(&mut self) -> BTreeSet<Name> {
            std::mem::take(&mut self.topics)
        }
    }

    fn host() -> Host<Counter> {
        let mut host = Host::new(Counter::default(), Settings::default());
        let device = Device::new("NVIDIA", Bytes::gib(25), Source::Declared);
        let node = Box::new(Node { devices: vec![device], ..Node::new("n") });
        host.with(Millis(1), |front, core| front.handle(core, Event::Node { node }));
        host
    }

    #[test]
    fn a_checkpoint_and_the_journal_since_rebuild_the_state() {
        let mut host = host();
        host.with(Millis(2), |front, core| front.submit(core, "a"));
        let first = host.batch();
        host.committed();
        let checkpoint = host.checkpoint();
        for tenant in ["b", "a"] {
            host.with(Millis(3), |front, core| front.submit(core, tenant));
        }
        host.tick(Millis(4));
        let second = host.batch();
        host.committed();
        let from_checkpoint =
            Recovery::from_checkpoint(Counter::default(), checkpoint).expect("same version");
        let from_nothing = Recovery::new(Counter::default(), Settings::default());
        for (mut recovery, batches) in
            [(from_checkpoint, vec![second.clone()]), (from_nothing, vec![first, second])]
        {
            for batch in batches {
                batch.records.iter().for_each(|record| recovery.apply_record(record));
                recovery.apply_changes(batch.changes.expect("something was submitted"));
            }
            let again = recovery.finish();
            assert_eq!(again.front().submitted, host.front().submitted);
            assert_eq!(again.scheduler().snapshot(), host.scheduler().snapshot());
            assert_eq!(again.next_numbers(), host.next_numbers());
        }
        assert_eq!(host.scheduler().ledger().holdings().count(), 2, "two of three fit 25 GiB");
        assert_eq!(host.scheduler().queue().len(), 1);
    }

    #[test]
    fn nothing_joins_a_batch_that_is_in_flight() {
        let mut host = host();
        host.with(Millis(2), |front, core| front.submit(core, "a"));
        let batch = host.batch();
        assert_eq!((batch.records.len(), batch.changes.map(|set| set.seq)), (2, Some(0)));
        host.with(Millis(3), |front, core| front.submit(core, "b"));
        assert!(host.batch().is_empty(), "the first batch is not durable yet");
        let in_flight = host.in_flight();
        assert_eq!((in_flight.outputs.len(), in_flight.topics), (2, &BTreeSet::from(["a".into()])));
        let committed = host.committed();
        assert_eq!((committed.outputs.len(), committed.topics), (2, BTreeSet::from(["a".into()])));
        assert_eq!(host.batch().changes.map(|set| set.seq), Some(1));
        assert_eq!(host.committed().topics, BTreeSet::from(["b".into()]));
    }
}
