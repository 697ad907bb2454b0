//! What can be wrong with a data directory, each with the file it is in and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::schema::VERSION;

/// Why a data directory cannot be used, or could not be written. Where it is about what was found in it, nothing was
/// changed there.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has it.
    #[error("data directory {} is in use by {}; stop that one first, or give this one its own directory", dir.display(), holder(*pid))]
    InUse { dir: PathBuf, pid: Option<u32> },
    /// There is nothing to read.
    #[error("there is no journal at {}; is {} the data directory of a server?", file.display(), within(file))]
    Absent { file: PathBuf },
    /// A snapshot without its journal: going on from it would forget what the journal said.
    #[error("{} is missing, but there is a {}; restore both from one backup", file.display(), name(snapshot))]
    JournalLost { file: PathBuf, snapshot: PathBuf },
    /// Some other file stands in its place, or the beginning of it was overwritten.
    #[error("{} is not a database; restore it from a backup, or move it away if it is not ours", file.display())]
    NotADatabase { file: PathBuf },
    /// A database, but not ours.
    #[error("{} is a database of another program (application id {found:#010x}); give the server its own directory", file.display())]
    Foreign { file: PathBuf, found: i64 },
    /// A later version of this program wrote it.
    #[error("{} has schema version {found}, and this program knows versions up to {VERSION}; use the program that wrote it, or a newer one", file.display())]
    Newer { file: PathBuf, found: u32 },
    /// An earlier version of this program wrote it.
    #[error("{} has schema version {found}, and this program reads version {VERSION} only; keep using the program that wrote it, or move the directory {} away to start with an empty one", file.display(), within(file))]
    Older { file: PathBuf, found: u32 },
    /// Its pages do not hang together.
    #[error("{} is damaged ({problem}); restore the data directory from a backup", file.display())]
    Damaged { file: PathBuf, problem: String },
    /// A row is not what was written.
    #[error("row {seq} of {table} in {} is damaged ({problem}); restore the data directory from a backup", file.display())]
    Row { file: PathBuf, table: &'static str, seq: u64, problem: String },
    /// Rows are missing in the middle.
    #[error("{table} in {} has a gap: {expected} is missing before {found}; restore the data directory from a backup", file.display())]
    Gap { file: PathBuf, table: &'static str, expected: u64, found: u64 },
    /// The journal was put back to an earlier day than the snapshot.
    #[error("{table} in {} ends before {ends}, but {} says that it goes up to {reaches}; restore both from one backup", file.display(), name(snapshot))]
    Behind { file: PathBuf, table: &'static str, snapshot: PathBuf, ends: u64, reaches: u64 },
    /// No snapshot from which the rest can be read.
    #[error("no snapshot in {} can be started from, and {} begins at {oldest}{}; restore the data directory from a backup", within(file), file.display(), damage(damaged))]
    NoSnapshot { file: PathBuf, oldest: u64, damaged: Vec<String> },
    /// A snapshot cannot be read; an earlier one may do.
    #[error("{} is damaged: {problem}", file.display())]
    Snapshot { file: PathBuf, problem: String },
    /// The next batch does not go on where the last one ended. That is a fault of the program, and would be a gap.
    #[error("{table} goes on at {expected}, but {found} was to be written; please report this")]
    OutOfOrder { table: &'static str, expected: u64, found: u64 },
    /// What is written goes nowhere.
    #[error("data directory {} was removed or replaced while the server ran, and with it what was acknowledged; put it back from a backup, or begin anew", dir.display())]
    Removed { dir: PathBuf },
    /// The disk is full. The batch is not in the journal.
    #[error("the disk with {} is full; make room and start again: nothing that was acknowledged is lost", file.display())]
    Full { file: PathBuf, source: rusqlite::Error },
    /// The disk refuses. The batch is not acknowledged.
    #[error("the disk with {} cannot be read or written; look at it, then start again: nothing that was acknowledged is lost", file.display())]
    Disk { file: PathBuf, source: rusqlite::Error },
    /// The file system refuses.
    #[error("could not {doing} {}", path.display())]
    Files { doing: &'static str, path: PathBuf, source: io::Error },
    /// SQLite refuses for another reason.
    #[error("could not {doing} {}", file.display())]
    Sql { doing: &'static str, file: PathBuf, source: rusqlite::Error },
    /// An earlier commit failed, and nobody knows what of it is on the disk until the directory is opened again.
    #[error("an earlier commit to {} failed; start again", dir.display())]
    Stopped { dir: PathBuf },
}

impl StoreError {
    /// What SQLite says about a file, in our words.
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

    /// What the file system says about a path.
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
