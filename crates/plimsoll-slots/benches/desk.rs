//! What the desk does in a second without disk and network: 1000 runners of 8 GPUs, 10,000 slots, and then one ask after
//! the other, each with a decision over the whole fleet; and how dear asks and runners are while many wait, as after a start of
//! the server. Run it with `cargo bench -p plimsoll-slots --bench desk`.

use std::collections::BTreeMap;
use std::time::Instant;

use plimsoll_core::event::Settings;
use plimsoll_core::policy::Policy;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{Ask, Desk, Manners};
use plimsoll_slots::wire::{DeviceFacts, Heartbeat, Registration};

const RUNNERS: usize = 1000;
const GPUS: usize = 8;
const SLOTS: usize = 10_000;
const ASKS: usize = 2_000;
/// So many wait before the first runner has spoken.
const WAITING: usize = 2_000;

fn main() {
    for models in [10, 100, 1000] {
        let (asking, opening) = wait(models);
        println!(
            "{WAITING} asks, {models} models, and no runner has spoken yet: an ask takes {asking:.2} ms, and a runner that speaks {opening:.2} ms"
        );
        let Ran { filling, asking, turnover, idle_tick } = run(models);
        println!(
            "{RUNNERS} runners x {GPUS} GPUs, {SLOTS} slots, {models} models: filled in {filling:.1} s, {asking:.0} asks with a decision a second, {turnover:.0} with a slot stopped for each and half a heartbeat, a tick takes {idle_tick:.2} ms"
        );
    }
}

/// Milliseconds of an ask while nobody can be served, and of a runner that comes then.
fn wait(models: usize) -> (f64, f64) {
    let (mut desk, mut beats) = registered(models);
    let started = Instant::now();
    for asked in 0..WAITING {
        ask(&mut desk, 2, asked % models);
    }
    let asking = started.elapsed().as_secs_f64() * 1000.0 / count(WAITING);
    let started = Instant::now();
    confirm(&mut desk, 3, &mut beats);
    (asking, started.elapsed().as_secs_f64() * 1000.0 / count(RUNNERS))
}

fn count(things: usize) -> f64 {
    f64::from(u32::try_from(things).expect("few"))
}

/// Runners that have not said yet what they have, and models.
fn registered(models: usize) -> (Desk, Vec<u64>) {
    let settings = Settings {
        policy: Policy::spread(),
        serial_starts: true,
        telemetry_for: u64::MAX,
        ..Settings::default()
    };
    let mut desk = Desk::new(Manners { lease: u64::MAX / 2, ..Manners::default() }, settings);
    for runner in 0..RUNNERS {
        desk.register(Millis(1), &name(runner), registration(runner)).expect("it registers");
    }
    for model in 0..models {
        let memory = 2 + model % 29;
        let text = format!(
            "name: model-{model}\nmemory: {memory}GiB\nmax_slots: 100000\nruntime: {{command: {{argv: [serve]}}}}"
        );
        desk.put_model(Millis(1), serde_saphyr::from_str(&text).expect("a model"));
    }
    (desk, vec![0; RUNNERS])
}

struct Ran {
    /// Seconds.
    filling: f64,
    /// A second.
    asking: f64,
    turnover: f64,
    /// Milliseconds.
    idle_tick: f64,
}

fn run(models: usize) -> Ran {
    let (mut desk, mut beats) = registered(models);
    // A runner gets work once it has said what it has.
    confirm(&mut desk, 1, &mut beats);
    let started = Instant::now();
    let mut now = 2;
    for asked in 0..SLOTS {
        ask(&mut desk, now, asked % models);
        if asked % 1000 == 999 {
            confirm(&mut desk, now, &mut beats);
            now += 1000;
        }
    }
    confirm(&mut desk, now, &mut beats);
    confirm(&mut desk, now, &mut beats);
    let filling = started.elapsed().as_secs_f64();
    let started = Instant::now();
    for asked in 0..ASKS {
        ask(&mut desk, now, asked % models);
    }
    let asking = count(ASKS) / started.elapsed().as_secs_f64();
    let turnover = count(ASKS) / turn_over(&mut desk, now, models, &mut beats);
    let started = Instant::now();
    for tick in 0..20 {
        desk.tick(Millis(now + tick));
        settle(&mut desk);
    }
    Ran { filling, asking, turnover, idle_tick: started.elapsed().as_secs_f64() * 1000.0 / 20.0 }
}

/// Seconds in which as many slots are stopped as are asked for, while runners speak in turn.
fn turn_over(desk: &mut Desk, now: u64, models: usize, beats: &mut [u64]) -> f64 {
    let mut by_age: Vec<_> = desk.slots().map(|slot| (slot.created, slot.id.to_string())).collect();
    by_age.sort();
    let started = Instant::now();
    for (asked, (_, oldest)) in by_age.iter().take(ASKS).enumerate() {
        ask(desk, now, asked % models);
        desk.stop_slot(Millis(now), oldest).expect("it is there");
        settle(desk);
        if asked % 2 == 0 {
            let runner = asked / 2 % RUNNERS;
            beat(desk, now, runner, &mut beats[runner]);
        }
    }
    started.elapsed().as_secs_f64()
}

fn ask(desk: &mut Desk, now: u64, model: usize) {
    let ask = Ask { model: format!("model-{model}"), key: None, who: None, deadline: None };
    desk.ask(Millis(now), ask).expect("it is declared");
    settle(desk);
}

fn settle(desk: &mut Desk) {
    desk.batch();
    desk.committed();
}

/// Every runner does what it was told.
fn confirm(desk: &mut Desk, now: u64, beats: &mut [u64]) {
    for (runner, sequence) in beats.iter_mut().enumerate() {
        beat(desk, now, runner, sequence);
    }
}

/// A runner does what it was told.
fn beat(desk: &mut Desk, now: u64, runner: usize, sequence: &mut u64) {
    let orders = desk.orders(&name(runner)).orders;
    let known = desk.live(&name(runner)).map(|live| live.slots.clone()).unwrap_or_default();
    *sequence += 1;
    let slots = orders.into_iter().map(|order| order.done(&known)).collect();
    let beat = Heartbeat::of(1, *sequence, slots);
    desk.beat(Millis(now), &name(runner), beat).expect("it is registered");
    settle(desk);
}

fn name(runner: usize) -> String {
    format!("runner-{runner:04}")
}

fn registration(runner: usize) -> Registration {
    let facts = |gpu: usize| DeviceFacts::new(format!("GPU-{runner}-{gpu}"), 80 << 30);
    Registration {
        session: 1,
        version: String::new(),
        labels: BTreeMap::new(),
        devices: (0..GPUS).map(facts).collect(),
    }
}
