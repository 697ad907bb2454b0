//! Errors of the data directory. Each names the file and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::schema::VERSION;

/// An error of the data directory. Errors about its contents leave them unchanged.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has locked it.
    #[error("data directory {} is in use by {}; stop that one first, or give this one its own directory", dir.display(), holder(*pid))]
    InUse { dir: PathBuf, pid: Option<u32> },
    /// There is nothing to read.
    #[error("no journal at {}; is {} the data directory of a server?", file.display(), within(file))]
    Absent { file: PathBuf },
    /// A snapshot without its journal. Starting from it would lose what the journal recorded.
    #[error("{} is missing, but there is a {}; restore both from one backup", file.display(), name(snapshot))]
    JournalLost { file: PathBuf, snapshot: PathBuf },
    /// The file is something else, or its header was overwritten.
    #[error("{} is not a database; restore it from a backup, or move it away if it belongs to another program", file.display())]
    NotADatabase { file: PathBuf },
    /// A database of another application.
    #[error("{} is a database of another program (application id {found:#010x}); give the server its own directory", file.display())]
    Foreign { file: PathBuf, found: i64 },
    /// A later version of this program wrote it.
    #[error("{} has schema version {found}, but this program reads version {VERSION}; use the program that wrote it, or a newer one", file.display())]
    Newer { file: PathBuf, found: u32 },
    /// An earlier version of this program wrote it.
    #[error("{} has schema version {found}, and this program reads version {VERSION} only; keep using the program that wrote it, or move the directory {} away to start with an empty one", file.display(), within(file))]
    Older { file: PathBuf, found: u32 },
    /// SQLite's integrity check failed.
    #[error("{} is damaged ({problem}); restore the data directory from a backup", file.display())]
    Damaged { file: PathBuf, problem: String },
    /// The checksum of a row does not match.
    #[error("row {seq} of {table} in {} is damaged ({problem}); restore the data directory from a backup", file.display())]
    Row { file: PathBuf, table: &'static str, seq: u64, problem: String },
    /// Rows are missing in the middle.
    #[error("{table} in {} has a gap: {expected} is missing before {found}; restore the data directory from a backup", file.display())]
    Gap { file: PathBuf, table: &'static str, expected: u64, found: u64 },
    /// The journal was restored from an older backup than the snapshot.
    #[error("{table} in {} ends at {ends}, but {} reaches {reaches}; restore both from one backup", file.display(), name(snapshot))]
    Behind { file: PathBuf, table: &'static str, snapshot: PathBuf, ends: u64, reaches: u64 },
    /// Acknowledged rows are missing at the end: the WAL was damaged, cut or removed.
    #[error("{table} in {} ends at {ends}, but {acknowledged} was acknowledged: the end of the journal is lost, most likely with journal.db-wal; restore the data directory from a backup, or, to continue without what is lost, remove journal.head", file.display())]
    Lost { file: PathBuf, table: &'static str, ends: u64, acknowledged: u64 },
    /// The head cannot be read.
    #[error("{} is damaged, so that the end of the journal cannot be checked; check the disk, and restore the data directory from a backup, or remove the file to continue with the journal as it is", file.display())]
    Head { file: PathBuf },
    /// No readable snapshot covers the start of the journal.
    #[error("no usable snapshot in {}, and {} begins at {oldest}{}; restore the data directory from a backup", within(file), file.display(), damage(damaged))]
    NoSnapshot { file: PathBuf, oldest: u64, damaged: Vec<String> },
    /// A snapshot cannot be read; an earlier one may be usable.
    #[error("{} is damaged: {problem}", file.display())]
    Snapshot { file: PathBuf, problem: String },
    /// The next batch does not continue the sequence. This is a bug, and would leave a gap.
    #[error(
        "{table} continues at {expected}, but the batch starts at {found}; this is a bug, please report it"
    )]
    OutOfOrder { table: &'static str, expected: u64, found: u64 },
    /// The directory was removed or replaced, so that commits go to deleted files.
    #[error("data directory {} was removed or replaced while the server ran, and with it what was acknowledged; restore it from a backup, or start with an empty directory", dir.display())]
    Removed { dir: PathBuf },
    /// The disk is full. The batch is not in the journal.
    #[error("the disk with {} is full; free some space and restart the server: nothing that was acknowledged is lost", file.display())]
    Full { file: PathBuf, source: rusqlite::Error },
    /// An I/O error. The batch is not acknowledged.
    #[error("the disk with {} cannot be read or written; check it, then restart the server: nothing that was acknowledged is lost", file.display())]
    Disk { file: PathBuf, source: rusqlite::Error },
    /// Another file system error.
    #[error("cannot {doing} {}", path.display())]
    Files { doing: &'static str, path: PathBuf, source: io::Error },
    /// Another SQLite error.
    #[error("cannot {doing} {}", file.display())]
    Sql { doing: &'static str, file: PathBuf, source: rusqlite::Error },
    /// An earlier commit failed. Only reopening the directory can tell what of it is on disk.
    #[error("an earlier commit to {} failed; restart the server", dir.display())]
    Stopped { dir: PathBuf },
}

impl StoreError {
    /// Returns a function that converts SQLite's errors about a file.
    pub(super) fn sql(file: &Path, doing: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
        let file = file.to_path_buf();
        move |source| {
            let file = file.clone();
            match source.sqlite_error_code() {
                Some(ErrorCode::NotADatabase) => StoreError::NotADatabase { file },
                Some(ErrorCode::DatabaseCorrupt) => {
                    StoreError::Damaged { file, problem: source.to_string() }
                }
                Some(ErrorCode::DiskFull) => StoreError::Full { file, source },
                Some(ErrorCode::SystemIoFailure) => StoreError::Disk { file, source },
                _ => StoreError::Sql { doing, file, source },
            }
        }
    }

    /// Returns a function that converts file system errors about a path.
    pub(super) fn files(path: &Path, doing: &'static str) -> impl Fn(io::Error) -> StoreError {
        let path = path.to_path_buf();
        move |source| StoreError::Files { doing, path: path.clone(), source }
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or("another process".to_string(), |pid| format!("process {pid}"))
}

fn within(file: &Path) -> String {
    file.parent().unwrap_or(file).display().to_string()
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

fn damage(damaged: &[String]) -> String {
    if damaged.is_empty() { String::new() } else { format!(" ({})", damaged.join("; ")) }
}
