//! A slot of this runner: its phase, its processes and its report to the server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use plimsoll_slots::reconcile::KnownSlot;
use plimsoll_slots::wire::{Launch, OnDevice, SlotReport, SlotState};

use super::gpu_use::MeasuredGpuUse;
use super::listen::ListenConfig;
use super::processes::ProcessId;
use super::state_dir::{EndState, SlotRecord};

/// All slots of the runner, by name.
pub(crate) type Slots = BTreeMap<String, Slot>;

/// A slot.
pub(crate) struct Slot {
    pub(crate) record: SlotRecord,
    pub(crate) phase: Phase,
    /// Explains the phase to the user.
    pub(crate) reason: Option<String>,
    /// Every process that was ever seen in the slot. A process that left its group and its parent
    /// is still known from here.
    pub(crate) members: BTreeSet<ProcessId>,
    /// Devices on which the slot was measured, whether it is placed on them or not.
    pub(crate) touched: BTreeSet<u16>,
    pub(crate) used: Vec<OnDevice>,
    pub(crate) gpu_use: Option<MeasuredGpuUse>,
    /// True once the server answered a heartbeat that reported the end of this generation.
    pub(crate) is_end_acknowledged: bool,
}

/// Life of a slot on the runner.
///
/// ```text
/// Starting ──▶ Running ──▶ Stopping ──▶ AwaitingRelease ──▶ Released ──▶ Ended
///     └───────────────────────▲
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The model server does not answer yet.
    Starting,
    /// The model server answers.
    Running,
    /// The agent terminates the processes.
    Stopping,
    /// All processes have exited since then, and no later measurement has shown their memory free.
    AwaitingRelease { since: Instant },
    /// A measurement showed the memory free. The slot's watcher ends the slot next.
    Released,
    /// Nothing is left of the slot but its report.
    Ended(EndState),
}

impl Phase {
    /// Returns true while the slot is meant to serve.
    pub(crate) fn is_live(self) -> bool {
        matches!(self, Phase::Starting | Phase::Running)
    }

    pub(crate) fn is_ended(self) -> bool {
        matches!(self, Phase::Ended(_))
    }

    /// Returns the state that the wire protocol has for this phase.
    pub(crate) fn wire_state(self) -> SlotState {
        match self {
            Phase::Starting => SlotState::Starting,
            Phase::Running => SlotState::Running,
            Phase::Stopping | Phase::AwaitingRelease { .. } | Phase::Released => {
                SlotState::Stopping
            }
            Phase::Ended(state) => state.into(),
        }
    }
}

impl Slot {
    pub(crate) fn new(record: SlotRecord, phase: Phase) -> Slot {
        let members = record.leader.into_iter().collect();
        Slot {
            record,
            phase,
            reason: None,
            members,
            touched: BTreeSet::new(),
            used: Vec::new(),
            gpu_use: None,
            is_end_acknowledged: false,
        }
    }

    /// Requests the end of a live slot. Its watcher notices the phase and terminates the processes.
    pub(crate) fn request_stop(&mut self) {
        if self.phase.is_live() {
            self.phase = Phase::Stopping;
        }
    }

    /// Returns true if the slot may hold memory on a device.
    pub(crate) fn may_hold_memory_on(&self, index: u16) -> bool {
        let is_released = matches!(self.phase, Phase::Released | Phase::Ended(_));
        !is_released && (self.placed_on().contains(&index) || self.touched.contains(&index))
    }

    /// Returns the devices that the slot is placed on.
    pub(crate) fn placed_on(&self) -> BTreeSet<u16> {
        self.record.devices().iter().map(|device| device.index).collect()
    }

    /// Returns the bytes that are known to be charged to the slot on a device. An unknown charge
    /// explains no memory in use, so that it never counts as evidence of another slot's release.
    pub(crate) fn charged_on(&self, index: u16) -> u64 {
        let charges = self.record.devices().iter().filter(|device| device.index == index);
        charges.filter_map(|device| device.bytes).fold(0, u64::saturating_add)
    }

    /// Returns the report of the slot for a heartbeat.
    pub(crate) fn report(&self, listen: &ListenConfig) -> SlotReport {
        let record = &self.record;
        let state = self.phase.wire_state();
        let port = record.port.filter(|_| state == SlotState::Running);
        SlotReport {
            slot: record.slot.clone(),
            generation: record.generation,
            model: record.model.clone(),
            state,
            reason: self.reason.clone(),
            endpoint: port.map(|port| listen.endpoint(port)),
            booked: record.launch.as_ref().map(Launch::booked).unwrap_or_default(),
            used: if self.phase.is_ended() { Vec::new() } else { self.used.clone() },
        }
    }
}

/// Returns the facts about all slots that orders are compared with.
pub(crate) fn known_slots(slots: &Slots) -> BTreeMap<String, KnownSlot> {
    slots
        .iter()
        .map(|(name, slot)| {
            let generation = slot.record.generation;
            (name.clone(), KnownSlot { generation, state: slot.phase.wire_state() })
        })
        .collect()
}
