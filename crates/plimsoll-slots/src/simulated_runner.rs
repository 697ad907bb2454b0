//! A simulated runner: it obeys orders and reports heartbeats as the real agent does, without
//! processes, and fails on demand. The only one, for tests, benches, the demo and chaos.
//!
//! ```text
//!  let beat = runner.heartbeat(now);   // obeys the orders that it has, and says what is
//!  let orders = server.heartbeat(beat);
//!  runner.take_orders(orders);
//! ```
//!
//! It has no clock and no randomness. A caller that wants chance draws a new [`Conduct`] before
//! each call; a caller that wants a lost message does not deliver it.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::units::Millis;

use crate::reconcile::{Correction, KnownSlot, reconcile};
use crate::size::Span;
use crate::wire::{
    DeviceFacts, DeviceStatus, FileReport, Heartbeat, Launch, OnDevice, Order, Orders, Process,
    Registration, SlotReport, SlotState,
};

/// A runner without a machine.
#[derive(Clone, Debug)]
pub struct SimulatedRunner {
    name: String,
    registration: Registration,
    sequence: u64,
    orders: Orders,
    processes: BTreeMap<String, SimulatedProcess>,
    /// The number of processes started so far.
    starts: u64,
    /// Memory in use by processes of no slot, for each device.
    foreign: BTreeMap<u16, Foreign>,
    /// Files that it reports when it is asked for them.
    files: BTreeMap<String, FileReport>,
    is_ending: bool,
    /// The way in which it behaves from now on.
    pub conduct: Conduct,
}

/// The behaviour of a simulated runner. The default does everything at once and well.
#[derive(Clone, Debug, Default)]
pub struct Conduct {
    pub load: Delay,
    pub stop: Delay,
    /// The reason with which starts fail; `None` if they succeed.
    pub failure: Option<String>,
    /// The same for single models.
    pub failing_models: BTreeMap<String, String>,
    pub memory: MemoryUse,
    pub telemetry: Telemetry,
    /// Whether [`SimulatedRunner::poll`] gives no heartbeat.
    pub is_silent: bool,
}

/// The time that a start or a stop takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delay {
    #[default]
    None,
    Lasts(Span),
    /// It never ends: a load that hangs, memory that does not come back.
    Forever,
}

/// The memory that a process uses once it has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryUse {
    #[default]
    AsBooked,
    /// This percentage of what is booked.
    Percent(u64),
    /// As booked, and not measured: reports leave it out.
    Unmeasured,
}

/// The measuring of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Telemetry {
    #[default]
    Off,
    /// Every heartbeat has the memory in use on each device.
    On,
    /// Measuring has failed for this long; the numbers are the last good ones.
    Stale(Span),
}

/// Memory in use by a process of no slot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Foreign {
    bytes: u64,
    /// The program's name; without one the process itself is not reported.
    program: Option<String>,
}

/// A model server process that exists only here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedProcess {
    pub generation: u64,
    pub model: String,
    pub state: SlotState,
    pub reason: Option<String>,
    pub booked: Vec<OnDevice>,
    /// The memory in use, whether or not it is measured.
    pub used: Vec<OnDevice>,
    pub is_measured: bool,
    /// The state that it goes into by itself, and when.
    pub next: Option<(Millis, SlotState)>,
    /// Whether a heartbeat has reported it since it was over.
    is_reported: bool,
}

impl SimulatedProcess {
    /// A process that runs and uses this memory, such as one from before the server's data begins.
    pub fn running(model: impl Into<String>, generation: u64, used: Vec<OnDevice>) -> Self {
        let booked = Vec::new();
        let state = SlotState::Running;
        SimulatedProcess { used, ..SimulatedProcess::new(model.into(), generation, state, booked) }
    }

    fn new(model: String, generation: u64, state: SlotState, booked: Vec<OnDevice>) -> Self {
        SimulatedProcess {
            generation,
            model,
            state,
            reason: None,
            used: Vec::new(),
            booked,
            is_measured: true,
            next: None,
            is_reported: false,
        }
    }

