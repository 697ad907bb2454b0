//! What the agent knows: its slots, what was measured, and what it was told. All threads share it behind one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{
    DeviceStatus, FileReport, Heartbeat, OnDevice, Order, SlotReport, SlotState,
};

use super::attribution::{self, Pids};
use super::devices::Devices;
use super::evidence::{self, Around};
use super::launch::Places;
use super::meter::DeviceReading;
use super::processes::{self, ProcessId, ProcessTable};
use super::reconcile::{Known, Stage};
use super::record::{Baselines, Record};

/// The books and the bell that rings when they change.
pub(crate) struct Shared {
    books: Mutex<Books>,
    bell: Condvar,
}

impl Shared {
    pub(crate) fn new(books: Books) -> Shared {
        Shared { books: Mutex::new(books), bell: Condvar::new() }
    }

    /// Opens the books.
    pub(crate) fn open(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("nobody panics while the books are open")
    }

    /// Changes the books and rings.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Books) -> T) -> T {
        let result = change(&mut self.open());
        self.bell.notify_all();
        result
    }

    /// Waits until something is so, at most for so long.
    pub(crate) fn wait(&self, at_most: Duration, is_so: impl Fn(&Books) -> bool) {
        let _ = self
            .bell
            .wait_timeout_while(self.open(), at_most, |books| !is_so(books))
            .expect("nobody panics while the books are open");
    }
}

/// What the agent knows.
pub(crate) struct Books {
    pub(crate) devices: Devices,
    pub(crate) slots: BTreeMap<String, Slot>,
    /// The latest orders.
    pub(crate) orders: Vec<Order>,
    pub(crate) revision: u64,
    pub(crate) is_registered: bool,
    /// How often to report.
    pub(crate) heartbeat: Duration,
    /// Counts what the server should hear at once.
    pub(crate) news: u64,
    /// Whether a measurement is wanted before its time.
    pub(crate) wants_measure: bool,
    pub(crate) gauge: Gauge,
    /// Whether the agent ends as soon as nothing is left of any slot.
    pub(crate) is_ending: bool,
    /// The port that was given last.
    pub(crate) last_port: u16,
    /// The files that the server asks about, and what is there once somebody has looked.
    pub(crate) files: BTreeMap<String, Option<FileReport>>,
    /// The slots that should be here, are not known, and may live all the same.
    pub(crate) doubtful: BTreeSet<String>,
}

/// A slot and how it is.
pub(crate) struct Slot {
    pub(crate) record: Record,
    pub(crate) phase: Phase,
    /// Why it is as it is.
    pub(crate) reason: Option<String>,
    /// Whether it was asked to go.
    pub(crate) stop: bool,
    /// Every process that was ever seen in it: one that left its group and its parent is known from before.
    pub(crate) members: BTreeSet<ProcessId>,
    /// The devices on which it was seen.
    pub(crate) touched: BTreeSet<u16>,
    pub(crate) used: Vec<OnDevice>,
    /// Whether the server has answered to the report that it is over.
    pub(crate) is_told: bool,
}

/// How a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its process does not answer yet.
    Starting,
    /// It answers.
    Running,
    /// Its processes are being ended.
    Stopping,
    /// Its processes are gone since then, and its memory is not shown to be back.
    Draining(Instant),
    /// Its memory is back.
    Back,
    /// Nothing is left of it.
    Over(SlotState),
}

impl Slot {
    pub(crate) fn new(record: Record, phase: Phase) -> Slot {
        let members = record.leader.into_iter().collect();
        Slot {
            record,
            phase,
            reason: None,
            stop: false,
            members,
            touched: BTreeSet::new(),
            used: Vec::new(),
            is_told: false,
        }
    }

    /// What the orders are compared with.
    pub(crate) fn known(&self) -> Known {
        let stage = match self.phase {
            Phase::Over(_) => Stage::Over,
            Phase::Starting | Phase::Running if !self.stop => Stage::Alive,
            _ => Stage::Ending,
        };
        Known { generation: self.record.generation, stage }
    }

    fn state(&self) -> SlotState {
        match self.phase {
            Phase::Over(state) => state,
            Phase::Starting if !self.stop => SlotState::Starting,
            Phase::Running if !self.stop => SlotState::Running,
            _ => SlotState::Stopping,
        }
    }

    /// Whether it may hold memory on the device.
    fn is_on(&self, index: u16) -> bool {
        let is_gone = matches!(self.phase, Phase::Back | Phase::Over(_));
        !is_gone && (self.booked().contains(&index) || self.touched.contains(&index))
    }

    fn booked(&self) -> BTreeSet<u16> {
        self.record.launch.devices.iter().map(|device| device.index).collect()
    }

    fn booked_on(&self, index: u16) -> u64 {
        let on_it = self.record.launch.devices.iter().filter(|device| device.index == index);
        on_it.fold(0, |sum, device| sum.saturating_add(device.bytes))
    }

