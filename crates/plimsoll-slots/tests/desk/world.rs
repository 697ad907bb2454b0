//! Runners as a test plays them: processes that start when told to, and say what is so.

use std::collections::BTreeMap;

use plimsoll_core::event::Settings;
use plimsoll_core::policy::Policy;
use plimsoll_core::units::{Millis, Name};
use plimsoll_slots::desk::{Ask, Desk, Manners, PlaceStatus, Rows};
use plimsoll_slots::model::Model;
use plimsoll_slots::wire::{
    Action, DeviceFacts, DeviceStatus, Heartbeat, OnDevice, Orders, Registration, SlotReport,
    SlotState,
};

pub(crate) const GIB: u64 = 1 << 30;

/// A runner's machine: what really runs there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub session: u64,
    pub sequence: u64,
    pub processes: BTreeMap<String, Process>,
    pub started: u32,
    /// What else is in use on each device, where anything is measured at all.
    pub measured: Option<Vec<u64>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub generation: u64,
    pub model: String,
    pub state: SlotState,
    pub booked: Vec<OnDevice>,
    pub used: Vec<OnDevice>,
}

/// A desk with its runners at a time.
pub(crate) struct World {
    pub desk: Desk,
    pub now: u64,
    pub machines: BTreeMap<String, Machine>,
    /// The state that recovery starts from, and everything since.
    base: (plimsoll_core::snapshot::Snapshot, Rows, u64, u64),
    journal: Vec<plimsoll_slots::desk::Batch>,
}

pub(crate) fn settings(policy: Policy) -> Settings {
    Settings {
        policy,
        serial_starts: true,
        telemetry_for: u64::MAX,
        residency: 0,
        ..Settings::default()
    }
}

impl World {
    pub(crate) fn new(policy: Policy) -> World {
        let desk = Desk::new(Manners::default(), settings(policy));
        let base = (desk.scheduler().snapshot(), desk.rows(), 0, 0);
        World { desk, now: 1_000_000, machines: BTreeMap::new(), base, journal: Vec::new() }
    }

    pub(crate) fn now(&self) -> Millis {
        Millis(self.now)
    }

    /// Makes everything so far durable.
    pub(crate) fn commit(&mut self) {
        let batch = self.desk.batch();
        self.journal.push(batch);
        self.desk.committed();
    }

    /// The desk as a restart would find it.
    pub(crate) fn recovered(&self) -> Desk {
        self.recovered_with(self.desk.manners().clone())
    }

    /// The same with other manners.
    pub(crate) fn recovered_with(&self, manners: Manners) -> Desk {
        let (snapshot, rows, mut seq, mut note) = self.base.clone();
        let mut scheduler =
            plimsoll_core::scheduler::Scheduler::restore(snapshot).expect("it was saved");
        for record in self.journal.iter().flat_map(|batch| &batch.records) {
            record.operations.iter().for_each(|operation| scheduler.recover_next(operation));
            seq = record.seq + 1;
        }
        let notes = self.journal.iter().flat_map(|batch| &batch.notes);
        let mut operations = Vec::new();
        for (number, some) in notes {
            operations.extend(some.iter().cloned());
            note = number + 1;
        }
        let mut desk = Desk::resume(manners, scheduler, rows, seq, note);
        operations.into_iter().for_each(|operation| desk.recover_next(operation));
        desk
    }

    /// Stops the server without a word, and starts it again.
    pub(crate) fn restart(&mut self) {
        self.commit();
        self.desk = self.recovered();
    }

    pub(crate) fn model(&mut self, name: &str, rest: &str) {
        let model = model(name, rest);
        self.desk.put_model(self.now(), model);
    }

    pub(crate) fn ask(&mut self, model: &str) -> u64 {
        let ask = Ask { model: model.to_string(), key: None, who: None, deadline: None };
        self.desk.ask(self.now(), ask).expect("the model is declared")
    }

    pub(crate) fn status(&self, place: u64) -> PlaceStatus {
        self.desk.place_status(place).expect("the place is there")
    }

    /// Adds a runner with GPUs of so many GiB.
    pub(crate) fn runner(&mut self, name: &str, gpus: &[u64]) {
        self.machines.entry(name.to_string()).or_default().session = self.now;
        let registration = registration(name, self.now, gpus);
        self.desk.register(self.now(), name, registration).expect("it may register");
        self.machines.get_mut(name).expect("just put").sequence = 0;
        self.say(name);
    }

    /// One heartbeat: the machine does at once what it was told, and says so.
    pub(crate) fn beat(&mut self, name: &str) {
        let orders = self.desk.orders(name);
        self.machines.get_mut(name).expect("a runner of the test").obey(&orders, true);
        self.say(name);
    }

    /// A heartbeat that says what is so, and does nothing.
    pub(crate) fn say(&mut self, name: &str) {
        let now = self.now();
        let beat = self.machines.get_mut(name).expect("a runner of the test").heartbeat();
        self.desk.beat(now, name, beat).expect("it is registered");
        let orders = self.desk.orders(name);
        self.machines.get_mut(name).expect("a runner of the test").forget(&orders);
    }

    /// Beats until nothing changes any more.
    pub(crate) fn settle(&mut self) {
        for _ in 0..6 {
            let names: Vec<String> = self.machines.keys().cloned().collect();
            names.iter().for_each(|name| self.beat(name));
            self.pass(100);
        }
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now += millis;
        self.desk.tick(self.now());
    }

