//! A simulated runner: it carries out orders and reports heartbeats as the real agent does, without
//! processes, and fails on demand. The only one, for tests, benches, the demo and chaos.
//!
//! ```text
//!  let beat = runner.heartbeat(now);   // carries out the orders that it has, and reports
//!  let orders = server.heartbeat(beat);
//!  runner.take_orders(orders);
//! ```
//!
//! It has no clock and no randomness. A caller that wants chance changes [`Conduct`] before each
//! call. A caller that wants lost or late answers numbers its requests ([`SimulatedRunner::
//! last_request`]) and hands in what arrives with [`SimulatedRunner::take_answer`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plimsoll_core::units::Millis;

use crate::reconcile::{self, Correction, KnownSlot};
use crate::size::Span;
use crate::wire::{
    DeviceFacts, DeviceStatus, FileReport, Heartbeat, Launch, OnDevice, Order, Orders, Process,
    Registration, SlotState,
};

mod process;

pub use process::{Conduct, Delay, MemoryUse, Origin, SimulatedProcess, Telemetry};

/// The unanswered requests that a runner remembers. Earlier ones have timed out, so that
/// their answers are not heard.
const MAX_UNANSWERED: usize = 8;

/// A runner without a machine.
#[derive(Clone, Debug)]
pub struct SimulatedRunner {
    name: String,
    registration: Registration,
    sequence: u64,
    requests: u64,
    unanswered: VecDeque<Request>,
    orders: Orders,
    /// The epoch of the last orders; `None` before the first ones of a session.
    epoch: Option<u64>,
    processes: BTreeMap<String, SimulatedProcess>,
    /// Slots that are ordered, are unknown here, and may nevertheless be running.
    unverifiable: BTreeSet<String>,
    starts: u64,
    /// Memory in use by processes of no slot, for each device.
    foreign: BTreeMap<u16, Foreign>,
    /// The files on its disk, which it reports when it is asked for them.
    files: BTreeMap<String, FileReport>,
    is_ending: bool,
    /// The way in which it behaves from now on.
    pub conduct: Conduct,
}

/// A request of a runner that has not been answered.
#[derive(Clone, Debug)]
struct Request {
    number: u64,
    /// The revision of the orders that the runner had when it sent the request.
    asked_with: u64,
    /// The slots and generations whose end the request reports.
    ends: Vec<(String, u64)>,
}

/// Memory in use by a process of no slot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Foreign {
    bytes: u64,
    /// The program's name; without one the process itself is not reported.
    program: Option<String>,
}

impl SimulatedRunner {
    /// A runner with these devices, in session 1.
    pub fn new(name: impl Into<String>, devices: Vec<DeviceFacts>) -> Self {
        let (version, labels) = ("simulated".to_string(), BTreeMap::new());
        SimulatedRunner {
            name: name.into(),
            registration: Registration { session: 1, sequence: 0, version, labels, devices },
            sequence: 0,
            requests: 0,
            unanswered: VecDeque::new(),
            orders: Orders::default(),
            epoch: None,
            processes: BTreeMap::new(),
            unverifiable: BTreeSet::new(),
            starts: 0,
            foreign: BTreeMap::new(),
            files: BTreeMap::new(),
            is_ending: false,
            conduct: Conduct::default(),
        }
    }

    /// A runner with GPUs of one model and these sizes in GiB.
    pub fn with_gpus(name: &str, model: &str, gpus: &[u64]) -> Self {
        let facts = |(index, gib): (usize, &u64)| DeviceFacts {
            model: Some(model.to_string()),
            ..DeviceFacts::new(format!("GPU-{name}-{index}"), gib << 30)
        };
        SimulatedRunner::new(name, gpus.iter().enumerate().map(facts).collect())
    }

    /// The same with a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.registration.labels.insert(key.to_string(), value.to_string());
        self
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its registration, later than those before its last request.
    pub fn registration(&self) -> Registration {
        Registration { sequence: self.requests, ..self.registration.clone() }
    }

    /// Changes its registration; the caller registers it again.
    pub fn registration_mut(&mut self) -> &mut Registration {
        &mut self.registration
    }

