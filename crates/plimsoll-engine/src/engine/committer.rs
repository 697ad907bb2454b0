//! The thread that makes batches durable, one after the other, while the next one is being decided.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::Reply;
use crate::store::{Batch, Draft, Store, StoreError};
use crate::worker::Worker;

/// A batch, the whole state after it where that is to be kept, and the answers that wait for it.
struct Order {
    batch: Arc<Batch>,
    base: Option<Draft>,
    replies: Vec<Reply>,
}

/// A batch has become durable.
#[derive(Clone, Copy)]
pub(super) struct Done {
    /// How long that took.
    pub(super) took: Duration,
    /// Whether the next batch should bring the whole state.
    pub(super) wants_base: bool,
}

/// The way to the thread.
pub(super) struct Committer {
    worker: Worker<Order>,
    done: Receiver<Result<Done, StoreError>>,
}

impl Committer {
    /// Starts the thread. When a batch is done it lets the answers out, and nudges whoever sends batches.
    pub(super) fn start(mut store: Store, nudge: impl Fn() + Send + 'static) -> Result<Committer> {
        let (report, done) = mpsc::channel();
        let work = move |Order { batch, base, replies }| {
            let done = commit(&mut store, &batch, base);
            let is_durable = done.is_ok();
            // Said before anybody is answered: whoever asks next because of an answer finds all of the batch told.
            if report.send(done).is_err() {
                return ControlFlow::Break(());
            }
            if is_durable {
                replies.into_iter().for_each(|reply| reply());
            }
            nudge();
            ControlFlow::Continue(())
        };
        // One batch is on its way at a time.
        let worker = Worker::start("committer", 1, work);
        Ok(Committer {
            worker: worker.context("while starting the thread that makes things durable")?,
            done,
        })
    }

    /// Hands a batch over, with the whole state after it where that is to be kept, and the answers to those who wait for it.
    pub(super) fn commit(&self, batch: Arc<Batch>, base: Option<Draft>, replies: Vec<Reply>) {
        // A thread that has ended says so where somebody waits for it.
        let _ = self.worker.hand(Order { batch, base, replies });
    }

    /// What came of the batch that was handed over, if that is known by now.
    pub(super) fn done(&self) -> Result<Option<Done>> {
        match self.done.try_recv() {
            Ok(done) => durable(done).map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(fault()),
        }
    }

    /// What came of the batch that was handed over.
    pub(super) fn wait(&self) -> Result<Done> {
        durable(self.done.recv().map_err(|_| fault())?)
    }
}

fn commit(store: &mut Store, batch: &Batch, base: Option<Draft>) -> Result<Done, StoreError> {
    let started = Instant::now();
    store.commit(batch)?;
    let took = started.elapsed();
    if let Some(base) = base {
        store.keep_base(base);
    }
    Ok(Done { took, wants_base: store.wants_base() })
}

fn durable(done: Result<Done, StoreError>) -> Result<Done> {
    done.context("a decision could not be made durable, so the server stops")
}

fn fault() -> anyhow::Error {
    anyhow!(
        "the thread that makes things durable ended by a fault of the program; please report what it said before"
    )
}
