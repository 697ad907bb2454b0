//! The data directory: a SQLite journal that every answer waits for, and snapshots to restart from.
//!
//! ```text
//!  commit ──▶ SQLite's log ──▶ a thread of its own ──▶ journal.db (journal, decisions, changes)
//!         └─▶ journal.head: the end of the last acknowledged commit
//!  save_snapshot ──▶ a thread of its own ──▶ snapshot-<seq>.json ──▶ old rows are removed,
//!                                                                    a few per commit
//!  open = newest snapshot that can be read + records and changes after it
//! ```

mod checkpoints;
mod error;
mod head;
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
use head::{End, Head};
pub use history::{DecisionId, Filter, History, Listed};
use lock::Lock;
use recover::Restart;
pub use rows::hexadecimal;
#[cfg(test)]
pub(crate) use rows::insert_record;
use rows::{CHANGES, JOURNAL};
pub use snapshot::{HostSnapshot, SnapshotDraft, SnapshotOrigin};
use snapshot::{Mark, Report, SnapshotWriter};

/// The number of records and changes after which the next snapshot is due. Reading one back takes
/// about 20 µs, so that a restart after a crash reads them in about two seconds. Taking a snapshot
/// delays decisions by about 10 ms for 10,000 slots. Tests write fewer rows, which takes seconds.
const ROWS_PER_SNAPSHOT: u64 = if cfg!(test) { 2_000 } else { 100_000 };

/// The number of bytes after which the next snapshot is due. It bounds the disk: the journal holds
/// at most three times this.
const BYTES_PER_SNAPSHOT: u64 = 128 << 20;

/// The minimum number of old rows to remove with each commit. Twice as many as come in are removed
/// where that is more, so that pruning always catches up and no single commit pays for all of it.
const PRUNED_AT_ONCE: u64 = 500;

/// A data directory that this process has locked. One thread owns it and writes.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    checkpoints: Checkpoints,
    snapshots: SnapshotWriter,
    dir: PathBuf,
    head: Head,
    /// The end of the journal: the numbers of the next record and the next change set.
    end: End,
    /// The rows and bytes committed since the last snapshot was taken.
    since: Since,
    /// Rows below this mark can be removed; `None` when all of them are gone.
    prune_below: Option<Mark>,
    /// A commit failed. Only reopening the directory can tell which part of it is on disk.
    is_stopped: bool,
    /// Dropped last, after the last write.
    lock: Lock,
}

impl Drop for Store {
    /// Empties SQLite's WAL into the file on a clean shutdown, because rows in the file are covered
    /// by their checksums and pages in the WAL are not.
    fn drop(&mut self) {
        self.checkpoints.end();
        if !self.is_stopped {
            // If this fails, the next open reads the WAL.
            let _ = self.connection.pragma_update(None, "wal_checkpoint", "truncate");
        }
    }
}

/// The amount of data committed since a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Since {
    rows: u64,
    bytes: u64,
}

/// Fails if another process uses a data directory. A server asks before it listens, so that its log
/// does not say that it does.
pub fn check_unused(dir: &Path) -> Result<(), StoreError> {
    match dir.join("lock").exists() {
        true => Lock::acquire(dir).map(drop),
        false => Ok(()),
    }
}

impl Store {
    /// Locks a data directory, creates it if necessary, and reads its contents. If the contents are
    /// damaged, nothing is changed.
    pub fn open(dir: &Path) -> Result<(Store, Recovered), StoreError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(StoreError::files(dir, "create the data directory"))?;
        let lock = Lock::acquire(dir)?;
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
        let next =
            Mark { next_seq: start.next_seq + records, next_changes: start.next_changes + changes };
        let end = End { next, record: None, changes: None };
        let store = Store {
            connection,
            checkpoints: Checkpoints::start(dir)?,
            snapshots,
            dir: dir.to_path_buf(),
            head: Head::start(dir, &end)?,
            end,
            since: Since { rows: records + changes, bytes },
            prune_below,
            is_stopped: false,
            lock,
        };
        Ok((store, found))
    }

    /// Returns the number that the next record gets.
    pub fn next_seq(&self) -> u64 {
        self.end.next.next_seq
    }

    /// Returns the number that the next change set gets.
    pub fn next_changes(&self) -> u64 {
        self.end.next.next_changes
    }

    /// Waits until all snapshots handed over are durable. The first start needs this: the first
    /// snapshot holds the settings that records are read with.
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
            // The journal still has everything. The next attempt is after half the usual number of
            // rows.
            Err(error) => {
                self.since.rows += ROWS_PER_SNAPSHOT / 2;
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(cause, "a snapshot was not kept, the journal grows on: {error}");
            }
        }
    }

    fn goes_on(&self, batch: &JournalBatch) -> Result<(), StoreError> {
        let records = batch.records.iter().map(|record| record.seq);
        in_order(JOURNAL, self.end.next.next_seq, records)?;
        in_order(
            CHANGES,
            self.end.next.next_changes,
            batch.changes.iter().map(|changes| changes.seq),
        )
    }

    fn write(&mut self, batch: &JournalBatch) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        let mut bytes = 0;
        let mut end = self.end.clone();
        for record in &batch.records {
            let inserted = rows::insert_record(&transaction, record)?;
            bytes += inserted.bytes;
            end.record = Some(inserted.checksum);
        }
        for changes in &batch.changes {
            let inserted = rows::insert_changes(&transaction, changes)?;
            bytes += inserted.bytes;
            end.changes = Some(inserted.checksum);
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
        end.next.next_seq += records;
        end.next.next_changes += changes;
        self.end = end;
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
            .and_then(|()| self.head.write(&self.end))
            .and_then(|()| match self.lock.is_current() {
                true => Ok(()),
                false => Err(StoreError::Removed { dir: self.dir.clone() }),
            });
        self.is_stopped = committed.is_err();
        committed
    }

    fn is_snapshot_due(&self) -> bool {
        let due = self.since.rows >= ROWS_PER_SNAPSHOT || self.since.bytes >= BYTES_PER_SNAPSHOT;
        due && !self.snapshots.is_busy()
    }

    /// Accepts a snapshot, which must be the state after the last commit: a snapshot ahead of the
    /// journal would resurrect what was never durable.
    fn save_snapshot(&mut self, snapshot: SnapshotDraft) {
        assert_eq!(snapshot.mark(), self.end.next, "a snapshot is the state after the last commit");
        self.since = Since::default();
        self.snapshots.order(snapshot);
    }
}

/// Reads an existing journal, or creates an empty one.
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
