//! The data directory: a journal that every answer waits for, and whole states to start again from.
//!
//! ```text
//!  commit ──▶ SQLite's log ──▶ a thread of its own ──▶ journal.db (journal, decisions, notes)
//!  keep_base ──▶ a thread of its own ──▶ base-<seq>.json ──▶ rows before the base before it are removed, a few a commit
//!  open = newest base that can be read + records and notes after it
//! ```

mod base;
mod checkpoints;
mod checksum;
mod error;
mod history;
mod lock;
mod recover;
mod rows;
mod schema;
#[cfg(test)]
pub(crate) mod tests;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use plimsoll_core::drive::Record;
use rusqlite::Connection;

pub use base::{Base, Draft};
use base::{BaseWriter, Mark, Report};
use checkpoints::Checkpoints;
pub use error::StoreError;
pub use history::{DecisionId, Filter, History, Listed};
use lock::Lock;
pub use recover::Found;
use recover::Recovered;
pub use rows::hexadecimal;
#[cfg(test)]
pub(crate) use rows::insert_record;
use rows::{JOURNAL, NOTES};

/// One line of the front end's own journal: a text that the store does not look into, with a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its number; the next one's is one more.
    pub seq: u64,
    /// What it says, as JSON.
    pub body: String,
}

/// What is made durable in one go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// What the core did.
    pub records: Vec<Record>,
    /// What the front end did.
    pub notes: Vec<Note>,
}

/// So many records and notes after a base, the next one is due. Reading one back takes some 20 µs, so that a start after a
/// crash takes about two seconds for them. Each base makes whoever asks meanwhile wait, some 10 ms for 10,000 slots.
const ROWS_PER_BASE: u64 = 100_000;

/// So many bytes after a base, the next one is due. It bounds the disk: at most three times this is in the journal.
const BYTES_PER_BASE: u64 = 128 << 20;

/// So many old rows are removed with a commit at least; twice as many as come in, where that is more, so that the removing
/// always catches up and no single commit pays for all of it.
const PRUNED_AT_ONCE: u64 = 500;

/// A data directory that is ours. One thread owns it and writes.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    checkpoints: Checkpoints,
    bases: BaseWriter,
    dir: PathBuf,
    /// What comes next.
    next: Mark,
    /// What came since the last base was handed over.
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

/// How much came since a base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Since {
    rows: u64,
    bytes: u64,
}

impl Store {
    /// Takes a data directory, makes it where there is none, and reads what is in it. Where something is wrong with what is in it,
    /// nothing of it is changed.
    pub fn open(dir: &Path) -> Result<(Store, Found), StoreError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(StoreError::files(dir, "create the data directory"))?;
        let lock = Lock::take(dir)?;
        let Recovered { found, bytes, whole } = found_in(dir)?;
        base::remove_parts(dir)?;
        let connection = schema::writer(dir)?;
        let prune_below = whole.get(1).copied();
        let bases = BaseWriter::start(dir, whole)?;
        let start = found.base.as_ref().map_or(Mark { next_seq: 0, next_note: 0 }, Base::mark);
        let (records, notes) = (found.records.len() as u64, found.notes.len() as u64);
        let store = Store {
            connection,
            checkpoints: Checkpoints::start(dir)?,
            bases,
            dir: dir.to_path_buf(),
            next: Mark { next_seq: start.next_seq + records, next_note: start.next_note + notes },
            since: Since { rows: records + notes, bytes },
            prune_below,
            is_stopped: false,
            lock,
        };
        Ok((store, found))
    }

    /// Makes a batch durable: when this returns, all of it is on the disk; when it fails, none of it was acknowledged and nothing
    /// more is taken.
    pub fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if self.is_stopped {
            return Err(StoreError::Stopped { dir: self.dir.clone() });
        }
        while let Some(report) = self.bases.report() {
            self.heard(report);
        }
        if batch.records.is_empty() && batch.notes.is_empty() {
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

    /// Whether so much came since the last base that the next one is due. It is handed over with [`Store::keep_base`].
    pub fn wants_base(&self) -> bool {
        let due = self.since.rows >= ROWS_PER_BASE || self.since.bytes >= BYTES_PER_BASE;
        due && !self.bases.is_busy()
    }

    /// Hands a whole state over, to be written while commits go on. It must be the state after the last commit: a base that
    /// is ahead of the journal would survive what was never durable.
    pub fn keep_base(&mut self, base: impl Into<Draft>) {
        let base = base.into();
        assert_eq!(base.mark(), self.next, "a base is the state after the last commit");
        self.since = Since::default();
        self.bases.order(base);
    }

    /// Waits until the bases that were handed over are durable: at the first start, before anything is journalled that
    /// only they say how to read.
    pub fn settle(&mut self) -> Result<(), StoreError> {
        while let Some(report) = self.bases.wait() {
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
                self.since.rows += ROWS_PER_BASE / 2;
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(cause, "a base was not kept, the journal grows on: {error}");
            }
        }
    }

    fn goes_on(&self, batch: &Batch) -> Result<(), StoreError> {
        let records = batch.records.iter().map(|record| record.seq);
        in_order(JOURNAL, self.next.next_seq, records)?;
        in_order(NOTES, self.next.next_note, batch.notes.iter().map(|note| note.seq))
    }

    fn write(&mut self, batch: &Batch) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        let mut bytes = 0;
        for record in &batch.records {
            bytes += rows::insert_record(&transaction, record)?;
        }
        for note in &batch.notes {
            bytes += rows::insert_note(&transaction, note)?;
        }
        let (records, notes) = (batch.records.len() as u64, batch.notes.len() as u64);
        let mut prune_below = self.prune_below;
        if let Some(below) = prune_below {
            let most = |came: u64| PRUNED_AT_ONCE.max(came * 2);
            let more_records = rows::prune(&transaction, JOURNAL, below.next_seq, most(records))?;
            let more_notes = rows::prune(&transaction, NOTES, below.next_note, most(notes))?;
            prune_below = prune_below.filter(|_| more_records || more_notes);
        }
        transaction.commit()?;
        self.prune_below = prune_below;
        self.next.next_seq += records;
        self.next.next_note += notes;
        self.since.rows += records + notes;
        self.since.bytes += bytes;
        self.checkpoints.committed(bytes);
        Ok(())
    }
}

/// Reads what is there, or makes an empty journal where nothing is.
fn found_in(dir: &Path) -> Result<Recovered, StoreError> {
    match (recover::recover(dir), base::list(dir)?.first()) {
        (Err(StoreError::Absent { .. }), None) => {
            schema::create(dir)?;
            Ok(Recovered::default())
        }
        (Err(StoreError::Absent { file }), Some(newest)) => {
            Err(StoreError::JournalLost { file, base: base::file(dir, *newest) })
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
