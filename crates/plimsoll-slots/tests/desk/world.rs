//! A desk with simulated runners at a time, and a journal to recover from.

use std::collections::BTreeMap;

use plimsoll_core::event::Settings;
use plimsoll_core::front::{Batch, Checkpoint, Core, Host, Recovery};
use plimsoll_core::policy::Policy;
use plimsoll_core::units::{Millis, Name, Timespan};
use plimsoll_slots::desk::{
    Change, Desk, DeskConfig, DeskState, DeskView, Ending, IdempotencyKey, NewReservation,
    ReservationId, ReservationStatus, RunnerError,
};
use plimsoll_slots::model::Model;
use plimsoll_slots::simulated_runner::{SimulatedProcess, SimulatedRunner};
use plimsoll_slots::wire::{Heartbeat, OnDevice, Orders, Registration};

pub(crate) const GIB: u64 = 1 << 30;

/// A key of a client without a token.
pub(crate) fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey { caller: None, text: text.to_string() }
}

pub(crate) struct World {
    pub host: Host<Desk>,
    pub now: u64,
    /// False between a restart and the next tick.
    pub has_ticked: bool,
    pub machines: BTreeMap<String, SimulatedRunner>,
    start: Checkpoint<DeskState>,
    journal: Vec<Batch<Change>>,
}

impl World {
    pub(crate) fn new(policy: Policy) -> World {
        World::configured(policy, DeskConfig::default())
    }

    pub(crate) fn configured(policy: Policy, config: DeskConfig) -> World {
        World::with_residency(policy, config, Timespan::ZERO)
    }

    pub(crate) fn with_residency(policy: Policy, config: DeskConfig, residency: Timespan) -> World {
        let settings = Settings {
            policy,
            serial_starts: true,
            telemetry_for: None,
            residency,
            ..Settings::default()
        };
        let host = Host::new(Desk::new(config), settings);
        let start = host.checkpoint();
        World {
            host,
            now: 1_000_000,
            has_ticked: true,
            machines: BTreeMap::new(),
            start,
            journal: Vec::new(),
        }
    }

    /// A world that spreads, with these models (name and the rest as YAML) and a runner `r` with
    /// GPUs of these sizes in GiB.
    pub(crate) fn with(models: &[(&str, &str)], gpus: &[u64]) -> World {
        World::with_runners(models, &[("r", gpus)])
    }

    pub(crate) fn with_runners(models: &[(&str, &str)], runners: &[(&str, &[u64])]) -> World {
        let mut world = World::new(Policy::spread());
        models.iter().for_each(|(name, rest)| world.model(name, rest));
        runners.iter().for_each(|(name, gpus)| world.runner(name, gpus));
        world
    }

    pub(crate) fn now(&self) -> Millis {
        Millis(self.now)
    }

    pub(crate) fn call<R>(&mut self, call: impl FnOnce(&mut Desk, &mut Core<'_>) -> R) -> R {
        self.host.with(Millis(self.now), call)
    }

    pub(crate) fn view(&self) -> DeskView<'_> {
        self.host.front().view(self.host.scheduler())
    }

    /// Makes everything so far durable.
    pub(crate) fn commit(&mut self) {
        let batch = self.host.batch();
        self.journal.push(batch);
        self.host.committed();
    }

    /// The host as a restart would find it.
    pub(crate) fn recovered(&self) -> Host<Desk> {
        self.recovered_with(self.view().config().clone())
    }

    pub(crate) fn recovered_with(&self, config: DeskConfig) -> Host<Desk> {
        let mut recovery = Recovery::from_checkpoint(Desk::new(config), self.start.clone())
            .expect("the version is the same");
        for batch in &self.journal {
            batch.records.iter().for_each(|record| recovery.apply_record(record));
            batch.changes.iter().for_each(|set| recovery.apply_changes(set.clone()));
        }
        recovery.finish()
    }

    /// Kills the server and starts it again.
    pub(crate) fn restart(&mut self) {
        self.commit();
        self.host = self.recovered();
        self.has_ticked = false;
    }

    pub(crate) fn model(&mut self, name: &str, rest: &str) {
        let model = model(name, rest);
        self.call(|desk, core| desk.declare_model(core, model));
    }

