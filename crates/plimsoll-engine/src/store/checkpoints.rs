//! Moves the contents of SQLite's WAL into the database file on a separate thread, so that commits
//! do not wait for it.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

use super::error::StoreError;
use super::schema::{self, PAGE_BYTES};
use crate::worker::Worker;

/// The bytes of rows after which the next checkpoint is due.
const BYTES_PER_CHECKPOINT: u64 = 1 << 20;
/// The same while the WAL is long.
const BYTES_WHILE_LONG: u64 = 64 << 10;
/// A WAL of this many pages is long.
const LONG: u32 = (16 << 20) / PAGE_BYTES;

/// The checkpoint thread. A passive checkpoint never blocks a commit, so it empties the WAL
/// completely only if it finishes between two commits; the next commit then restarts the WAL from
/// its beginning. While the WAL is long, checkpoints are frequent and small to hit such a gap. If
/// the WAL reaches its maximum anyway, a commit checkpoints the rest, and its callers wait for the
/// disk.
#[derive(Debug)]
pub(super) struct Checkpoints {
    worker: Worker<()>,
    bytes: u64,
    is_long: Arc<AtomicBool>,
}

impl Checkpoints {
    /// Starts the thread.
    pub(super) fn start(dir: &Path) -> Result<Checkpoints, StoreError> {
        let connection = schema::writer(dir)?;
        let is_long = Arc::new(AtomicBool::new(false));
        let seen = is_long.clone();
        let work = move |()| {
            match checkpoint(&connection) {
                Ok(pages) => seen.store(pages >= LONG, Ordering::Relaxed),
                Err(error) => {
                    tracing::warn!("cannot checkpoint the journal's WAL: {error}");
                }
            }
            ControlFlow::Continue(())
        };
        let worker = Worker::start("checkpoint", 1, work);
        let worker = worker.map_err(StoreError::files(dir, "start the checkpoint thread in"))?;
        Ok(Checkpoints { worker, bytes: 0, is_long })
    }

    /// Counts committed bytes, and requests a checkpoint when one is due.
    pub(super) fn committed(&mut self, bytes: u64) {
        self.bytes += bytes;
        let is_long = self.is_long.load(Ordering::Relaxed);
        let due = if is_long { BYTES_WHILE_LONG } else { BYTES_PER_CHECKPOINT };
        // While a checkpoint is running, the request waits for more bytes.
        if self.bytes >= due && self.worker.hand(()) {
            self.bytes = 0;
        }
    }

    /// Ends the thread after the running checkpoint.
    pub(super) fn end(&mut self) {
        self.worker.end();
    }
}

/// Runs a passive checkpoint and returns the number of pages in the WAL.
fn checkpoint(connection: &Connection) -> rusqlite::Result<u32> {
    // SQLite reports -1 pages where the file has no WAL.
    let pages =
        |row: &rusqlite::Row<'_>| row.get(1).map(|pages: i64| u32::try_from(pages).unwrap_or(0));
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_emptied_more_often() {
        let dir = tempfile::tempdir().expect("a directory");
        schema::create(dir.path()).expect("an empty journal");
        let mut checkpoints = Checkpoints::start(dir.path()).expect("a thread");
        checkpoints.committed(BYTES_WHILE_LONG);
        assert_eq!(checkpoints.bytes, BYTES_WHILE_LONG, "not due yet");
        checkpoints.is_long.store(true, Ordering::Relaxed);
        checkpoints.committed(1);
        assert_eq!(checkpoints.bytes, 0, "requested");
        checkpoints.end();
        assert!(!checkpoints.is_long.load(Ordering::Relaxed), "the log was empty");
    }
}
