//! A desk with one runner at a fixed time, for tests. Observers see every batch as the engine would
//! show it.

use std::time::Duration;

use plimsoll_core::event::Settings;
use plimsoll_core::front::Host;
use plimsoll_core::policy::Policy;
use plimsoll_core::units::{Millis, Timespan};
use plimsoll_engine::engine::{Decided, Durable, Observer};
use plimsoll_slots::desk::{Desk, DeskConfig, NewReservation, ReservationId};
use plimsoll_slots::lease::Lease;
use plimsoll_slots::simulated_runner::{MemoryUse, SimulatedRunner};
use plimsoll_slots::wire::{DeviceFacts, DeviceStatus};

pub(crate) const GIB: u64 = 1 << 30;

/// A desk, its time and its runner.
pub(crate) struct Rehearsal {
    pub(crate) host: Host<Desk>,
    pub(crate) now: Millis,
    runner: SimulatedRunner,
}

impl Rehearsal {
    /// Creates a runner with GPUs of these sizes in GiB, under a policy.
    pub(crate) fn new(policy: Policy, gpus: &[u64]) -> Self {
        let settings = Settings {
            policy,
            serial_starts: true,
            telemetry_for: None,
            residency: Timespan::ZERO,
            ..Settings::default()
        };
        // 2026-01-02T03:04:05Z
        let now = Millis(1_767_323_045_000);
        let device =
            |(index, gib): (usize, &u64)| DeviceFacts::new(format!("GPU-{index}"), gib * GIB);
        let devices = gpus.iter().enumerate().map(device).collect();
        let mut runner = SimulatedRunner::new("runner-1", devices);
        runner.conduct.memory = MemoryUse::Unmeasured;
        let host = Host::new(Desk::new(DeskConfig::default()), settings);
        let mut rehearsal = Rehearsal { host, now, runner };
        let (name, registration) = (rehearsal.runner.name(), rehearsal.runner.registration());
        let registered =
            rehearsal.host.with(now, |desk, core| desk.register(core, name, registration));
        registered.expect("the registration is valid");
        rehearsal.beat(&[]);
        rehearsal
    }

    /// Declares a model, the rest of it as YAML.
    pub(crate) fn model(&mut self, name: &str, rest: &str) {
        let text = format!("name: {name}\nruntime: {{command: {{argv: [serve]}}}}\n{rest}");
        let model = serde_saphyr::from_str(&text).expect("a model");
        self.host.with(self.now, |desk, core| desk.declare_model(core, model));
    }

    /// Creates a reservation of a client that does not go away.
    pub(crate) fn reserve(&mut self, model: &str) -> ReservationId {
        let new = NewReservation { lease: Some(Lease::Off), ..NewReservation::of_model(model) };
        let reserved = self.host.with(self.now, |desk, core| desk.reserve(core, new));
        reserved.expect("the model is declared")
    }

    /// Releases a reservation.
    pub(crate) fn release(&mut self, reservation: ReservationId) {
        self.host.with(self.now, |desk, core| desk.release(core, reservation));
    }

    /// Lets the runner carry out its orders at once and report them, with the memory in use on each
    /// device.
    pub(crate) fn beat(&mut self, used: &[u64]) {
        let desk = self.host.front().view(self.host.scheduler());
        self.runner.take_orders(desk.orders(self.runner.name()));
        let mut beat = self.runner.heartbeat(self.now);
        let devices = (0_u16..).zip(used).map(|(index, used)| DeviceStatus {
            index,
            used: Some(*used),
            utilisation: Some(50),
            foreign: Vec::new(),
            stale_for: None,
        });
        beat.devices = devices.collect();
        let name = self.runner.name();
        let orders = self.host.with(self.now, |desk, core| desk.heartbeat(core, name, beat));
        self.runner.take_orders(orders.expect("the runner is registered"));
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, millis: u64) {
        self.now = self.now.after(Timespan::millis(millis));
        self.host.tick(self.now);
    }

    /// Makes everything durable, and shows it to the observers.
    pub(crate) fn show(&mut self, observers: &mut [&mut dyn Observer<Desk>]) {
        let batch = self.host.batch();
        let results = self.host.in_flight();
        let decided = Decided {
            front: self.host.front(),
            scheduler: self.host.scheduler(),
            records: &batch.records,
            outputs: results.outputs,
            topics: results.topics,
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