    /// Replaces its devices; the caller registers it again. Devices are identified by UUID, or
    /// by index where they have none, so that what runs on one goes on under its new index. What
    /// runs on a device that is gone ends.
    pub fn replace_devices(&mut self, devices: Vec<DeviceFacts>) {
        let old = self.registration.devices.iter().enumerate();
        let new_index = |(index, facts): (usize, &DeviceFacts)| {
            let index = match &facts.uuid {
                Some(_) => devices.iter().position(|new| new.uuid == facts.uuid)?,
                None => Some(index).filter(|index| *index < devices.len())?,
            };
            u16::try_from(index).ok()
        };
        let indices: Vec<Option<u16>> = old.map(new_index).collect();
        let living = self.processes.values_mut().filter(|process| !process.state.is_over());
        for process in living {
            if !process.renumber(&indices) {
                process.end("its GPU is gone");
            }
        }
        let foreign = std::mem::take(&mut self.foreign).into_iter();
        self.foreign = foreign
            .filter_map(|(index, foreign)| Some((indices[usize::from(index)]?, foreign)))
            .collect();
        self.registration.devices = devices;
    }

    /// Starts another agent on the same machine: what runs goes on, orders are forgotten.
    pub fn restart_agent(&mut self, session: u64) {
        self.registration.session = session;
        self.sequence = 0;
        self.unanswered.clear();
        self.orders = Orders::default();
        self.epoch = None;
        self.unverifiable.clear();
        self.is_ending = false;
    }

    /// Shuts its agent down: heartbeats say so, and nothing is started any more.
    pub fn shut_down(&mut self) {
        self.is_ending = true;
        self.processes.values_mut().for_each(|process| process.enter(SlotState::Gone));
    }

    /// Loses all processes, and the memory of them: a machine that was reset. The server learns of
    /// it when the runner cannot find what it is ordered to keep.
    pub fn reset_machine(&mut self) {
        self.processes.clear();
        self.foreign.clear();
    }

    /// Lets time pass: loads and stops that have lasted long enough end.
    pub fn advance(&mut self, now: Millis) {
        for process in self.processes.values_mut() {
            if let Some((_, state)) = process.next.filter(|(at, _)| *at <= now) {
                process.enter(state);
            }
        }
    }

    /// Returns the time at which the next process changes its state by itself.
    pub fn next_change(&self) -> Option<Millis> {
        self.processes.values().filter_map(|process| process.next).map(|(at, _)| at).min()
    }

    /// Sends a request that reports nothing, such as a registration or a poll; returns its number.
    pub fn send_request(&mut self) -> u64 {
        self.send(Vec::new())
    }

    fn send(&mut self, ends: Vec<(String, u64)>) -> u64 {
        self.requests += 1;
        let asked_with = self.orders.revision;
        self.unanswered.push_back(Request { number: self.requests, asked_with, ends });
        if self.unanswered.len() > MAX_UNANSWERED {
            self.unanswered.pop_front();
        }
        self.requests
    }

    /// Returns the number of the last request.
    pub fn last_request(&self) -> u64 {
        self.requests
    }

    /// Takes the orders that answer the last request.
    pub fn take_orders(&mut self, orders: Orders) {
        let asked_with = self.orders.revision;
        let last = self.requests;
        let ends = self.unanswered.pop_back().filter(|request| request.number == last);
        self.accept(asked_with, &ends.map(|request| request.ends).unwrap_or_default(), orders);
    }

    /// Takes the orders that answer one request; `false` if the runner does not wait for them any
    /// more, or has later ones.
    pub fn take_answer(&mut self, request: u64, orders: Orders) -> bool {
        let at = self.unanswered.iter().position(|sent| sent.number == request);
        let Some(Request { asked_with, ends, .. }) = at.and_then(|at| self.unanswered.remove(at))
        else {
            return false;
        };
        self.accept(asked_with, &ends, orders)
    }

    fn accept(&mut self, asked_with: u64, ends: &[(String, u64)], orders: Orders) -> bool {
        for (slot, generation) in ends {
            if let Some(process) = self.processes.get_mut(slot) {
                let is_same = process.generation == *generation && process.state.is_over();
                process.is_end_acknowledged |= is_same;
            }
        }
        if reconcile::is_overtaken(orders.revision, self.orders.revision, asked_with) {
            return false;
        }
        self.epoch = Some(orders.epoch);
        self.orders = orders;
        let ordered: BTreeSet<&str> = self.orders.orders.iter().map(|o| o.slot.as_str()).collect();
        self.unverifiable.retain(|slot| ordered.contains(slot.as_str()));
        self.processes.retain(|slot, process| {
            let is_finished = process.state.is_over() && process.is_end_acknowledged;
            !is_finished || ordered.contains(slot.as_str())
        });
        true
    }

