//! The latest measurement of the devices, the baselines, and the slots whose memory is released.
//!
//! # Baselines
//!
//! Some memory on a device belongs to no slot: contexts of the driver, a display server, another
//! tenant. The release of a slot can only be judged against it (`evidence`), and no driver reports
//! it, so that it is learned from measurements. A baseline that is too low only delays a release.
//! One that is too high declares memory released that a dead process still holds. Therefore:
//!
//! - A lower value is always taken over.
//! - `unexplained` rises only while every slot on the device is live and no process of a slot
//!   disappeared from the device's list. In the moment after a process dies, its memory has no
//!   owner and looks exactly like the driver's; a rise then would absorb it.
//! - `idle` rises only while no slot may hold memory on the device.
//!
//! Baselines are saved, because the next agent has to judge slots that end before it sees the
//! device steady or idle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use plimsoll_slots::wire::DeviceStatus;

use super::attribution::{self, SlotPids};
use super::devices::Devices;
use super::evidence::{self, NotReleased, ReleaseCheck};
use super::gpu_use::{self, MeasuredGpuUse};
use super::meter::DeviceReading;
use super::processes::{self, ProcessId, ProcessTable};
use super::slot::{Phase, Slot, Slots};
use super::state_dir::Baselines;

/// One measurement of all devices, with the processes of the machine right after it.
pub(crate) struct Measurement {
    /// Start of the measurement.
    pub(crate) began: Instant,
    pub(crate) readings: Vec<DeviceReading>,
    pub(crate) processes: ProcessTable,
}

impl Measurement {
    fn reading(&self, index: u16) -> Option<&DeviceReading> {
        self.readings.iter().find(|reading| reading.index == index)
    }
}

/// The latest measurement, and the facts that are needed to judge the next one.
#[derive(Default)]
pub(crate) struct Telemetry {
    /// Start of the last successful measurement.
    last_success: Option<Instant>,
    statuses: Vec<DeviceStatus>,
    /// The error of the last measurement, if it failed.
    pub(crate) failure: Option<String>,
    /// Devices that were ever measured.
    measured: BTreeSet<u16>,
    /// Processes of slots that each device listed in the last measurement.
    listed: BTreeMap<u16, BTreeSet<u32>>,
    pub(crate) baselines: Baselines,
}

impl Telemetry {
    pub(crate) fn new(baselines: Baselines) -> Telemetry {
        Telemetry { baselines, ..Telemetry::default() }
    }

    /// Takes over a measurement: updates the use of each slot, decides which slots released their
    /// memory, and learns baselines.
    pub(crate) fn record(
        &mut self,
        measurement: &Measurement,
        slots: &mut Slots,
        devices: &Devices,
    ) {
        let readings = &measurement.readings;
        let pids = slot_pids(slots, &measurement.processes);
        self.failure = None;
        self.last_success = Some(measurement.began);
        let measured: BTreeSet<u16> = readings.iter().map(|reading| reading.index).collect();
        self.statuses = attribution::unmeasured_statuses(devices, &measured);
        self.statuses.extend(readings.iter().map(|reading| {
            attribution::device_status(reading, &pids, devices, processes::process_name)
        }));
        self.statuses.sort_by_key(|status| status.index);
        self.measured.extend(measured);
        for (name, slot) in slots.iter_mut() {
            let placed_on = slot.placed_on();
            slot.used = attribution::slot_usage(readings, &pids[name], &placed_on);
            let gpu_use = gpu_use::judge(readings, &pids, name, &placed_on);
            slot.gpu_use = Some(MeasuredGpuUse { began: measurement.began, gpu_use });
            let used = slot.used.iter().filter(|used| used.bytes > 0);
            slot.touched.extend(used.map(|used| used.index));
        }
        self.update_released(measurement, slots, devices, &pids);
        self.update_baselines(measurement, slots, &pids);
    }

    /// Returns true if the last measurement succeeded.
    pub(crate) fn works(&self) -> bool {
        self.last_success.is_some() && self.failure.is_none()
    }

    /// Returns the status of each device. Values are marked as stale if the last measurement failed
    /// or is overdue.
    pub(crate) fn statuses(&self, now: Instant, heartbeat: Duration) -> Vec<DeviceStatus> {
        let age = self.last_success.map(|began| now.saturating_duration_since(began));
        let is_overdue = age.is_some_and(|age| age > heartbeat * 2 + Duration::from_secs(1));
        let stale = age.filter(|_| is_overdue || self.failure.is_some());
        let stale_for = stale.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        let mut statuses = self.statuses.clone();
        for status in &mut statuses {
            if self.measured.contains(&status.index) {
                status.stale_for = stale_for;
            }
        }
        statuses
    }

