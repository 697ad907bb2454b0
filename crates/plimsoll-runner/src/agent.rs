//! The parts of the agent that all its threads share.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::warn;

use super::listen::ListenConfig;
use super::processes::Owner;
use super::slot::Slot;
use super::state::SharedState;
use super::state_dir::{SlotRecord, StateDir};

/// The agent. It runs one thread per slot (`watch`), and one each for measurements, orders, signals
/// and the link to the server.
pub(crate) struct Agent {
    pub(crate) owner: Owner,
    pub(crate) state_dir: StateDir,
    pub(crate) listen: ListenConfig,
    /// Orders the agents of one runner; a later agent has a larger number.
    pub(crate) session: u64,
    pub(crate) shared: SharedState,
}

impl Agent {
    /// Saves the record of a slot. A failure is logged only: the slot keeps running, and the next
    /// agent finds its processes by their environment.
    pub(crate) fn save(&self, record: &SlotRecord) {
        if let Err(error) = self.state_dir.save(record) {
            warn!(slot = record.slot, %error, "cannot write slot record");
        }
    }

    /// Requests the end of all slots.
    pub(crate) fn stop_all_slots(&self) {
        self.shared.update(|state| {
            state.slots.values_mut().for_each(Slot::request_stop);
            state.changes += 1;
        });
    }
}

/// Returns the Unix time in milliseconds.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
