//! The state as the last run left it: a base, and the journal's operations since. Nothing is decided again.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_core::event::Settings;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{Desk, Manners, Operation, Rows};
use serde_json::value::to_raw_value;

use crate::clock::Clock;
use crate::store::{Base, Draft, Found, Store};

/// A clock that is so far behind is worth a word.
const NOTEWORTHY: Duration = Duration::from_secs(10);

/// Takes a data directory, and goes on from what it holds.
pub fn open(dir: &Path, manners: Manners, settings: &Settings) -> Result<(Desk, Clock, Store)> {
    let (mut store, found) = Store::open(dir)?;
    let is_new = found.base.is_none();
    let (desk, mut clock) = recover(found, manners, settings)?;
    let ahead = clock.ahead();
    if ahead >= NOTEWORTHY {
        tracing::warn!(
            "the clock of this machine is {} s behind the last record; time goes on from that record, not from the clock",
            ahead.as_secs()
        );
    }
    if is_new {
        store.keep_base(base(&desk, clock.now()));
        store.settle()?;
    }
    Ok((desk, clock, store))
}

/// The desk that a data directory holds, and the clock that goes on from there; new ones where it holds nothing.
fn recover(found: Found, manners: Manners, settings: &Settings) -> Result<(Desk, Clock)> {
    let Found { base, records, notes, warnings } = found;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let (mut scheduler, rows, mut next_seq, mut next_note, mut now) = match base {
        Some(Base { next_seq, next_note, now, core, front }) => {
            let scheduler =
                Scheduler::restore(core).context("while starting from the last whole state")?;
            let rows: Rows = serde_json::from_str(front.get())
                .context("while reading models, slots and places from the last whole state")?;
            (scheduler, rows, next_seq, next_note, now)
        }
        None => (Scheduler::new(settings.clone()), Rows::default(), 0, 0, Millis(0)),
    };
    for record in &records {
        record.operations.iter().for_each(|operation| scheduler.recover_next(operation));
        (next_seq, now) = (record.seq + 1, now.max(record.now));
    }
    let mut operations = Vec::new();
    for note in &notes {
        let more: Vec<Operation> = serde_json::from_str(&note.body)
            .with_context(|| format!("while reading note {}", note.seq))?;
        operations.extend(more);
        next_note = note.seq + 1;
    }
    let mut desk = Desk::resume(manners, scheduler, rows, next_seq, next_note);
    operations.into_iter().for_each(|operation| desk.recover_next(operation));
    Ok((desk, Clock::after(now)))
}

/// The whole state, to start from later. Here its rows are only shared: to bring so many into the form of the file takes a hundred
/// times as long, and would hold up every decision.
pub fn base(desk: &Desk, now: Millis) -> Draft {
    let (next_seq, next_note) = desk.next_numbers();
    let (core, rows) = (desk.scheduler().snapshot(), desk.rows());
    Draft::new(next_seq, next_note, move || {
        let front = to_raw_value(&rows).expect("rows are plain data");
        Base { next_seq, next_note, now, core, front }
    })
}
