//! The state as the last run left it: a base, and the journal's operations since. Nothing is decided again.

use anyhow::{Context, Result};
use plimsoll_core::event::Settings;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_slots::desk::{Desk, Manners, Operation, Rows};
use serde_json::value::to_raw_value;

use crate::store::{Base, Draft, Found};

/// The desk that a data directory holds; a new one where it holds nothing.
pub(crate) fn recover(found: Found, manners: Manners, settings: &Settings) -> Result<Desk> {
    let Found { base, records, notes, warnings } = found;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let (mut scheduler, rows, mut next_seq, mut next_note) = match base {
        Some(Base { next_seq, next_note, core, front }) => {
            let scheduler = Scheduler::restore(core).context("while starting from the last whole state")?;
            let rows: Rows = serde_json::from_str(front.get())
                .context("while reading models, slots and places from the last whole state")?;
            (scheduler, rows, next_seq, next_note)
        }
        None => (Scheduler::new(settings.clone()), Rows::default(), 0, 0),
    };
    for record in &records {
        record.operations.iter().for_each(|operation| scheduler.recover_next(operation));
        next_seq = record.seq + 1;
    }
    let mut operations = Vec::new();
    for note in &notes {
        let more: Vec<Operation> =
            serde_json::from_str(&note.body).with_context(|| format!("while reading note {}", note.seq))?;
        operations.extend(more);
        next_note = note.seq + 1;
    }
    let mut desk = Desk::resume(manners, scheduler, rows, next_seq, next_note);
    operations.into_iter().for_each(|operation| desk.recover_next(operation));
    Ok(desk)
}

/// The whole state, to start from later. Here its rows are only shared: to bring so many into the form of the file takes a hundred
/// times as long, and would hold up every decision.
pub(crate) fn base(desk: &Desk) -> Draft {
    let (next_seq, next_note) = desk.next_numbers();
    let (core, rows) = (desk.scheduler().snapshot(), desk.rows());
    Draft::new(next_seq, next_note, move || {
        let front = to_raw_value(&rows).expect("rows are plain data");
        Base { next_seq, next_note, core, front }
    })
}