    fn report(&self, places: &Places) -> SlotReport {
        let record = &self.record;
        let state = self.state();
        let booked = record.launch.devices.iter();
        SlotReport {
            slot: record.slot.clone(),
            generation: record.generation,
            model: record.launch.model.clone(),
            state,
            reason: self.reason.clone(),
            endpoint: record
                .port
                .filter(|_| state == SlotState::Running)
                .map(|port| places.endpoint(port)),
            booked: booked
                .map(|device| OnDevice { index: device.index, bytes: device.bytes })
                .collect(),
            used: if state.is_over() { Vec::new() } else { self.used.clone() },
        }
    }
}

/// What was measured, and what is needed to judge the next measurement.
#[derive(Default)]
pub(crate) struct Gauge {
    /// When the last good measurement began.
    began: Option<Instant>,
    statuses: Vec<DeviceStatus>,
    /// Why measuring fails, while it does.
    pub(crate) failure: Option<String>,
    /// The devices that were ever measured.
    measured: BTreeSet<u16>,
    /// The processes of slots that each device listed in the last measurement.
    listed: BTreeMap<u16, BTreeSet<u32>>,
    pub(crate) baselines: Baselines,
}

impl Books {
    pub(crate) fn new(devices: Devices) -> Books {
        Books {
            devices,
            slots: BTreeMap::new(),
            orders: Vec::new(),
            revision: 0,
            is_registered: false,
            heartbeat: Duration::from_secs(1),
            news: 0,
            wants_measure: false,
            gauge: Gauge::default(),
            is_ending: false,
            last_port: 0,
            files: BTreeMap::new(),
            doubtful: BTreeSet::new(),
        }
    }

    /// Whether the agent was asked to end with its slots, and they have.
    pub(crate) fn is_done(&self) -> bool {
        self.is_ending && self.slots.values().all(|slot| matches!(slot.phase, Phase::Over(_)))
    }

    /// What the orders are compared with.
    pub(crate) fn known(&self) -> BTreeMap<String, Known> {
        self.slots.iter().map(|(name, slot)| (name.clone(), slot.known())).collect()
    }

    /// Everything that the server is told.
    pub(crate) fn heartbeat(
        &self,
        session: u64,
        sequence: u64,
        places: &Places,
        now: Instant,
    ) -> Heartbeat {
        let slots = self.slots.values().map(|slot| slot.report(places)).collect();
        let files = self.files.values().flatten().cloned().collect();
        Heartbeat {
            session,
            sequence,
            devices: self.statuses(now),
            slots,
            files,
            ending: self.is_ending,
        }
    }

    fn statuses(&self, now: Instant) -> Vec<DeviceStatus> {
        let age = self.gauge.began.map(|began| now.saturating_duration_since(began));
        let is_late = age.is_some_and(|age| age > self.heartbeat * 2 + Duration::from_secs(1));
        let stale = age.filter(|_| is_late || self.gauge.failure.is_some());
        let stale_for = stale.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        let mut statuses = self.gauge.statuses.clone();
        for status in
            statuses.iter_mut().filter(|status| self.gauge.measured.contains(&status.index))
        {
            status.stale_for = stale_for;
        }
        statuses
    }

    /// Notes which processes each slot has.
    pub(crate) fn counted(&mut self, census: &ProcessTable) {
        for (name, slot) in &mut self.slots {
            if !matches!(slot.phase, Phase::Over(_)) {
                slot.members.extend(census.members(name, slot.record.leader, &slot.members));
            }
        }
    }

    /// Notes that measuring failed.
    pub(crate) fn unmeasured(&mut self, why: String) {
        self.gauge.failure = Some(why);
    }

    /// Takes in a measurement that began then, and judges by it whose memory is back. Says whether a device's health changed.
    pub(crate) fn measured(
        &mut self,
        began: Instant,
        readings: &[DeviceReading],
        census: &ProcessTable,
    ) -> bool {
        let pids = self.pids(census);
        self.gauge.failure = None;
        self.gauge.began = Some(began);
        self.gauge.measured.extend(readings.iter().map(|reading| reading.index));
        let mut statuses: Vec<DeviceStatus> = readings
            .iter()
            .map(|reading| {
                attribution::status(reading, &pids, &self.devices, processes::process_name)
            })
            .collect();
        let measured = readings.iter().map(|reading| reading.index).collect();
        statuses.extend(attribution::declared_only(&self.devices, &measured));
        statuses.sort_by_key(|status| status.index);
        self.gauge.statuses = statuses;
        for (name, slot) in &mut self.slots {
            slot.used = attribution::used(readings, &pids[name], &slot.booked());
            slot.touched
                .extend(slot.used.iter().filter(|used| used.bytes > 0).map(|used| used.index));
        }
        self.judge(began, readings, &pids);
        self.note_baselines(readings, census, &pids);
        self.note_health(readings)
    }

