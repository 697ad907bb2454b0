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
