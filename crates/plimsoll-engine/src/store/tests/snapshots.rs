//! Bases: written beside, fallen back from, and what goes with the old ones.

use std::fs;
use std::path::Path;

use super::*;

/// Overwrites a byte in the middle of a file.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).expect("it can be written");
}

fn keep(store: &mut Store, machine: &Machine) {
    store.save_snapshot(machine.snapshot().into());
    store.wait_for_snapshots().expect("a snapshot is kept");
}

#[test]
fn a_start_is_from_the_newest_base_and_what_came_after() {
    let root = directory();
    let (mut store, mut machine, _) = filled(root.path(), &[20]);
    keep(&mut store, &machine);
    let kept = machine.snapshot();
    let more = machine.batch(7, 3);
    store.commit(&more).expect("it is committed");
    drop(store);
    let (_store, found) = open(root.path());
    assert_eq!(found.snapshot, Some(kept));
    assert_eq!(after_base(found), more);
}

#[test]
fn a_damaged_base_falls_back_to_the_one_before_with_a_warning() {
    let root = directory();
    let (mut store, mut machine, batches) = filled(root.path(), &[20]);
    keep(&mut store, &machine);
    let more = machine.batch(7, 3);
    store.commit(&more).expect("it is committed");
    drop(store);
    damage(&snapshot::file(root.path(), 20));
    let (store, found) = open(root.path());
    assert!(found.warnings[0].contains("snapshot-20.json is damaged: its checksum does not match"));
    assert_eq!(found.snapshot, Some(Machine::new().snapshot()));
    assert_eq!(after_base(found), together(&[batches[0].clone(), more]));
    drop(store);
    damage(&snapshot::file(root.path(), 0));
    let error = Store::open(root.path()).expect_err("nothing is left").to_string();
    assert!(error.contains("snapshot-20.json") && error.contains("snapshot-0.json"), "{error}");
}

#[test]
fn a_base_that_was_cut_off_or_never_named_is_not_used() {
    let root = directory();
    let (mut store, machine, _) = filled(root.path(), &[20]);
    keep(&mut store, &machine);
    drop(store);
    let file = snapshot::file(root.path(), 20);
    let whole = fs::read(&file).expect("it is there");
    let part = root.path().join("snapshot-99.json.part");
    fs::write(&part, &whole).expect("a file");
    for length in [0, 5, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..length]).expect("a file");
        let (_store, found) = open(root.path());
        assert_eq!(
            found.snapshot.map(|snapshot| snapshot.next_seq),
            Some(0),
            "cut off at {length}"
        );
    }
    assert!(!part.exists());
}

#[test]
fn old_rows_go_a_few_at_a_time_and_everything_after_the_base_before_stays() {
    let root = directory();
    let (mut store, mut machine, _) = filled(root.path(), &[3000]);
    keep(&mut store, &machine);
    store.commit(&machine.batch(100, 10)).expect("it is committed");
    let history = History::open(root.path()).expect("it is there");
    assert_eq!(
        history.span().expect("a span"),
        Some((0, 3099)),
        "the snapshot before is snapshot-0"
    );
    keep(&mut store, &machine);
    assert_eq!(snapshot::list(root.path()).expect("snapshots"), [3100, 3000]);
    store.commit(&machine.batch(1, 1)).expect("it is committed");
    assert_eq!(history.span().expect("a span"), Some((500, 3100)));
    store.commit(&machine.batch(1000, 1)).expect("it is committed");
    assert_eq!(history.span().expect("a span"), Some((2500, 4100)), "twice what came in");
    drop(store);
    let (mut store, _) = open(root.path());
    for _ in 0..3 {
        store.commit(&machine.batch(1, 1)).expect("it is committed");
    }
    assert_eq!(history.span().expect("a span"), Some((3000, 4103)), "a restart goes on with it");
    let oldest = history.decisions(&Filter::default(), None, 10_000).expect("a list");
    assert!(oldest.last().is_some_and(|listed| listed.id.seq >= 3000));
    assert_eq!(history.snapshots().expect("snapshots").len(), 2);
    drop(store);
    damage(&snapshot::file(root.path(), 3100));
    let (_store, found) = open(root.path());
    assert_eq!(
        Machine::resume(found).snapshot(),
        machine.snapshot(),
        "the snapshot before can still be started from"
    );
}

#[test]
fn the_next_snapshot_is_due_after_a_number_of_rows() {
    let root = directory();
    let (mut store, mut machine, _) = filled(root.path(), &[1]);
    let half = usize::try_from(ROWS_PER_SNAPSHOT / 2).expect("a small number");
    store.commit(&machine.batch(half, 0)).expect("it is committed");
    assert!(!store.is_snapshot_due());
    drop(store);
    let (mut store, _) = open(root.path());
    store.commit(&machine.batch(half, 0)).expect("it is committed");
    assert!(store.is_snapshot_due(), "those from before the restart count");
    keep(&mut store, &machine);
    assert!(!store.is_snapshot_due());
}

#[test]
#[should_panic(expected = "a snapshot is the state after the last commit")]
fn a_snapshot_that_is_ahead_of_the_journal_is_rejected() {
    let root = directory();
    let (mut store, mut machine, _) = filled(root.path(), &[1]);
    machine.batch(1, 0);
    store.save_snapshot(machine.snapshot().into());
}

#[test]
fn a_base_that_cannot_be_written_stops_nothing() {
    let root = directory();
    let (mut store, mut machine, _) = filled(root.path(), &[5]);
    fs::create_dir(root.path().join("snapshot-5.json.part")).expect("something in its way");
    store.save_snapshot(machine.snapshot().into());
    assert!(matches!(store.wait_for_snapshots(), Err(StoreError::Files { doing: "write", .. })));
    store.commit(&machine.batch(5, 1)).expect("commits go on");
}
