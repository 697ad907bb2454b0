//! Times decisions by size of fleet, for all nodes judged and for only the changed ones.
//!
//! `cargo bench -p plimsoll-core --bench decide`. Compare rows of one run with each other; numbers
//! of different machines do not compare.

mod fleet;

use divan::Bencher;
use plimsoll_core::decide::decide;
use plimsoll_core::digest::digest;
use plimsoll_core::memo::Memo;
use plimsoll_core::policy::Policy;

const NODES: [usize; 3] = [100, 1000, 10_000];

fn main() {
    divan::main();
}

/// Decides a spec that was never seen before: judges every device of every node and keeps the
/// verdicts.
#[divan::bench(args = NODES)]
fn decide_and_explain_all(bencher: Bencher, nodes: usize) {
    let ledger = fleet::fleet(nodes);
    let policy = Policy::pack();
    let request = fleet::request("new", 8);
    bencher.bench_local(|| decide(&ledger, &policy, &request));
}

/// Decides a request that fits nowhere, with its full explanation.
#[divan::bench(args = NODES)]
fn refuse_and_explain_all(bencher: Bencher, nodes: usize) {
    let ledger = fleet::fleet(nodes);
    let policy = Policy::pack();
    let request = fleet::request("new", 40);
    bencher.bench_local(|| decide(&ledger, &policy, &request));
}

/// Decides a spec that was decided before, on an unchanged ledger.
#[divan::bench(args = NODES)]
fn decide_asked_before(bencher: Bencher, nodes: usize) {
    let ledger = fleet::fleet(nodes);
    let policy = Policy::pack();
    let request = fleet::request("again", 8);
    let mut memo = Memo::default();
    let _ = memo.decide(&ledger, &policy, &request);
    bencher.bench_local(|| memo.decide(&ledger, &policy, &request));
}

/// Decides, charges and releases; the decision judges the one node that changed.
#[divan::bench(args = NODES)]
fn decide_charge_and_free(bencher: Bencher, nodes: usize) {
    let mut ledger = fleet::fleet(nodes);
    let policy = Policy::pack();
    let mut memo = Memo::default();
    let request = fleet::request("coming-and-going", 8);
    bencher.bench_local(|| {
        let decision = memo.decide(&ledger, &policy, &request);
        let place = &decision.chosen().expect("8 GiB fit on some device").placement;
        let _ = ledger.send(&request, place).expect("the commit admits what decide proposes");
        let _ = ledger.freed(&request.id).expect("the request was just charged");
    });
}

/// Renders the summary of a rejection: counts over all devices and the nearest miss.
#[divan::bench(args = NODES)]
fn summarise_a_rejection(bencher: Bencher, nodes: usize) {
    let ledger = fleet::fleet(nodes);
    let policy = Policy::pack();
    let decision = decide(&ledger, &policy, &fleet::request("new", 40));
    bencher.bench_local(|| decision.summary().to_string());
}

/// Computes the digest of everything a decision read, as the journal records it.
#[divan::bench(args = NODES)]
fn digest_of_a_decision(bencher: Bencher, nodes: usize) {
    let ledger = fleet::fleet(nodes);
    let policy = Policy::pack();
    let decision = decide(&ledger, &policy, &fleet::request("new", 8));
    bencher.bench_local(|| digest(&decision));
}