    /// The numbers that each slot's processes have or had, unless somebody else has them now.
    fn pids(&self, census: &ProcessTable) -> Pids {
        let is_still = |id: &&ProcessId| census.get(id.pid).is_none_or(|seen| seen.id == **id);
        let of = |slot: &Slot| slot.members.iter().filter(is_still).map(|id| id.pid).collect();
        self.slots.iter().map(|(name, slot)| (name.clone(), of(slot))).collect()
    }

    /// One slot after the other, so that the same memory is not taken as proof for two.
    fn judge(&mut self, began: Instant, readings: &[DeviceReading], pids: &Pids) {
        let names: Vec<String> = self.slots.keys().cloned().collect();
        for name in names {
            let Phase::Draining(since) = self.slots[&name].phase else { continue };
            // A measurement that began before the last process was gone says nothing about the time after.
            if began < since {
                continue;
            }
            let verdict = self.verdict(&name, readings, &pids[&name]);
            let slot = self.slots.get_mut(&name).expect("it was there just now");
            match verdict {
                Ok(()) => slot.phase = Phase::Back,
                Err(why) => slot.reason = Some(why),
            }
        }
    }

    fn verdict(
        &self,
        name: &str,
        readings: &[DeviceReading],
        pids: &BTreeSet<u32>,
    ) -> Result<(), String> {
        let slot = &self.slots[name];
        for index in slot.booked().union(&slot.touched).copied() {
            let Some(reading) = readings.iter().find(|reading| reading.index == index) else {
                if self.gauge.measured.contains(&index) {
                    return Err(format!(
                        "its processes are gone, and device {index} is not measured any more"
                    ));
                }
                continue;
            };
            let others =
                self.slots.iter().filter(|(other, slot)| *other != name && slot.is_on(index));
            let around = Around {
                reading,
                pids,
                unexplained_before: self.gauge.baselines.unexplained.get(&index).copied(),
                idle: self.gauge.baselines.idle.get(&index).copied(),
                declared: self.devices.foreign_on(index),
                others: others.fold(0, |sum, (_, slot)| sum.saturating_add(slot.booked_on(index))),
            };
            evidence::is_back(&around).map_err(|why| why.to_string())?;
        }
        Ok(())
    }

    /// Learns what is usual for a device beside the slots. It can always turn out to be less. It turns out to be more only while no
    /// slot there goes or shrinks, as the memory of a process that just died would be taken for usual otherwise.
    fn note_baselines(&mut self, readings: &[DeviceReading], census: &ProcessTable, pids: &Pids) {
        for reading in readings {
            let index = reading.index;
            let own = listed(reading, pids);
            let is_steady = self.is_steady(index, census)
                && self.gauge.listed.get(&index).is_none_or(|before| before.is_subset(&own));
            let is_idle = !self.slots.values().any(|slot| slot.is_on(index));
            let baselines = &mut self.gauge.baselines;
            learn(&mut baselines.idle, index, reading.used, is_idle);
            learn(&mut baselines.unexplained, index, reading.unexplained(), is_steady);
            self.gauge.listed.insert(index, own);
        }
    }

    /// Whether every slot on the device lives.
    fn is_steady(&self, index: u16, census: &ProcessTable) -> bool {
        let lives = |slot: &Slot| {
            let is_there = |leader: ProcessId| {
                census.get(leader.pid).is_some_and(|s| s.id == leader && !s.has_exited)
            };
            slot.known().stage == Stage::Alive && slot.record.leader.is_none_or(is_there)
        };
        self.slots.values().filter(|slot| slot.is_on(index)).all(lives)
    }

    fn note_health(&mut self, readings: &[DeviceReading]) -> bool {
        let mut has_changed = false;
        for reading in readings {
            let device = self.devices.facts.get_mut(usize::from(reading.index));
            if let (Some(device), Some(healthy)) = (device, reading.healthy)
                && device.healthy != healthy
            {
                device.healthy = healthy;
                has_changed = true;
            }
        }
        has_changed
    }
}

/// The processes of slots that the device lists.
fn listed(reading: &DeviceReading, pids: &Pids) -> BTreeSet<u32> {
    let all = reading.processes.iter().flatten().map(|process| process.pid);
    all.filter(|pid| pids.values().any(|of_slot| of_slot.contains(pid))).collect()
}

/// Takes a lower value at once, and a higher or a first one only where that is right.
fn learn(known: &mut BTreeMap<u16, u64>, index: u16, value: Option<u64>, may_rise: bool) {
    let Some(value) = value else { return };
    if may_rise || known.get(&index).is_some_and(|before| value < *before) {
        known.insert(index, value);
    }
}

#[cfg(test)]
mod tests;
