//! The way to the one thread that decides, and those who watch it.
//!
//! ```text
//!  read, write ──▶ thread (decides) ──batch──▶ committer (makes it durable) ──▶ answers
//!                                                   └──▶ thread ──▶ observers, watchers
//! ```
//!
//! While one batch is on its way to the disk the next one is decided; nothing of a batch gets out before it is durable.

mod committer;
mod lanes;
mod thread;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_core::drive::{Output, Record};
use plimsoll_core::units::{Millis, Name};
use plimsoll_slots::desk::{Desk, Told};
use tokio::sync::{oneshot, watch};
use tokio::time;

use crate::clock::Clock;
use crate::store::Store;
use thread::Thread;

/// So many messages may wait; one more is told that the server is busy.
const WAITING_MOST: usize = 8192;
/// The way to the thread that decides.
#[derive(Clone, Debug)]
pub struct Engine {
    sender: Arc<SyncSender<Message>>,
    /// Whether nobody is to wait any longer.
    ending: watch::Sender<bool>,
}

/// Why the thread that decides gives no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Too much waits already.
    #[error("the server has more to do than it can; try again")]
    Busy,
    /// It has stopped.
    #[error("the server is stopping")]
    Stopped,
}

/// What somebody waits for a change of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// How a place stands.
    Place(u64),
    /// What a runner has to do.
    Runner(Name),
}

/// A batch as it was decided, on its way to the disk.
pub struct Decided<'a> {
    /// The state after it.
    pub desk: &'a Desk,
    /// The core's records.
    pub records: &'a [Record],
    /// What came of each record.
    pub outputs: &'a [Output],
    /// Places that stand differently.
    pub places: &'a BTreeSet<u64>,
}

/// A batch that was made durable. The state may have gone on since.
pub struct Durable<'a> {
    /// The core's records.
    pub records: &'a [Record],
    /// How many notes of the desk were with them.
    pub notes: usize,
    /// What came of them.
    pub told: &'a Told,
    /// How long it took to decide all of it.
    pub deciding: Duration,
    /// How long it took to make it durable.
    pub committing: Duration,
}

/// Somebody who watches: metrics, streams, logs. Called by the thread that decides, so it must be quick.
pub trait Observer: Send {
    /// Sees a batch with the very state that it leads to. It is not durable yet: what is made of it here is shown only to those who
    /// ask through [`Engine::read`], whose answers wait until it is.
    fn decided(&mut self, _decided: &Decided<'_>) {}

    /// Sees a batch once it is durable, to let out what there is to tell.
    fn durable(&mut self, _durable: &Durable<'_>) {}
}

type Reply = Box<dyn FnOnce() + Send>;
/// Gives the reply, and whether what was seen is to be watched on.
type Work = Box<dyn FnOnce(&mut Desk, Millis) -> (Reply, bool) + Send>;
type Watch = (Topic, oneshot::Sender<()>);

enum Message {
    /// Changes something, or looks at what there is; the reply waits until all that it saw is durable.
    Work(Work, Option<Watch>),
    /// The same for a runner that reports.
    Report(Work),
    /// The batch on its way has become durable.
    Landed,
    /// Ends the thread once everything that came before is durable.
    Stop,
}

impl Engine {
    /// Starts the thread. It ends with an error when something cannot be made durable.
    pub fn start(
        desk: Desk,
        clock: Clock,
        store: Store,
        observers: Vec<Box<dyn Observer>>,
    ) -> Result<(Engine, JoinHandle<Result<()>>)> {
        let (sender, receiver) = mpsc::sync_channel(WAITING_MOST);
        let sender = Arc::new(sender);
        // The thread ends when nobody can ask it any more: what nudges it must not keep it alive.
        let nudged = Arc::downgrade(&sender);
        let nudge = move || {
            // With so many messages that one more does not fit, it is awake.
            let _ = nudged.upgrade().map(|sender| sender.try_send(Message::Landed));
        };
        let thread = Thread::new(desk, clock, store, observers, nudge)?;
        let handle = std::thread::Builder::new()
            .name("engine".to_string())
            .spawn(move || thread.run(&receiver))
            .context("while starting the thread that decides")?;
        Ok((Engine { sender, ending: watch::Sender::new(false) }, handle))
    }

    /// Changes something, and answers once that is durable.
    pub async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Desk, Millis) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.answer(change, |work| Message::Work(work, None)).await
    }