    pub(crate) fn reserve(&mut self, model: &str) -> ReservationId {
        let new = NewReservation::of_model(model);
        self.call(|desk, core| desk.reserve(core, new)).expect("the model is declared")
    }

    /// Reserves, and checks that the reservation is served once all runners have reported.
    pub(crate) fn serve(&mut self, model: &str) -> ReservationId {
        let id = self.reserve(model);
        self.settle();
        self.assert_ready(&[id]);
        id
    }

    /// Reserves, and checks that the reservation is pending for this reason.
    pub(crate) fn reserve_pending(&mut self, model: &str, reason: &str) -> ReservationId {
        let id = self.reserve(model);
        self.assert_pending(id, reason);
        id
    }

    pub(crate) fn assert_ready(&self, ids: &[ReservationId]) {
        for id in ids {
            assert!(self.is_ready(*id), "{id}: {:?}, {}", self.status(*id), self.reason(*id));
        }
    }

    pub(crate) fn assert_pending(&self, id: ReservationId, reason: &str) {
        assert_eq!(self.status(id), ReservationStatus::Pending);
        assert!(self.reason(id).contains(reason), "{}", self.reason(id));
    }

    pub(crate) fn assert_impossible(&self, id: ReservationId, reason: &str) {
        let status = self.status(id);
        let is_impossible = matches!(status, ReservationStatus::Ended(Ending::Impossible { .. }));
        assert!(is_impossible && self.reason(id).contains(reason), "{}", self.reason(id));
    }

    pub(crate) fn assert_lost(&self, id: ReservationId) {
        let status = self.status(id);
        assert!(matches!(status, ReservationStatus::Ended(Ending::Lost(_))), "{status:?}");
    }

    /// Checks the GiB that the ledger counts on the first GPU of each runner.
    pub(crate) fn assert_loads(&self, loads: &[(&str, u64)]) {
        for (runner, gib) in loads {
            assert_eq!(self.load(runner, 0), gib * GIB, "{runner}");
        }
    }

    pub(crate) fn release(&mut self, id: ReservationId) -> bool {
        self.call(|desk, core| desk.release(core, id))
    }

    pub(crate) fn stop_slot(&mut self, slot: &str) {
        self.call(|desk, core| desk.stop_slot(core, slot)).expect("the slot exists");
    }

    pub(crate) fn status(&self, id: ReservationId) -> ReservationStatus {
        self.view().reservation_status(id).expect("the reservation exists")
    }

    pub(crate) fn is_ready(&self, id: ReservationId) -> bool {
        self.status(id).is_ready()
    }

    /// The reason for a reservation's status, as its client reads it.
    pub(crate) fn reason(&self, id: ReservationId) -> String {
        self.view().status_reason(id).expect("the reservation exists").to_string()
    }

    /// Adds a runner with GPUs of these sizes in GiB, or restarts its agent; it reports once.
    pub(crate) fn runner(&mut self, name: &str, gpus: &[u64]) {
        let new = || SimulatedRunner::with_gpus(name, "NVIDIA A100", gpus);
        let machine = self.machines.entry(name.to_string()).or_insert_with(new);
        machine.restart_agent(self.now);
        let registration = machine.registration();
        self.register(name, registration).expect("the registration is valid");
        self.report(name);
    }

    pub(crate) fn register(
        &mut self,
        name: &str,
        registration: Registration,
    ) -> Result<Orders, RunnerError> {
        self.call(|desk, core| desk.register(core, name, registration))
    }

    pub(crate) fn heartbeat(&mut self, name: &str, beat: Heartbeat) -> Result<Orders, RunnerError> {
        self.call(|desk, core| desk.heartbeat(core, name, beat))
    }

    pub(crate) fn orders(&self, runner: &str) -> Orders {
        self.view().orders(runner)
    }

    pub(crate) fn machine(&mut self, name: &str) -> &mut SimulatedRunner {
        self.machines.get_mut(name).expect("a runner of the test")
    }

    pub(crate) fn process(&mut self, runner: &str, slot: &str) -> &mut SimulatedProcess {
        self.machine(runner).process_mut(slot).expect("a slot of the runner")
    }