    /// Moves slots from `AwaitingRelease` to `Released`. Slots are judged one after the other: a
    /// slot that is not released yet still explains its charge to the next one, so that the same
    /// free memory is not evidence for two slots.
    fn update_released(
        &self,
        measurement: &Measurement,
        slots: &mut Slots,
        devices: &Devices,
        pids: &SlotPids,
    ) {
        let names: Vec<String> = slots.keys().cloned().collect();
        for name in names {
            let Phase::AwaitingRelease { since } = slots[&name].phase else { continue };
            // A measurement that began before the last process exited says nothing about the time
            // after.
            if measurement.began < since {
                continue;
            }
            let checked = self.check_slot(&name, measurement, slots, devices, &pids[&name]);
            let slot = slots.get_mut(&name).expect("the name is a key of the map");
            match checked {
                Ok(()) => slot.phase = Phase::Released,
                Err(reason) => slot.reason = Some(reason.to_string()),
            }
        }
    }

    fn check_slot(
        &self,
        name: &str,
        measurement: &Measurement,
        slots: &Slots,
        devices: &Devices,
        pids: &BTreeSet<u32>,
    ) -> Result<(), NotReleased> {
        let slot = &slots[name];
        for index in slot.placed_on().union(&slot.touched).copied() {
            let Some(reading) = measurement.reading(index) else {
                match self.measured.contains(&index) {
                    true => return Err(NotReleased::NotMeasured { index }),
                    false => continue,
                }
            };
            let others = slots
                .iter()
                .filter(|(other, slot)| other.as_str() != name && slot.may_hold_memory_on(index));
            evidence::check_released(&ReleaseCheck {
                reading,
                pids,
                baseline_unexplained: self.baselines.unexplained.get(&index).copied(),
                baseline_idle: self.baselines.idle.get(&index).copied(),
                declared_foreign: devices.declared_foreign_on(index),
                other_charges: others
                    .fold(0, |sum, (_, slot)| sum.saturating_add(slot.charged_on(index))),
            })?;
        }
        Ok(())
    }

    fn update_baselines(&mut self, measurement: &Measurement, slots: &Slots, pids: &SlotPids) {
        for reading in &measurement.readings {
            let index = reading.index;
            let listed = listed_slot_pids(reading, pids);
            let on_device = || slots.values().filter(|slot| slot.may_hold_memory_on(index));
            let is_steady = on_device().all(|slot| is_steady(slot, &measurement.processes))
                && self.listed.get(&index).is_none_or(|before| before.is_subset(&listed));
            let is_idle = on_device().next().is_none();
            let idle_rise = if is_idle { Rise::Allowed } else { Rise::Forbidden };
            let unexplained_rise = if is_steady { Rise::Allowed } else { Rise::Forbidden };
            let baselines = &mut self.baselines;
            learn(&mut baselines.idle, index, reading.used, idle_rise);
            learn(&mut baselines.unexplained, index, reading.unexplained(), unexplained_rise);
            self.listed.insert(index, listed);
        }
    }
}

/// Returns the PIDs of each slot's members, without PIDs that another process has now.
fn slot_pids(slots: &Slots, processes: &ProcessTable) -> SlotPids {
    let is_not_reused =
        |id: &&ProcessId| processes.get(id.pid).is_none_or(|process| process.id == **id);
    slots
        .iter()
        .map(|(name, slot)| {
            let members = slot.members.iter().filter(is_not_reused);
            (name.clone(), members.map(|id| id.pid).collect())
        })
        .collect()
}

fn listed_slot_pids(reading: &DeviceReading, pids: &SlotPids) -> BTreeSet<u32> {
    let listed = reading.processes.iter().flatten().map(|process| process.pid);
    listed.filter(|pid| pids.values().any(|of_slot| of_slot.contains(pid))).collect()
}

fn is_steady(slot: &Slot, processes: &ProcessTable) -> bool {
    slot.phase.is_live() && slot.record.leader.is_none_or(|leader| processes.is_running(leader))
}

/// Rule for a measured value that is higher than the baseline.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rise {
    Allowed,
    Forbidden,
}

/// Takes over a lower value at once. A higher value, or the first one, is taken over only if a rise
/// is allowed.
fn learn(baseline: &mut BTreeMap<u16, u64>, index: u16, value: Option<u64>, rise: Rise) {
    let Some(value) = value else { return };
    let is_lower = baseline.get(&index).is_some_and(|before| value < *before);
    if is_lower || rise == Rise::Allowed {
        baseline.insert(index, value);
    }
}

#[cfg(test)]
mod tests;
