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
use plimsoll_core::ledger::Ledger;
use plimsoll_core::memo::Memo;
use plimsoll_core::policy::Policy;
use plimsoll_core::request::Request;

const CASES: [&str; 5] = [
    "decide-and-explain-all",
    "refuse-and-explain-all",
    "decide-asked-before",
    "decide-one-node-changed",
    "charge-and-free",
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
        other => panic!("unknown case: {other}"),
    }
}

fn charge_and_free(ledger: &mut Ledger, policy: &Policy, memo: &mut Memo, request: &Request) {
    let decision = memo.decide(ledger, policy, request);
    let placement = decision.placement().expect("8 GiB fit on some device");
    let _ = ledger.send(request, placement).expect("the commit admits what decide proposes");
    let _ = ledger.freed(&request.id).expect("the request was just charged");
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
