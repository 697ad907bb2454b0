//! The engine around a tiny front end, on both journals.

use std::path::Path;
use std::pin::pin;

use plimsoll_core::device::{Device, Node, Source};
use plimsoll_core::event::{Event, Settings};
use plimsoll_core::request::{Amount, Need, Request, RequestId, Shape, Spec, Terms};
use plimsoll_core::units::{Bytes, Millis, Name};

use super::*;
use crate::journal::MemoryJournal;
use crate::recovery;
use crate::store::Store;

/// A front end of jobs: each asks for 10 GiB of one GPU. It counts the jobs of each owner.
#[derive(Debug, Default)]
struct Jobs {
    counts: std::collections::BTreeMap<Name, u64>,
    changes: Vec<Name>,
    topics: BTreeSet<Name>,
}

impl Jobs {
    fn submit(&mut self, core: &mut Core<'_>, owner: &str) -> u64 {
        let owner = Name::from(owner);
        self.apply(owner.clone());
        self.changes.push(owner.clone());
        self.topics.insert(owner.clone());
        let number = self.counts[&owner];
        let need = Need::one("NVIDIA", Amount::bytes(Bytes::gib(10)));
        let spec = Spec::from_shapes(vec![Shape::single("job", need)]).into();
        let terms = Terms { waits: true, ..Terms::default() };
        let request = Request { id: RequestId::new(owner, number.to_string()), spec, terms };
        core.step(Event::Submit { request, deadline: None });
        number
    }
}

impl Front for Jobs {
    type Change = Name;
    type State = std::collections::BTreeMap<Name, u64>;
    type Topic = Name;

    fn restore(&mut self, counts: Self::State) {
        self.counts = counts;
    }
    fn apply(&mut self, owner: Name) {
        *self.counts.entry(owner).or_default() += 1;
    }
    fn state(&self) -> Self::State {
        self.counts.clone()
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

type Started = (Engine<Jobs>, JoinHandle<Result<()>>);

fn start_on_disk(dir: &Path) -> Started {
    let (host, clock, store): (_, _, Store) =
        recovery::open(dir, Jobs::default(), &Settings::default()).expect("a data directory");
    Engine::start(host, clock, store, Vec::new()).expect("a thread")
}

fn start_in_memory(journal: &MemoryJournal) -> Started {
    let (host, clock) =
        recovery::rebuild(journal.recovered(), Jobs::default(), &Settings::default())
            .expect("a journal that can be read");
    Engine::start(host, clock, journal.clone(), Vec::new()).expect("a thread")
}

fn stop((engine, thread): Started) {
    engine.stop();
    thread.join().expect("no panic").expect("everything durable");
}

fn add_node(jobs: &mut Jobs, core: &mut Core<'_>) {
    let device = Device::new("NVIDIA", Bytes::gib(25), Source::Declared);
    let node = Box::new(Node { devices: vec![device], ..Node::new("n") });
    jobs.handle(core, Event::Node { node });
}

/// Returns the jobs that hold memory, the jobs that are pending, and the front end's own counts.
fn seen(jobs: &mut Jobs, core: &mut Core<'_>) -> (Vec<String>, usize, Vec<(Name, u64)>) {
    let holders = core.ledger().holdings().map(|(_, holding)| holding.request.to_string());
    let counts = jobs.counts.iter().map(|(owner, count)| (owner.clone(), *count));
    (holders.collect(), core.queue().len(), counts.collect())
}

#[tokio::test]
async fn a_front_end_that_is_killed_recovers_what_was_answered() {
    for rows_per_snapshot in [1, 3, 1000] {
        let journal = MemoryJournal::new(rows_per_snapshot);
        let (engine, thread) = start_in_memory(&journal);
        engine.write(add_node).await.expect("an answer");
        for owner in ["a", "b", "a"] {
            engine.write(|jobs, core| jobs.submit(core, owner)).await.expect("an answer");
        }
        let before = engine.read(seen).await.expect("an answer");
        assert_eq!((before.0.len(), before.1), (2, 1), "two of three fit 25 GiB");
        // What a crash leaves is the journal as it was; the engine ends without a word to it.
        let at_crash = MemoryJournal::from_recovered(journal.recovered());
        drop((engine, thread));
        let (engine, thread) = start_in_memory(&at_crash);
        assert_eq!(engine.read(seen).await.expect("an answer"), before);
        let next = engine.write(|jobs, core| jobs.submit(core, "a")).await.expect("an answer");
        assert_eq!(next, 3, "numbers go on");
        stop((engine, thread));
    }
}

#[tokio::test]
async fn an_answered_write_survives_a_restart_on_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let (engine, thread) = start_on_disk(dir.path());
    engine.write(|jobs, core| jobs.submit(core, "a")).await.expect("an answer");
    let before = engine.read(seen).await.expect("an answer");
    let late = engine.clone();
    stop((engine, thread));
    assert_eq!(late.read(|_, _| ()).await, Err(NoAnswer::Stopped));
    let started = start_on_disk(dir.path());
    assert_eq!(started.0.read(seen).await.expect("an answer"), before);
}

#[tokio::test]
async fn time_continues_after_a_restart_although_the_clock_was_put_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut host, mut clock, store) =
        recovery::open(dir.path(), Jobs::default(), &Settings::default()).expect("a directory");
    let tomorrow = Millis(clock.now().0 + 86_400_000);
    host.with(tomorrow, add_node);
    let started = Engine::start(host, clock, store, Vec::new()).expect("a thread");
    stop(started);
    let (engine, _thread) = start_on_disk(dir.path());
    assert!(engine.read(|_, core| core.now()).await.expect("an answer") >= tomorrow);
}

#[tokio::test]
async fn nothing_is_answered_before_everything_it_saw_is_durable() {
    let dir = tempfile::tempdir().expect("a directory");
    let (engine, _thread) = start_on_disk(dir.path());
    let disk = rusqlite::Connection::open(dir.path().join("journal.db")).expect("the journal");
    disk.execute_batch("BEGIN IMMEDIATE").expect("no other writer can commit now");
    let mut write = pin!(engine.write(|jobs, core| jobs.submit(core, "a")));
    let mut read = pin!(engine.read(seen));
    let patience = Duration::from_millis(200);
    assert!(time::timeout(patience, &mut write).await.is_err(), "it is not durable");
    assert!(time::timeout(patience, &mut read).await.is_err(), "nor is what this saw");
    disk.execute_batch("ROLLBACK").expect("other writers can commit again");
    assert_eq!(write.await, Ok(1));
    assert_eq!(read.await.expect("an answer").1, 1);
}

#[tokio::test]
async fn a_watcher_sees_the_change_that_comes_after_its_look() {
    let journal = MemoryJournal::new(1000);
    let (engine, _thread) = start_in_memory(&journal);
    let look = |jobs: &mut Jobs, _: &mut Core<'_>| (jobs.counts.len(), Watching::Continues);
    let (count, change) = engine.watch("a".into(), look).await.expect("an answer");
    assert_eq!(count, 0);
    engine.write(|jobs, core| jobs.submit(core, "a")).await.expect("an answer");
    change.expect("watching continues").await.expect("the change is published");
    let look = |_: &mut Jobs, _: &mut Core<'_>| ((), Watching::Ends);
    let ((), change) = engine.watch("a".into(), look).await.expect("an answer");
    assert!(change.is_none());
}
