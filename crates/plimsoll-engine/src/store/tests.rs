//! The store, on real files.

mod crash;
mod damage;
mod model;
mod snapshots;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::device::{Device, DeviceChoice, Node, Source};
use plimsoll_core::drive::Drive;
use plimsoll_core::event::{Event, Settings};
use plimsoll_core::request::{Amount, Need, Request, RequestId, Shape, Spec, Terms};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Bytes, Millis};
use tempfile::TempDir;

use super::*;
use crate::journal::JournalledChanges;

/// A directory that is removed when the test is over.
fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// A machine with its journal's numbers, as the server drives it.
pub(crate) struct Machine {
    pub drive: Drive,
    next_changes: u64,
    steps: u64,
}

impl Machine {
    /// An empty one.
    pub(crate) fn new() -> Machine {
        let drive = Drive::resume(Scheduler::new(Settings::default()), 0);
        Machine { drive, next_changes: 0, steps: 0 }
    }

    /// One that goes on from what was found.
    pub(crate) fn resume(found: Recovered) -> Machine {
        let snapshot = found.snapshot.expect("a snapshot was kept first");
        let mut scheduler = Scheduler::restore(snapshot.core).expect("it can be started from");
        let next_seq = snapshot.next_seq + found.records.len() as u64;
        for operation in found.records.iter().flat_map(|record| &record.operations) {
            scheduler.recover_next(operation);
        }
        let next_changes = snapshot.next_changes + found.changes.len() as u64;
        Machine { drive: Drive::resume(scheduler, next_seq), next_changes, steps: next_seq }
    }

    /// Returns a batch of events and changes: a node, and requests that are submitted, run and end.
    pub(crate) fn batch(&mut self, events: usize, changes: usize) -> JournalBatch {
        for _ in 0..events {
            let step = self.steps;
            self.steps += 1;
            let request = RequestId::new("team", format!("job-{}", step / 3));
            let event = match step {
                0 => Event::Node { node: Box::new(node()) },
                step if step % 3 == 1 => Event::Submit { request: asked(step), deadline: None },
                step if step % 3 == 2 => Event::Withdraw { request },
                _ => Event::Freed { request, generation: None, ordinal: None },
            };
            self.drive.handle(Millis(1000 + step), event);
        }
        let first = self.next_changes;
        self.next_changes += changes as u64;
        let changes = |seq| JournalledChanges { seq, body: format!("{{\"model\":\"m-{seq}\"}}") };
        let batch = JournalBatch {
            records: self.drive.batch(),
            changes: (first..self.next_changes).map(changes).collect(),
        };
        self.drive.committed();
        batch
    }

    /// The state after the last batch.
    pub(crate) fn snapshot(&self) -> HostSnapshot {
        HostSnapshot {
            next_seq: self.steps,
            next_changes: self.next_changes,
            now: Millis(1000 + self.steps),
            core: self.drive.scheduler().snapshot(),
            front: serde_json::value::to_raw_value(
                &serde_json::json!({ "changes": self.next_changes }),
            )
            .expect("JSON"),
            origin: super::SnapshotOrigin::Journal,
        }
    }
}

impl PartialEq for HostSnapshot {
    fn eq(&self, other: &HostSnapshot) -> bool {
        let front = self.front.get() == other.front.get();
        front && self.mark() == other.mark() && self.now == other.now && self.core == other.core
    }
}

fn node() -> Node {
    let mut node = Node::new("node-a");
    node.devices = vec![Device::new("NVIDIA", Bytes::gib(80), Source::Declared); 2];
    node.choice = DeviceChoice::Owned;
    node
}

fn asked(step: u64) -> Request {
    let amount = Amount::bytes(Bytes::gib(10 + step % 90));
    let spec = Spec::from_shapes(vec![Shape::single("main", Need::one("NVIDIA", amount))]);
    Request {
        id: RequestId::new("team", format!("job-{}", step / 3)),
        spec: Arc::new(spec),
        terms: Terms::default(),
    }
}

/// Opens a directory that has nothing wrong with it.
pub(crate) fn open(dir: &Path) -> (Store, Recovered) {
    Store::open(dir).expect("it can be opened")
}

/// A directory with a first snapshot and batches of these sizes.
pub(crate) fn filled(dir: &Path, sizes: &[usize]) -> (Store, Machine, Vec<JournalBatch>) {
    let (mut store, _) = open(dir);
    let mut machine = Machine::new();
    store.save_snapshot(machine.snapshot().into());
    store.wait_for_snapshots().expect("a snapshot is kept");
    let batches: Vec<JournalBatch> =
        sizes.iter().map(|size| machine.batch(*size, size / 2)).collect();
    for batch in &batches {
        store.commit(batch).expect("it is committed");
    }
    (store, machine, batches)
}

/// All batches in one.
fn together(batches: &[JournalBatch]) -> JournalBatch {
    let records = batches.iter().flat_map(|batch| batch.records.clone()).collect();
    let changes = batches.iter().flat_map(|batch| batch.changes.clone()).collect();
    JournalBatch { records, changes }
}

fn after_base(found: Recovered) -> JournalBatch {
    JournalBatch { records: found.records, changes: found.changes }
}

#[test]
fn an_empty_directory_is_made_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let root = directory();
    let dir = root.path().join("deep/data");
    let (store, found) = open(&dir);
    assert!(found.snapshot.is_none() && found.records.is_empty() && found.changes.is_empty());
    let mode =
        |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(
        (mode(&dir), mode(&schema::file(&dir)), mode(&dir.join("lock"))),
        (0o700, 0o600, 0o600)
    );
    drop(store);
    open(&dir);
}

