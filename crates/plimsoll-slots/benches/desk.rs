//! The desk's speed without disk and network: 1000 runners of 8 GPUs, 10,000 slots, then one
//! reservation after the other, each with a decision over the whole fleet; and the cost of
//! reservations and heartbeats while many reservations are pending, as after a restart of the
//! server. Run it with `cargo bench -p plimsoll-slots --bench desk`.

use std::num::NonZeroU32;
use std::time::Instant;

use plimsoll_core::event::Settings;
use plimsoll_core::front::Host;
use plimsoll_core::policy::Policy;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{Desk, DeskConfig, NewReservation, PendingLimits};
use plimsoll_slots::simulated_runner::{MemoryUse, SimulatedRunner};
use plimsoll_slots::size::Span;

const RUNNERS: usize = 1000;
const GPUS: usize = 8;
const SLOTS: usize = 10_000;
const RESERVATIONS: usize = 2_000;
/// Reservations made before the first heartbeat.
const PENDING: usize = 2_000;

fn main() {
    for models in [10, 100, 1000] {
        let (reserving, opening) = before_first_heartbeat(models);
        println!(
            "{PENDING} reservations, {models} models, before the first heartbeat: \
             {reserving:.2} ms a reservation, {opening:.2} ms a first heartbeat"
        );
        let Ran { filling, reserving, turnover, idle_tick } = run(models);
        println!(
            "{RUNNERS} runners x {GPUS} GPUs, {SLOTS} slots, {models} models: filled in \
             {filling:.1} s, {reserving:.0} reservations with a decision a second, {turnover:.0} \
             with a slot stopped for each and half a heartbeat, {idle_tick:.2} ms a tick"
        );
    }
}

/// Returns the milliseconds of a reservation while no runner has reported, and of a runner's first
/// heartbeat then.
fn before_first_heartbeat(models: usize) -> (f64, f64) {
    let mut fleet = Fleet::new(models);
    let started = Instant::now();
    for number in 0..PENDING {
        fleet.reserve(2, number % models);
    }
    let reserving = started.elapsed().as_secs_f64() * 1000.0 / count(PENDING);
    let started = Instant::now();
    fleet.beat_all(3);
    (reserving, started.elapsed().as_secs_f64() * 1000.0 / count(RUNNERS))
}

fn count(things: usize) -> f64 {
    f64::from(u32::try_from(things).expect("few"))
}

struct Ran {
    /// Seconds.
    filling: f64,
    /// A second.
    reserving: f64,
    turnover: f64,
    /// Milliseconds.
    idle_tick: f64,
}

fn run(models: usize) -> Ran {
    let mut fleet = Fleet::new(models);
    // A runner gets work after its first heartbeat.
    fleet.beat_all(1);
    let started = Instant::now();
    let mut now = 2;
    for number in 0..SLOTS {
        fleet.reserve(now, number % models);
        if number % 1000 == 999 {
            fleet.beat_all(now);
            now += 1000;
        }
    }
    fleet.beat_all(now);
    fleet.beat_all(now);
    let filling = started.elapsed().as_secs_f64();
    let started = Instant::now();
    for number in 0..RESERVATIONS {
        fleet.reserve(now, number % models);
    }
    let reserving = count(RESERVATIONS) / started.elapsed().as_secs_f64();
    let turnover = count(RESERVATIONS) / fleet.turn_over(now, models);
    let started = Instant::now();
    for tick in 0..20 {
        fleet.host.tick(Millis(now + tick));
        fleet.commit();
    }
    let idle_tick = started.elapsed().as_secs_f64() * 1000.0 / 20.0;
    Ran { filling, reserving, turnover, idle_tick }
}

/// A desk with its runners.
struct Fleet {
    host: Host<Desk>,
    runners: Vec<SimulatedRunner>,
}

impl Fleet {
    /// Runners that have registered and not reported yet, and models.
    fn new(models: usize) -> Fleet {
        let settings = Settings {
            policy: Policy::spread(),
            serial_starts: true,
            telemetry_for: None,
            ..Settings::default()
        };
        let pending = PendingLimits { total: NonZeroU32::MAX, per_namespace: NonZeroU32::MAX };
        let config = DeskConfig { lease: Span(u64::MAX / 2), pending, ..DeskConfig::default() };
        let mut host = Host::new(Desk::new(config), settings);
        let mut runners = Vec::new();
        for number in 0..RUNNERS {
            let name = format!("runner-{number:04}");
            let mut runner = SimulatedRunner::with_gpus(&name, "NVIDIA A100", &[80; GPUS]);
            runner.conduct.memory = MemoryUse::Unmeasured;
            let registration = runner.registration();
            host.with(Millis(1), |desk, core| desk.register(core, &name, registration))
                .expect("a valid registration");
            runners.push(runner);
        }
        for model in 0..models {
            let memory = 2 + model % 29;
            let text = format!(
                "name: model-{model}\nmemory: {memory}GiB\nmax_slots: 100000\n\
                 runtime: {{command: {{argv: [serve]}}}}"
            );
            let model = serde_saphyr::from_str(&text).expect("a model");
            host.with(Millis(1), |desk, core| desk.declare_model(core, model));
        }
        Fleet { host, runners }
    }

    /// Stops as many slots as it reserves, while runners report one after the other; returns the
    /// seconds that it took.
    fn turn_over(&mut self, now: u64, models: usize) -> f64 {
        let view = self.host.front().view(self.host.scheduler());
        let mut by_age: Vec<_> =
            view.slots().map(|slot| (slot.created, slot.id.to_string())).collect();
        by_age.sort();
        let started = Instant::now();
        for (number, (_, oldest)) in by_age.iter().take(RESERVATIONS).enumerate() {
            self.reserve(now, number % models);
            self.host
                .with(Millis(now), |desk, core| desk.stop_slot(core, oldest))
                .expect("the slot exists");
            self.commit();
            if number % 2 == 0 {
                self.beat(now, number / 2 % RUNNERS);
            }
        }
        started.elapsed().as_secs_f64()
    }

    fn reserve(&mut self, now: u64, model: usize) {
        let new = NewReservation::of_model(format!("model-{model}"));
        self.host
            .with(Millis(now), |desk, core| desk.reserve(core, new))
            .expect("the model is declared");
        self.commit();
    }

    fn beat_all(&mut self, now: u64) {
        for runner in 0..self.runners.len() {
            self.beat(now, runner);
        }
    }

    /// A runner carries out its newest orders, and reports.
    fn beat(&mut self, now: u64, runner: usize) {
        let runner = &mut self.runners[runner];
        let view = self.host.front().view(self.host.scheduler());
        runner.take_orders(view.orders(runner.name()));
        let beat = runner.heartbeat(Millis(now));
        self.host
            .with(Millis(now), |desk, core| desk.heartbeat(core, runner.name(), beat))
            .expect("the runner is registered");
        self.commit();
    }

    fn commit(&mut self) {
        self.host.batch();
        self.host.committed();
    }
}
