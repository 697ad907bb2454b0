//! Damaged directories are rejected with a clear message, and left as they are.

use std::collections::BTreeMap;
use std::fs;

use super::*;

/// A directory with two snapshots and rows around them, closed.
fn closed() -> TempDir {
    let root = directory();
    let (mut store, mut machine, _) = filled(root.path(), &[40]);
    store.save_snapshot(machine.snapshot().into());
    store.wait_for_snapshots().expect("a snapshot is kept");
    store.commit(&machine.batch(20, 10)).expect("it is committed");
    drop(store);
    root
}

/// Returns the durable files of a directory, without the lock's holder and the index of the WAL.
fn lasting(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
    let named =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
    let of_note = |name: &str| name != "lock" && !name.ends_with("-shm") && !name.ends_with("-wal");
    let kept = named.filter(|(name, path)| of_note(name) && path.is_file());
    kept.map(|(name, path)| (name, fs::read(path).expect("a file"))).collect()
}

/// Returns the error of a directory, and checks that opening changed nothing in it.
fn open_error(dir: &Path) -> StoreError {
    let before = lasting(dir);
    let error = Store::open(dir).expect_err("something is wrong with it");
    assert!(before == lasting(dir), "opening changed something: {error}");
    let text = error.to_string();
    assert!(text.contains(&dir.display().to_string()), "it names the file: {text}");
    assert!(
        ["restore", "use the", "give the", "move it", "move the"]
            .iter()
            .any(|help| text.contains(help)),
        "it says what to do: {text}"
    );
    error
}

fn change(dir: &Path, sql: &str) {
    let connection = Connection::open(schema::file(dir)).expect("a database");
    connection.execute_batch(sql).expect("a change");
}

#[test]
fn a_file_that_is_no_database_is_not_taken_for_one() {
    let root = closed();
    for text in [&b""[..], b"SQLite format 3\0", b"hello", &[7; 10_000]] {
        fs::write(schema::file(root.path()), text).expect("a file");
        let error = open_error(root.path());
        assert!(matches!(error, StoreError::NotADatabase { .. }), "{error}");
        assert!(matches!(History::open(root.path()), Err(StoreError::NotADatabase { .. })));
    }
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let root = directory();
    change(root.path(), "CREATE TABLE bookmarks (url TEXT); PRAGMA application_id = 7;");
    let error = open_error(root.path());
    assert!(matches!(error, StoreError::Foreign { found: 7, .. }), "{error}");
}

#[test]
fn a_newer_schema_is_left_to_the_newer_program() {
    let root = closed();
    let newer = schema::VERSION + 1;
    let set_version = format!("UPDATE meta SET value = '{newer}' WHERE key = 'schema_version'");
    change(root.path(), &set_version);
    let error = open_error(root.path());
    assert!(matches!(error, StoreError::Newer { found, .. } if found == newer), "{error}");
    change(root.path(), "UPDATE meta SET value = 'two' WHERE key = 'schema_version'");
    assert!(matches!(open_error(root.path()), StoreError::Damaged { .. }));
}

#[test]
fn data_of_an_earlier_version_is_rejected_and_left_unchanged() {
    let root = closed();
    for older in 1..schema::VERSION {
        let set_version = format!("UPDATE meta SET value = '{older}' WHERE key = 'schema_version'");
        change(root.path(), &set_version);
        let error = open_error(root.path());
        assert!(matches!(error, StoreError::Older { found, .. } if found == older), "{error}");
        assert!(error.to_string().contains("move the directory"), "{error}");
    }
}

#[test]
fn the_page_about_the_data_directory_names_the_version_that_is_read() {
    let page = include_str!("../../../../../docs/store.md");
    for text in ["`schema_version` (N)", "has schema version N, and the server", "reads version N"]
    {
        let text = text.replace('N', &schema::VERSION.to_string());
        assert!(page.contains(&text), "docs/store.md does not say: {text}");
    }
}

#[test]
fn rows_that_are_missing_are_a_gap() {
    for (sql, table, expected, found) in [
        ("DELETE FROM journal WHERE seq = 50", "journal", 50, 51),
        ("DELETE FROM journal WHERE seq = 40", "journal", 40, 41),
        ("DELETE FROM changes WHERE seq = 25", "changes", 25, 26),
    ] {
        let root = closed();
        change(root.path(), sql);
        match open_error(root.path()) {
            StoreError::Gap { table: t, expected: e, found: f, .. } => {
                assert_eq!((t, e, f), (table, expected, found));
            }
            other => panic!("{sql}: {other}"),
        }
    }
}