    /// Carries out the orders that it has; returns what was done.
    pub fn carry_out(&mut self, now: Millis) -> Vec<Correction> {
        let known = self.processes.iter().map(|(slot, process)| {
            let SimulatedProcess { generation, state, .. } = *process;
            (slot.clone(), KnownSlot { generation, state })
        });
        let corrections = reconcile::reconcile(&self.orders.orders, &known.collect());
        corrections.iter().for_each(|correction| self.perform(now, correction));
        corrections
    }

    fn perform(&mut self, now: Millis, correction: &Correction) {
        match correction {
            Correction::Start(order) => self.start(now, order),
            Correction::SetGeneration(order) => self.set_generation(order),
            Correction::Stop(order) => {
                self.set_generation(order);
                let stop = self.conduct.stop;
                if let Some(process) = self.processes.get_mut(&order.slot) {
                    process.enter_after(now, stop, SlotState::Stopping, SlotState::Gone);
                }
            }
            Correction::ReportMissing(order) => self.report_missing(order),
            // Slots are forgotten when the orders arrive.
            Correction::Forget(_) => {}
        }
    }

    fn start(&mut self, now: Millis, order: &Order) {
        self.starts += 1;
        let conduct = &self.conduct;
        let booked = order.launch.as_ref().map(Launch::booked).unwrap_or_default();
        let share = |on: &OnDevice| match conduct.memory {
            MemoryUse::AsBooked | MemoryUse::Unmeasured => *on,
            MemoryUse::Percent(percent) => OnDevice { bytes: on.bytes / 100 * percent, ..*on },
        };
        let used = booked.iter().map(share).collect();
        let (model, state) = (order.model.clone(), SlotState::Starting);
        let mut process = SimulatedProcess::new(model, order.generation, state, booked);
        process.used = used;
        process.is_measured = conduct.memory != MemoryUse::Unmeasured;
        if let Some(reason) = self.start_problem(order) {
            process.reason = Some(reason);
            process.enter(SlotState::Failed);
        } else {
            process.reason = conduct.failure.clone();
            let end = match process.reason {
                Some(_) => SlotState::Failed,
                None => SlotState::Running,
            };
            process.enter_after(now, conduct.load, SlotState::Starting, end);
        }
        self.processes.insert(order.slot.clone(), process);
    }

    /// Returns why nothing can be started for an order.
    fn start_problem(&self, order: &Order) -> Option<String> {
        if self.is_ending {
            return Some("not started: this runner is shutting down".to_string());
        }
        let devices = &self.registration.devices;
        let mut placed = order.launch.iter().flat_map(|launch| &launch.devices);
        let other = placed.find(|placed| {
            let device = devices.get(usize::from(placed.index));
            device.is_none_or(|device| placed.uuid.is_some() && device.uuid != placed.uuid)
        })?;
        Some(format!("not started: GPU {} is not the ordered one", other.index))
    }

    fn set_generation(&mut self, order: &Order) {
        if let Some(process) = self.processes.get_mut(&order.slot)
            && process.generation != order.generation
        {
            process.generation = order.generation;
            process.is_end_acknowledged = false;
        }
    }

    /// Reports an unknown slot as gone, unless it was started on a device that is not here.
    fn report_missing(&mut self, order: &Order) {
        let launch = order.launch.as_ref();
        if launch.is_some_and(|launch| launch.missing_uuid(&self.registration.devices).is_some()) {
            self.unverifiable.insert(order.slot.clone());
            return;
        }
        let (model, generation) = (order.model.clone(), order.generation);
        let mut gone = SimulatedProcess::new(model, generation, SlotState::Gone, Vec::new());
        gone.reason = Some("this runner has no process of the slot".to_string());
        self.processes.insert(order.slot.clone(), gone);
    }

    /// Carries out the orders that it has, and returns the next heartbeat.
    pub fn heartbeat(&mut self, now: Millis) -> Heartbeat {
        self.carry_out(now);
        self.advance(now);
        self.report()
    }

