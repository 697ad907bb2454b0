//! What a data directory holds, read without changing it: the newest base that can be started from, and what came after.

use std::ops::ControlFlow;
use std::path::Path;

use plimsoll_core::drive::Record;

use super::base::{self, Base, Mark};
use super::error::StoreError;
use super::rows::{JOURNAL, NOTES, Rows};
use super::{Note, schema};

/// What was found in a data directory.
#[derive(Debug, Default)]
pub struct Found {
    /// The state to start from; none where nothing was ever kept.
    pub base: Option<Base>,
    /// The records after it, in order, without a gap.
    pub records: Vec<Record>,
    /// The notes after it, in order, without a gap.
    pub notes: Vec<Note>,
    /// What was wrong and could be helped, in words for people.
    pub warnings: Vec<String>,
}

/// What was found, with what the store must know to go on.
#[derive(Default)]
pub(super) struct Recovered {
    pub(super) found: Found,
    /// The bytes of the records and notes that were found.
    pub(super) bytes: u64,
    /// The bases that can be started from, newest first.
    pub(super) whole: Vec<Mark>,
}

/// Reads a data directory that has a journal.
pub(super) fn recover(dir: &Path) -> Result<Recovered, StoreError> {
    let file = schema::file(dir);
    let connection = schema::reader(dir)?;
    schema::check_pages(&connection, &file)?;
    let rows = Rows { connection: &connection, file: &file };
    let mut recovered = newest_base(dir, rows)?;
    let next = recovered.found.base.as_ref().map_or((0, 0), |base| (base.next_seq, base.next_note));
    let Recovered { found, bytes, .. } = &mut recovered;
    rows.each_record(next.0, |record, size| {
        *bytes += size;
        found.records.push(record);
        ControlFlow::Continue(())
    })?;
    rows.each_note(next.1, |note| {
        *bytes += note.body.len() as u64;
        found.notes.push(note);
        ControlFlow::Continue(())
    })?;
    Ok(recovered)
}

/// The newest base that can be read and from which the journal goes on.
fn newest_base(dir: &Path, rows: Rows<'_>) -> Result<Recovered, StoreError> {
    let mut recovered = Recovered::default();
    let oldest = rows.span(JOURNAL)?.map_or(0, |(oldest, _)| oldest);
    let mut damaged = Vec::new();
    let mut all = base::list(dir)?.into_iter();
    for next_seq in all.by_ref() {
        match base::read(dir, next_seq) {
            Ok(base) if next_seq >= oldest => {
                goes_on(dir, rows, &base)?;
                recovered.whole.push(base.mark());
                recovered.found.base = Some(base);
                break;
            }
            Ok(_) => break,
            Err(error) => damaged.push(error.to_string()),
        }
    }
    if recovered.found.base.is_none() && (oldest > 0 || !damaged.is_empty()) {
        return Err(StoreError::NoBase { file: rows.file.to_path_buf(), oldest, damaged });
    }
    recovered.found.warnings = damaged
        .into_iter()
        .map(|problem| format!("{problem}; an older base was used instead"))
        .collect();
    // The base before it is read only as far as to know that it is whole.
    let older =
        all.filter(|next_seq| *next_seq >= oldest).find_map(|next_seq| base::mark(dir, next_seq));
    recovered.whole.extend(older);
    Ok(recovered)
}

/// A journal that ends before its base does was put back to an earlier day, and numbers would be given twice.
fn goes_on(dir: &Path, rows: Rows<'_>, base: &Base) -> Result<(), StoreError> {
    let behind = |table, ends, reaches| {
        let (file, base) = (rows.file.to_path_buf(), base::file(dir, base.next_seq));
        Err(StoreError::Behind { file, table, base, ends, reaches })
    };
    // A base above zero is kept with the records before it, so that an empty journal is behind it.
    let ends = rows.span(JOURNAL)?.map_or(0, |(_, newest)| newest.saturating_add(1));
    if ends < base.next_seq {
        return behind(JOURNAL, ends, base.next_seq);
    }
    match rows.span(NOTES)? {
        Some((_, newest)) if newest.saturating_add(1) < base.next_note => {
            behind(NOTES, newest.saturating_add(1), base.next_note)
        }
        _ => Ok(()),
    }
}
