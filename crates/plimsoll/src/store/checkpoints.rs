//! What is in SQLite's log is brought into its file by a thread of its own, so that commits do not wait for that.

use std::ops::ControlFlow;
use std::path::Path;

use super::error::StoreError;
use super::schema;
use crate::worker::Worker;

/// So many bytes of rows after a checkpoint, the next one is due.
const BYTES_PER_CHECKPOINT: u64 = 1 << 20;

/// The thread that empties the log. It never holds a commit up, and so never gets all of it while commits come: when the log has
/// grown large all the same, a commit does the rest, which is little by then.
#[derive(Debug)]
pub(super) struct Checkpoints {
    worker: Worker<()>,
    bytes: u64,
}

impl Checkpoints {
    /// Starts the thread for a directory.
    pub(super) fn start(dir: &Path) -> Result<Checkpoints, StoreError> {
        let connection = schema::writer(dir)?;
        let work = move |()| {
            if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(())) {
                tracing::warn!("the journal's log was not brought into its file: {error}");
            }
            ControlFlow::Continue(())
        };
        let worker = Worker::start("checkpoint", 1, work);
        let worker = worker.map_err(StoreError::files(dir, "start a thread to empty the log in"))?;
        Ok(Checkpoints { worker, bytes: 0 })
    }

    /// So many bytes of rows were committed.
    pub(super) fn committed(&mut self, bytes: u64) {
        self.bytes += bytes;
        // While one is on its way, the next one waits for more.
        if self.bytes >= BYTES_PER_CHECKPOINT && self.worker.hand(()) {
            self.bytes = 0;
        }
    }

    /// Ends the thread, once it has done what it does.
    pub(super) fn end(&mut self) {
        self.worker.end();
    }
}