    /// The same for a runner that reports: those who wait for an answer go first.
    pub async fn report<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Desk, Millis) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.answer(change, Message::Report).await
    }

    /// Looks at what there is, and answers once that is durable. What-if is looking too, which is why the desk may be touched; nothing
    /// that changes its state belongs here.
    pub async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Desk, Millis) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.answer(look, |work| Message::Work(work, None)).await
    }

    /// Looks, and gets something that resolves at the next change of the topic after that look, or sooner; nothing where the look says
    /// that there is nothing to watch: whoever watched what never changes would be kept for ever.
    pub async fn watch<T: Send + 'static>(
        &self,
        topic: Topic,
        look: impl FnOnce(&mut Desk, Millis) -> (T, bool) + Send + 'static,
    ) -> Result<(T, Option<oneshot::Receiver<()>>), NoAnswer> {
        let (work, answer) = replying(look);
        let (changed, change) = oneshot::channel();
        self.send(Message::Work(work, Some((topic, changed))))?;
        let (seen, is_watched) = answer.await.map_err(|_| NoAnswer::Stopped)?;
        Ok((seen, is_watched.then_some(change)))
    }

    /// Waits for a change of something that is watched, until a time, or until the server ends.
    pub async fn wait(&self, change: oneshot::Receiver<()>, until: time::Instant) {
        tokio::select! {
            _ = change => {}
            () = time::sleep_until(until) => {}
            () = self.ending() => {}
        }
    }

    /// Lets everybody who waits go with what there is to say now: the server ends.
    pub fn end_waits(&self) {
        self.ending.send_replace(true);
    }

    /// Whether the server ends.
    pub fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// Resolves when the server ends.
    pub async fn ending(&self) {
        // The sender lives as long as this does.
        let _ = self.ending.subscribe().wait_for(|ending| *ending).await;
    }

    /// Lets the thread end once everything that came before is durable.
    pub fn stop(&self) {
        // Where it cannot be sent, the thread has ended.
        let _ = self.sender.send(Message::Stop);
    }

    /// Sends work as a message, and waits for what came of it.
    async fn answer<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Desk, Millis) -> T + Send + 'static,
        message: impl FnOnce(Work) -> Message,
    ) -> Result<T, NoAnswer> {
        let (work, answer) = replying(|desk, now| (work(desk, now), false));
        self.send(message(work))?;
        let (done, _) = answer.await.map_err(|_| NoAnswer::Stopped)?;
        Ok(done)
    }

    fn send(&self, message: Message) -> Result<(), NoAnswer> {
        self.sender.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => NoAnswer::Busy,
            TrySendError::Disconnected(_) => NoAnswer::Stopped,
        })
    }
}

