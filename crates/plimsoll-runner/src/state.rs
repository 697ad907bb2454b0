//! The state of the agent in memory, shared by its threads behind one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{FileReport, Heartbeat, Order};

use super::devices::Devices;
use super::listen::ListenConfig;
use super::processes::ProcessTable;
use super::slot::{Phase, Slot, Slots};
use super::state_dir::Baselines;
use super::telemetry::Telemetry;

/// Interval between heartbeats until the server names one.
const FIRST_HEARTBEAT: Duration = Duration::from_secs(1);

/// The state, and a condition variable that wakes threads when it changes.
pub(crate) struct SharedState {
    state: Mutex<RunnerState>,
    changed: Condvar,
}

impl SharedState {
    pub(crate) fn new(state: RunnerState) -> SharedState {
        SharedState { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Locks the state without waking waiting threads.
    pub(crate) fn lock(&self) -> MutexGuard<'_, RunnerState> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }

    /// Changes the state and wakes waiting threads.
    pub(crate) fn update<T>(&self, update: impl FnOnce(&mut RunnerState) -> T) -> T {
        let result = update(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until the condition holds, or the timeout passes.
    pub(crate) fn wait(&self, timeout: Duration, condition: impl Fn(&RunnerState) -> bool) {
        let _ = self
            .changed
            .wait_timeout_while(self.lock(), timeout, |state| !condition(state))
            .expect("no thread panics while it holds the lock");
    }
}

/// The state of the agent.
pub(crate) struct RunnerState {
    pub(crate) devices: Devices,
    pub(crate) slots: Slots,
    /// The latest orders.
    pub(crate) orders: Vec<Order>,
    /// Revision of the latest orders.
    pub(crate) revision: u64,
    /// Epoch of the latest orders; `None` before the first ones.
    pub(crate) epoch: Option<u64>,
    pub(crate) is_registered: bool,
    /// Interval between heartbeats.
    pub(crate) heartbeat: Duration,
    /// Counts changes that the server should hear about at once.
    pub(crate) changes: u64,
    /// Requests a measurement before the next interval.
    pub(crate) measure_now: bool,
    pub(crate) telemetry: Telemetry,
    /// True if the agent exits as soon as all slots ended.
    pub(crate) is_ending: bool,
    pub(crate) last_port: Option<u16>,
    /// Model files that the server asks about; `None` until they are inspected.
    pub(crate) files: BTreeMap<String, Option<FileReport>>,
    /// Slots that are ordered, are unknown to this agent, and may nevertheless be running.
    pub(crate) unverifiable: BTreeSet<String>,
}

impl RunnerState {
    pub(crate) fn new(devices: Devices, baselines: Baselines) -> RunnerState {
        RunnerState {
            devices,
            slots: BTreeMap::new(),
            orders: Vec::new(),
            revision: 0,
            epoch: None,
            is_registered: false,
            heartbeat: FIRST_HEARTBEAT,
            changes: 0,
            measure_now: false,
            telemetry: Telemetry::new(baselines),
            is_ending: false,
            last_port: None,
            files: BTreeMap::new(),
            unverifiable: BTreeSet::new(),
        }
    }

    /// Adds or replaces a slot.
    pub(crate) fn insert(&mut self, slot: Slot) {
        self.slots.insert(slot.record.slot.clone(), slot);
        self.changes += 1;
    }

    /// Returns true if the agent is to exit with its slots, and all of them ended.
    pub(crate) fn is_done(&self) -> bool {
        self.is_ending && self.slots.values().all(|slot| slot.phase.is_ended())
    }

    /// Adds the processes of each slot to its members.
    pub(crate) fn update_members(&mut self, processes: &ProcessTable) {
        for (name, slot) in &mut self.slots {
            if !slot.phase.is_ended() {
                let found = processes.members(name, slot.record.leader, &slot.members);
                slot.members.extend(found);
            }
        }
    }

    /// Returns the interval until the next measurement. It is shorter while a slot waits for
    /// evidence of its release.
    pub(crate) fn measurement_interval(&self) -> Duration {
        let phases = self.slots.values().map(|slot| slot.phase);
        let mut waiting = phases.filter(|phase| matches!(phase, Phase::AwaitingRelease { .. }));
        if waiting.next().is_some() { self.heartbeat / 4 } else { self.heartbeat }
    }

    /// Returns a heartbeat with the complete state.
    pub(crate) fn heartbeat(
        &self,
        session: u64,
        sequence: u64,
        listen: &ListenConfig,
        now: Instant,
    ) -> Heartbeat {
        Heartbeat {
            session,
            sequence,
            epoch: self.epoch,
            devices: self.telemetry.statuses(now, self.heartbeat),
            slots: self.slots.values().map(|slot| slot.report(listen)).collect(),
            files: self.files.values().flatten().cloned().collect(),
            ending: self.is_ending,
        }
    }
}
