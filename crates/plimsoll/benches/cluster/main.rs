//! `plimsoll kube` on a large simulated cluster: the time until it is ready, its memory, and the
//! time from an event of the API server to the ledger. `cargo bench -p plimsoll --bench cluster`
//! runs it.
//!
//! Smaller: `PLIMSOLL_CLUSTER_NODES=500 PLIMSOLL_CLUSTER_PODS=5000 PLIMSOLL_CLUSTER_HOLDERS=1000
//! PLIMSOLL_CLUSTER_PENDING=100 PLIMSOLL_CLUSTER_RATE=500 PLIMSOLL_CLUSTER_SECONDS=20`. Another
//! build of the program: `PLIMSOLL_CLUSTER_PROGRAM=path`.

mod fleet;
mod latency;
mod program;

use std::thread;
use std::time::{Duration, Instant};

use fleet::Fleet;
use latency::Arrivals;
use plimsoll_testbed::simulated::SimulatedApiServer;
use program::Program;

/// The size of the cluster and of the load.
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
    /// Pods that hold a device.
    pub(crate) holders: usize,
    /// Pods that ask for a device and have no node.
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
        let said = std::env::var(format!("PLIMSOLL_CLUSTER_{name}")).ok();
        said.map_or(usual, |said| {
            said.parse().unwrap_or_else(|_| panic!("PLIMSOLL_CLUSTER_{name} is no number"))
        })
    };
    let plan = Plan {
        nodes: number("NODES", 5000),
        pods: number("PODS", 50_000),
        holders: number("HOLDERS", 10_000),
        pending: number("PENDING", 1000),
        rate: number("RATE", 500),
        seconds: number("SECONDS", 20),
    };
    let Plan { nodes, pods, holders, pending, .. } = plan;
    println!(
        "{nodes} nodes with 8 devices, {pods} pods: {holders} with a device, {pending} pending"
    );
    let server = SimulatedApiServer::start().expect("a server");
    let fleet = Fleet::create(&server, &plan);
    let program = Program::start(&server.url());
    println!("ready               {:>8.2} s", program.ready.as_secs_f64());
    println!("processor time      {:>8.2} s", program.processor_seconds());
    println!("memory              {:>8} MiB", program.peak_mebibytes());
    // Opinions about pending pods follow after it is ready.
    let judged = Instant::now();
    while program.pending_without_opinion() > 0 && judged.elapsed() < Duration::from_secs(120) {
        thread::sleep(Duration::from_millis(50));
    }
    println!("all pods judged     {:>8.2} s later", judged.elapsed().as_secs_f64());
    load(&plan, &server, fleet, &program);
}

/// Changes pods at a constant rate, while all kubelets renew their leases every ten seconds.
fn load(plan: &Plan, server: &SimulatedApiServer, mut fleet: Fleet, program: &Program) {
    let arrivals = Arrivals::listen(&program.address);
    let (start, before) = (Instant::now(), program.processor_seconds());
    let beats = plan.nodes / 10;
    let every = Duration::from_secs(1) / u32::try_from(plan.rate).expect("a rate");
    for at in 0..plan.rate * plan.seconds {
        let due = start + every * u32::try_from(at).expect("a number of events");
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if let Some(name) = fleet.change(server, at) {
            arrivals.sent(name);
        }
        for _ in 0..(at + 1) * beats / plan.rate - at * beats / plan.rate {
            fleet.beat(server);
        }
    }
    let took = start.elapsed().as_secs_f64();
    thread::sleep(Duration::from_secs(2));
    let busy = (program.processor_seconds() - before) / took;
    let times = arrivals.times();
    println!("events              {:>8.0} per second, and {beats} heartbeats", plan.rate);
    println!("watch to ledger     {times}");
    println!("processor           {:>8.0} % of one", busy * 100.0);
    println!("memory at the end   {:>8} MiB", program.peak_mebibytes());
}
