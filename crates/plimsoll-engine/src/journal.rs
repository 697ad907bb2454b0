//! The seam between the engine and durability: SQLite for the standalone server, nothing where
//! another system is the source of truth, and memory for tests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll_core::drive::Record;

use crate::store::{HostSnapshot, SnapshotDraft, StoreError};

/// Makes batches durable, in order. One thread owns it.
pub trait Journal: Send + 'static {
    /// Makes a batch durable. After an error nothing of the batch was acknowledged, and the engine
    /// stops: it has decided on a state that a restart will not find.
    fn commit(&mut self, batch: &JournalBatch) -> Result<(), StoreError>;

    /// Returns the least time between two commits. Batching amortises the cost of fsync, of which
    /// about one in a thousand takes many times as long as the rest.
    fn interval(&self) -> Duration {
        Duration::from_millis(2)
    }

    /// Returns whether enough was committed since the last snapshot to make the next one due.
    fn is_snapshot_due(&self) -> bool;

    /// Accepts the state after the last commit, to be written beside the commits that follow.
    fn save_snapshot(&mut self, snapshot: SnapshotDraft);
}

/// Everything that becomes durable in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalBatch {
    pub records: Vec<Record>,
    pub changes: Vec<JournalledChanges>,
}

impl JournalBatch {
    /// Returns whether there is nothing to make durable.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.changes.is_empty()
    }
}

/// A front end's changes of one batch. The journal does not look into them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalledChanges {
    /// Consecutive, counted separately from records.
    pub seq: u64,
    /// JSON.
    pub body: String,
}

/// Everything that a restart finds: a snapshot, and what was committed after it.
#[derive(Debug, Default)]
pub struct Recovered {
    pub snapshot: Option<HostSnapshot>,
    /// The records after the snapshot, in order, without a gap.
    pub records: Vec<Record>,
    /// The changes after the snapshot, in order, without a gap.
    pub changes: Vec<JournalledChanges>,
    /// Damage that was worked around, for the log.
    pub warnings: Vec<String>,
}

impl Journal for Box<dyn Journal> {
    fn commit(&mut self, batch: &JournalBatch) -> Result<(), StoreError> {
        (**self).commit(batch)
    }

    fn interval(&self) -> Duration {
        (**self).interval()
    }

    fn is_snapshot_due(&self) -> bool {
        (**self).is_snapshot_due()
    }

    fn save_snapshot(&mut self, snapshot: SnapshotDraft) {
        (**self).save_snapshot(snapshot);
    }
}

/// Keeps nothing: a restart reads another system, which is the source of truth.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn commit(&mut self, _: &JournalBatch) -> Result<(), StoreError> {
        Ok(())
    }

    /// Nothing is written, so that waiting saves nothing.
    fn interval(&self) -> Duration {
        Duration::ZERO
    }

    fn is_snapshot_due(&self) -> bool {
        false
    }

    fn save_snapshot(&mut self, _: SnapshotDraft) {}
}

/// A journal in memory. Clones share the contents, so that a test can drop an engine and recover
/// what it committed, as after a crash.
#[derive(Clone, Debug)]
pub struct MemoryJournal {
    contents: Arc<Mutex<Contents>>,
}

#[derive(Debug)]
struct Contents {
    snapshot: Option<HostSnapshot>,
    records: VecDeque<Record>,
    changes: VecDeque<JournalledChanges>,
    /// A snapshot is due after this many records and changes, which bounds the memory.
    rows_per_snapshot: usize,
}

impl MemoryJournal {
    /// Creates an empty journal that keeps at most about twice `rows_per_snapshot` rows.
    pub fn new(rows_per_snapshot: usize) -> Self {
        let (snapshot, records, changes) = (None, VecDeque::new(), VecDeque::new());
        let contents = Contents { snapshot, records, changes, rows_per_snapshot };
        MemoryJournal { contents: Arc::new(Mutex::new(contents)) }
    }

    /// Creates a journal with what an earlier one held. Its next snapshot is due at once.
    pub fn from_recovered(recovered: Recovered) -> Self {
        let contents = Contents {
            snapshot: recovered.snapshot,
            records: recovered.records.into(),
            changes: recovered.changes.into(),
            rows_per_snapshot: 1,
        };
        MemoryJournal { contents: Arc::new(Mutex::new(contents)) }
    }

    /// Returns what a restart would find.
    pub fn recovered(&self) -> Recovered {
        let contents = self.contents();
        Recovered {
            snapshot: contents.snapshot.clone(),
            records: contents.records.iter().cloned().collect(),
            changes: contents.changes.iter().cloned().collect(),
            warnings: Vec::new(),
        }
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        // A panic while it was locked left whole rows behind.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for MemoryJournal {
    fn commit(&mut self, batch: &JournalBatch) -> Result<(), StoreError> {
        let mut contents = self.contents();
        contents.records.extend(batch.records.iter().cloned());
        contents.changes.extend(batch.changes.iter().cloned());
        Ok(())
    }

    fn is_snapshot_due(&self) -> bool {
        let contents = self.contents();
        contents.records.len() + contents.changes.len() >= contents.rows_per_snapshot
    }

    fn save_snapshot(&mut self, snapshot: SnapshotDraft) {
        let snapshot = snapshot.build();
        let mut contents = self.contents();
        contents.records.retain(|record| record.seq >= snapshot.next_seq);
        contents.changes.retain(|changes| changes.seq >= snapshot.next_changes);
        contents.snapshot = Some(snapshot);
    }
}
