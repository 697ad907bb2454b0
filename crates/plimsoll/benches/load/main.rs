//! The real server over HTTP and with its disk: a fleet that is full of slots, and every request a
//! new slot, while as many old ones are stopped. Results are multiples of one durable commit and of
//! an empty handler on the same machine in the same run. `cargo bench -p plimsoll --bench load`
//! runs it.
//!
//! Smaller: `PLIMSOLL_LOAD_RUNNERS=20 PLIMSOLL_LOAD_SLOTS=100 PLIMSOLL_LOAD_RATE=100
//! PLIMSOLL_LOAD_SECONDS=3`. Another build of the server: `PLIMSOLL_LOAD_SERVER=path`.

mod disk;
mod http;
mod inside;
mod machine;
mod pace;
mod runners;
mod server;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use disk::{Disk, Offered};
use http::Client;
use inside::Inside;
use machine::Processors;
use pace::Times;
use plimsoll_slots::simulated_runner::SimulatedRunner;
use serde::Deserialize;
use server::Server;

const MODELS: u32 = 100;
/// Connections that stop slots.
const STOPPERS: usize = 8;
/// The time that the floor is measured, before and after.
const FLOOR_SECONDS: u64 = 3;
/// The heartbeat interval of a runner, as the server sets it.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// The interval of the disk's own commits during the load.
const PROBE: Duration = Duration::from_millis(20);

/// The size of the load.
struct Plan {
    runners: usize,
    slots: u32,
    rate: u32,
    seconds: u32,
}

/// Slots that were made, oldest first, and what goes on beside the load.
#[derive(Default)]
struct World {
    slots: Mutex<VecDeque<String>>,
    unplaced: AtomicU64,
    stopped: AtomicU64,
    beats: AtomicU64,
    done: AtomicBool,
}

fn main() {
    // `cargo test` runs benches too; it gets by without this one.
    if !std::env::args().any(|argument| argument == "--bench") {
        return println!("nothing is measured without --bench");
    }
    let number = |name: &str, usual| {
        let said = std::env::var(format!("PLIMSOLL_LOAD_{name}")).ok();
        said.map_or(usual, |said| {
            said.parse().unwrap_or_else(|_| panic!("PLIMSOLL_LOAD_{name} is no number"))
        })
    };
    let runners = number("RUNNERS", 1000) as usize;
    let plan = Plan {
        runners,
        slots: number("SLOTS", 10_000),
        rate: number("RATE", 1000),
        seconds: number("SECONDS", 20),
    };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    run(&plan, dir.path());
}

fn run(plan: &Plan, dir: &Path) {
    let Plan { runners, slots, rate, seconds } = plan;
    println!(
        "{runners} runners x 8 GPUs, {MODELS} models, {slots} slots, {rate} new slots/s for {seconds} s"
    );
    println!("load average before: {}", machine::load_average());
    let server = Server::start(dir);
    let before = floor(&server, dir, "before", *rate);
    let world = World::default();
    declare(server.address);
    let registered = Instant::now();
    let voices: Vec<Vec<SimulatedRunner>> = thread::scope(|scope| {
        let voice = |voice| scope.spawn(move || runners::register(server.address, voice, *runners));
        let voices: Vec<_> = (0..runners::VOICES).map(voice).collect();
        voices.into_iter().map(|voice| voice.join().expect("it registers")).collect()
    });
    println!(
        "registered in {:.1} s; server: {} MiB",
        registered.elapsed().as_secs_f64(),
        server.memory()
    );
    let (decisions, commits) = thread::scope(|scope| {
        for voice in voices {
            let (address, world) = (server.address, &world);
            scope
                .spawn(move || runners::beat(address, voice, HEARTBEAT, &world.done, &world.beats));
        }
        let filled = pace::offer(server.address, *rate, *slots, |client, number| {
            ask(client, number, &world);
        });
        println!("filled: {filled}; server: {} MiB, data {} MiB", server.memory(), server.disk());
        // The last of them start meanwhile.
        thread::sleep(HEARTBEAT * 2);
        let measured = measure(plan, &server, dir, &world, scope);
        world.done.store(true, Ordering::Relaxed);
        measured
    });
    let after = floor(&server, dir, "after", *rate);
    println!("load average after: {}", machine::load_average());
    ratios(&decisions, &commits, [&before, &after]);
}