fn replying<T: Send + 'static>(
    work: impl FnOnce(&mut Desk, Millis) -> (T, bool) + Send + 'static,
) -> (Work, oneshot::Receiver<(T, bool)>) {
    let (sender, receiver) = oneshot::channel();
    let work = move |desk: &mut Desk, now| {
        let (answer, is_watched) = work(desk, now);
        // Whoever asked may have gone; what was done stays done.
        let reply: Reply = Box::new(move || drop(sender.send((answer, is_watched))));
        (reply, is_watched)
    };
    (Box::new(work), receiver)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::event::Settings;
    use plimsoll_slots::desk::{Ask, Manners};

    use super::*;
    use crate::recovery;

    fn started(dir: &std::path::Path) -> (Engine, JoinHandle<Result<()>>) {
        let (desk, clock, store) = recovery::open(dir, Manners::default(), &Settings::default())
            .expect("a data directory");
        Engine::start(desk, clock, store, Vec::new()).expect("a thread")
    }

    fn model() -> plimsoll_slots::model::Model {
        serde_json::from_str(
            r#"{"name":"m","runtime":{"command":{"argv":["serve"]}},"memory":"1GiB"}"#,
        )
        .expect("a model")
    }

    #[tokio::test]
    async fn what_was_answered_is_there_after_a_restart() {
        let dir = tempfile::tempdir().expect("a directory");
        let (engine, thread) = started(dir.path());
        let ask =
            Ask { model: "m".to_string(), key: Some("k".to_string()), who: None, deadline: None };
        let again = ask.clone();
        let place = engine.write(move |desk, now| {
            desk.put_model(now, model());
            desk.ask(now, ask)
        });
        let place = place.await.expect("an answer").expect("a place");
        engine.stop();
        thread.join().expect("it ends").expect("well");
        assert_eq!(engine.read(|desk, _| desk.models().count()).await, Err(NoAnswer::Stopped));
        let (engine, _thread) = started(dir.path());
        let same = engine.write(move |desk, now| desk.ask(now, again)).await.expect("an answer");
        assert_eq!(same, Ok(place), "the same key finds the same place");
    }

    #[tokio::test]
    async fn time_goes_on_after_a_restart_though_the_clock_was_put_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let (engine, thread) = started(dir.path());
        let told = engine.write(|desk, now| {
            let tomorrow = Millis(now.0 + 86_400_000);
            desk.configure(tomorrow, Settings { offer_for: 77, ..Settings::default() });
            tomorrow
        });
        let told = told.await.expect("an answer");
        engine.stop();
        thread.join().expect("it ends").expect("well");
        let (engine, _thread) = started(dir.path());
        assert!(engine.read(|_, now| now).await.expect("an answer") >= told);
    }

    #[tokio::test]
    async fn nothing_is_answered_before_all_that_it_saw_is_durable() {
        let dir = tempfile::tempdir().expect("a directory");
        let (engine, _thread) = started(dir.path());
        let disk = rusqlite::Connection::open(dir.path().join("journal.db")).expect("the journal");
        disk.execute_batch("BEGIN IMMEDIATE").expect("nobody else can write now");
        let mut write = std::pin::pin!(engine.write(|desk, now| desk.put_model(now, model())));
        let mut read = std::pin::pin!(engine.read(|desk, _| desk.models().count()));
        let patience = Duration::from_millis(200);
        assert!(time::timeout(patience, &mut write).await.is_err(), "it is not on the disk");
        assert!(time::timeout(patience, &mut read).await.is_err(), "nor is what this saw");
        disk.execute_batch("ROLLBACK").expect("others can write again");
        assert_eq!((write.await, read.await), (Ok(()), Ok(1)));
    }

    #[tokio::test]
    async fn a_watch_sees_the_change_that_comes_after_its_look() {
        let dir = tempfile::tempdir().expect("a directory");
        let (engine, _thread) = started(dir.path());
        let ask = Ask { model: "m".to_string(), key: None, who: None, deadline: None };
        let place = engine.write(move |desk, now| {
            desk.put_model(now, model());
            desk.ask(now, ask).expect("a place")
        });
        let place = place.await.expect("an answer");
        let look =
            engine.watch(Topic::Place(place), move |desk, _| (desk.place_status(place), true));
        let (status, change) = look.await.expect("an answer");
        assert!(status.is_some_and(|status| !status.is_settled()));
        assert!(
            engine.write(move |desk, now| desk.give_back(now, place)).await.expect("an answer")
        );
        change.expect("it is watched").await.expect("the change is told");
    }
}
