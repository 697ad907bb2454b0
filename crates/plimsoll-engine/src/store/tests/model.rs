//! Commits, snapshots, restarts and torn logs in any order: the store holds what a list in memory
//! would.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Move {
    Commit {
        events: usize,
        changes: usize,
    },
    Keep,
    /// Close and open again.
    Restart,
    /// Die: go on with the files as they lie there.
    Crash,
    /// A power failure that leaves this many hundredths of the log.
    Torn(usize),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        6 => (0_usize..9, 0_usize..4).prop_map(|(events, changes)| Move::Commit { events, changes }),
        2 => Just(Move::Keep),
        1 => Just(Move::Restart),
        1 => Just(Move::Crash),
        1 => (0_usize..100).prop_map(Move::Torn),
    ];
    prop::collection::vec(one, 1..25)
}

/// The files of a directory as they lie there, in another one.
fn copied(dir: &Path) -> TempDir {
    let copy = directory();
    for entry in fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("a copy");
    }
    copy
}

/// After a torn log: whole batches from the first to some last one, or a rejection because a
/// snapshot is newer.
fn whole_batches(
    dir: &Path,
    hundredths: usize,
    batches: &[JournalBatch],
) -> Result<(), TestCaseError> {
    let copy = copied(dir);
    let log = copy.path().join("journal.db-wal");
    if let Ok(bytes) = fs::read(&log) {
        fs::write(&log, &bytes[..bytes.len() * hundredths / 100]).expect("a shorter log");
    }
    // The index of the log does not survive a power failure, and the head may be as old as the
    // directory; damage.rs has the cases with a head.
    fs::remove_file(copy.path().join("journal.db-shm")).ok();
    fs::remove_file(copy.path().join("journal.head")).ok();
    match Store::open(copy.path()) {
        Ok((_, found)) => {
            let start = found
                .snapshot
                .as_ref()
                .map_or((0, 0), |snapshot| (snapshot.next_seq, snapshot.next_changes));
            let found = after_base(found);
            let ends = |upto: &[JournalBatch]| {
                let all = together(upto);
                let after = JournalBatch {
                    records: all
                        .records
                        .into_iter()
                        .filter(|record| record.seq >= start.0)
                        .collect(),
                    changes: all
                        .changes
                        .into_iter()
                        .filter(|changes| changes.seq >= start.1)
                        .collect(),
                };
                after == found
            };
            prop_assert!(
                (0..=batches.len()).any(|upto| ends(&batches[..upto])),
                "half a batch was found"
            );
        }
        Err(error) => prop_assert!(matches!(error, StoreError::Behind { .. }), "{error}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_is_found_is_what_was_committed(moves in moves()) {
        let mut root = directory();
        let (mut store, mut machine, mut batches) = filled(root.path(), &[]);
        for what in moves {
            match what {
                Move::Commit { events, changes } => {
                    let batch = machine.batch(events, changes);
                    store.commit(&batch).expect("it is committed");
                    batches.push(batch);
                    continue;
                }
                Move::Keep => {
                    store.save_snapshot(machine.snapshot().into());
                    store.wait_for_snapshots().expect("a snapshot is kept");
                    continue;
                }
                Move::Torn(hundredths) => {
                    whole_batches(root.path(), hundredths, &batches)?;
                    continue;
                }
                Move::Restart => drop(store),
                Move::Crash => {
                    let copy = copied(root.path());
                    drop(store);
                    root = copy;
                }
            }
            let (again, found) = open(root.path());
            store = again;
            prop_assert_eq!(&found.warnings, &Vec::<String>::new());
            let resumed = Machine::resume(found);
            prop_assert_eq!(resumed.snapshot(), machine.snapshot());
            let history = History::open(root.path()).expect("it is there");
            let kept = history.records(None, usize::MAX).expect("records");
            let all = together(&batches).records;
            prop_assert_eq!(&kept[..], &all[all.len() - kept.len()..]);
        }
    }
}