/// The load itself: decisions, and commits of a file beside the server's during them.
fn measure<'scope>(
    plan: &Plan,
    server: &'scope Server,
    dir: &Path,
    world: &'scope World,
    scope: &'scope thread::Scope<'scope, '_>,
) -> (Times, Times) {
    let kept = plan.slots as usize;
    for _ in 0..STOPPERS {
        scope.spawn(move || stop_oldest(server.address, kept, world));
    }
    scope.spawn(move || watch(server, world));
    let mut probe = Disk::new(dir, "during.db");
    let during = scope.spawn(move || probe.offer(PROBE, &world.done));
    let (beats, stopped) =
        (world.beats.load(Ordering::Relaxed), world.stopped.load(Ordering::Relaxed));
    let (unplaced, used) = (world.unplaced.load(Ordering::Relaxed), server.processor_time());
    let (inside, processors) = (Inside::of(server.address), Processors::now());
    let count = plan.rate * plan.seconds;
    let decisions =
        pace::offer(server.address, plan.rate, count, |client, number| ask(client, number, world));
    world.done.store(true, Ordering::Relaxed);
    let commits = during.join().expect("the disk works");
    println!("decisions: {decisions}");
    println!("  inside: {}", Inside::of(server.address).since(inside));
    println!(
        "  with {} slots stopped, {} heartbeats, {} not placed at once; {:.1} s of processor time in the server",
        world.stopped.load(Ordering::Relaxed) - stopped,
        world.beats.load(Ordering::Relaxed) - beats,
        world.unplaced.load(Ordering::Relaxed) - unplaced,
        server.processor_time() - used,
    );
    println!("  of the processors' time meanwhile: {}", Processors::now().since(&processors));
    let Offered { commits, begun } = commits;
    println!("commits of another file meanwhile: {commits}; once begun: {begun}");
    (decisions, commits)
}

/// The least that anything can take here.
struct Floor {
    commits: Times,
    empty: Times,
}

fn floor(server: &Server, dir: &Path, when: &str, rate: u32) -> Floor {
    let commits = Disk::new(dir, &format!("{when}.db")).commits(FLOOR_SECONDS);
    println!("durable commits {when}: {commits}");
    let livez =
        |client: &mut Client| drop(client.send("GET", "/livez", "").good("an empty handler"));
    let seconds = u32::try_from(FLOOR_SECONDS).expect("few");
    let empty = pace::offer(server.address, rate, rate * seconds, |client, _| livez(client));
    println!("empty handler {when}, at the same rate: {empty}");
    let most = pace::press(server.address, FLOOR_SECONDS, livez);
    println!("empty handler {when}, as fast as it goes: {most}");
    Floor { commits, empty }
}

fn declare(server: SocketAddr) {
    let mut client = Client::new(server);
    for model in 0..MODELS {
        let memory = 2 + model % 29;
        let body = format!(
            r#"{{"memory":"{memory}GiB","concurrency":1,"max_slots":1000000,"runtime":{{"command":{{"argv":["serve"]}}}}}}"#
        );
        client.send("PUT", &format!("/api/v1/models/model-{model}"), &body).good("a declaration");
    }
}

/// The fields read of an answer: few, because the client shares the machine with the server.
#[derive(Deserialize)]
struct Place<'a> {
    slot_id: &'a str,
    runner_id: Option<&'a str>,
}

/// Asks for a place. No slot has room for a second one, so that a new slot is decided.
fn ask(client: &mut Client, number: u32, world: &World) {
    let body = format!(r#"{{"model":"model-{}"}}"#, number % MODELS);
    let answer = client.send("POST", "/api/v1/scheduler/slots", &body).good("a place");
    let place: Place = serde_json::from_slice(&answer).expect("a place in a slot of its own");
    if place.runner_id.is_none() {
        world.unplaced.fetch_add(1, Ordering::Relaxed);
    }
    world.slots.lock().expect("no thread panics").push_back(place.slot_id.to_string());
}

/// Stops the oldest slots while there are too many.
fn stop_oldest(server: SocketAddr, kept: usize, world: &World) {
    let mut client = Client::new(server);
    while !world.done.load(Ordering::Relaxed) {
        let oldest = {
            let mut slots = world.slots.lock().expect("no thread panics");
            if slots.len() > kept { slots.pop_front() } else { None }
        };
        let Some(oldest) = oldest else {
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        client
            .send("DELETE", &format!("/api/v1/scheduler/slots/{oldest}"), "")
            .good("a slot that goes");
        world.stopped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Says now and then what the server takes.
fn watch(server: &Server, world: &World) {
    let started = Instant::now();
    while !world.done.load(Ordering::Relaxed) {
        let slots = world.slots.lock().expect("no thread panics").len();
        let (at, memory, disk) = (started.elapsed().as_secs(), server.memory(), server.disk());
        println!("  after {at:>3} s: server {memory} MiB, data {disk} MiB, {slots} slots");
        for _ in 0..40 {
            if !world.done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

fn ratios(decisions: &Times, during: &Times, [before, after]: [&Floor; 2]) {
    let mean = |of: fn(&Floor) -> f64| f64::midpoint(of(before), of(after));
    let quiet = mean(|floor| floor.commits.at(990));
    println!(
        "p99 decision / p99 commit: {:.1} quiet, {:.1} during the load (goal: 3)",
        decisions.at(990) / quiet,
        decisions.at(990) / during.at(990)
    );
    println!(
        "p50 decision / p50 commit: {:.1} quiet, {:.1} during the load",
        decisions.at(500) / mean(|floor| floor.commits.at(500)),
        decisions.at(500) / during.at(500)
    );
    println!(
        "decisions a second / commits a second: {:.2}",
        decisions.rate() / mean(|floor| floor.commits.rate())
    );
    println!(
        "p50 decision / p50 empty handler: {:.1}",
        decisions.at(500) / mean(|floor| floor.empty.at(500))
    );
}
