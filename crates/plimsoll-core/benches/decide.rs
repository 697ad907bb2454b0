//! How long a decision takes, by the size of the fleet: with everything judged anew, and with only what changed.
//!
//! `cargo bench -p plimsoll-core --bench decide`. Compare the rows of one run with each other: the columns of one
//! machine say little about another.

mod fleet;

use divan::Bencher;
use plimsoll_core::decide::decide;
use plimsoll_core::digest::digest;
use plimsoll_core::memo::Memo;
use plimsoll_core::policy::Policy;
use plimsoll_core::summary;

const NODES: [usize; 3] = [100, 1000, 10_000];

fn main() {
    divan::main();
}

/// Every device of every node judged, with its verdict kept: decide and explain everything, for a spec never seen before.
#[divan::bench(args = NODES)]
fn decide_and_explain_all(bencher: Bencher, nodes: usize) {
    let (ledger, policy, request) = (fleet::fleet(nodes), Policy::pack(), fleet::request("new", 8));
    bencher.bench_local(|| decide(&ledger, &policy, &request));
}

/// The same for a request that fits nowhere: the full explanation of a refusal.
#[divan::bench(args = NODES)]
fn refuse_and_explain_all(bencher: Bencher, nodes: usize) {
    let (ledger, policy, request) =
        (fleet::fleet(nodes), Policy::pack(), fleet::request("new", 40));
    bencher.bench_local(|| decide(&ledger, &policy, &request));
}

/// A decision with its whole table for a spec that was asked before: nothing changed since.
#[divan::bench(args = NODES)]
fn decide_asked_before(bencher: Bencher, nodes: usize) {
    let (ledger, policy, request) =
        (fleet::fleet(nodes), Policy::pack(), fleet::request("again", 8));
    let mut memo = Memo::default();
    let _ = memo.decide(&ledger, &policy, &request);
    bencher.bench_local(|| memo.decide(&ledger, &policy, &request));
}

/// The life of a placement: decide, charge, give back; the decision judges the one node that changed.
#[divan::bench(args = NODES)]
fn decide_charge_and_free(bencher: Bencher, nodes: usize) {
    let (mut ledger, policy) = (fleet::fleet(nodes), Policy::pack());
    let mut memo = Memo::default();
    let request = fleet::request("coming-and-going", 8);
    bencher.bench_local(|| {
        let decision = memo.decide(&ledger, &policy, &request);
        let place = &decision.place().expect("8 GiB fit somewhere").place;
        let _ = ledger.send(&request, place).expect("what decide proposes the commit admits");
        let _ = ledger.freed(&request.id).expect("it was just charged");
    });
}

/// The text of a refusal: counts over all devices and the nearest miss.
#[divan::bench(args = NODES)]
fn sentence_of_a_refusal(bencher: Bencher, nodes: usize) {
    let (ledger, policy) = (fleet::fleet(nodes), Policy::pack());
    let decision = decide(&ledger, &policy, &fleet::request("new", 40));
    bencher.bench_local(|| summary::sentence(&decision));
}

/// The digest of all that a decision saw, as the journal keeps it.
#[divan::bench(args = NODES)]
fn digest_of_a_decision(bencher: Bencher, nodes: usize) {
    let (ledger, policy) = (fleet::fleet(nodes), Policy::pack());
    let decision = decide(&ledger, &policy, &fleet::request("new", 8));
    bencher.bench_local(|| digest(&decision));
}
