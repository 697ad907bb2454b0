//! The one thread that decides. It takes what has come in, makes it durable in one go, and only then lets anything out.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use plimsoll_core::drive::Record;
use plimsoll_core::units::{Millis, Name};
use plimsoll_slots::desk::{Batch, Desk, Told};
use tokio::sync::{oneshot, watch};
use tokio::time;

use super::recovery;
use crate::store::{self, Note, Store};

/// So many messages may wait; one more is told that the server is busy.
const WAITING_MOST: usize = 8192;
/// So many changes are made durable in one go at most.
const BATCH_MOST: usize = 1024;
/// How often time is noticed.
const TICK: Duration = Duration::from_millis(500);
/// How often every device is checked, whether it changed or not.
const AUDIT: Duration = Duration::from_secs(60);

/// The way to the thread that decides.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    sender: SyncSender<Message>,
    /// Whether nobody is to wait any longer.
    ending: watch::Sender<bool>,
}

/// Why the thread that decides gives no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// Too much waits already.
    #[error("the server has more to do than it can; try again")]
    Busy,
    /// It has stopped.
    #[error("the server is stopping")]
    Stopped,
}

/// What somebody waits for a change of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// How a place stands.
    Place(u64),
    /// What a runner has to do.
    Runner(Name),
}

/// What was made durable, to those who watch.
pub(crate) struct Seen<'a> {
    /// The state after it.
    pub(crate) desk: &'a Desk,
    /// The core's records.
    pub(crate) records: &'a [Record],
    /// How many notes of the desk were with them.
    pub(crate) notes: usize,
    /// What came of them.
    pub(crate) told: &'a Told,
    /// How long it took to decide all of it.
    pub(crate) deciding: Duration,
    /// How long it took to make it durable.
    pub(crate) committing: Duration,
}

/// Somebody who watches what was made durable: metrics, streams, logs. Called by the thread that decides, so it must be quick.
pub(crate) trait Observer: Send {
    /// Sees one batch.
    fn see(&mut self, seen: &Seen<'_>);
}

type Reply = Box<dyn FnOnce() + Send>;
type Work = Box<dyn FnOnce(&mut Desk, Millis) -> Reply + Send>;

enum Message {
    /// Changes something; the reply waits until that is durable.
    Write(Work),
    /// Looks at what is durable.
    Read(Work, Option<(Topic, oneshot::Sender<()>)>),
    /// Ends the thread once everything that came before is durable.
    Stop,
}

impl Engine {
    /// Starts the thread. It ends with an error when something cannot be made durable.
    pub(crate) fn start(
        desk: Desk,
        store: Store,
        observers: Vec<Box<dyn Observer>>,
    ) -> Result<(Engine, JoinHandle<Result<()>>)> {
        let (sender, receiver) = mpsc::sync_channel(WAITING_MOST);
        let thread = Thread { desk, store, observers, watchers: BTreeMap::new(), clock: Millis(0) };
        let handle = std::thread::Builder::new()
            .name("engine".to_string())
            .spawn(move || thread.run(&receiver))
            .context("while starting the thread that decides")?;
        Ok((Engine { sender, ending: watch::Sender::new(false) }, handle))
    }

    /// Changes something, and answers once that is durable.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Desk, Millis) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let (work, answer) = replying(change);
        self.send(Message::Write(work))?;
        answer.await.map_err(|_| NoAnswer::Stopped)
    }

    /// Looks at what is durable. What-if is looking too, which is why the desk may be touched; nothing that changes its state
    /// belongs here.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Desk, Millis) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let (work, answer) = replying(look);
        self.send(Message::Read(work, None))?;
        answer.await.map_err(|_| NoAnswer::Stopped)
    }

    /// Looks at what is durable, and gets something that resolves at the next change of the topic after that look.
    pub(crate) async fn watch<T: Send + 'static>(
        &self,
        topic: Topic,
        look: impl FnOnce(&mut Desk, Millis) -> T + Send + 'static,
    ) -> Result<(T, oneshot::Receiver<()>), NoAnswer> {
        let (work, answer) = replying(look);
        let (changed, change) = oneshot::channel();
        self.send(Message::Read(work, Some((topic, changed))))?;
        Ok((answer.await.map_err(|_| NoAnswer::Stopped)?, change))
    }

    /// Waits for a change of something that is watched, until a time, or until the server ends.
    pub(crate) async fn wait(&self, change: oneshot::Receiver<()>, until: time::Instant) {
        tokio::select! {
            _ = change => {}
            () = time::sleep_until(until) => {}
            () = self.ending() => {}
        }
    }

    /// Lets everybody who waits go with what there is to say now: the server ends.
    pub(crate) fn end_waits(&self) {
        self.ending.send_replace(true);
    }

    /// Whether the server ends.
    pub(crate) fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// Resolves when the server ends.
    pub(crate) async fn ending(&self) {
        // The sender lives as long as this does.
        let _ = self.ending.subscribe().wait_for(|ending| *ending).await;
    }

    /// Lets the thread end once everything that came before is durable.
    pub(crate) fn stop(&self) {
        // Where it cannot be sent, the thread has ended.
        let _ = self.sender.send(Message::Stop);
    }

    fn send(&self, message: Message) -> Result<(), NoAnswer> {
        self.sender.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => NoAnswer::Busy,
            TrySendError::Disconnected(_) => NoAnswer::Stopped,
        })
    }
}

