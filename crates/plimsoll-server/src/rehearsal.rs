//! A desk with one runner at a fixed time, for tests: whoever watches sees every batch as the engine would show it.

use std::time::Duration;

use plimsoll_core::event::Settings;
use plimsoll_core::policy::Policy;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{Ask, Desk, Manners};
use plimsoll_slots::wire::{DeviceFacts, DeviceStatus, Heartbeat, Registration};

use plimsoll_engine::engine::{Decided, Durable, Observer};

pub(crate) const GIB: u64 = 1 << 30;

/// The runner.
const RUNNER: &str = "runner-1";

/// A desk, its time, and its runner's heartbeats.
pub(crate) struct Rehearsal {
    pub(crate) desk: Desk,
    pub(crate) now: Millis,
    beats: u64,
}

impl Rehearsal {
    /// A runner with GPUs of so many GiB, under a policy.
    pub(crate) fn new(policy: Policy, gpus: &[u64]) -> Self {
        let settings = Settings {
            policy,
            serial_starts: true,
            telemetry_for: u64::MAX,
            residency: 0,
            ..Settings::default()
        };
        let mut desk = Desk::new(Manners::default(), settings);
        // 2026-01-02T03:04:05Z
        let now = Millis(1_767_323_045_000);
        let device =
            |(index, gib): (usize, &u64)| DeviceFacts::new(format!("GPU-{index}"), gib * GIB);
        let devices = gpus.iter().enumerate().map(device).collect();
        let registration = Registration {
            session: 1,
            version: String::new(),
            labels: Default::default(),
            devices,
        };
        desk.register(now, RUNNER, registration).expect("it may register");
        let mut rehearsal = Rehearsal { desk, now, beats: 0 };
        rehearsal.beat(&[]);
        rehearsal
    }

    /// Declares a model, the rest of it as YAML.
    pub(crate) fn model(&mut self, name: &str, rest: &str) {
        let text = format!("name: {name}\nruntime: {{command: {{argv: [serve]}}}}\n{rest}");
        self.desk.put_model(self.now, serde_saphyr::from_str(&text).expect("a model"));
    }

    /// Asks for a place.
    pub(crate) fn ask(&mut self, model: &str) -> u64 {
        let ask = Ask { model: model.to_string(), key: None, who: None, deadline: None };
        self.desk.ask(self.now, ask).expect("the model is declared")
    }

    /// The runner does at once what it was told, and says so, and what is in use on each device.
    pub(crate) fn beat(&mut self, used: &[u64]) {
        let orders = self.desk.orders(RUNNER);
        let known = self.desk.live(RUNNER).map(|live| live.slots.clone()).unwrap_or_default();
        let slots = orders.orders.into_iter().map(|order| order.done(&known));
        let devices = (0_u16..).zip(used).map(|(index, used)| DeviceStatus {
            index,
            used: Some(*used),
            utilisation: None,
            foreign: Vec::new(),
            stale_for: None,
        });
        self.beats += 1;
        let beat = Heartbeat {
            devices: devices.collect(),
            ..Heartbeat::of(1, self.beats, slots.collect())
        };
        self.desk.beat(self.now, RUNNER, beat).expect("it is registered");
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, millis: u64) {
        self.now = self.now.after(millis);
        self.desk.tick(self.now);
    }

    /// Makes everything durable, and shows it.
    pub(crate) fn show(&mut self, observers: &mut [&mut dyn Observer]) {
        let batch = self.desk.batch();
        let (outputs, places) = self.desk.in_flight();
        let decided = Decided { desk: &self.desk, records: &batch.records, outputs, places };
        observers.iter_mut().for_each(|observer| observer.decided(&decided));
        let told = self.desk.committed();
        let durable = Durable {
            records: &batch.records,
            notes: batch.notes.len(),
            told: &told,
            deciding: Duration::from_micros(300),
            committing: Duration::from_millis(3),
        };
        observers.iter_mut().for_each(|observer| observer.durable(&durable));
    }
}
