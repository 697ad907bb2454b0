//! The handle to the decision thread, and the observers of what it decides.
//!
//! ```text
//!  read, write ──▶ thread (decides) ──batch──▶ committer (makes it durable) ──▶ answers
//!                                                   └──▶ thread ──▶ observers, watchers
//! ```
//!
//! While one batch is being made durable the next one is decided. Nothing of a batch leaves before
//! it is durable.

mod committer;
mod lanes;
mod thread;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_core::drive::{Output, Record};
use plimsoll_core::front::{Core, Front, Host};
use plimsoll_core::scheduler::Scheduler;
use tokio::sync::{oneshot, watch};
use tokio::time;

use crate::clock::Clock;
use crate::journal::Journal;
use thread::Thread;

/// The most messages that may wait for the decision thread; callers then get [`NoAnswer::Busy`].
const QUEUE_LIMIT: usize = 8192;

/// A handle to the decision thread.
pub struct Engine<F: Front> {
    sender: Arc<SyncSender<Message<F>>>,
    /// `true` once the server shuts down and no caller should wait any longer.
    ending: watch::Sender<bool>,
}

impl<F: Front> Clone for Engine<F> {
    fn clone(&self) -> Self {
        Engine { sender: self.sender.clone(), ending: self.ending.clone() }
    }
}

impl<F: Front> fmt::Debug for Engine<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("ending", &self.ending).finish_non_exhaustive()
    }
}

/// The reason why the decision thread gives no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Too many messages are waiting.
    #[error("the server is overloaded; try again")]
    Busy,
    /// The decision thread has stopped.
    #[error("the server is stopping")]
    Stopped,
}

/// A batch as it was decided, before it is durable.
pub struct Decided<'a, F: Front> {
    /// The state after the batch.
    pub front: &'a F,
    /// The state after the batch.
    pub scheduler: &'a Scheduler,
    pub records: &'a [Record],
    /// One output for each record.
    pub outputs: &'a [Output],
    pub topics: &'a BTreeSet<F::Topic>,
}

/// A batch that was made durable. The state may have moved on since.
pub struct Durable<'a, F: Front> {
    pub records: &'a [Record],
    /// One output for each record.
    pub outputs: &'a [Output],
    pub topics: &'a BTreeSet<F::Topic>,
    /// The number of change sets of the front end journalled with the records.
    pub change_sets: usize,
    /// The time it took to decide all of it.
    pub deciding: Duration,
    /// The time it took to make it durable.
    pub committing: Duration,
}

/// Follows what is decided: metrics, streams, logs. The decision thread calls it, so it must be
/// quick.
pub trait Observer<F: Front>: Send {
    /// Sees a batch together with the state that it leads to. The batch is not durable yet: what
    /// an observer derives here may only be shown through [`Engine::read`], whose answers wait
    /// until it is.
    fn decided(&mut self, _decided: &Decided<'_, F>) {}

    /// Sees a batch once it is durable, and may publish it.
    fn durable(&mut self, _durable: &Durable<'_, F>) {}
}

type Reply = Box<dyn FnOnce() + Send>;

/// Calls the front end. Returns the reply, and whether the caller keeps watching the topic.
type Work<F> = Box<dyn FnOnce(&mut F, &mut Core<'_>) -> (Reply, Watching) + Send>;

/// The answer of a caller that looked at a topic: keep watching it or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watching {
    Continues,
    /// The answer is final; a watcher would wait forever.
    Ends,
}

/// A watcher of a topic. It hears about the first change after its look.
struct Watcher<T> {
    topic: T,
    changed: oneshot::Sender<()>,
}

enum Message<F: Front> {
    /// Work that a client waits for. The reply leaves once everything that it saw is durable.
    Call(Work<F>, Option<Watcher<F::Topic>>),
    /// Work that may wait behind calls.
    Report(Work<F>),
    /// The batch in flight has become durable.
    Landed,
    /// Ends the thread once everything that came before is durable.
    Stop,
}

impl<F: Front> Engine<F> {
    /// Starts the decision thread. It ends with an error when something cannot be made durable.
    pub fn start(
        host: Host<F>,
        clock: Clock,
        journal: impl Journal,
        observers: Vec<Box<dyn Observer<F>>>,
    ) -> Result<(Engine<F>, JoinHandle<Result<()>>)> {
        let (sender, receiver) = mpsc::sync_channel(QUEUE_LIMIT);
        let sender = Arc::new(sender);
        // The thread ends when no handle is left, so the committer must not keep one.
        let weak = Arc::downgrade(&sender);
        let nudge = move || {
            // If the queue is full, the thread is awake anyway.
            let _ = weak.upgrade().map(|sender| sender.try_send(Message::Landed));
        };
        let thread = Thread::new(host, clock, journal, observers, nudge)?;
        let handle = std::thread::Builder::new()
            .name("engine".to_string())
            .spawn(move || thread.run(&receiver))
            .context("cannot start the decision thread")?;
        Ok((Engine { sender, ending: watch::Sender::new(false) }, handle))
    }

    /// Calls the front end to change something. Answers once the change is durable.
    pub async fn write<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut F, &mut Core<'_>) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.answer(call, |work| Message::Call(work, None)).await
    }

    /// Does the same as [`Engine::write`] behind the calls that clients wait for, for reports that
    /// repeat anyway.
    pub async fn report<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut F, &mut Core<'_>) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.answer(call, Message::Report).await
    }

