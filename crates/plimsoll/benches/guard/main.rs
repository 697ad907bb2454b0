//! The time that the guard adds to a binding: `plimsoll kube --guard` on a simulated API server,
//! and reviews at a constant rate, as an API server sends them. `cargo bench -p plimsoll --bench
//! guard` runs it.
//!
//! Each admitted binding is written, so that the watch shows it, and its pod ends some seconds
//! later. Other sizes: `PLIMSOLL_GUARD_NODES=500 PLIMSOLL_GUARD_HOLDERS=2000
//! PLIMSOLL_GUARD_PENDING=200 PLIMSOLL_GUARD_RATE=200 PLIMSOLL_GUARD_SECONDS=30`.

mod fleet;
mod program;
mod reviews;

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use fleet::Fleet;
use plimsoll_testbed::simulated::SimulatedApiServer;
use program::Program;
use reviews::{Outcome, Reviews};

/// Threads that send reviews: an API server sends them in parallel too.
const SENDERS: usize = 16;

/// The size of the cluster and of the load.
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    /// Pods that hold a card all the time.
    pub(crate) holders: usize,
    /// Pods that fit nowhere, and are judged again and again.
    pub(crate) pending: usize,
    pub(crate) rate: usize,
    pub(crate) seconds: usize,
}

fn main() {
    // `cargo test` runs benches too; it gets by without this one.
    if !std::env::args().any(|argument| argument == "--bench") {
        return println!("nothing is measured without --bench");
    }
    let number = |name: &str, usual| {
        let said = std::env::var(format!("PLIMSOLL_GUARD_{name}")).ok();
        said.map_or(usual, |said| {
            said.parse().unwrap_or_else(|_| panic!("PLIMSOLL_GUARD_{name} is no number"))
        })
    };
    let plan = Plan {
        nodes: number("NODES", 500),
        holders: number("HOLDERS", 2000),
        pending: number("PENDING", 200),
        rate: number("RATE", 200),
        seconds: number("SECONDS", 30),
    };
    println!(
        "{} nodes with 8 cards, {} holders, {} pods that fit nowhere, {} bindings per second",
        plan.nodes, plan.holders, plan.pending, plan.rate
    );
    let server = SimulatedApiServer::start().expect("a server");
    let fleet = Fleet::create(&server, &plan);
    let program = Program::start(&server);
    let reviews = program.reviews(&server);
    // The first reviews open connections and fill the memo.
    drive(&plan, &server, &fleet, &reviews, 0, plan.rate * 3);
    let before = program.histogram();
    let (start, busy) = (Instant::now(), program.processor_seconds());
    let times = drive(&plan, &server, &fleet, &reviews, plan.rate * 3, plan.rate * plan.seconds);
    let took = start.elapsed().as_secs_f64();
    let busy = (program.processor_seconds() - busy) / took;
    program.histogram().since(&before).print();
    times.print(took);
    println!("processor           {:>8.0} % of one", busy * 100.0);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load of the machine {:>8}", load.split(' ').next().unwrap_or_default());
}

/// The times of reviews as their sender sees them, and their outcomes.
struct Times {
    sorted: Vec<Duration>,
    admitted: usize,
    /// A message of a review that was not admitted.
    denied: Option<String>,
}

impl Times {
    fn print(&self, took: f64) {
        let at = |percent: usize| {
            let position = self.sorted.len().saturating_sub(1) * percent / 100;
            self.sorted.get(position).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
        };
        println!(
            "with TLS and network{:>8.2} ms median, {:.2} ms p99, {:.2} ms at most",
            at(50),
            at(99),
            at(100)
        );
        println!(
            "reviews             {:>8} in {took:.1} s, {} admitted",
            self.sorted.len(),
            self.admitted
        );
        self.denied.iter().for_each(|message| println!("not admitted: {message}"));
    }
}

/// Sends reviews at their times, whether or not earlier ones were answered.
fn drive(
    plan: &Plan,
    server: &SimulatedApiServer,
    fleet: &Fleet,
    reviews: &Reviews,
    first: usize,
    count: usize,
) -> Times {
    let start = Instant::now();
    let every = Duration::from_secs(1) / u32::try_from(plan.rate).expect("a rate");
    let times = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let times = &times;
            scope.spawn(move || {
                for at in (sender..count).step_by(SENDERS) {
                    let due = start + every * u32::try_from(at).expect("a number of reviews");
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    fleet.turn(server, first + at);
                    let sent = Instant::now();
                    let outcome = reviews.bind(&fleet.review(first + at));
                    let took = sent.elapsed();
                    if let Outcome::Admitted(annotations) = &outcome {
                        fleet.bound(server, first + at, annotations);
                    }
                    times.lock().expect("no panic").push((took, outcome));
                }
            });
        }
    });
    let times = times.into_inner().expect("no panic");
    let admitted =
        times.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Admitted(_))).count();
    let mut sorted: Vec<Duration> = times.iter().map(|(took, _)| *took).collect();
    sorted.sort_unstable();
    let denied = times.into_iter().find_map(|(_, outcome)| match outcome {
        Outcome::Denied(message) => Some(message),
        Outcome::Admitted(_) => None,
    });
    Times { sorted, admitted, denied }
}
