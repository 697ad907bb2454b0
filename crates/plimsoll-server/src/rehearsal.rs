//! A desk with one runner at a fixed time, for tests: observers see every batch as the engine would
//! show it.

use std::time::Duration;

use plimsoll_core::event::Settings;
use plimsoll_core::front::Host;
use plimsoll_core::policy::Policy;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{Desk, DeskConfig, DeskView, NewReservation, ReservationId};
use plimsoll_slots::simulated_runner::{MemoryUse, SimulatedRunner};
use plimsoll_slots::wire::{DeviceFacts, DeviceStatus};

use crate::{Decided, Durable};
use plimsoll_engine::engine::Observer;

pub(crate) const GIB: u64 = 1 << 30;

const RUNNER: &str = "runner-1";

pub(crate) struct Rehearsal {
    pub(crate) host: Host<Desk>,
    pub(crate) now: Millis,
    runner: SimulatedRunner,
}

impl Rehearsal {
    /// A runner with GPUs of these sizes in GiB, under a policy.
    pub(crate) fn new(policy: Policy, gpus: &[u64]) -> Self {
        let settings = Settings {
            policy,
            serial_starts: true,
            telemetry_for: u64::MAX,
            residency: 0,
            ..Settings::default()
        };
        let mut host = Host::new(Desk::new(DeskConfig::default()), settings);
        // 2026-01-02T03:04:05Z
        let now = Millis(1_767_323_045_000);
        let device =
            |(index, gib): (usize, &u64)| DeviceFacts::new(format!("GPU-{index}"), gib * GIB);
        let mut runner = SimulatedRunner::new(RUNNER, gpus.iter().enumerate().map(device).collect());
        runner.conduct.memory = MemoryUse::Unmeasured;
        let registration = runner.registration();
        host.with(now, |desk, core| desk.register(core, RUNNER, registration))
            .expect("the registration is valid");
        let mut rehearsal = Rehearsal { host, now, runner };
        rehearsal.beat(&[]);
        rehearsal
    }

    pub(crate) fn view(&self) -> DeskView<'_> {
        self.host.front().view(self.host.scheduler())
    }

    /// Declares a model, the rest of it as YAML.
    pub(crate) fn model(&mut self, name: &str, rest: &str) {
        let text = format!("name: {name}\nruntime: {{command: {{argv: [serve]}}}}\n{rest}");
        let model = serde_saphyr::from_str(&text).expect("a model");
        self.host.with(self.now, |desk, core| desk.declare_model(core, model));
    }

    pub(crate) fn reserve(&mut self, model: &str) -> ReservationId {
        let new = NewReservation::of_model(model);
        self.host
            .with(self.now, |desk, core| desk.reserve(core, new))
            .expect("the model is declared")
    }

    pub(crate) fn release(&mut self, id: ReservationId) {
        self.host.with(self.now, |desk, core| desk.release(core, id));
    }

    /// The runner carries out its orders, and reports, with the memory in use on each device.
    pub(crate) fn beat(&mut self, used: &[u64]) {
        let orders = self.view().orders(RUNNER);
        self.runner.take_orders(orders);
        let mut beat = self.runner.heartbeat(self.now);
        let status = |(index, used): (u16, &u64)| DeviceStatus {
            index,
            used: Some(*used),
            utilisation: None,
            foreign: Vec::new(),
            stale_for: None,
        };
        beat.devices = (0_u16..).zip(used).map(status).collect();
        self.host
            .with(self.now, |desk, core| desk.heartbeat(core, RUNNER, beat))
            .expect("the runner is registered");
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now = self.now.after(millis);
        self.host.tick(self.now);
    }

    /// Makes everything durable, and shows it.
    pub(crate) fn show(&mut self, observers: &mut [&mut dyn Observer<Desk>]) {
        let batch = self.host.batch();
        let in_flight = self.host.in_flight();
        let decided = Decided {
            front: self.host.front(),
            scheduler: self.host.scheduler(),
            records: &batch.records,
            outputs: in_flight.outputs,
            topics: in_flight.topics,
        };
        observers.iter_mut().for_each(|observer| observer.decided(&decided));
        let committed = self.host.committed();
        let durable = Durable {
            records: &batch.records,
            outputs: &committed.outputs,
            topics: &committed.topics,
            change_sets: usize::from(batch.changes.is_some()),
            deciding: Duration::from_micros(300),
            committing: Duration::from_millis(3),
        };
        observers.iter_mut().for_each(|observer| observer.durable(&durable));
    }
}
