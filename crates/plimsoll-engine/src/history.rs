//! A journal that is history and nothing else: another system is the source of truth.
//!
//! Each start begins with a snapshot of the state that was read from there, and records follow it.
//! Nothing waits for the disk, and a disk that fails ends the history and not the process: a
//! restart would find the same state without it.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use plimsoll_core::front::{Checkpoint, Front, Host, NextNumbers};
use plimsoll_core::units::Millis;
use serde_json::value::to_raw_value;

use crate::journal::{Journal, JournalBatch};
use crate::recovery::CLOCK_WARNING;
use crate::store::{HostSnapshot, SnapshotDraft, SnapshotOrigin, Store, StoreError};
use crate::worker::Worker;

/// The batches that may wait for the disk. There is one every two milliseconds at most.
const QUEUE: usize = 8192;

/// The state of a front end that journals nothing, as JSON.
const NO_STATE: &str = "null";

/// Writes the history of one process on a thread of its own.
#[derive(Debug)]
pub struct HistoryJournal {
    worker: Worker<Entry>,
    state: Arc<State>,
    dir: PathBuf,
    next: NextNumbers,
    last: Millis,
}

enum Entry {
    Batch(JournalBatch),
    Snapshot(SnapshotDraft),
}

#[derive(Debug, Default)]
struct State {
    has_ended: AtomicBool,
    is_snapshot_due: AtomicBool,
}

impl State {
    /// Ends the history: a record is missing, and those after it could not be replayed.
    fn end(&self, dir: &Path, error: &str) {
        self.is_snapshot_due.store(false, Ordering::SeqCst);
        if !self.has_ended.swap(true, Ordering::SeqCst) {
            let dir = dir.display().to_string();
            tracing::error!(dir, error, "the history ends here; a restart begins a new one");
        }
    }
}

impl HistoryJournal {
    /// Locks a data directory and continues its numbering.
    ///
    /// # Errors
    ///
    /// The directory is in use, damaged, or the journal there is the state of a server.
    pub fn open(dir: &Path) -> Result<HistoryJournal> {
        let (store, found) = Store::open(dir)?;
        let snapshot = found.snapshot.as_ref();
        if snapshot.is_some_and(|snapshot| snapshot.front.get() != NO_STATE) {
            bail!(
                "{} is the data directory of `plimsoll serve`; choose another one for this history",
                dir.display()
            );
        }
        for warning in found.warnings {
            tracing::warn!("{warning}");
        }
        let next = NextNumbers { record: store.next_seq(), changes: store.next_changes() };
        let last = snapshot.map_or(Millis(0), |snapshot| snapshot.now);
        let last = found.records.last().map_or(last, |record| record.now.max(last));
        let state = Arc::new(State::default());
        let worker = Worker::start("history", QUEUE, writer(store, dir.to_path_buf(), &state));
        let worker = worker.context("cannot start the thread that writes the history")?;
        Ok(HistoryJournal { worker, state, dir: dir.to_path_buf(), next, last })
    }

    /// Returns the time of the last record of an earlier process. Time does not go back before it.
    pub fn last(&self) -> Millis {
        self.last
    }

    /// Begins the history of this process with the state that was read from the other system.
    pub fn begin<F: Front>(&mut self, host: &mut Host<F>, now: Millis) {
        let ahead = self.last.0.saturating_sub(now.0);
        if u128::from(ahead) >= CLOCK_WARNING.as_millis() {
            tracing::warn!(ahead, "the system clock is behind the last record of the history");
        }
        host.renumber(self.next);
        let Checkpoint { next, core, front } = host.checkpoint();
        let snapshot = HostSnapshot {
            next_seq: next.record,
            next_changes: next.changes,
            now,
            core,
            front: to_raw_value(&front).expect("a front end's state is plain data"),
            origin: SnapshotOrigin::Outside,
        };
        self.save_snapshot(snapshot.into());
    }

    fn hand(&self, entry: Entry) {
        if self.state.has_ended.load(Ordering::SeqCst) {
            return;
        }
        if !self.worker.hand(entry) {
            self.state.end(&self.dir, "the disk is too slow for what happens");
        }
    }
}

impl Journal for HistoryJournal {
    fn commit(&mut self, batch: &JournalBatch) -> Result<(), StoreError> {
        if !batch.is_empty() {
            self.hand(Entry::Batch(batch.clone()));
        }
        Ok(())
    }

    fn is_snapshot_due(&self) -> bool {
        self.state.is_snapshot_due.swap(false, Ordering::SeqCst)
    }

    fn save_snapshot(&mut self, snapshot: SnapshotDraft) {
        self.hand(Entry::Snapshot(snapshot));
    }
}

/// Returns the work of the thread that owns the store.
fn writer(
    mut store: Store,
    dir: PathBuf,
    state: &Arc<State>,
) -> impl FnMut(Entry) -> ControlFlow<()> + Send + 'static {
    let state = state.clone();
    let mut has_begun = false;
    move |entry| {
        let written = match entry {
            Entry::Batch(batch) => store.commit(&batch),
            Entry::Snapshot(snapshot) => {
                store.save_snapshot(snapshot);
                // The first one holds the settings that the records after it are read with.
                let wait = !std::mem::replace(&mut has_begun, true);
                if wait { store.wait_for_snapshots() } else { Ok(()) }
            }
        };
        if let Err(error) = written {
            state.end(&dir, &format!("{:#}", anyhow::Error::new(error)));
            return ControlFlow::Break(());
        }
        state.is_snapshot_due.store(store.is_snapshot_due(), Ordering::SeqCst);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests;
