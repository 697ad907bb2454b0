//! The data directory: a journal that every answer waits for, and whole states to start again from.
//!
//! ```text
//!  commit ──▶ SQLite's log ──▶ a thread of its own ──▶ journal.db (journal, decisions, changes)
//!  save_snapshot ──▶ a thread of its own ──▶ snapshot-<seq>.json ──▶ rows before the snapshot before it are removed, a few a commit
//!  open = newest snapshot that can be read + records and changes after it
//! ```

mod checkpoints;
mod checksum;
mod error;
mod history;
mod lock;
mod recover;
mod rows;
mod schema;
mod snapshot;
#[cfg(test)]
pub(crate) mod tests;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::journal::{Journal, JournalBatch, Recovered};

use checkpoints::Checkpoints;
pub use error::StoreError;
pub use history::{DecisionId, Filter, History, Listed};
use lock::Lock;
use recover::Restart;
pub use rows::hexadecimal;
#[cfg(test)]
pub(crate) use rows::insert_record;
use rows::{CHANGES, JOURNAL};
pub use snapshot::{HostSnapshot, SnapshotDraft};
use snapshot::{Mark, Report, SnapshotWriter};

/// So many records and changes after a snapshot, the next one is due. Reading one back takes some 20 µs, so that a start after a
/// crash takes about two seconds for them. Each snapshot makes whoever asks meanwhile wait, some 10 ms for 10,000 slots.
const ROWS_PER_SNAPSHOT: u64 = 100_000;

/// So many bytes after a snapshot, the next one is due. It bounds the disk: at most three times this is in the journal.
const BYTES_PER_SNAPSHOT: u64 = 128 << 20;

/// So many old rows are removed with a commit at least; twice as many as come in, where that is more, so that the removing
/// always catches up and no single commit pays for all of it.
const PRUNED_AT_ONCE: u64 = 500;

/// A data directory that is ours. One thread owns it and writes.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    checkpoints: Checkpoints,
    snapshots: SnapshotWriter,
    dir: PathBuf,
    /// What comes next.
    next: Mark,
    /// What came since the last snapshot was handed over.
    since: Since,
    /// Rows below this are not needed any more; none when all of them are gone.
    prune_below: Option<Mark>,
    /// A commit failed, and what of it is on the disk is known only to the next one who opens it.
    is_stopped: bool,
    /// Dropped last, when nothing is written any more.
    lock: Lock,
}

impl Drop for Store {
    /// What ended well stands in one file, under the checks of its rows; what is left in SQLite's log after a crash does not.
    fn drop(&mut self) {
        self.checkpoints.end();
        if !self.is_stopped {
            // Where it cannot be done now, the next who opens it reads the log.
            let _ = self.connection.pragma_update(None, "wal_checkpoint", "truncate");
        }
    }
}

/// How much came since a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Since {
    rows: u64,
    bytes: u64,
}

