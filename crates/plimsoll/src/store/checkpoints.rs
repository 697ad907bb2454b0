//! What is in SQLite's log is brought into its file by a thread of its own, so that commits do not wait for that.

use std::path::Path;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

use super::error::StoreError;
use super::schema;

/// So many bytes of rows after a checkpoint, the next one is due.
const BYTES_PER_CHECKPOINT: u64 = 1 << 20;

/// The thread that empties the log. It never holds a commit up, and so never gets all of it while commits come: when the log has
/// grown large all the same, a commit does the rest, which is little by then.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// Taken away to tell the thread that nothing more will come.
    orders: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    bytes: u64,
}

impl Checkpoints {
    /// Starts the thread for a directory.
    pub(super) fn start(dir: &Path) -> Result<Checkpoints, StoreError> {
        let connection = schema::writer(dir)?;
        let (orders, ordered) = mpsc::sync_channel(1);
        let work = move || {
            for () in ordered {
                if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(())) {
                    tracing::warn!("the journal's log was not brought into its file: {error}");
                }
            }
        };
        let thread = thread::Builder::new().name("checkpoint".to_string()).spawn(work);
        let thread = thread.map_err(StoreError::files(dir, "start a thread to empty the log in"))?;
        Ok(Checkpoints { orders: Some(orders), thread: Some(thread), bytes: 0 })
    }

    /// So many bytes of rows were committed.
    pub(super) fn committed(&mut self, bytes: u64) {
        self.bytes += bytes;
        // While one is on its way, the next one waits for more.
        if self.bytes >= BYTES_PER_CHECKPOINT
            && self.orders.as_ref().is_some_and(|orders| orders.try_send(()).is_ok())
        {
            self.bytes = 0;
        }
    }

    /// Ends the thread, once it has done what it does.
    pub(super) fn end(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so already, and commits do its work.
            let _ = thread.join();
        }
    }
}