    /// The runner carries out its orders, and reports.
    pub(crate) fn beat(&mut self, name: &str) {
        self.obey(name);
        self.report(name);
    }

    /// The same, and every start fails.
    pub(crate) fn beat_failing(&mut self, name: &str) {
        self.machine(name).conduct.failure = Some("exit status 1".to_string());
        self.beat(name);
        self.machine(name).conduct.failure = None;
    }

    /// The runner carries out its orders, and does not report yet.
    pub(crate) fn obey(&mut self, name: &str) {
        let (now, orders) = (self.now(), self.orders(name));
        let machine = self.machine(name);
        machine.take_orders(orders);
        machine.carry_out(now);
    }

    /// The runner reports, and does nothing else.
    pub(crate) fn report(&mut self, name: &str) {
        let (now, orders) = (self.now(), self.orders(name));
        let machine = self.machine(name);
        machine.take_orders(orders);
        machine.advance(now);
        let beat = machine.report();
        let epoch = beat.epoch;
        let orders = self.heartbeat(name, beat).expect("the runner is registered");
        let has_restarted = epoch != Some(orders.epoch);
        self.machine(name).take_orders(orders);
        // A runner reports at once to a server that has started again.
        if has_restarted {
            self.report(name);
        }
    }

    /// All runners report and time passes, until nothing changes any more.
    pub(crate) fn settle(&mut self) {
        for _ in 0..6 {
            self.each(World::beat);
            self.pass(100);
        }
    }

    /// Time passes until a failed start is retried, and the runners go on reporting.
    pub(crate) fn wait_for_retry(&mut self) {
        for _ in 0..12 {
            self.each(World::report);
            self.pass(5_000);
        }
    }

    fn each(&mut self, act: fn(&mut World, &str)) {
        let names: Vec<String> = self.machines.keys().cloned().collect();
        names.iter().for_each(|name| act(self, name));
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now += millis;
        self.host.tick(Millis(self.now));
        self.has_ticked = true;
    }

    /// The bytes that the ledger counts on a device.
    pub(crate) fn load(&self, runner: &str, gpu: usize) -> u64 {
        let ledger = self.host.scheduler().ledger();
        let view = ledger.view_of(runner).expect("the runner is a node");
        view.room.devices()[gpu].load().get()
    }

    pub(crate) fn stages(&self) -> Vec<(String, &'static str)> {
        let stage = |slot| self.view().stage(slot).map_or("gone", |stage| stage.name());
        self.view().slots().map(|slot| (slot.model.clone(), stage(slot))).collect()
    }

    pub(crate) fn count_in_stage(&self, stage: &str) -> usize {
        self.stages().iter().filter(|(_, other)| *other == stage).count()
    }

    /// The number of processes that all runners have started.
    pub(crate) fn starts(&self) -> u64 {
        self.machines.values().map(SimulatedRunner::starts).sum()
    }

    pub(crate) fn slot_of(&self, id: ReservationId) -> Name {
        match self.status(id) {
            ReservationStatus::Ready { slot } | ReservationStatus::Starting { slot } => slot,
            other => panic!("{id} is in no slot: {other:?}"),
        }
    }
}

pub(crate) fn model(name: &str, rest: &str) -> Model {
    let text = format!("name: {name}\nruntime: {{command: {{argv: [serve]}}}}\n{rest}");
    serde_saphyr::from_str(&text).expect("a model")
}

pub(crate) fn registration(name: &str, session: u64, gpus: &[u64]) -> Registration {
    let mut runner = SimulatedRunner::with_gpus(name, "NVIDIA A100", gpus);
    runner.restart_agent(session);
    runner.registration()
}

/// Memory in use, by device and in GiB.
pub(crate) fn used(used: &[(u16, u64)]) -> Vec<OnDevice> {
    used.iter().map(|(index, gib)| OnDevice { index: *index, bytes: gib * GIB }).collect()
}

/// A process that runs and uses this memory, in GiB by device.
pub(crate) fn running(model: &str, generation: u64, gib: &[(u16, u64)]) -> SimulatedProcess {
    SimulatedProcess::running(model, generation, used(gib))
}