#[test]
fn what_was_committed_is_found_again() {
    let root = directory();
    let (store, machine, batches) = filled(root.path(), &[1, 5, 0, 30]);
    drop(store);
    let (mut store, found) = open(root.path());
    assert_eq!(found.snapshot, Some(Machine::new().snapshot()));
    assert_eq!(Machine::resume(found).snapshot(), machine.snapshot());
    let mut machine = machine;
    let more = machine.batch(3, 2);
    store.commit(&more).expect("it goes on");
    drop(store);
    let (_store, found) = open(root.path());
    assert_eq!(after_base(found), together(&[together(&batches), more]));
}

#[test]
fn the_log_is_emptied_while_commits_go_on() {
    let root = directory();
    let (mut store, _) = open(root.path());
    let size = || std::fs::metadata(schema::file(root.path())).expect("a journal").len();
    let (before, body) = (size(), "x".repeat(1 << 16));
    for seq in 0..64 {
        let batch = JournalBatch {
            records: Vec::new(),
            changes: vec![JournalledChanges { seq, body: body.clone() }],
        };
        store.commit(&batch).expect("there is room");
    }
    let until = Instant::now() + Duration::from_secs(30);
    while size() < before + (1 << 20) {
        assert!(
            Instant::now() < until,
            "4 MiB are in the log only, and the file has {} bytes",
            size()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_second_process_is_rejected_and_the_first_one_is_named() {
    let root = directory();
    let (_first, _) = open(root.path());
    let error = Store::open(root.path()).expect_err("it is taken").to_string();
    let wanted = format!(
        "data directory {} is in use by process {}",
        root.path().display(),
        std::process::id()
    );
    assert!(error.starts_with(&wanted), "{error}");
}

#[test]
fn a_batch_that_does_not_go_on_where_the_last_one_ended_is_not_written() {
    let root = directory();
    let (mut store, mut machine, batches) = filled(root.path(), &[4]);
    let mut doubled = batches[0].clone();
    doubled.changes.clear();
    let error = store.commit(&doubled).expect_err("it is there already");
    assert!(
        matches!(error, StoreError::OutOfOrder { table: "journal", expected: 4, found: 0 }),
        "{error}"
    );
    let stopped = store.commit(&machine.batch(1, 0)).expect_err("nothing is taken after a failure");
    assert!(matches!(stopped, StoreError::Stopped { .. }), "{stopped}");
    drop(store);
    assert_eq!(after_base(open(root.path()).1), together(&batches));
}

#[test]
fn a_full_disk_stops_the_store_and_leaves_nothing_half_written() {
    let root = directory();
    let (mut store, mut machine, batches) = filled(root.path(), &[4]);
    let pages: i64 = store
        .connection
        .pragma_query_value(None, "page_count", |row| row.get(0))
        .expect("a number");
    store.connection.pragma_update(None, "max_page_count", pages + 1).expect("a limit");
    let full = store.commit(&machine.batch(300, 20)).expect_err("there is no room");
    assert!(matches!(full, StoreError::Full { .. }), "{full}");
    let stopped = store.commit(&machine.batch(1, 0)).expect_err("nothing is taken after a failure");
    assert!(matches!(stopped, StoreError::Stopped { .. }), "{stopped}");
    drop(store);
    assert_eq!(after_base(open(root.path()).1), together(&batches));
}

#[test]
fn nothing_is_acknowledged_once_the_directory_was_removed() {
    let root = directory();
    let dir = root.path().join("data");
    let (mut store, mut machine, _) = filled(&dir, &[4]);
    std::fs::remove_dir_all(&dir).expect("it can be removed");
    let removed = store.commit(&machine.batch(1, 0)).expect_err("it goes nowhere");
    assert!(removed.to_string().contains("was removed or replaced"), "{removed}");
}

#[test]
fn decisions_are_listed_newest_first_by_account_and_name() {
    let root = directory();
    let (_store, _, batches) = filled(root.path(), &[60]);
    let history = History::open(root.path()).expect("readers need no lock");
    assert_eq!(history.span().expect("it is there"), Some((0, 59)));
    let some = history.records(Some(10), 5).expect("records");
    assert_eq!(some, batches[0].records[11..16]);
    let list = |filter: Filter<'_>, before, limit| -> Vec<Listed> {
        history.decisions(&filter, before, limit).expect("a list")
    };
    let all = list(Filter::default(), None, 1000);
    assert_eq!(
        all.len(),
        batches[0].records.iter().map(|record| record.decisions.len()).sum::<usize>()
    );
    assert!(all.is_sorted_by(|newer, older| newer.id > older.id));
    let decision = &batches[0].records[1].decisions[0];
    let last = all.last().expect("the first decision");
    assert_eq!((&last.request, &last.summary), (&decision.request, &decision.summary));
    assert_eq!((last.id, last.now), (DecisionId { seq: 1, index: 0 }, Millis(1001)));
    assert_eq!(last.digest, format!("{:016x}", decision.digest));
    let team = Filter { account: Some("team"), name: None };
    assert_eq!(list(team, Some(all[2].id), 4), all[3..7]);
    let job = Filter { name: Some("job-3"), ..team };
    assert!(list(job, None, 1000).iter().all(|listed| &*listed.request.name == "job-3"));
    assert!(!list(job, None, 1000).is_empty());
    assert_eq!(list(Filter { account: Some("missing"), name: None }, None, 10), []);
}
