//! Journals that replay without a difference, and journals that were changed.

use std::path::Path;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::journal::Journal;
use crate::store::tests::filled;

/// A data directory with a history that passes a snapshot, closed.
fn directory() -> TempDir {
    let root = tempfile::tempdir().expect("a directory");
    let (mut store, mut machine, _) = filled(root.path(), &[40]);
    store.save_snapshot(machine.snapshot().into());
    store.wait_for_snapshots().expect("a snapshot is kept");
    store.commit(&machine.batch(50, 4)).expect("it is committed");
    root
}

fn replayed(dir: &Path) -> Report {
    let history = History::open(dir).expect("it is there");
    let mut seen = Vec::new();
    let report = replay(&history, |seq| seen.push(seq)).expect("it can be decided again");
    assert_eq!(seen.len() as u64, report.records);
    report
}

/// Rewrites the journal with one record changed, as another core would have written it.
fn rewrite(dir: &Path, change: impl Fn(&mut Record)) {
    let history = History::open(dir).expect("it is there");
    let mut records = history.records(None, 1000).expect("records");
    drop(history);
    records.iter_mut().for_each(change);
    let mut connection = Connection::open(dir.join("journal.db")).expect("a database");
    let transaction = connection.transaction().expect("a change");
    transaction.execute_batch("DELETE FROM journal; DELETE FROM decisions").expect("no rows");
    for record in &records {
        crate::store::insert_record(&transaction, record).expect("a row");
    }
    transaction.commit().expect("it is changed");
}

#[test]
fn a_journal_comes_out_the_same_while_its_writer_lives() {
    let root = tempfile::tempdir().expect("a directory");
    let (mut store, mut machine, _) = filled(root.path(), &[40]);
    store.save_snapshot(machine.snapshot().into());
    store.wait_for_snapshots().expect("a snapshot is kept");
    store.commit(&machine.batch(50, 4)).expect("it is committed");
    let report = replayed(root.path());
    assert!(report.holds(), "{report:?}");
    assert_eq!((report.records, report.span), (90, Some((0, 89))));
    assert!(report.decisions > 20);
}

#[test]
fn a_digest_that_differs_is_one_divergence_and_not_many() {
    let root = directory();
    rewrite(root.path(), |record| {
        if record.seq == 13 {
            record.decisions[0].digest ^= 1;
            record.core = "0.0.9".to_string();
        }
    });
    let report = replayed(root.path());
    assert_eq!((report.differ, report.divergences[0].seq), (1, 13));
    assert!(report.crosses_versions() && report.states.is_empty());
}

#[test]
fn operations_that_differ_lead_elsewhere_than_the_base() {
    let root = directory();
    rewrite(root.path(), |record| {
        if record.seq == 37 {
            record.operations.clear();
        }
    });
    let report = replayed(root.path());
    assert!(report.divergences[0].operations_differ, "{report:?}");
    assert!(report.states.contains(&StatesDiffer { before: 40, way: Way::Snapshot }), "{report:?}");
}

#[test]
fn a_decision_is_explained_as_it_was_or_not_at_all() {
    let root = directory();
    let history = || History::open(root.path()).expect("it is there");
    for seq in [1, 88] {
        let id: DecisionId = format!("{seq}.0").parse().expect("a name");
        let same = one(&history(), id).expect("it is in the journal");
        assert!(same.is_same());
        assert_eq!(same.id, id);
        assert!(same.decision.table().is_some_and(|table| !table.by_name().is_empty()));
    }
    rewrite(root.path(), |record| {
        record.decisions.iter_mut().for_each(|decision| decision.digest ^= 1);
    });
    let other = one(&history(), DecisionId { seq: 1, index: 0 }).expect("it is in the journal");
    assert!(!other.is_same());
}

#[test]
fn a_decision_that_is_not_there_is_said_to_be_missing() {
    let root = directory();
    let history = || History::open(root.path()).expect("it is there");
    let missing =
        |seq, index| one(&history(), DecisionId { seq, index }).expect_err("no such").to_string();
    assert!(missing(90, 0).contains("which holds the records 0 to 89"), "{}", missing(90, 0));
    assert!(missing(1, 7).contains("record 1 holds 1 decisions"), "{}", missing(1, 7));
    assert!("12".parse::<DecisionId>().is_err() && "a.0".parse::<DecisionId>().is_err());
}

#[test]
fn what_is_left_after_pruning_can_still_be_decided_again() {
    let root = tempfile::tempdir().expect("a directory");
    let (mut store, mut machine, _) = filled(root.path(), &[30]);
    for _ in 0..4 {
        store.save_snapshot(machine.snapshot().into());
        store.wait_for_snapshots().expect("a snapshot is kept");
        store.commit(&machine.batch(20, 2)).expect("it is committed");
    }
    let report = replayed(root.path());
    assert!(report.holds(), "{report:?}");
    assert_eq!(report.span, Some((70, 109)), "one snapshot before the newest");
}
