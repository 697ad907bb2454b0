//! The whole state as a versioned value: to save, to show, to start again from, to replay.

use serde::{Deserialize, Serialize};

use crate::event::Settings;
use crate::ledger::{Ledger, LedgerRows};
use crate::queue::{Queue, QueueRows};
use crate::scheduler::Scheduler;

/// The version of the shape of [`Snapshot`].
pub const VERSION: u32 = 2;

/// The whole state at one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The version of this shape.
    pub version: u32,
    /// How the machine behaves.
    pub settings: Settings,
    /// The ledger's rows.
    pub ledger: LedgerRows,
    /// Who waits.
    pub queue: QueueRows,
}

/// Why a snapshot cannot be started from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Another program wrote it.
    #[error(
        "the snapshot has version {found}, and this program reads version {VERSION}; use the program that wrote it, or a newer one"
    )]
    Version {
        /// The version it has.
        found: u32,
    },
    /// A row names a node that is not there.
    #[error("the snapshot contradicts itself: {problem}")]
    Contradiction {
        /// What is wrong.
        problem: String,
    },
}

impl Scheduler {
    /// The whole state as a value.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            version: VERSION,
            settings: self.settings.clone(),
            ledger: self.ledger.rows(),
            queue: self.queue.rows(),
        }
    }

    /// The state that a snapshot holds.
    pub fn restore(snapshot: Snapshot) -> Result<Self, SnapshotError> {
        if snapshot.version != VERSION {
            return Err(SnapshotError::Version { found: snapshot.version });
        }
        let mut scheduler = Scheduler::new(snapshot.settings);
        scheduler.ledger = Ledger::from_rows(snapshot.ledger)
            .map_err(|error| SnapshotError::Contradiction { problem: error.to_string() })?;
        scheduler.queue = Queue::from_rows(snapshot.queue);
        Ok(scheduler)
    }
}
