//! Rebuilds a host from its journal: the newest snapshot, then the operations and changes since.
//! Nothing is decided again.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_core::event::Settings;
use plimsoll_core::front::{ChangeSet, Checkpoint, Front, Host, NextNumbers, Recovery};
use plimsoll_core::units::Millis;
use serde_json::value::to_raw_value;

use crate::clock::Clock;
use crate::journal::{Journal, Recovered};
use crate::store::{HostSnapshot, SnapshotDraft, SnapshotOrigin, Store};

/// A clock that is further behind the journal than this is worth a warning.
pub(crate) const CLOCK_WARNING: Duration = Duration::from_secs(10);

/// Opens a data directory and rebuilds the host that it holds, or starts an empty one. `front`
/// brings its configuration and gets its state from the journal.
pub fn open<F: Front>(
    dir: &Path,
    front: F,
    settings: &Settings,
) -> Result<(Host<F>, Clock, Store)> {
    let (mut store, recovered) = Store::open(dir)?;
    let is_new = recovered.snapshot.is_none();
    let (host, mut clock) = rebuild(recovered, front, settings)?;
    let ahead = clock.ahead();
    if ahead >= CLOCK_WARNING {
        tracing::warn!(
            behind_seconds = ahead.as_secs(),
            "the system clock is behind the last record; server time continues from that record"
        );
    }
    if is_new {
        store.save_snapshot(snapshot(&host, clock.now()));
        store.wait_for_snapshots()?;
    }
    Ok((host, clock, store))
}

/// Rebuilds a host from what a journal holds, and the clock that continues from its last record.
pub fn rebuild<F: Front>(
    recovered: Recovered,
    front: F,
    settings: &Settings,
) -> Result<(Host<F>, Clock)> {
    for warning in recovered.warnings {
        tracing::warn!("{warning}");
    }
    let mut now = recovered.snapshot.as_ref().map_or(Millis(0), |snapshot| snapshot.now);
    let mut recovery = match recovered.snapshot {
        Some(snapshot) => Recovery::from_checkpoint(front, checkpoint::<F>(snapshot)?)
            .context("cannot restore the snapshot")?,
        None => Recovery::new(front, settings.clone()),
    };
    for record in &recovered.records {
        recovery.apply_record(record);
        now = now.max(record.now);
    }
    for changes in recovered.changes {
        let seq = changes.seq;
        let read = serde_json::from_str(&changes.body);
        let changes = read.with_context(|| format!("cannot read change set {seq}"))?;
        recovery.apply_changes(ChangeSet { seq, changes });
    }
    Ok((recovery.finish(), Clock::after(now)))
}

fn checkpoint<F: Front>(snapshot: HostSnapshot) -> Result<Checkpoint<F::State>> {
    let front = serde_json::from_str(snapshot.front.get()).context(
        "cannot read the front end's part of the snapshot; the history of `plimsoll kube` is for \
         `plimsoll replay` only, and needs a directory of its own",
    )?;
    let next = NextNumbers { record: snapshot.next_seq, changes: snapshot.next_changes };
    Ok(Checkpoint { next, core: snapshot.core, front })
}

/// Returns a draft of the whole state. Only references are copied here; the writer serialises them
/// on its own thread, because that takes a hundred times as long and would delay every decision.
pub fn snapshot<F: Front>(host: &Host<F>, now: Millis) -> SnapshotDraft {
    let Checkpoint { next, core, front } = host.checkpoint();
    SnapshotDraft::new(next.record, next.changes, move || HostSnapshot {
        next_seq: next.record,
        next_changes: next.changes,
        now,
        core,
        front: to_raw_value(&front).expect("a front end's state is plain data"),
        origin: SnapshotOrigin::Journal,
    })
}
