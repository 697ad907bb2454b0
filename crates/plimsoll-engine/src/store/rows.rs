//! Converts records and change sets to rows and back, each verified by its checksum.

use std::ops::ControlFlow;
use std::path::Path;

use plimsoll_core::drive::Record;
use plimsoll_core::units::Millis;
use rusqlite::{Connection, OptionalExtension, Row, Transaction};

use super::error::StoreError;
use crate::journal::JournalledChanges;
use plimsoll_core::checksum::checksum;

/// The table of records.
pub(super) const JOURNAL: &str = "journal";

/// The table of the front end's change sets.
pub(super) const CHANGES: &str = "changes";

/// The list of the decisions in the records.
const DECISIONS: &str = "decisions";

/// A row that was inserted: the bytes of its text, and its checksum.
pub(crate) struct Inserted {
    pub(crate) bytes: u64,
    pub(crate) checksum: String,
}

/// Inserts a record and its decisions.
pub(crate) fn insert_record(
    transaction: &Transaction<'_>,
    record: &Record,
) -> rusqlite::Result<Inserted> {
    let text = Text::render(record)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let (seq, now) = (integer(record.seq)?, integer(record.now.0)?);
    let mut journal = transaction.prepare_cached(
        "INSERT INTO journal (seq, now, event, operations, decisions, core, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    let checksum = text.checksum(seq, now);
    let Text { event, operations, decisions, core } = &text;
    journal.execute((seq, now, event, operations, decisions, core, &checksum))?;
    let mut decisions = transaction.prepare_cached(
        "INSERT INTO decisions (seq, idx, now, account, name, uid, summary, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for (idx, decision) in (0_i64..).zip(&record.decisions) {
        let asked = &decision.request;
        let digest = hexadecimal(decision.digest);
        let summary = serde_json::to_string(&decision.summary)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        decisions.execute((
            seq,
            idx,
            now,
            &*asked.account,
            &*asked.name,
            &*asked.uid,
            summary,
            digest,
        ))?;
    }
    Ok(Inserted { bytes: text.bytes(), checksum })
}

/// Inserts a change set.
pub(super) fn insert_changes(
    transaction: &Transaction<'_>,
    changes: &JournalledChanges,
) -> rusqlite::Result<Inserted> {
    let seq = integer(changes.seq)?;
    let mut statement = transaction
        .prepare_cached("INSERT INTO changes (seq, body, checksum) VALUES (?1, ?2, ?3)")?;
    let checksum = changes_checksum(seq, &changes.body);
    statement.execute((seq, &changes.body, &checksum))?;
    Ok(Inserted { bytes: changes.body.len() as u64, checksum })
}

/// Removes at most `most` of the oldest rows below a number. Returns whether some are left.
pub(super) fn prune(
    transaction: &Transaction<'_>,
    table: &'static str,
    below: u64,
    most: u64,
) -> rusqlite::Result<bool> {
    let oldest: Option<i64> = transaction
        .prepare_cached(&format!("SELECT min(seq) FROM {table}"))?
        .query_row((), |row| row.get(0))?;
    let Some(oldest) = oldest else { return Ok(false) };
    let below = integer(below)?;
    let end = below.min(oldest.saturating_add(integer(most)?));
    let tables: &[&str] = if table == JOURNAL { &[JOURNAL, DECISIONS] } else { &[CHANGES] };
    for table in tables {
        transaction
            .prepare_cached(&format!("DELETE FROM {table} WHERE seq < ?1"))?
            .execute([end])?;
    }
    Ok(end < below)
}

/// Converts a number to SQLite's signed integer. One that is too large is an error.
pub(super) fn integer(number: u64) -> rusqlite::Result<i64> {
    i64::try_from(number).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Formats a digest.
pub fn hexadecimal(digest: u64) -> String {
    format!("{digest:016x}")
}

/// The tables of one journal, read-only.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) connection: &'a Connection,
    pub(super) file: &'a Path,
}

impl Rows<'_> {
    /// Returns the numbers of the oldest and the newest row of a table.
    pub(super) fn span(&self, table: &'static str) -> Result<Option<(u64, u64)>, StoreError> {
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let query = format!("SELECT min(seq), max(seq) FROM {table}");
        let found: (Option<i64>, Option<i64>) = self
            .connection
            .prepare_cached(&query)
            .and_then(|mut statement| statement.query_row((), read))
            .map_err(StoreError::sql(self.file, "read"))?;
        match found {
            (Some(oldest), Some(newest)) => {
                Ok(Some((self.number(table, oldest)?, self.number(table, newest)?)))
            }
            _ => Ok(None),
        }
    }

    /// Returns the stored checksum of a row, if there is one.
    pub(super) fn checksum_of(
        &self,
        table: &'static str,
        seq: u64,
    ) -> Result<Option<String>, StoreError> {
        let failed = StoreError::sql(self.file, "read");
        let query = format!("SELECT checksum FROM {table} WHERE seq = ?1");
        let seq = integer(seq).map_err(&failed)?;
        self.connection.query_row(&query, [seq], |row| row.get(0)).optional().map_err(&failed)
    }

    /// Calls `take` with the records from a number on and their size in bytes, in order, until it
    /// breaks. A gap is an error.
    pub(super) fn each_record(
        &self,
        from: u64,
        mut take: impl FnMut(Record, u64) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let query = "SELECT seq, now, event, operations, decisions, core, checksum FROM journal WHERE seq >= ?1 ORDER BY seq";
        self.each(JOURNAL, query, from, |seq, row| {
            let text = Text {
                event: row.get(2)?,
                operations: row.get(3)?,
                decisions: row.get(4)?,
                core: row.get(5)?,
            };
            let (now, sum): (i64, String) = (row.get(1)?, row.get(6)?);
            let bytes = text.bytes();
            Ok(text.record(seq, now, &sum).map(|record| take(record, bytes)))
        })
    }

    /// Calls `take` with the change sets from a number on, in order, until it breaks. A gap is an
    /// error.
    pub(super) fn each_change_set(
        &self,
        from: u64,
        mut take: impl FnMut(JournalledChanges) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let query = "SELECT seq, body, checksum FROM changes WHERE seq >= ?1 ORDER BY seq";
        self.each(CHANGES, query, from, |seq, row| {
            let (body, sum): (String, String) = (row.get(1)?, row.get(2)?);
            if sum != changes_checksum(seq, &body) {
                return Ok(Err(CHANGED.to_string()));
            }
            Ok(Ok(take(JournalledChanges { seq: seq.unsigned_abs(), body })))
        })
    }

    /// Checks that the list of decisions has those of every record, and no others.
    ///
    /// The list is an index of the records for the API, and a restart does not read it: without
    /// this check, deleted rows would make decisions disappear silently.
    pub(super) fn check_decisions(&self) -> Result<(), StoreError> {
        let query = "SELECT seq, sum(listed), sum(made) FROM (
                SELECT seq, 1 AS listed, 0 AS made FROM decisions
                UNION ALL SELECT seq, 0, json_array_length(decisions) FROM journal
            ) GROUP BY seq HAVING sum(listed) <> sum(made) ORDER BY seq LIMIT 1";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let found: Option<(i64, i64, i64)> = self
            .connection
            .query_row(query, (), read)
            .optional()
            .map_err(StoreError::sql(self.file, "read"))?;
        let Some((seq, listed, made)) = found else { return Ok(()) };
        Err(StoreError::Row {
            file: self.file.to_path_buf(),
            table: DECISIONS,
            seq: self.number(DECISIONS, seq)?,
            problem: format!("{listed} decisions are listed for this record, which has {made}"),
        })
    }

    fn each(
        &self,
        table: &'static str,
        query: &str,
        from: u64,
        mut take: impl FnMut(i64, &Row<'_>) -> rusqlite::Result<Result<ControlFlow<()>, String>>,
    ) -> Result<(), StoreError> {
        let failed = StoreError::sql(self.file, "read");
        let mut statement = self.connection.prepare_cached(query).map_err(&failed)?;
        let mut rows = statement.query([integer(from).map_err(&failed)?]).map_err(&failed)?;
        let mut expected = from;
        while let Some(row) = rows.next().map_err(&failed)? {
            let seq = row.get(0).map_err(&failed)?;
            let found = self.number(table, seq)?;
            if found != expected {
                return Err(StoreError::Gap {
                    file: self.file.to_path_buf(),
                    table,
                    expected,
                    found,
                });
            }
            match take(seq, row).map_err(&failed)? {
                Ok(ControlFlow::Continue(())) => expected += 1,
                Ok(ControlFlow::Break(())) => break,
                Err(problem) => {
                    return Err(StoreError::Row {
                        file: self.file.to_path_buf(),
                        table,
                        seq: found,
                        problem,
                    });
                }
            }
        }
        Ok(())
    }

    fn number(&self, table: &'static str, seq: i64) -> Result<u64, StoreError> {
        u64::try_from(seq).map_err(|_| StoreError::Row {
            file: self.file.to_path_buf(),
            table,
            seq: 0,
            problem: format!("its number is {seq}"),
        })
    }
}