    /// Puts it into a state. One that is over uses no memory.
    fn enter(&mut self, state: SlotState) {
        self.state = state;
        self.next = None;
        if state.is_over() {
            self.used.clear();
            self.is_reported = false;
        }
    }
}

impl SimulatedRunner {
    /// A runner with these devices, in session 1.
    pub fn new(name: impl Into<String>, devices: Vec<DeviceFacts>) -> Self {
        let (version, labels) = ("simulated".to_string(), BTreeMap::new());
        SimulatedRunner {
            name: name.into(),
            registration: Registration { session: 1, version, labels, devices },
            sequence: 0,
            orders: Orders::default(),
            processes: BTreeMap::new(),
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

    /// Returns its registration.
    pub fn registration(&self) -> Registration {
        self.registration.clone()
    }

    /// Changes its registration, such as its devices; the caller registers it again.
    pub fn registration_mut(&mut self) -> &mut Registration {
        &mut self.registration
    }

    /// Starts another agent on the same machine: what runs goes on, orders are forgotten.
    pub fn restart_agent(&mut self, session: u64) {
        self.registration.session = session;
        self.sequence = 0;
        self.orders = Orders::default();
        self.is_ending = false;
    }

    /// Shuts its agent down: heartbeats say so, and nothing is started any more.
    pub fn shut_down(&mut self) {
        self.is_ending = true;
        self.processes.values_mut().for_each(|process| process.enter(SlotState::Gone));
    }

    /// Lets time pass: loads and stops that have lasted long enough end.
    pub fn advance(&mut self, now: Millis) {
        for process in self.processes.values_mut() {
            if let Some((_, state)) = process.next.filter(|(at, _)| *at <= now) {
                process.enter(state);
            }
        }
    }

    /// Takes orders; the next heartbeat carries them out. Forgets processes that are over, that
    /// were reported, and that the orders do not mention.
    pub fn take_orders(&mut self, orders: Orders) {
        self.forget_finished(&orders);
        self.orders = orders;
    }

    /// Forgets processes that are over, that were reported, and that the orders do not mention.
    pub fn forget_finished(&mut self, orders: &Orders) {
        let is_ordered = |slot: &String| orders.orders.iter().any(|order| order.slot == *slot);
        self.processes.retain(|slot, process| {
            !(process.state.is_over() && process.is_reported) || is_ordered(slot)
        });
    }

    /// Carries out orders; returns what was done.
    pub fn obey(&mut self, now: Millis, orders: &Orders) -> Vec<Correction> {
        let known = |(slot, process): (&String, &SimulatedProcess)| {
            let known = KnownSlot { generation: process.generation, state: process.state };
            (slot.clone(), known)
        };
        let corrections = reconcile(&orders.orders, &self.processes.iter().map(known).collect());
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
                    enter_after(process, now, stop, SlotState::Stopping, SlotState::Gone);
                }
            }
            Correction::ReportMissing(order) => {
                let (model, generation) = (order.model.clone(), order.generation);
                let mut gone =
                    SimulatedProcess::new(model, generation, SlotState::Gone, Vec::new());
                gone.reason = Some("this runner has no process of it".to_string());
                self.processes.insert(order.slot.clone(), gone);
            }
            Correction::Forget(slot) => {
                if self.processes.get(slot).is_some_and(|process| process.is_reported) {
                    self.processes.remove(slot);
                }
            }
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
        process.reason = match self.is_ending {
            true => Some("not started: this runner is shutting down".to_string()),
            false => conduct.failing_models.get(&order.model).or(conduct.failure.as_ref()).cloned(),
        };
        let ends = match process.reason {
            Some(_) => SlotState::Failed,
            None => SlotState::Running,
        };
        enter_after(&mut process, now, conduct.load, SlotState::Starting, ends);
        self.processes.insert(order.slot.clone(), process);
    }

    fn set_generation(&mut self, order: &Order) {
        if let Some(process) = self.processes.get_mut(&order.slot) {
            process.generation = order.generation;
            process.is_reported = false;
        }
    }

