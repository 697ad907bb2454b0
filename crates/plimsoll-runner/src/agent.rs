//! The parts of the agent that all its threads share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::warn;

use super::listen::ListenConfig;
use super::processes::Owner;
use super::slot::Slot;
use super::state::SharedState;
use super::state_dir::{SlotRecord, StateDir, StateDirError};

/// The agent. It runs one thread per slot (`watch`), and one each for measurements, orders, signals
/// and the link to the server.
pub(crate) struct Agent {
    pub(crate) owner: Owner,
    pub(crate) state_dir: StateDir,
    pub(crate) listen: ListenConfig,
    session: AtomicU64,
    pub(crate) shared: SharedState,
}

impl Agent {
    /// Creates the agent of a new session.
    pub(crate) fn new(
        owner: Owner,
        state_dir: StateDir,
        listen: ListenConfig,
        shared: SharedState,
    ) -> Result<Agent, StateDirError> {
        let session = AtomicU64::new(state_dir.next_session(now_ms())?);
        Ok(Agent { owner, state_dir, listen, session, shared })
    }

    /// Returns the number of the session. It orders the agents of one runner: a later agent has a
    /// larger number.
    pub(crate) fn session(&self) -> u64 {
        self.session.load(Ordering::Relaxed)
    }

    /// Begins another session, after the server has removed the runner of this one.
    pub(crate) fn renew_session(&self) -> Result<(), StateDirError> {
        self.session.store(self.state_dir.next_session(now_ms())?, Ordering::Relaxed);
        Ok(())
    }

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