/// The problem of a row whose checksum does not match.
const CHANGED: &str = "its checksum does not match";

/// The columns of a record.
struct Text {
    event: String,
    operations: String,
    decisions: String,
    core: String,
}

impl Text {
    fn render(record: &Record) -> serde_json::Result<Text> {
        Ok(Text {
            event: serde_json::to_string(&record.event)?,
            operations: serde_json::to_string(&record.operations)?,
            decisions: serde_json::to_string(&record.decisions)?,
            core: record.core.clone(),
        })
    }

    fn record(self, seq: i64, now: i64, sum: &str) -> Result<Record, String> {
        if sum != self.checksum(seq, now) {
            return Err(CHANGED.to_string());
        }
        let unreadable = |part: &'static str| move |error| format!("invalid {part}: {error}");
        Ok(Record {
            seq: seq.unsigned_abs(),
            now: Millis(now.unsigned_abs()),
            event: serde_json::from_str(&self.event).map_err(unreadable("event"))?,
            operations: serde_json::from_str(&self.operations).map_err(unreadable("operations"))?,
            decisions: serde_json::from_str(&self.decisions).map_err(unreadable("decisions"))?,
            core: self.core,
        })
    }

    fn checksum(&self, seq: i64, now: i64) -> String {
        let texts =
            [&self.event, &self.operations, &self.decisions, &self.core].map(String::as_bytes);
        let numbers = [seq.to_le_bytes(), now.to_le_bytes()];
        checksum(numbers.iter().map(|number| &number[..]).chain(texts))
    }

    fn bytes(&self) -> u64 {
        [&self.event, &self.operations, &self.decisions, &self.core]
            .map(|text| text.len() as u64)
            .iter()
            .sum()
    }
}

fn changes_checksum(seq: i64, body: &str) -> String {
    checksum([&seq.to_le_bytes()[..], body.as_bytes()])
}