#[test]
fn a_row_that_has_changed_is_named() {
    for (sql, table, number) in [
        ("UPDATE journal SET event = replace(event, 'team', 'tean') WHERE seq = 52", "journal", 52),
        ("UPDATE journal SET now = now + 1 WHERE seq = 41", "journal", 41),
        ("UPDATE changes SET body = '{}' WHERE seq = 22", "changes", 22),
    ] {
        let root = closed();
        change(root.path(), sql);
        match open_error(root.path()) {
            StoreError::Row { table: t, seq, .. } => assert_eq!((t, seq), (table, number)),
            other => panic!("{sql}: {other}"),
        }
    }
}

#[test]
fn a_journal_that_is_lost_or_put_back_is_not_gone_on_with() {
    let root = closed();
    let whole = fs::read(schema::file(root.path())).expect("it is there");
    fs::remove_file(schema::file(root.path())).expect("it was there");
    let error = open_error(root.path());
    assert!(matches!(error, StoreError::JournalLost { .. }), "{error}");
    assert!(error.to_string().contains("snapshot-40.json"), "{error}");
    fs::write(schema::file(root.path()), whole).expect("a file");
    change(root.path(), "DELETE FROM journal WHERE seq >= 35");
    let error = open_error(root.path());
    assert!(
        matches!(error, StoreError::Behind { table: "journal", ends: 35, reaches: 40, .. }),
        "{error}"
    );
    change(root.path(), "DELETE FROM journal");
    assert!(matches!(open_error(root.path()), StoreError::Behind { ends: 0, .. }));
}

#[test]
fn a_file_that_was_cut_off_is_rejected_wherever_it_was_cut() {
    let root = closed();
    let whole = fs::read(schema::file(root.path())).expect("it is there");
    for pages in 1..whole.len() / 4096 {
        for length in [pages * 4096, pages * 4096 + 1000] {
            fs::write(schema::file(root.path()), &whole[..length]).expect("a file");
            let error = open_error(root.path());
            // SQLite reads a cut page of a long row as zeros; the checksum of the row finds that.
            let is_found = matches!(error, StoreError::Damaged { .. } | StoreError::Row { .. });
            assert!(is_found, "cut off at {length}: {error}");
        }
    }
}

#[test]
fn a_page_that_was_overwritten_is_found_or_was_not_needed() {
    let root = closed();
    let whole = fs::read(schema::file(root.path())).expect("it is there");
    let good = after_base(open(root.path()).1);
    let mut found_out = 0;
    for page in 0..whole.len() / 4096 {
        for with in [0, 0xff, b'{'] {
            let mut bytes = whole.clone();
            bytes[page * 4096..(page + 1) * 4096].fill(with);
            fs::write(schema::file(root.path()), &bytes).expect("a file");
            match Store::open(root.path()) {
                Ok((_, found)) => {
                    assert_eq!(after_base(found), good, "page {page} filled with {with}");
                }
                Err(
                    StoreError::NotADatabase { .. }
                    | StoreError::Damaged { .. }
                    | StoreError::Row { .. },
                ) => {
                    found_out += 1;
                }
                Err(other) => panic!("page {page} filled with {with}: {other}"),
            }
            fs::write(schema::file(root.path()), &whole).expect("a file");
        }
    }
    assert!(found_out > 20, "{found_out}");
}

#[test]
fn a_bit_that_has_turned_never_changes_what_is_found() {
    let root = closed();
    let whole = fs::read(schema::file(root.path())).expect("it is there");
    let good = after_base(open(root.path()).1);
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(schema::file(root.path()), &bytes).expect("a file");
        if let Ok((_, found)) = Store::open(root.path()) {
            assert_eq!(after_base(found), good, "byte {at}");
        }
        fs::write(schema::file(root.path()), &whole).expect("a file");
    }
}

/// A directory as a crash leaves it: with its rows in the WAL. Returns the contents too.
fn crashed() -> (TempDir, JournalBatch) {
    let (live, root) = (directory(), directory());
    let (store, _, batches) = filled(live.path(), &[10, 3, 0, 12]);
    for name in lasting(live.path()).into_keys().chain(["journal.db-wal".to_string()]) {
        fs::copy(live.path().join(&name), root.path().join(&name)).expect("a copy");
    }
    drop(store);
    (root, together(&batches))
}

/// Opens a copy of a directory whose WAL was changed.
fn open_with_wal(root: &Path, wal: Option<&[u8]>) -> Result<JournalBatch, StoreError> {
    let copy = directory();
    for (name, bytes) in lasting(root) {
        fs::write(copy.path().join(name), bytes).expect("a file");
    }
    if let Some(wal) = wal {
        fs::write(copy.path().join("journal.db-wal"), wal).expect("a file");
    }
    Store::open(copy.path()).map(|(_, found)| after_base(found))
}