fn replying<T: Send + 'static>(
    work: impl FnOnce(&mut Desk, Millis) -> T + Send + 'static,
) -> (Work, oneshot::Receiver<T>) {
    let (sender, receiver) = oneshot::channel();
    let work = move |desk: &mut Desk, now| {
        let answer = work(desk, now);
        // Whoever asked may have gone; what was done stays done.
        let reply: Reply = Box::new(move || drop(sender.send(answer)));
        reply
    };
    (Box::new(work), receiver)
}

struct Thread {
    desk: Desk,
    store: Store,
    observers: Vec<Box<dyn Observer>>,
    watchers: BTreeMap<Topic, Vec<oneshot::Sender<()>>>,
    clock: Millis,
}

impl Thread {
    fn run(mut self, receiver: &Receiver<Message>) -> Result<()> {
        let (mut next_tick, mut next_audit) = (Instant::now(), Instant::now() + AUDIT);
        loop {
            let patience = next_tick.saturating_duration_since(Instant::now());
            let first = match receiver.recv_timeout(patience) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let (started, now) = (Instant::now(), self.now());
            if started >= next_tick {
                self.desk.tick(now);
                next_tick = started + TICK;
            }
            if started >= next_audit {
                self.desk.audit(now);
                next_audit = started + AUDIT;
            }
            let (mut replies, mut reads, mut stops) = (Vec::new(), Vec::new(), false);
            for message in first.into_iter().chain(receiver.try_iter()).take(BATCH_MOST) {
                match message {
                    Message::Write(work) => replies.push(work(&mut self.desk, now)),
                    Message::Read(work, watch) => reads.push((work, watch)),
                    Message::Stop => stops = true,
                }
            }
            self.make_durable(started)?;
            replies.into_iter().for_each(|reply| reply());
            for (work, watch) in reads {
                work(&mut self.desk, now)();
                self.watchers_of(watch);
            }
            if stops {
                return Ok(());
            }
        }
    }

    /// Milliseconds since 1970, and never less than before.
    fn now(&mut self) -> Millis {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        self.clock = self.clock.max(Millis(u64::try_from(wall).unwrap_or(u64::MAX)));
        self.clock
    }

    fn make_durable(&mut self, started: Instant) -> Result<()> {
        let batch = to_store(self.desk.batch());
        let deciding = started.elapsed();
        let commit = Instant::now();
        self.store.commit(&batch).context("a decision could not be made durable, so the server stops")?;
        let committing = commit.elapsed();
        let told = self.desk.committed();
        let desk = &self.desk;
        let (records, notes) = (&batch.records[..], batch.notes.len());
        let seen = Seen { desk, records, notes, told: &told, deciding, committing };
        self.observers.iter_mut().for_each(|observer| observer.see(&seen));
        let topics = told.places.iter().map(|place| Topic::Place(*place));
        let topics = topics.chain(told.runners.iter().map(|runner| Topic::Runner(runner.clone())));
        for sender in topics.filter_map(|topic| self.watchers.remove(&topic)).flatten() {
            // Whoever watched may have gone.
            let _ = sender.send(());
        }
        if self.store.wants_base() {
            self.store.keep_base(recovery::base(&self.desk));
        }
        Ok(())
    }

    fn watchers_of(&mut self, watch: Option<(Topic, oneshot::Sender<()>)>) {
        let Some((topic, sender)) = watch else { return };
        let watchers = self.watchers.entry(topic).or_default();
        watchers.retain(|watcher| !watcher.is_closed());
        watchers.push(sender);
    }
}

fn to_store(batch: Batch) -> store::Batch {
    let note = |(seq, operations)| Note {
        seq,
        body: serde_json::to_string(&operations).expect("operations are plain data"),
    };
    store::Batch { records: batch.records, notes: batch.notes.into_iter().map(note).collect() }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::event::Settings;
    use plimsoll_slots::desk::{Ask, Manners};

    use super::*;

    fn started(dir: &std::path::Path) -> (Engine, JoinHandle<Result<()>>) {
        let (mut store, found) = Store::open(dir).expect("a data directory");
        let fresh = found.base.is_none();
        let desk = recovery::recover(found, Manners::default(), &Settings::default()).expect("a desk");
        if fresh {
            store.keep_base(recovery::base(&desk));
            store.settle().expect("a base");
        }
        Engine::start(desk, store, Vec::new()).expect("a thread")
    }

    fn model() -> plimsoll_slots::model::Model {
        serde_json::from_str(r#"{"name":"m","runtime":{"command":{"argv":["serve"]}},"memory":"1GiB"}"#)
            .expect("a model")
    }

    #[tokio::test]
    async fn what_was_answered_is_there_after_a_restart() {
        let dir = tempfile::tempdir().expect("a directory");
        let (engine, thread) = started(dir.path());
        let ask = Ask { model: "m".to_string(), key: Some("k".to_string()), who: None, deadline: None };
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
    async fn a_watch_sees_the_change_that_comes_after_its_look() {
        let dir = tempfile::tempdir().expect("a directory");
        let (engine, _thread) = started(dir.path());
        let ask = Ask { model: "m".to_string(), key: None, who: None, deadline: None };
        let place = engine.write(move |desk, now| {
            desk.put_model(now, model());
            desk.ask(now, ask).expect("a place")
        });
        let place = place.await.expect("an answer");
        let look = engine.watch(Topic::Place(place), move |desk, _| desk.place_status(place));
        let (status, change) = look.await.expect("an answer");
        assert!(status.is_some_and(|status| !status.is_settled()));
        assert!(engine.write(move |desk, now| desk.give_back(now, place)).await.expect("an answer"));
        change.await.expect("the change is told");
    }
}