    /// Returns the next heartbeat, with the files that the orders ask for.
    pub fn report(&mut self) -> Heartbeat {
        self.sequence += 1;
        let ended = self.processes.iter().filter(|(_, process)| process.state.is_over());
        let ends = ended.map(|(slot, process)| (slot.clone(), process.generation)).collect();
        self.send(ends);
        let slots = self.processes.iter().map(|(slot, process)| process.report(slot));
        let asked = self.orders.files.iter();
        let devices = match self.conduct.telemetry {
            Telemetry::Off => Vec::new(),
            Telemetry::On => self.statuses(None),
            Telemetry::Stale(span) => self.statuses(Some(span)),
        };
        Heartbeat {
            devices,
            files: asked.filter_map(|path| self.files.get(path).cloned()).collect(),
            ending: self.is_ending,
            epoch: self.epoch,
            ..Heartbeat::with_slots(self.registration.session, self.sequence, slots.collect())
        }
    }

    fn statuses(&self, stale: Option<Span>) -> Vec<DeviceStatus> {
        let devices = (0_u16..).zip(&self.registration.devices);
        devices.map(|(index, _)| self.status(index, stale)).collect()
    }

    fn status(&self, index: u16, stale: Option<Span>) -> DeviceStatus {
        let foreign = self.foreign.get(&index);
        let process = foreign.and_then(|foreign| {
            let (name, bytes) = (foreign.program.clone()?, Some(foreign.bytes));
            Some(Process { pid: Some(4242), name: Some(name), bytes })
        });
        DeviceStatus {
            index,
            used: Some(self.used_on(index)),
            utilisation: Some(self.utilisation(index)),
            foreign: process.into_iter().collect(),
            stale_for: stale.map(|span| span.0),
        }
    }

    /// Invents the utilisation of a device: each process keeps it busy by an amount that depends on
    /// its size, and the sum drifts from report to report.
    fn utilisation(&self, index: u16) -> u8 {
        let used = self.processes.values().flat_map(|process| &process.used);
        let shares = used.filter(|on| on.index == index).map(|on| 15 + (on.bytes >> 30) % 29);
        let busy: u64 = shares.sum();
        let drift = (self.sequence * 7 + u64::from(index) * 5) % 17;
        let percent = if busy == 0 { 0 } else { (busy + drift).min(100) };
        u8::try_from(percent).unwrap_or(100)
    }

    /// Returns the memory that is physically in use on a device, foreign processes included.
    pub fn used_on(&self, index: u16) -> u64 {
        let used = self.processes.values().flat_map(|process| &process.used);
        let own: u64 = used.filter(|on| on.index == index).map(|on| on.bytes).sum();
        own + self.foreign.get(&index).map_or(0, |foreign| foreign.bytes)
    }

    /// Sets the memory in use on a device by a process of no slot. With a program's name the
    /// process is reported, without one only the device's memory in use shows it.
    pub fn set_foreign(&mut self, index: u16, bytes: u64, program: Option<&str>) {
        let foreign = Foreign { bytes, program: program.map(str::to_string) };
        match bytes {
            0 => drop(self.foreign.remove(&index)),
            _ => drop(self.foreign.insert(index, foreign)),
        }
    }

    /// Puts a model file on its disk, to be reported when the server asks for it.
    pub fn put_file(&mut self, report: FileReport) {
        self.files.insert(report.path.clone(), report);
    }

    /// Returns the number of processes that it has started.
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// Returns its processes by slot, those that are over and not forgotten included.
    pub fn processes(&self) -> &BTreeMap<String, SimulatedProcess> {
        &self.processes
    }

    /// Returns the process of a slot, to change.
    pub fn process_mut(&mut self, slot: &str) -> Option<&mut SimulatedProcess> {
        self.processes.get_mut(slot)
    }

    /// Puts a process under the name of a slot, ordered or not.
    pub fn put_process(&mut self, slot: impl Into<String>, process: SimulatedProcess) {
        self.processes.insert(slot.into(), process);
    }

    /// Ends the process of a slot. The next heartbeat reports it with this reason.
    pub fn end_process(&mut self, slot: &str, reason: &str) {
        if let Some(process) = self.processes.get_mut(slot) {
            process.end(reason);
        }
    }

    /// Returns the slots that it is ordered to keep or stop and that it can neither find nor report
    /// as gone: they were started on a device that is not here. An operator has to remove it.
    pub fn unverifiable(&self) -> &BTreeSet<String> {
        &self.unverifiable
    }
}