    /// Looks at the state, and answers once everything that was seen is durable. A what-if is a
    /// look too, which is why the state can be touched; nothing that changes it belongs here.
    pub async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut F, &mut Core<'_>) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.answer(look, |work| Message::Call(work, None)).await
    }

    /// Looks at the state, and returns a receiver that resolves at the next change of the topic
    /// after that look, or earlier; none where the look says that watching ends.
    pub async fn watch<T: Send + 'static>(
        &self,
        topic: F::Topic,
        look: impl FnOnce(&mut F, &mut Core<'_>) -> (T, Watching) + Send + 'static,
    ) -> Result<(T, Option<oneshot::Receiver<()>>), NoAnswer> {
        let (work, answer) = replying(look);
        let (changed, change) = oneshot::channel();
        self.send(Message::Call(work, Some(Watcher { topic, changed })))?;
        let (seen, watching) = answer.await.map_err(|_| NoAnswer::Stopped)?;
        Ok((seen, (watching == Watching::Continues).then_some(change)))
    }

    /// Waits for a change of a watched topic, until a time, or until the server shuts down.
    pub async fn wait(&self, change: oneshot::Receiver<()>, until: time::Instant) {
        tokio::select! {
            _ = change => {}
            () = time::sleep_until(until) => {}
            () = self.ending() => {}
        }
    }

    /// Wakes all waiters so that they can answer before shutdown.
    pub fn end_waits(&self) {
        self.ending.send_replace(true);
    }

    /// Returns whether the server shuts down.
    pub fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// Resolves when the server shuts down.
    pub async fn ending(&self) {
        // The sender lives as long as `self`.
        let _ = self.ending.subscribe().wait_for(|ending| *ending).await;
    }

    /// Ends the decision thread once everything that came before is durable.
    pub fn stop(&self) {
        // If it cannot be sent, the thread has ended already.
        let _ = self.sender.send(Message::Stop);
    }

    async fn answer<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut F, &mut Core<'_>) -> T + Send + 'static,
        message: impl FnOnce(Work<F>) -> Message<F>,
    ) -> Result<T, NoAnswer> {
        let (work, answer) = replying(|front, core| (call(front, core), Watching::Ends));
        self.send(message(work))?;
        let (done, _) = answer.await.map_err(|_| NoAnswer::Stopped)?;
        Ok(done)
    }

    fn send(&self, message: Message<F>) -> Result<(), NoAnswer> {
        self.sender.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => NoAnswer::Busy,
            TrySendError::Disconnected(_) => NoAnswer::Stopped,
        })
    }
}

fn replying<F: Front, T: Send + 'static>(
    call: impl FnOnce(&mut F, &mut Core<'_>) -> (T, Watching) + Send + 'static,
) -> (Work<F>, oneshot::Receiver<(T, Watching)>) {
    let (sender, receiver) = oneshot::channel();
    let work = move |front: &mut F, core: &mut Core<'_>| {
        let (answer, watching) = call(front, core);
        // The caller may have gone; the work stays done.
        let reply: Reply = Box::new(move || drop(sender.send((answer, watching))));
        (reply, watching)
    };
    (Box::new(work), receiver)
}

#[cfg(test)]
mod tests;
