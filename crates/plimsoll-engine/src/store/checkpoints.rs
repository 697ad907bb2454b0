//! What is in SQLite's log is brought into its file by a thread of its own, so that commits do not wait for that.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

use super::error::StoreError;
use super::schema::{self, PAGE_BYTES};
use crate::worker::Worker;

/// So many bytes of rows after a checkpoint, the next one is due.
const BYTES_PER_CHECKPOINT: u64 = 1 << 20;
/// The same while the log is long.
const BYTES_WHILE_LONG: u64 = 64 << 10;
/// A log of so many pages is long.
const LONG: u32 = (16 << 20) / PAGE_BYTES;

/// The thread that empties the log. It never holds a commit up, and so gets all of it only where it is done before the next commit
/// comes; that one begins the log anew then. While the log is long it tries that often, with little to do each time. When the log has
/// grown to its largest all the same, a commit does the rest, and whoever waits for that one waits for the file's disk too.
#[derive(Debug)]
pub(super) struct Checkpoints {
    worker: Worker<()>,
    bytes: u64,
    is_long: Arc<AtomicBool>,
}

impl Checkpoints {
    /// Starts the thread for a directory.
    pub(super) fn start(dir: &Path) -> Result<Checkpoints, StoreError> {
        let connection = schema::writer(dir)?;
        let is_long = Arc::new(AtomicBool::new(false));
        let seen = is_long.clone();
        let work = move |()| {
            match checkpoint(&connection) {
                Ok(pages) => seen.store(pages >= LONG, Ordering::Relaxed),
                Err(error) => {
                    tracing::warn!("the journal's log was not brought into its file: {error}")
                }
            }
            ControlFlow::Continue(())
        };
        let worker = Worker::start("checkpoint", 1, work);
        let worker =
            worker.map_err(StoreError::files(dir, "start a thread to empty the log in"))?;
        Ok(Checkpoints { worker, bytes: 0, is_long })
    }

    /// So many bytes of rows were committed.
    pub(super) fn committed(&mut self, bytes: u64) {
        self.bytes += bytes;
        let is_long = self.is_long.load(Ordering::Relaxed);
        let due = if is_long { BYTES_WHILE_LONG } else { BYTES_PER_CHECKPOINT };
        // While one is on its way, the next one waits for more.
        if self.bytes >= due && self.worker.hand(()) {
            self.bytes = 0;
        }
    }

    /// Ends the thread, once it has done what it does.
    pub(super) fn end(&mut self) {
        self.worker.end();
    }
}

/// Brings what it can into the file without holding anybody up, and says how many pages the log has.
fn checkpoint(connection: &Connection) -> rusqlite::Result<u32> {
    // There is no log, of -1 pages, where the file has none.
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
        assert_eq!(checkpoints.bytes, BYTES_WHILE_LONG, "the next one waits for more");
        checkpoints.is_long.store(true, Ordering::Relaxed);
        checkpoints.committed(1);
        assert_eq!(checkpoints.bytes, 0, "it is on its way");
        checkpoints.end();
        assert!(!checkpoints.is_long.load(Ordering::Relaxed), "the log was empty");
    }
}
