//! The cost of fairness: the memory that is held, and that serves requests, under the streams of
//! `fairness`, with and without requests that displace work.
//!
//! `cargo test -p plimsoll-slots --test desk utilisation -- --nocapture` prints the table of
//! `docs/performance.md`. `PLIMSOLL_TRIES` makes the streams longer.

use plimsoll_core::charge::{Activity, Charge};
use plimsoll_core::policy::Policy;
use plimsoll_core::units::{Bytes, Timespan};
use plimsoll_slots::desk::DeskConfig;

use super::fairness::{STEP, Stream};
use super::world::{GIB, World};

const GPUS: [u64; 2] = [80, 80];
/// Models that fill the fleet.
const SMALL: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
/// The time between two requests for a whole GPU.
const LARGE_EVERY: u64 = 60_000;

/// Loads of about 30, 60 and 95 percent: the clients, and their pause after each use of a second.
const LOADS: [(u64, usize, u64); 3] = [(30, 4, 700), (60, 6, 300), (95, 16, 50)];

/// The eviction that the large model declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Large {
    /// It displaces nothing, and gets no promise of memory in use.
    Never,
    Idle,
}

/// The result of one stream: sums over all steps.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    steps: u64,
    held: u64,
    serving: u64,
    small: usize,
    large: usize,
}

impl Measured {
    fn percent(self, bytes: u64) -> f64 {
        let all = GPUS.iter().sum::<u64>() * GIB;
        100.0 * bytes as f64 / (self.steps * all) as f64
    }

    /// Adds the memory of all slots, and of those with a request in flight.
    fn add(&mut self, world: &World) {
        self.steps += 1;
        for (_, held) in world.view().scheduler().ledger().holdings() {
            let bytes: u64 = held.charges.iter().filter_map(Charge::bytes).map(Bytes::get).sum();
            self.held += bytes;
            if matches!(held.activity, Activity::Active { .. }) && !held.stage.is_releasing() {
                self.serving += bytes;
            }
        }
    }
}

fn measure(policy: Policy, clients: usize, pause: u64, large: Large, length: u64) -> Measured {
    let config = DeskConfig::default();
    let mut world = World::with_residency(policy, config, Timespan::seconds(30));
    SMALL.iter().for_each(|name| world.model(name, "memory: 20GiB"));
    let eviction = match large {
        Large::Never => "never",
        Large::Idle => "idle",
    };
    world.model("large", &format!("memory: 80GiB\neviction: {eviction}\nmax_slots: 1"));
    world.runner("r", &GPUS);
    let mut stream = Stream::new(world, &SMALL, clients, 1_000, pause);
    stream.run(20_000);
    let (mut measured, began) = (Measured::default(), stream.world.now);
    let small_before = stream.served();
    let mut open: Option<(plimsoll_slots::desk::ReservationId, Option<u64>)> = None;
    while stream.world.now < began + length {
        let now = stream.world.now;
        match open {
            None if (now - began).is_multiple_of(LARGE_EVERY) => {
                open = Some((stream.world.reserve("large"), None));
            }
            Some((id, None)) if stream.world.is_ready(id) => open = Some((id, Some(now))),
            Some((id, Some(since))) if since + 1_000 <= now => {
                stream.world.release(id);
                measured.large += 1;
                open = None;
            }
            _ => {}
        }
        stream.step();
        measured.add(&stream.world);
    }
    Measured { small: stream.served() - small_before, ..measured }
}

#[test]
fn retirement_leaves_the_held_memory_within_three_percent() {
    let tries = std::env::var("PLIMSOLL_TRIES").ok().and_then(|tries| tries.parse::<u64>().ok());
    let length = 60_000 * tries.unwrap_or(1);
    assert!(LARGE_EVERY.is_multiple_of(STEP));
    println!("load policy displaces | held serving | small large served");
    for (load, clients, pause) in LOADS {
        for policy in [Policy::pack(), Policy::spread()] {
            let name = policy.name.to_string();
            let [never, idle] = [Large::Never, Large::Idle]
                .map(|large| measure(policy.clone(), clients, pause, large, length));
            for (what, one) in [("nothing", never), ("idle", idle)] {
                let (held, serving) = (one.percent(one.held), one.percent(one.serving));
                println!(
                    "{load} {name} {what} | {held:.1} {serving:.1} | {} {}",
                    one.small, one.large
                );
            }
            assert!(idle.large > 0, "the large model is served");
            assert!(
                idle.held * 100 >= never.held * 97,
                "load {load}, {name}: {idle:?} after {never:?}"
            );
        }
    }
}
