//! The thread that makes batches durable, one after the other, while the next one is decided.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::Reply;
use crate::journal::{Journal, JournalBatch};
use crate::store::{SnapshotDraft, StoreError};
use crate::worker::Worker;

struct Order {
    batch: Arc<JournalBatch>,
    snapshot: Option<SnapshotDraft>,
    /// Answers to send once the batch is durable.
    replies: Vec<Reply>,
}

/// A batch that became durable.
#[derive(Clone, Copy)]
pub(super) struct Done {
    pub(super) took: Duration,
    /// The next batch should bring a snapshot.
    pub(super) is_snapshot_due: bool,
}

/// A handle to the committing thread.
pub(super) struct Committer {
    worker: Worker<Order>,
    done: Receiver<Result<Done, StoreError>>,
}

impl Committer {
    /// Starts the thread. When a batch is durable it sends the answers and calls `nudge`.
    pub(super) fn start(
        mut journal: impl Journal,
        nudge: impl Fn() + Send + 'static,
    ) -> Result<Committer> {
        let (report, done) = mpsc::channel();
        let work = move |Order { batch, snapshot, replies }| {
            let done = commit(&mut journal, &batch, snapshot);
            let is_durable = done.is_ok();
            // Reported before the answers leave: a client that asks again because of its answer
            // must find the whole batch published.
            if report.send(done).is_err() {
                return ControlFlow::Break(());
            }
            if is_durable {
                replies.into_iter().for_each(|reply| reply());
            }
            nudge();
            ControlFlow::Continue(())
        };
        // At most one batch is in flight.
        let worker = Worker::start("committer", 1, work);
        Ok(Committer { worker: worker.context("cannot start the committer thread")?, done })
    }

    /// Hands a batch over, with the snapshot of the state after it where one is due.
    pub(super) fn commit(
        &self,
        batch: Arc<JournalBatch>,
        snapshot: Option<SnapshotDraft>,
        replies: Vec<Reply>,
    ) {
        // If the thread has ended, `done` and `wait` report it.
        let _ = self.worker.hand(Order { batch, snapshot, replies });
    }

    /// Returns the result of the batch in flight, if it is known by now.
    pub(super) fn done(&self) -> Result<Option<Done>> {
        match self.done.try_recv() {
            Ok(done) => durable(done).map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(panicked()),
        }
    }

    /// Waits for the result of the batch in flight.
    pub(super) fn wait(&self) -> Result<Done> {
        durable(self.done.recv().map_err(|_| panicked())?)
    }
}

fn commit(
    journal: &mut impl Journal,
    batch: &JournalBatch,
    snapshot: Option<SnapshotDraft>,
) -> Result<Done, StoreError> {
    let started = Instant::now();
    journal.commit(batch)?;
    let took = started.elapsed();
    if let Some(snapshot) = snapshot {
        journal.save_snapshot(snapshot);
    }
    Ok(Done { took, is_snapshot_due: journal.is_snapshot_due() })
}

fn durable(done: Result<Done, StoreError>) -> Result<Done> {
    done.context("cannot make a decision durable; the server stops")
}

fn panicked() -> anyhow::Error {
    anyhow!("internal error: the committer thread panicked; please report the log above")
}
