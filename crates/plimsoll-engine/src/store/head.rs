//! The end of the journal after the last acknowledged commit, in a file of its own.
//!
//! SQLite reads its WAL up to the first frame that does not match and drops the rest without an
//! error, because a crash in the middle of a commit looks the same. A WAL that was damaged, cut or
//! removed after a crash would therefore start the server with an older state: acknowledged
//! reservations would be gone, and their numbers given out again. The head is an independent
//! record of how far the journal reached.
//!
//! It is written after each commit and not flushed, which would double the cost of a commit. It can
//! thus be behind the journal after a power failure, but never ahead: a commit is on disk before
//! its head is written. A journal that ends before its head has lost rows.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::error::StoreError;
use super::rows::{CHANGES, JOURNAL, Rows};
use super::schema;
use super::snapshot::Mark;
use plimsoll_core::checksum::checksum;

/// The end of the journal: the next numbers, and the checksums of the rows before them. `None`
/// where no row was written since the server opened the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) next: Mark,
    pub(super) record: Option<String>,
    pub(super) changes: Option<String>,
}

/// The open file of the head. The store writes it after each commit.
#[derive(Debug)]
pub(super) struct Head {
    file: File,
    path: PathBuf,
}

impl Head {
    /// Creates or replaces the head of a directory whose journal was read completely.
    pub(super) fn start(dir: &Path, end: &End) -> Result<Head, StoreError> {
        let (path, part) = (file(dir), dir.join("journal.head.part"));
        schema::remove(&part)?;
        let failed = StoreError::files(&path, "create");
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&part).map_err(&failed)?;
        let head = Head { file, path: path.clone() };
        head.write(end)?;
        head.file.sync_all().map_err(&failed)?;
        fs::rename(&part, &path).map_err(&failed)?;
        schema::sync_directory(dir)?;
        Ok(head)
    }

    /// Writes the end of a durable commit. One write of a few bytes, so a killed process leaves the
    /// old or the new one.
    pub(super) fn write(&self, end: &End) -> Result<(), StoreError> {
        let written = self.file.write_all_at(end.line().as_bytes(), 0);
        written.map_err(StoreError::files(&self.path, "write"))
    }
}

/// Checks that a journal reaches as far as its head. Returns a warning if there is no head, as in a
/// backup.
pub(super) fn check(dir: &Path, rows: Rows<'_>, next: Mark) -> Result<Option<String>, StoreError> {
    let path = file(dir);
    let Some(end) = read(&path)? else {
        let is_empty = next == Mark { next_seq: 0, next_changes: 0 };
        let warning = format!(
            "{} is missing, so that the end of the journal cannot be checked; expected after \
             restoring a backup",
            path.display()
        );
        return Ok((!is_empty).then_some(warning));
    };
    let tables = [
        (JOURNAL, next.next_seq, end.next.next_seq, &end.record),
        (CHANGES, next.next_changes, end.next.next_changes, &end.changes),
    ];
    for (table, ends, acknowledged, last) in tables {
        if ends < acknowledged {
            let file = rows.file.to_path_buf();
            return Err(StoreError::Lost { file, table, ends, acknowledged });
        }
        let Some((last, seq)) = last.as_ref().zip(acknowledged.checked_sub(1)) else { continue };
        // The row may have been removed since: after a power failure the head is old.
        if rows.checksum_of(table, seq)?.is_some_and(|found| found != *last) {
            let problem = "it is not the row that was acknowledged".to_string();
            return Err(StoreError::Row { file: rows.file.to_path_buf(), table, seq, problem });
        }
    }
    Ok(None)
}

fn file(dir: &Path) -> PathBuf {
    dir.join("journal.head")
}

fn read(path: &Path) -> Result<Option<End>, StoreError> {
    match fs::read_to_string(path) {
        Ok(text) => match End::parse(&text) {
            Some(end) => Ok(Some(end)),
            None => Err(StoreError::Head { file: path.to_path_buf() }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(StoreError::Head { file: path.to_path_buf() })
        }
        Err(error) => Err(StoreError::files(path, "read")(error)),
    }
}

/// The word in the place of a checksum if there is no row.
const NO_ROW: &str = "-";

impl End {
    /// Returns the line of the file. All lines have the same length, so that one replaces another.
    fn line(&self) -> String {
        let row = |checksum: &Option<String>| checksum.clone().unwrap_or_else(|| NO_ROW.into());
        let Mark { next_seq, next_changes } = self.next;
        let (record, changes) = (row(&self.record), row(&self.changes));
        let body = format!("{next_seq:020} {next_changes:020} {record:16} {changes:16}");
        let sum = checksum([body.as_bytes()]);
        format!("{body} {sum}\n")
    }

    fn parse(text: &str) -> Option<End> {
        let mut words = text.split_whitespace();
        let next_seq = words.next()?.parse().ok()?;
        let next_changes = words.next()?.parse().ok()?;
        let mut row = || words.next().map(|word| (word != NO_ROW).then(|| word.to_string()));
        let (record, changes) = (row()?, row()?);
        let end = End { next: Mark { next_seq, next_changes }, record, changes };
        (end.line() == text).then_some(end)
    }
}
