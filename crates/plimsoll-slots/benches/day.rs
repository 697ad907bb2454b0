//! A day of traffic on a simulated clock, and what the desk remembers of it: 50 runners of 8 GPUs, more models than fit at
//! once, a quiet night and a busy noon. Memory must not grow with the day. `cargo bench -p plimsoll-slots --bench day`
//! runs it.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use plimsoll_core::event::Settings;
use plimsoll_core::policy::Policy;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{Ask, Desk, Manners};
use plimsoll_slots::wire::{Action, DeviceFacts, Heartbeat, Registration};

const RUNNERS: u64 = 50;
const GPUS: u64 = 8;
const MODELS: u64 = 200;
const HOUR: u64 = 3600;
/// Every runner speaks once in so many seconds.
const BEAT: u64 = 5;
/// Asks a second at night, and how many more there are at noon.
const NIGHT: u64 = 4;
const NOON: u64 = 26;

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        return println!("nothing is measured without --bench");
    }
    let mut day = Day::new();
    let started = Instant::now();
    println!("{RUNNERS} runners x {GPUS} GPUs, {MODELS} models, 24 hours");
    println!("| hour | asks | places | slots | made so far | rows | RSS MiB |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    day.tell(0);
    for second in 1..=24 * HOUR {
        day.second(second);
        if second % (4 * HOUR) == 0 {
            day.tell(second / HOUR);
        }
    }
    println!("simulated in {:.1} s", started.elapsed().as_secs_f64());
}

/// A desk, and what goes on around it.
struct Day {
    desk: Desk,
    chance: Chance,
    beats: Vec<u64>,
    /// Places by the second in which they are given back.
    ends: BTreeMap<u64, Vec<u64>>,
    asks: u64,
    slots_made: u64,
    /// Records and notes that would be on the disk.
    rows: usize,
}

impl Day {
    fn new() -> Day {
        let settings = Settings {
            policy: Policy::spread(),
            residency: 30_000,
            serial_starts: true,
            telemetry_for: u64::MAX,
            ..Settings::default()
        };
        let mut desk = Desk::new(Manners::default(), settings);
        for runner in 0..RUNNERS {
            desk.register(at(0), &name(runner), registration(runner)).expect("it registers");
        }
        for model in 0..MODELS {
            let memory = 20 + model % 40;
            let text = format!(
                "name: model-{model}\nmemory: {memory}GiB\nconcurrency: 2\nmax_slots: 40\nidle_limit: 1m\nruntime: {{command: {{argv: [serve]}}}}"
            );
            desk.put_model(at(0), serde_saphyr::from_str(&text).expect("a model"));
        }
        let beats = vec![0; usize::try_from(RUNNERS).expect("few")];
        Day {
            desk,
            chance: Chance(1),
            beats,
            ends: BTreeMap::new(),
            asks: 0,
            slots_made: 0,
            rows: 0,
        }
    }

    /// One second: those who are done leave, others come, some runners speak, and time is noticed.
    fn second(&mut self, second: u64) {
        let now = at(second);
        for place in self.ends.remove(&second).unwrap_or_default() {
            self.desk.give_back(now, place);
        }
        for _ in 0..wave(second) {
            self.ask(second);
        }
        for runner in (second % BEAT..RUNNERS).step_by(usize::try_from(BEAT).expect("few")) {
            self.beat(now, runner);
        }
        self.desk.tick(now);
        let batch = self.desk.batch();
        self.rows += batch.records.len() + batch.notes.len();
        self.desk.committed();
    }

    fn ask(&mut self, second: u64) {
        // A few models have most of the traffic, and which ones they are changes from hour to hour.
        let (one, other) = (self.chance.below(MODELS), self.chance.below(MODELS));
        let model = (one * other / MODELS + second / HOUR * 7) % MODELS;
        self.asks += 1;
        let ask = Ask {
            model: format!("model-{model}"),
            key: Some(format!("key-{}", self.asks)),
            who: None,
            deadline: Some(at(second + 60)),
        };
        let place = self.desk.ask(at(second), ask).expect("it is declared");
        let until = second + 1 + self.chance.below(40);
        self.ends.entry(until).or_default().push(place);
    }

    /// A runner has done what it was told, and asks again.
    fn beat(&mut self, now: Millis, runner: u64) {
        let sequence = &mut self.beats[usize::try_from(runner).expect("few")];
        *sequence += 1;
        let orders = self.desk.orders(&name(runner)).orders;
        let known =
            self.desk.live(&name(runner)).map(|live| live.slots.clone()).unwrap_or_default();
        self.slots_made +=
            orders.iter().filter(|order| order.action == Action::Start).count() as u64;
        let slots = orders.into_iter().map(|order| order.done(&known)).collect();
        let beat = Heartbeat::of(1, *sequence, slots);
        self.desk.beat(now, &name(runner), beat).expect("it is registered");
    }

    fn tell(&self, hour: u64) {
        let (places, slots) = (self.desk.places().count(), self.desk.slots().count());
        let Day { asks, slots_made, rows, .. } = self;
        println!(
            "| {hour} | {asks} | {places} | {slots} | {slots_made} | {rows} | {} |",
            resident()
        );
    }
}

/// How many ask in a second: the fewest at midnight, the most at noon.
fn wave(second: u64) -> u64 {
    let half = 12 * HOUR;
    let from_midnight =
        if second % (2 * half) < half { second % half } else { half - second % half };
    // A little more than a straight line: mornings are steep.
    NIGHT + NOON * from_midnight * (2 * half - from_midnight) / (half * half)
}

fn registration(runner: u64) -> Registration {
    let facts = |gpu: u64| DeviceFacts::new(format!("GPU-{runner}-{gpu}"), 80 << 30);
    let devices = (0..GPUS).map(facts).collect();
    Registration { session: 1, version: String::new(), labels: BTreeMap::new(), devices }
}

fn name(runner: u64) -> String {
    format!("runner-{runner:02}")
}

fn at(second: u64) -> Millis {
    Millis(1_000_000 + second * 1000)
}

/// The same chances in every run.
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

/// The memory of this process, in MiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
}
