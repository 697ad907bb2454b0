//! Counts the instructions of a decision: repeatable on any machine, however busy.
//!
//! `cargo bench -p plimsoll-core --bench instructions`. The bench runs itself under valgrind's
//! callgrind, once for each case and size of fleet, and counts only what happens inside `measured`.
//! Without valgrind it prints a notice and exits.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench reads its arguments and starts valgrind; the core does not"
)]

mod fleet;

use std::process::Command;

use plimsoll_core::decide::decide;
use plimsoll_core::device::{Device, Node, Source};
use plimsoll_core::event::Settings;
use plimsoll_core::fit::Placement;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::memo::Memo;
use plimsoll_core::policy::Policy;
use plimsoll_core::queue::{PendingRequest, QueueRows};
use plimsoll_core::request::{Eviction, Request};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::snapshot::{self, Snapshot};
use plimsoll_core::units::{Bytes, Millis, Timespan};

const CASES: [&str; 6] = [
    "decide-and-explain-all",
    "refuse-and-explain-all",
    "decide-asked-before",
    "decide-one-node-changed",
    "charge-and-free",
    "plan-behind-1000-pending",
];
const NODES: [usize; 3] = [10, 100, 1000];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == "--case") {
        Some(at) => run(&arguments[at + 1], arguments[at + 2].parse().expect("a number of nodes")),
        None => report(),
    }
}

/// Runs the code whose instructions are counted; callgrind collects only inside this function.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> T {
    std::hint::black_box(work())
}

fn run(case: &str, nodes: usize) {
    let mut ledger = fleet::fleet(nodes);
    let policy = Policy::pack();
    let mut memo = Memo::default();
    let request = fleet::request("new", if case == "refuse-and-explain-all" { 40 } else { 8 });
    match case {
        "decide-and-explain-all" => drop(measured(|| decide(&ledger, &policy, &request))),
        "refuse-and-explain-all" => {
            let decision = measured(|| decide(&ledger, &policy, &request));
            assert!(decision.summary().to_string().contains("short of memory"));
        }
        "decide-asked-before" => {
            let _ = memo.decide(&ledger, &policy, &request);
            drop(measured(|| memo.decide(&ledger, &policy, &request)));
        }
        "decide-one-node-changed" => {
            let _ = memo.decide(&ledger, &policy, &request);
            charge_and_free(&mut ledger, &policy, &mut memo, &request);
            drop(measured(|| memo.decide(&ledger, &policy, &request)));
        }
        "charge-and-free" => {
            let _ = memo.decide(&ledger, &policy, &request);
            measured(|| charge_and_free(&mut ledger, &policy, &mut memo, &request));
        }
        "plan-behind-1000-pending" => {
            let scheduler = with_long_queue(&ledger);
            let request = evicting(fleet::request("new", 20));
            let plan = measured(|| scheduler.plan_room(&request, Millis(1)));
            assert!(plan.is_some_and(|plan| plan.placement.node == "small"));
        }
        other => panic!("unknown case: {other}"),
    }
}

fn charge_and_free(ledger: &mut Ledger, policy: &Policy, memo: &mut Memo, request: &Request) {
    let decision = memo.decide(ledger, policy, request);
    let placement = decision.placement().expect("8 GiB fit on some device");
    let _ = ledger.send(request, placement).expect("the commit admits what decide proposes");
    let _ = ledger.freed(&request.id).expect("the request was just charged");
}

/// Adds a node where the holder of 20 GiB can be retired, and 1000 pending requests, 100 of each of
/// ten kinds, that no retirement helps.
fn with_long_queue(ledger: &Ledger) -> Scheduler {
    let mut ledger = ledger.clone();
    let mut small = Node::new("small");
    small.devices.push(Device::new("NVIDIA", Bytes::gib(24), Source::Declared));
    let _ = ledger.put_node(small);
    let holder = evicting(fleet::request("holder", 20));
    let place = Placement { node: "small".into(), shape: 0, picks: vec![vec![0]] };
    let _ = ledger.send(&holder, &place).expect("the device is idle");
    let pending = (0..1000).map(|at| {
        let request = evicting(fleet::request(&format!("pending-{at:04}"), 40 + at % 10));
        (at, PendingRequest::new(Millis(0), request))
    });
    let queue = QueueRows {
        pending: pending.collect(),
        failures: Vec::new(),
        evicted: Vec::new(),
        arrivals: 1000,
    };
    let settings = Settings::default();
    let snapshot =
        Snapshot { version: snapshot::VERSION, settings, ledger: ledger.to_rows(), queue };
    Scheduler::restore(snapshot).expect("the rows agree")
}

fn evicting(mut request: Request) -> Request {
    request.terms.eviction = Eviction::Idle;
    request.terms.idle_limit = Some(Timespan::seconds(60));
    request
}

fn report() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return println!("instructions: skipped, valgrind is not installed");
    }
    println!("{:<28}{:>16}{:>16}{:>16}", "instructions by nodes", NODES[0], NODES[1], NODES[2]);
    for case in CASES {
        let counts: Vec<String> = NODES.iter().map(|nodes| count(case, *nodes)).collect();
        println!("{case:<28}{:>16}{:>16}{:>16}", counts[0], counts[1], counts[2]);
    }
}

fn count(case: &str, nodes: usize) -> String {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--toggle-collect=*instructions::measured*",
        ])
        .arg(program)
        .args(["--case", case, &nodes.to_string()])
        .output()
        .expect("valgrind starts");
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split("Collected :").nth(1));
    collected.map_or_else(|| "failed".to_string(), |count| count.trim().to_string())
}