    /// Returns the next heartbeat, after carrying out the orders that it has; `None` while it is
    /// silent.
    pub fn poll(&mut self, now: Millis) -> Option<Heartbeat> {
        (!self.conduct.is_silent).then(|| self.heartbeat(now))
    }

    /// Carries out the orders that it has, and returns the next heartbeat.
    pub fn heartbeat(&mut self, now: Millis) -> Heartbeat {
        let orders = std::mem::take(&mut self.orders);
        self.obey(now, &orders);
        self.advance(now);
        self.report(&orders.files)
    }

    /// Returns a heartbeat that says what is, with the files that were asked for.
    pub fn report(&mut self, asked: &[String]) -> Heartbeat {
        self.sequence += 1;
        let slots = self.processes.iter().map(|(slot, process)| slot_report(slot, process));
        let devices = match self.conduct.telemetry {
            Telemetry::Off => Vec::new(),
            Telemetry::On => self.statuses(None),
            Telemetry::Stale(span) => self.statuses(Some(span)),
        };
        let beat = Heartbeat {
            devices,
            files: asked.iter().filter_map(|path| self.files.get(path).cloned()).collect(),
            ending: self.is_ending,
            ..Heartbeat::of(self.registration.session, self.sequence, slots.collect())
        };
        self.processes.values_mut().for_each(|process| process.is_reported = true);
        beat
    }

    fn statuses(&self, stale: Option<Span>) -> Vec<DeviceStatus> {
        let devices = (0_u16..).zip(&self.registration.devices);
        devices.map(|(index, _)| self.status(index, stale)).collect()
    }

    fn status(&self, index: u16, stale: Option<Span>) -> DeviceStatus {
        let foreign = self.foreign.get(&index);
        let process = foreign.and_then(|foreign| {
            let (name, bytes) = (foreign.program.clone()?, Some(foreign.bytes));
            Some(Process { pid: 4242, name: Some(name), bytes })
        });
        let is_on = |process: &&SimulatedProcess| process.used.iter().any(|on| on.index == index);
        let busy = self.processes.values().filter(is_on).count();
        DeviceStatus {
            index,
            used: Some(self.used_on(index)),
            utilisation: Some(u8::try_from(busy * 23).unwrap_or(100).min(100)),
            foreign: process.into_iter().collect(),
            stale_for: stale.map(|span| span.0),
        }
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
            process.enter(SlotState::Gone);
            process.reason = Some(reason.to_string());
        }
    }

    /// Loses all processes, and the memory of them: a machine that was reset. The server learns of
    /// it when the runner cannot find what it is ordered to keep.
    pub fn reset_machine(&mut self) {
        self.processes.clear();
    }

    /// Returns the slots whose processes exist.
    pub fn living_slots(&self) -> BTreeSet<&str> {
        let living = self.processes.iter().filter(|(_, process)| !process.state.is_over());
        living.map(|(slot, _)| slot.as_str()).collect()
    }
}

/// Puts a process into a state that ends after a delay, or into its end at once.
fn enter_after(
    process: &mut SimulatedProcess,
    now: Millis,
    delay: Delay,
    meanwhile: SlotState,
    ends: SlotState,
) {
    match delay {
        Delay::None => process.enter(ends),
        Delay::Lasts(span) => {
            process.enter(meanwhile);
            process.next = Some((now.after(span.0), ends));
        }
        Delay::Forever => process.enter(meanwhile),
    }
}

fn slot_report(slot: &str, process: &SimulatedProcess) -> SlotReport {
    let is_over = process.state.is_over();
    let reason = process.reason.clone().filter(|_| is_over || process.state == SlotState::Stopping);
    SlotReport {
        slot: slot.to_string(),
        generation: process.generation,
        model: process.model.clone(),
        state: process.state,
        reason,
        endpoint: (!is_over).then(|| format!("http://simulated.invalid/{slot}")),
        booked: process.booked.clone(),
        used: if process.is_measured { process.used.clone() } else { Vec::new() },
    }
}
