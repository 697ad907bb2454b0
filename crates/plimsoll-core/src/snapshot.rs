//! The whole state of a scheduler as a versioned value.
//!
//! A snapshot holds only state: nodes, holdings, promises, the queue and the settings. Sums,
//! indexes, the memo and the change log are rebuilt, so that a snapshot cannot contradict them and
//! their shape may change without a new version. A recovery loads the last snapshot and applies
//! the operations that were journalled since; it decides nothing again.

use serde::{Deserialize, Serialize};

use crate::event::Settings;
use crate::ledger::{Ledger, LedgerRows, RowsError};
use crate::queue::{Queue, QueueRows};
use crate::scheduler::Scheduler;

/// The version of the shape of [`Snapshot`].
pub const VERSION: u32 = 2;

/// The whole state at one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    pub version: u32,
    pub settings: Settings,
    pub ledger: LedgerRows,
    pub queue: QueueRows,
}

/// The reason why a snapshot cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Another version of this program wrote it.
    #[error(
        "the snapshot has version {found}, and this program reads version {VERSION}; use the program that wrote it, or a newer one"
    )]
    Version { found: u32 },
    #[error("the snapshot contradicts itself: {0}")]
    Contradiction(RowsError),
}

impl Scheduler {
    /// Returns the whole state.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            version: VERSION,
            settings: self.settings.clone(),
            ledger: self.ledger.to_rows(),
            queue: self.queue.to_rows(),
        }
    }

    /// Rebuilds a scheduler from a snapshot.
    pub fn restore(snapshot: Snapshot) -> Result<Self, SnapshotError> {
        if snapshot.version != VERSION {
            return Err(SnapshotError::Version { found: snapshot.version });
        }
        let mut scheduler = Scheduler::new(snapshot.settings);
        let shares = scheduler.ledger.shares().clone();
        scheduler.ledger =
            Ledger::from_rows(snapshot.ledger).map_err(SnapshotError::Contradiction)?;
        scheduler.ledger.set_shares(shares);
        scheduler.queue = Queue::from_rows(snapshot.queue);
        Ok(scheduler)
    }
}