    /// Time passes until a start that failed is tried again, and the runners go on talking.
    pub(crate) fn hold_back(&mut self) {
        for _ in 0..12 {
            let names: Vec<String> = self.machines.keys().cloned().collect();
            names.iter().for_each(|name| self.say(name));
            self.pass(5_000);
        }
    }

    /// The bytes that the ledger shows on a device: all that is loaded.
    pub(crate) fn load(&self, runner: &str, gpu: usize) -> u64 {
        let ledger = self.desk.scheduler().ledger();
        let view = ledger.view_of(runner).expect("the runner is there");
        view.room.devices()[gpu].load().get()
    }
}

pub(crate) fn stages(world: &World) -> Vec<(String, &'static str)> {
    world.desk.slots().map(|slot| (slot.model.clone(), world.desk.stage(slot).name())).collect()
}

pub(crate) fn slot_of(world: &World, place: u64) -> Name {
    match world.status(place) {
        PlaceStatus::Ready { slot } | PlaceStatus::Coming { slot } => slot,
        other => panic!("it is in no slot: {other:?}"),
    }
}

pub(crate) fn model(name: &str, rest: &str) -> Model {
    let text = format!("name: {name}\nruntime: {{command: {{argv: [serve]}}}}\n{rest}");
    serde_saphyr::from_str(&text).expect("a model")
}

pub(crate) fn registration(name: &str, session: u64, gpus: &[u64]) -> Registration {
    let facts = |(index, gib): (usize, &u64)| DeviceFacts {
        model: Some("NVIDIA A100".to_string()),
        ..DeviceFacts::new(format!("GPU-{name}-{index}"), gib * GIB)
    };
    let devices = gpus.iter().enumerate().map(facts).collect();
    Registration { session, version: "test".to_string(), labels: BTreeMap::new(), devices }
}

impl Machine {
    /// Carries orders out; a start that goes badly leaves nothing behind but its failure.
    pub(crate) fn obey(&mut self, orders: &Orders, well: bool) {
        for order in &orders.orders {
            let known = self.processes.get_mut(&order.slot);
            // What was ordered before the latest that it knows is over.
            if known.as_ref().is_some_and(|known| order.generation < known.generation) {
                continue;
            }
            match (order.action, known) {
                (Action::Start, None) => {
                    self.started += 1;
                    let booked = order.launch.as_ref().expect("it was not told before").booked();
                    let state = if well { SlotState::Running } else { SlotState::Failed };
                    let process = Process {
                        generation: order.generation,
                        model: order.model.clone(),
                        state,
                        used: booked.clone(),
                        booked,
                    };
                    self.processes.insert(order.slot.clone(), process);
                }
                (Action::Start, Some(process))
                    if process.generation < order.generation && process.state.is_over() =>
                {
                    self.started += 1;
                    process.booked =
                        order.launch.as_ref().expect("it was not told before").booked();
                    process.used = process.booked.clone();
                    process.model = order.model.clone();
                    process.generation = order.generation;
                    process.state = if well { SlotState::Running } else { SlotState::Failed };
                }
                (Action::Keep, None) => {
                    let gone = Process {
                        generation: order.generation,
                        model: order.model.clone(),
                        state: SlotState::Gone,
                        booked: Vec::new(),
                        used: Vec::new(),
                    };
                    self.processes.insert(order.slot.clone(), gone);
                }
                (Action::Keep, Some(process)) if !process.state.is_over() => {
                    process.generation = order.generation;
                }
                (Action::Stop, known) => {
                    let mut process = known.cloned().unwrap_or(Process {
                        generation: 0,
                        model: order.model.clone(),
                        state: SlotState::Gone,
                        booked: Vec::new(),
                        used: Vec::new(),
                    });
                    (process.generation, process.state, process.used) =
                        (order.generation, SlotState::Gone, Vec::new());
                    self.processes.insert(order.slot.clone(), process);
                }
                _ => {}
            }
        }
    }

    /// What is over and not ordered any more need not be reported again.
    fn forget(&mut self, orders: &Orders) {
        self.processes.retain(|slot, process| {
            !process.state.is_over() || orders.orders.iter().any(|order| order.slot == *slot)
        });
    }

    pub(crate) fn heartbeat(&mut self) -> Heartbeat {
        self.sequence += 1;
        let report = |(slot, process): (&String, &Process)| SlotReport {
            slot: slot.clone(),
            generation: process.generation,
            model: process.model.clone(),
            state: process.state,
            reason: process.state.is_over().then(|| "it went".to_string()),
            endpoint: Some(format!("http://test/{slot}")),
            booked: process.booked.clone(),
            used: process.used.clone(),
        };
        let own = |index: u16| -> u64 {
            let running = self.processes.values().filter(|process| !process.state.is_over());
            running
                .flat_map(|process| &process.used)
                .filter(|on| on.index == index)
                .map(|on| on.bytes)
                .sum()
        };
        let status = |(index, foreign): (u16, &u64)| DeviceStatus {
            index,
            used: Some(own(index) + foreign),
            utilisation: Some(50),
            foreign: Vec::new(),
            stale_for: None,
        };
        let measured = self.measured.iter().flatten();
        let devices = (0_u16..).zip(measured).map(status).collect();
        let slots = self.processes.iter().map(report).collect();
        Heartbeat { devices, ..Heartbeat::of(self.session, self.sequence, slots) }
    }
}
