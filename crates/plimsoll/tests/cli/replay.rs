//! `plimsoll replay` on directories without a journal, and with unknown names.

use std::fs;

use crate::tool::{plimsoll, scratch};

#[test]
fn a_directory_without_a_journal_is_named() {
    let empty = scratch("no-journal");
    plimsoll(&format!("replay {}", empty.display())).fails_with(&[
        "no journal at",
        "journal.db",
        "the data directory of a server",
    ]);
    assert_eq!(fs::read_dir(&empty).expect("a directory").count(), 0, "reading makes nothing");
    plimsoll("replay /no/such/directory").fails_with(&["no journal at /no/such/directory"]);
}

#[test]
fn a_file_that_is_no_journal_is_named() {
    let dir = scratch("no-database");
    fs::write(dir.join("journal.db"), "hello").expect("a file");
    plimsoll(&format!("replay {}", dir.display()))
        .fails_with(&["journal.db is not a database", "backup"]);
}

#[test]
fn a_decision_is_named_by_record_and_place() {
    let run = plimsoll("replay . --decision 12");
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("such as 1042.0"), "{}", run.err);
    let help = plimsoll("replay --help");
    for text in ["Examples:", "plimsoll replay /var/lib/plimsoll --decision 1042.0", "Exit codes:"]
    {
        assert!(help.out.contains(text), "{text}: {}", help.out);
    }
}