#[test]
fn a_wal_that_was_damaged_cut_or_removed_after_a_crash_is_noticed() {
    let (root, whole) = crashed();
    let wal = fs::read(root.path().join("journal.db-wal")).expect("a WAL");
    assert_eq!(open_with_wal(root.path(), Some(&wal)).expect("nothing is wrong"), whole);
    let lost = open_with_wal(root.path(), None).expect_err("the WAL is removed");
    assert!(
        matches!(lost, StoreError::Lost { table: "journal", ends: 0, acknowledged: 25, .. }),
        "{lost}"
    );
    let mut noticed = 0;
    for at in (0..wal.len()).step_by(509) {
        let mut flipped = wal.clone();
        flipped[at] ^= 1 << (at % 8);
        for (changed, wal) in [("flipped", &flipped[..]), ("cut", &wal[..at])] {
            match open_with_wal(root.path(), Some(wal)) {
                Ok(found) => assert_eq!(found, whole, "{changed} at {at}"),
                Err(StoreError::Lost { .. }) => noticed += 1,
                Err(other) => panic!("{changed} at {at}: {other}"),
            }
        }
    }
    assert!(noticed > 100, "{noticed}");
}

#[test]
fn rows_that_are_missing_at_the_end_are_noticed() {
    for (sql, table, ends, acknowledged) in [
        ("DELETE FROM journal WHERE seq >= 50", "journal", 50, 60),
        ("DELETE FROM changes WHERE seq >= 25", "changes", 25, 30),
        ("DELETE FROM changes", "changes", 20, 30),
    ] {
        let root = closed();
        change(root.path(), sql);
        match open_error(root.path()) {
            StoreError::Lost { table: t, ends: e, acknowledged: a, .. } => {
                assert_eq!((t, e, a), (table, ends, acknowledged), "{sql}");
            }
            other => panic!("{sql}: {other}"),
        }
    }
}

#[test]
fn decisions_that_are_missing_from_the_list_or_were_added_are_noticed() {
    for sql in [
        "DELETE FROM decisions",
        "DELETE FROM decisions WHERE seq = (SELECT min(seq) FROM decisions)",
        "DELETE FROM decisions WHERE seq = (SELECT max(seq) FROM decisions)",
        "UPDATE decisions SET seq = 99 WHERE seq = (SELECT max(seq) FROM decisions)",
        "INSERT INTO decisions SELECT 60, idx, now, account, name, uid, summary, digest FROM decisions LIMIT 1",
    ] {
        let root = closed();
        change(root.path(), sql);
        let error = open_error(root.path());
        assert!(matches!(error, StoreError::Row { table: "decisions", .. }), "{sql}: {error}");
    }
}

#[test]
fn a_journal_without_its_snapshots_is_rejected_also_if_it_begins_at_the_first_record() {
    let root = directory();
    drop(filled(root.path(), &[20]));
    fs::remove_file(snapshot::file(root.path(), 0)).expect("the first snapshot");
    let error = open_error(root.path());
    assert!(matches!(error, StoreError::NoSnapshot { oldest: 0, .. }), "{error}");
}

#[test]
fn another_row_in_the_place_of_the_last_acknowledged_one_is_noticed() {
    let (root, other) = (closed(), directory());
    let (mut store, mut machine, _) = filled(other.path(), &[40]);
    let mut last = machine.batch(20, 10);
    last.records[19].now = Millis(1);
    store.commit(&last).expect("it is committed");
    drop(store);
    fs::copy(schema::file(other.path()), schema::file(root.path())).expect("a copy");
    let error = open_error(root.path());
    assert!(matches!(error, StoreError::Row { table: "journal", seq: 59, .. }), "{error}");
}

#[test]
fn a_damaged_head_is_rejected_and_a_missing_one_is_a_warning() {
    let root = closed();
    let head = root.path().join("journal.head");
    let whole = fs::read(&head).expect("a head");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&head, &bytes).expect("a file");
        assert!(matches!(open_error(root.path()), StoreError::Head { .. }), "byte {at}");
    }
    fs::remove_file(&head).expect("it was there");
    let (store, found) = open(root.path());
    assert!(found.warnings[0].contains("journal.head is missing"), "{:?}", found.warnings);
    drop(store);
    assert_eq!(open(root.path()).1.warnings, Vec::<String>::new(), "it was written again");
}
