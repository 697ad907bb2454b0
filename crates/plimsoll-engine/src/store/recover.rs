//! Reads a data directory without changing it: the newest usable snapshot, and the rows after it.

use std::ops::ControlFlow;
use std::path::Path;

use super::error::StoreError;
use super::head;
use super::rows::{CHANGES, JOURNAL, Rows};
use super::schema;
use super::snapshot::{self, HostSnapshot, Mark};
use crate::journal::Recovered;

/// The contents of a data directory, with the bookkeeping that the store continues from.
#[derive(Default)]
pub(super) struct Restart {
    pub(super) found: Recovered,
    /// The bytes of the records and change sets read.
    pub(super) bytes: u64,
    /// The usable snapshots, newest first.
    pub(super) whole: Vec<Mark>,
}

/// Reads a data directory that has a journal.
pub(super) fn recover(dir: &Path) -> Result<Restart, StoreError> {
    let file = schema::file(dir);
    let connection = schema::reader(dir)?;
    schema::check_pages(&connection, &file)?;
    let rows = Rows { connection: &connection, file: &file };
    let mut recovered = newest_snapshot(dir, rows)?;
    let next = recovered
        .found
        .snapshot
        .as_ref()
        .map_or((0, 0), |snapshot| (snapshot.next_seq, snapshot.next_changes));
    let Restart { found, bytes, .. } = &mut recovered;
    rows.each_record(next.0, |record, size| {
        *bytes += size;
        found.records.push(record);
        ControlFlow::Continue(())
    })?;
    rows.each_change_set(next.1, |changes| {
        *bytes += changes.body.len() as u64;
        found.changes.push(changes);
        ControlFlow::Continue(())
    })?;
    let end = Mark {
        next_seq: next.0 + found.records.len() as u64,
        next_changes: next.1 + found.changes.len() as u64,
    };
    let warning = head::check(dir, rows, end)?;
    rows.check_decisions()?;
    found.warnings.extend(warning);
    Ok(recovered)
}

/// Finds the newest readable snapshot that the journal continues from.
fn newest_snapshot(dir: &Path, rows: Rows<'_>) -> Result<Restart, StoreError> {
    let mut recovered = Restart::default();
    let oldest = rows.span(JOURNAL)?.map_or(0, |(oldest, _)| oldest);
    let mut damaged = Vec::new();
    let mut all = snapshot::list(dir)?.into_iter();
    for next_seq in all.by_ref() {
        match snapshot::read(dir, next_seq) {
            Ok(snapshot) if next_seq >= oldest => {
                goes_on(dir, rows, &snapshot)?;
                recovered.whole.push(snapshot.mark());
                recovered.found.snapshot = Some(snapshot);
                break;
            }
            Ok(_) => break,
            Err(error) => damaged.push(error.to_string()),
        }
    }
    // The first snapshot is durable before the first row, and has the settings that rows are read
    // with.
    let has_rows = rows.span(JOURNAL)?.or(rows.span(CHANGES)?).is_some();
    if recovered.found.snapshot.is_none() && (has_rows || !damaged.is_empty()) {
        return Err(StoreError::NoSnapshot { file: rows.file.to_path_buf(), oldest, damaged });
    }
    recovered.found.warnings = damaged
        .into_iter()
        .map(|problem| format!("{problem}; an older snapshot was used instead"))
        .collect();
    // The snapshot before it is only checked for integrity.
    let older = all
        .filter(|next_seq| *next_seq >= oldest)
        .find_map(|next_seq| snapshot::mark(dir, next_seq));
    recovered.whole.extend(older);
    Ok(recovered)
}

/// Rejects a journal that ends before its snapshot: it was restored from an older backup, and
/// sequence numbers would be assigned twice.
fn goes_on(dir: &Path, rows: Rows<'_>, snapshot: &HostSnapshot) -> Result<(), StoreError> {
    let behind = |table, ends, reaches| {
        let (file, snapshot) = (rows.file.to_path_buf(), snapshot::file(dir, snapshot.next_seq));
        Err(StoreError::Behind { file, table, snapshot, ends, reaches })
    };
    // A snapshot above zero is kept with the records before it, so an empty journal is behind it.
    let ends = rows.span(JOURNAL)?.map_or(0, |(_, newest)| newest.saturating_add(1));
    if ends < snapshot.next_seq {
        return behind(JOURNAL, ends, snapshot.next_seq);
    }
    match rows.span(CHANGES)? {
        Some((_, newest)) if newest.saturating_add(1) < snapshot.next_changes => {
            behind(CHANGES, newest.saturating_add(1), snapshot.next_changes)
        }
        _ => Ok(()),
    }
}