impl Store {
    /// Takes a data directory, makes it where there is none, and reads what is in it. Where something is wrong with what is in it,
    /// nothing of it is changed.
    pub fn open(dir: &Path) -> Result<(Store, Recovered), StoreError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(StoreError::files(dir, "create the data directory"))?;
        let lock = Lock::take(dir)?;
        let Restart { found, bytes, whole } = found_in(dir)?;
        snapshot::remove_parts(dir)?;
        let connection = schema::writer(dir)?;
        let prune_below = whole.get(1).copied();
        let snapshots = SnapshotWriter::start(dir, whole)?;
        let start = found
            .snapshot
            .as_ref()
            .map_or(Mark { next_seq: 0, next_changes: 0 }, HostSnapshot::mark);
        let (records, changes) = (found.records.len() as u64, found.changes.len() as u64);
        let store = Store {
            connection,
            checkpoints: Checkpoints::start(dir)?,
            snapshots,
            dir: dir.to_path_buf(),
            next: Mark {
                next_seq: start.next_seq + records,
                next_changes: start.next_changes + changes,
            },
            since: Since { rows: records + changes, bytes },
            prune_below,
            is_stopped: false,
            lock,
        };
        Ok((store, found))
    }

    /// Waits until the snapshots that were handed over are durable: at the first start, before anything is journalled that
    /// only they say how to read.
    pub fn wait_for_snapshots(&mut self) -> Result<(), StoreError> {
        while let Some(report) = self.snapshots.wait() {
            match report {
                Ok(_) => self.heard(report),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn heard(&mut self, report: Report) {
        match report {
            Ok(prune_below) => self.prune_below = prune_below.or(self.prune_below),
            // The journal has everything. It is tried again when half as much has come again.
            Err(error) => {
                self.since.rows += ROWS_PER_SNAPSHOT / 2;
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(cause, "a snapshot was not kept, the journal grows on: {error}");
            }
        }
    }

    fn goes_on(&self, batch: &JournalBatch) -> Result<(), StoreError> {
        let records = batch.records.iter().map(|record| record.seq);
        in_order(JOURNAL, self.next.next_seq, records)?;
        in_order(CHANGES, self.next.next_changes, batch.changes.iter().map(|changes| changes.seq))
    }

    fn write(&mut self, batch: &JournalBatch) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        let mut bytes = 0;
        for record in &batch.records {
            bytes += rows::insert_record(&transaction, record)?;
        }
        for changes in &batch.changes {
            bytes += rows::insert_changes(&transaction, changes)?;
        }
        let (records, changes) = (batch.records.len() as u64, batch.changes.len() as u64);
        let mut prune_below = self.prune_below;
        if let Some(below) = prune_below {
            let most = |came: u64| PRUNED_AT_ONCE.max(came * 2);
            let more_records = rows::prune(&transaction, JOURNAL, below.next_seq, most(records))?;
            let more_notes = rows::prune(&transaction, CHANGES, below.next_changes, most(changes))?;
            prune_below = prune_below.filter(|_| more_records || more_notes);
        }
        transaction.commit()?;
        self.prune_below = prune_below;
        self.next.next_seq += records;
        self.next.next_changes += changes;
        self.since.rows += records + changes;
        self.since.bytes += bytes;
        self.checkpoints.committed(bytes);
        Ok(())
    }
}

impl Journal for Store {
    fn commit(&mut self, batch: &JournalBatch) -> Result<(), StoreError> {
        if self.is_stopped {
            return Err(StoreError::Stopped { dir: self.dir.clone() });
        }
        while let Some(report) = self.snapshots.report() {
            self.heard(report);
        }
        if batch.records.is_empty() && batch.changes.is_empty() {
            return Ok(());
        }
        let committed = self
            .goes_on(batch)
            .and_then(|()| {
                self.write(batch).map_err(StoreError::sql(&schema::file(&self.dir), "write"))
            })
            .and_then(|()| match self.lock.stands() {
                true => Ok(()),
                false => Err(StoreError::Removed { dir: self.dir.clone() }),
            });
        self.is_stopped = committed.is_err();
        committed
    }

    /// Whether so much came since the last snapshot that the next one is due. It is handed over with [`Store::save_snapshot`].
    fn is_snapshot_due(&self) -> bool {
        let due = self.since.rows >= ROWS_PER_SNAPSHOT || self.since.bytes >= BYTES_PER_SNAPSHOT;
        due && !self.snapshots.is_busy()
    }

    /// Hands a whole state over, to be written while commits go on. It must be the state after the last commit: a snapshot that
    /// is ahead of the journal would survive what was never durable.
    fn save_snapshot(&mut self, snapshot: SnapshotDraft) {
        assert_eq!(snapshot.mark(), self.next, "a snapshot is the state after the last commit");
        self.since = Since::default();
        self.snapshots.order(snapshot);
    }
}

/// Reads what is there, or makes an empty journal where nothing is.
fn found_in(dir: &Path) -> Result<Restart, StoreError> {
    match (recover::recover(dir), snapshot::list(dir)?.first()) {
        (Err(StoreError::Absent { .. }), None) => {
            schema::create(dir)?;
            Ok(Restart::default())
        }
        (Err(StoreError::Absent { file }), Some(newest)) => {
            Err(StoreError::JournalLost { file, snapshot: snapshot::file(dir, *newest) })
        }
        (recovered, _) => recovered,
    }
}

fn in_order(
    table: &'static str,
    first: u64,
    numbers: impl Iterator<Item = u64>,
) -> Result<(), StoreError> {
    for (expected, found) in (first..).zip(numbers) {
        if expected != found {
            return Err(StoreError::OutOfOrder { table, expected, found });
        }
    }
    Ok(())
}
