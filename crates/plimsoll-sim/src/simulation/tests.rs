//! Simulations of small clusters.

use super::*;
use crate::fixture;
use plimsoll_core::device::Capacity;
use plimsoll_core::request::Amount;

#[test]
fn four_of_five_fit_the_card_and_equal_refusals_share_one_search() {
    let cluster = fixture::time_sliced(400);
    let simulation = fixture::run(&cluster);
    assert_eq!((simulation.placed.len(), simulation.rejected.len()), (4, 396));
    let first = &simulation.rejected[0].advice;
    assert!(simulation.rejected.iter().all(|rejected| Arc::ptr_eq(&rejected.advice, first)));
    assert!(
        simulation.rejected[0]
            .decision
            .summary()
            .to_string()
            .contains("with 607 MiB free (7393 MiB short)")
    );
}

#[test]
fn a_gang_is_rejected_whole_and_told_who_is_in_its_way() {
    let mut cluster = fixture::gang();
    let simulation = fixture::run(&cluster);
    assert_eq!((simulation.placed.len(), simulation.rejected.len()), (0, 4));
    for rejected in &simulation.rejected {
        assert!(
            rejected.decision.summary().to_string().contains("gang default/training needs 4"),
            "{}",
            rejected.decision.summary().to_string()
        );
        let texts: Vec<&str> =
            rejected.advice.would_fit_if.iter().map(|remedy| &*remedy.text).collect();
        assert_eq!(texts, ["default/busy stopped (80.0 GiB)"]);
    }
    cluster.running.clear();
    assert_eq!(fixture::run(&cluster).placed.len(), 4);
}

#[test]
fn members_that_run_count_towards_the_minimum() {
    let mut cluster = fixture::gang();
    cluster.gangs[0].running = 1;
    assert_eq!(
        fixture::run(&cluster).placed.len(),
        3,
        "three of four are enough beside the running member"
    );
}

#[test]
fn memory_on_its_way_back_is_promised_and_not_granted() {
    let cluster = fixture::releasing();
    let simulation = fixture::run(&cluster);
    let [rejected] = &simulation.rejected[..] else { panic!("one is rejected") };
    let promised = rejected.advice.promised.as_ref().expect("the release will make room");
    assert_eq!(promised.devices, [["node/gpu-0"]]);
    assert_eq!(promised.promise.after[0].to_string(), "default/leaving");
}

fn promised(cluster: &Cluster, advising: &Advising) -> Vec<bool> {
    let simulation = simulate(cluster, &Policy::default(), advising, &mut |_| {});
    simulation.rejected.iter().map(|rejected| rejected.advice.promised.is_some()).collect()
}

#[test]
fn what_is_promised_to_one_is_not_promised_to_the_next() {
    let mut cluster = fixture::releasing();
    cluster.pending.push(fixture::pending("larger", Amount::bytes(Bytes::gib(60))));
    assert_eq!(promised(&cluster, &Advising::all()), [true, false]);
    let larger = Advising::only(RequestId::new("default", "larger"), &Policy::default());
    assert_eq!(promised(&cluster, &larger), [true, false], "whichever pod is advised");
    let equal = |i: usize| fixture::pending(&format!("equal-{i}"), Amount::bytes(Bytes::gib(30)));
    cluster.pending = (0..4).map(equal).collect();
    assert_eq!(promised(&cluster, &Advising::all()), [true, true, false, false]);
}

#[test]
fn memory_promised_to_a_gang_is_not_promised_again() {
    let mut cluster = fixture::gang();
    cluster.running[0].stage =
        plimsoll_core::charge::Stage::Releasing { since: Default::default() };
    cluster.pending.push(fixture::pending("late", Amount::Whole));
    let simulation = fixture::run(&cluster);
    let promised: Vec<bool> =
        simulation.rejected.iter().map(|r| r.advice.promised.is_some()).collect();
    assert_eq!(promised, [true, true, true, true, false]);
}

#[test]
fn a_rejection_that_is_not_about_memory_names_the_holder_too() {
    let mut cluster = fixture::gang();
    cluster.gangs.clear();
    cluster.nodes.truncate(1);
    cluster.nodes[0].node.devices.truncate(1);
    cluster.nodes[0].node.devices[0].memory.total =
        Capacity::Unknown { missing: "its memory".into() };
    cluster.pending = vec![fixture::pending("plain", Amount::Whole)];
    let simulation = fixture::run(&cluster);
    let sentence = simulation.rejected[0].decision.summary().to_string();
    assert!(sentence.contains("is held by default/busy"), "{sentence}");
}

#[test]
fn memory_that_is_declared_foreign_is_not_free() {
    let mut cluster = fixture::time_sliced(4);
    cluster.nodes[0].foreign.push((0, Bytes::mib(1000)));
    assert_eq!(fixture::run(&cluster).placed.len(), 3);
}

#[test]
fn a_pod_that_is_listed_twice_is_counted_once() {
    let mut cluster = fixture::time_sliced(1);
    cluster.pending.push(cluster.pending[0].clone());
    let simulation = fixture::run(&cluster);
    assert_eq!((simulation.placed.len(), simulation.uncounted.len()), (1, 1));
}

#[test]
fn a_pod_on_a_node_that_was_not_read_is_named() {
    let mut cluster = fixture::releasing();
    cluster.running[0].node = "elsewhere".into();
    let simulation = fixture::run(&cluster);
    assert_eq!(simulation.uncounted[0].why.to_string(), "not counted: there is no node elsewhere");
}
