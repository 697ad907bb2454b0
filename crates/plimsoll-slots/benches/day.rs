//! A day of traffic on a simulated clock, and the memory that the desk uses for it: 50 runners of 8
//! GPUs, more models than fit at once, a quiet night and a busy noon. Memory must not grow with the
//! day. Run it with `cargo bench -p plimsoll-slots --bench day`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use plimsoll_core::event::Settings;
use plimsoll_core::front::Host;
use plimsoll_core::policy::Policy;
use plimsoll_core::units::{Millis, Timespan};
use plimsoll_slots::desk::{Desk, DeskConfig, IdempotencyKey, NewReservation, ReservationId};
use plimsoll_slots::simulated_runner::{MemoryUse, SimulatedRunner};

const RUNNERS: u64 = 50;
const GPUS: usize = 8;
const MODELS: u64 = 200;
const HOUR: u64 = 3600;
/// The seconds between two heartbeats of a runner.
const HEARTBEAT: u64 = 5;
/// Reservations a second at night, and how many more there are at noon.
const NIGHT: u64 = 4;
const NOON: u64 = 26;

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        return println!("nothing is measured without --bench");
    }
    let mut day = Day::new();
    let started = Instant::now();
    println!("{RUNNERS} runners x {GPUS} GPUs, {MODELS} models, 24 hours");
    println!("| hour | reserved | kept | slots | starts so far | rows | RSS MiB |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    day.print(0);
    for second in 1..=24 * HOUR {
        day.second(second);
        if second % (4 * HOUR) == 0 {
            day.print(second / HOUR);
        }
    }
    println!("simulated in {:.1} s", started.elapsed().as_secs_f64());
}

/// A desk, and what goes on around it.
struct Day {
    host: Host<Desk>,
    runners: Vec<SimulatedRunner>,
    chance: Chance,
    /// Reservations by the second in which they are released.
    ends: BTreeMap<u64, Vec<ReservationId>>,
    reserved: u64,
    /// Rows that would be in the journal.
    rows: usize,
}

impl Day {
    fn new() -> Day {
        let settings = Settings {
            policy: Policy::spread(),
            residency: Timespan::seconds(30),
            serial_starts: true,
            telemetry_for: None,
            ..Settings::default()
        };
        let mut host = Host::new(Desk::new(DeskConfig::default()), settings);
        let mut runners = Vec::new();
        for number in 0..RUNNERS {
            let name = format!("runner-{number:02}");
            let mut runner = SimulatedRunner::with_gpus(&name, "NVIDIA A100", &[80; GPUS]);
            runner.conduct.memory = MemoryUse::Unmeasured;
            let registration = runner.registration();
            host.with(at(0), |desk, core| desk.register(core, &name, registration))
                .expect("a valid registration");
            runners.push(runner);
        }
        for model in 0..MODELS {
            let memory = 20 + model % 40;
            let text = format!(
                "name: model-{model}\nmemory: {memory}GiB\nconcurrency: 2\nmax_slots: 40\n\
                 idle_limit: 1m\nruntime: {{command: {{argv: [serve]}}}}"
            );
            let model = serde_saphyr::from_str(&text).expect("a model");
            host.with(at(0), |desk, core| desk.declare_model(core, model));
        }
        let (chance, ends) = (Chance(1), BTreeMap::new());
        Day { host, runners, chance, ends, reserved: 0, rows: 0 }
    }

    /// One second: reservations are released and made, some runners report, and time passes.
    fn second(&mut self, second: u64) {
        let now = at(second);
        for id in self.ends.remove(&second).unwrap_or_default() {
            self.host.with(now, |desk, core| desk.release(core, id));
        }
        for _ in 0..wave(second) {
            self.reserve(second);
        }
        for runner in (second % HEARTBEAT..RUNNERS)
            .step_by(usize::try_from(HEARTBEAT).expect("a small number"))
        {
            self.beat(now, usize::try_from(runner).expect("few"));
        }
        self.host.tick(now);
        let batch = self.host.batch();
        self.rows += batch.records.len() + usize::from(batch.changes.is_some());
        self.host.committed();
    }

    fn reserve(&mut self, second: u64) {
        // A few models have most of the traffic, and which ones they are changes from hour to hour.
        let (one, other) = (self.chance.below(MODELS), self.chance.below(MODELS));
        let model = (one * other / MODELS + second / HOUR * 7) % MODELS;
        self.reserved += 1;
        let new = NewReservation {
            key: Some(IdempotencyKey { caller: None, text: format!("key-{}", self.reserved) }),
            deadline: Some(at(second + 60)),
            ..NewReservation::of_model(format!("model-{model}"))
        };
        let id = self.host.with(at(second), |desk, core| desk.reserve(core, new));
        let until = second + 1 + self.chance.below(40);
        self.ends.entry(until).or_default().push(id.expect("the model is declared"));
    }

    /// A runner carries out its newest orders, and reports.
    fn beat(&mut self, now: Millis, runner: usize) {
        let runner = &mut self.runners[runner];
        let view = self.host.front().view(self.host.scheduler());
        runner.take_orders(view.orders(runner.name()));
        let beat = runner.heartbeat(now);
        self.host
            .with(now, |desk, core| desk.heartbeat(core, runner.name(), beat))
            .expect("the runner is registered");
    }

    fn print(&self, hour: u64) {
        let view = self.host.front().view(self.host.scheduler());
        let (kept, slots) = (view.reservations().count(), view.slots().count());
        let starts: u64 = self.runners.iter().map(SimulatedRunner::starts).sum();
        let (reserved, rows, memory) = (self.reserved, self.rows, resident());
        println!("| {hour} | {reserved} | {kept} | {slots} | {starts} | {rows} | {memory} |");
    }
}

/// Returns the reservations of a second: the fewest at midnight, the most at noon.
fn wave(second: u64) -> u64 {
    let half = 12 * HOUR;
    let from_midnight =
        if second % (2 * half) < half { second % half } else { half - second % half };
    // A little more than a straight line: mornings are steep.
    NIGHT + NOON * from_midnight * (2 * half - from_midnight) / (half * half)
}

fn at(second: u64) -> Millis {
    Millis(1_000_000 + second * 1000)
}

/// A generator of the same numbers in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }
}

/// Returns the memory of this process, in MiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
}
