//! A read-only connection beside the writer: records and decisions for lists, streams and replay.

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use plimsoll_core::drive::Record;
use plimsoll_core::rejection::DecisionSummary;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Millis;
use rusqlite::{Connection, Row};
use serde::Serialize;

use super::error::StoreError;
use super::rows::{JOURNAL, Rows};
use super::schema;
use super::snapshot::{self, HostSnapshot};

/// The journal of a data directory, read-only. It needs no lock; each query sees everything
/// committed before it.
#[derive(Debug)]
pub struct History {
    connection: Connection,
    dir: PathBuf,
    file: PathBuf,
}

/// A filter for listing decisions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'a> {
    pub account: Option<&'a str>,
    pub name: Option<&'a str>,
}

/// The id of a decision, `SEQ.INDEX`: the record, and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DecisionId {
    pub seq: u64,
    pub index: u32,
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.seq, self.index)
    }
}

impl FromStr for DecisionId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .split_once('.')
            .and_then(|(seq, index)| Some((seq.parse().ok()?, index.parse().ok()?)));
        let (seq, index) = parts.ok_or("expected RECORD.INDEX, such as 1042.0")?;
        Ok(DecisionId { seq, index })
    }
}

/// A decision in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    #[serde(flatten)]
    pub id: DecisionId,
    pub now: Millis,
    pub request: RequestId,
    pub summary: DecisionSummary,
    /// Hexadecimal.
    pub digest: String,
}

impl History {
    /// Opens the journal of a data directory, whether or not a server is running on it.
    pub fn open(dir: &Path) -> Result<History, StoreError> {
        let connection = schema::reader(dir)?;
        Ok(History { connection, dir: dir.to_path_buf(), file: schema::file(dir) })
    }

    /// Returns the numbers of the oldest and the newest record.
    pub fn span(&self) -> Result<Option<(u64, u64)>, StoreError> {
        self.rows().span(JOURNAL)
    }

    /// Returns at most `limit` records after a number, oldest first.
    pub fn records(&self, after: Option<u64>, limit: usize) -> Result<Vec<Record>, StoreError> {
        let from = after.map_or(0, |after| after.saturating_add(1));
        let Some((oldest, _)) = self.span()?.filter(|_| limit > 0) else { return Ok(Vec::new()) };
        let mut records = Vec::new();
        self.rows().each_record(from.max(oldest), |record, _| {
            records.push(record);
            if records.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(records)
    }

    /// Returns at most `limit` decisions before a given one, newest first.
    pub fn decisions(
        &self,
        filter: &Filter<'_>,
        before: Option<DecisionId>,
        limit: u32,
    ) -> Result<Vec<Listed>, StoreError> {
        let failed = StoreError::sql(&self.file, "read");
        // With an account, its index serves both the filter and the order; without one, the primary
        // key does.
        let account = if filter.account.is_some() { "account = ?1" } else { "?1 IS NULL" };
        let earlier = match before {
            Some(_) => "(seq, idx) < (?3, ?4)",
            None => "?3 IS NULL AND ?4 IS NULL",
        };
        let query = format!(
            "SELECT seq, idx, now, account, name, uid, summary, digest FROM decisions \
             WHERE {account} AND (?2 IS NULL OR name = ?2) AND {earlier} ORDER BY seq DESC, idx DESC LIMIT ?5"
        );
        // A client may name a number that no column can hold.
        let seq = before.map(|before| i64::try_from(before.seq).unwrap_or(i64::MAX));
        let index = before.map(|before| before.index);
        let mut statement = self.connection.prepare_cached(&query).map_err(&failed)?;
        let rows = statement.query_map((filter.account, filter.name, seq, index, limit), listed);
        rows.and_then(Iterator::collect).map_err(&failed)
    }

    /// Starts a read transaction: from here on every query sees the same state of the journal. The
    /// writer's WAL grows until this connection is dropped.
    pub fn hold(&self) -> Result<(), StoreError> {
        self.connection.execute_batch("BEGIN").map_err(StoreError::sql(&self.file, "read"))?;
        // SQLite fixes the state at the first query.
        self.span().map(|_| ())
    }

    /// Returns the readable snapshots that the journal continues from, oldest first.
    pub fn snapshots(&self) -> Result<Vec<HostSnapshot>, StoreError> {
        let oldest = self.span()?.map_or(0, |(oldest, _)| oldest);
        let numbers = snapshot::list(&self.dir)?.into_iter().filter(|next_seq| *next_seq >= oldest);
        let mut snapshots: Vec<HostSnapshot> =
            numbers.filter_map(|next_seq| snapshot::read(&self.dir, next_seq).ok()).collect();
        snapshots.reverse();
        Ok(snapshots)
    }

    /// Calls `take` with the records from a number on, in order, until it breaks. A gap is an
    /// error.
    pub fn each_record(
        &self,
        from: u64,
        mut take: impl FnMut(Record) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.rows().each_record(from, |record, _| take(record))
    }

    fn rows(&self) -> Rows<'_> {
        Rows { connection: &self.connection, file: &self.file }
    }
}

fn listed(row: &Row<'_>) -> rusqlite::Result<Listed> {
    let text = |column: usize| row.get::<_, String>(column);
    let (seq, now): (i64, i64) = (row.get(0)?, row.get(2)?);
    let request = RequestId::new(text(3)?, text(4)?).with_uid(text(5)?);
    let id = DecisionId { seq: seq.unsigned_abs(), index: row.get(1)? };
    let summary = serde_json::from_str(&text(6)?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(6, rusqlite::types::Type::Text, error.into())
    })?;
    Ok(Listed { id, now: Millis(now.unsigned_abs()), request, summary, digest: text(7)? })
}
