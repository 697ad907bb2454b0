//! Cards of pods without annotations, and the states of pods.

use plimsoll_core::charge::{Booked, Stage};
use plimsoll_core::units::MilliCpu;

use super::*;

fn plain(name: &str, node: &str, gpus: u32) -> String {
    let limits =
        format!("containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]");
    bound(name, node, "", &limits)
}

#[test]
fn on_exclusive_cards_a_holder_takes_the_first_free_one() {
    let text = labelled("gpu", 4, 32_000, 1) + &plain("a", "gpu", 2) + &plain("b", "gpu", 1);
    let cluster = means(&text);
    let on = |name| {
        holding(&cluster, name).charges.iter().flat_map(|one| one.on.clone()).collect::<Vec<_>>()
    };
    assert_eq!((on("a"), on("b")), (vec![0, 1], vec![2]));
    assert_eq!(
        holding(&cluster, "b").charges[0].amount,
        Booked::Whole { bytes: Some(Bytes::mib(32_000)) }
    );
}

#[test]
fn more_holders_than_cards_are_somewhere_and_show_as_a_breach() {
    let text = labelled("gpu", 2, 32_000, 1) + &plain("a", "gpu", 2) + &plain("b", "gpu", 1);
    let cluster = means(&text);
    assert_eq!(charged(&cluster, "b"), (vec![0, 1], 32_000));
    assert_eq!(plimsoll_core::breach::audit(&ledger(&cluster)).len(), 1);
}

#[test]
fn a_card_goes_on_from_an_init_container_to_the_next() {
    let gpu =
        |name: &str| format!("{{name: {name}, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}");
    let spec =
        format!("initContainers: [{}], containers: [{}, {}]", gpu("init"), gpu("a"), gpu("b"));
    let cluster = means(&(labelled("gpu", 4, 32_000, 1) + &bound("p", "gpu", "", &spec)));
    let charges = &holding(&cluster, "p").charges;
    let on: Vec<&[u16]> = charges.iter().map(|one| &*one.on).collect();
    assert_eq!(on, [&[0][..], &[1][..]]);
    let names: Vec<&str> = charges[0].parts.iter().map(|part| &*part.container).collect();
    assert_eq!((names, charges[0].slots), (vec!["init", "a"], 1));
}

#[test]
fn on_cards_that_hami_shares_a_pod_without_annotation_is_whole_and_anywhere() {
    let one = registered("gpu", &[("GPU-a", 40_960)]) + &plain("p", "gpu", 1);
    assert_eq!(charged(&means(&one), "p"), (vec![0], 40_960));
    let two = registered("gpu", &[("GPU-a", 40_960), ("GPU-b", 40_960)]) + &plain("p", "gpu", 1);
    assert_eq!(charged(&means(&two), "p"), (vec![0, 1], 40_960));
}

#[test]
fn containers_that_may_be_on_different_cards_are_not_taken_for_one_sum() {
    let spec = format!("containers: [{}, {}]", gpumem("a", 30_000), gpumem("b", 30_000));
    let text =
        registered("gpu", &[("GPU-a", 40_960), ("GPU-b", 40_960)]) + &bound("p", "gpu", "", &spec);
    let cluster = means(&text);
    let charges: Vec<(&[u16], u64)> =
        holding(&cluster, "p").charges.iter().map(|one| (&*one.on, mib(one))).collect();
    assert_eq!(charges, [(&[0, 1][..], 30_000), (&[0, 1][..], 30_000)]);
    assert_eq!(plimsoll_core::breach::audit(&ledger(&cluster)), []);
}

#[test]
fn terminating_pods_are_releasing_and_finished_ones_hold_nothing() {
    let going = bound(
        "going",
        "gpu",
        "deletionTimestamp: \"2026-01-01T00:00:00Z\"",
        "containers: [{name: main}]",
    );
    let done = plain("done", "gpu", 1) + "status: {phase: Succeeded}\n";
    let never =
        pod("never", "deletionTimestamp: \"2026-01-01T00:00:00Z\"", "containers: [{name: main}]");
    let cluster = means(
        &(labelled("gpu", 1, 32_000, 1) + &plain("runs", "gpu", 1) + &going + &done + &never),
    );
    assert_eq!(
        holding(&cluster, "going").stage,
        Stage::Releasing { since: plimsoll_core::units::Millis(0) }
    );
    let seen = &cluster.understood;
    assert_eq!((seen.running, seen.terminating, seen.finished, seen.pending), (1, 1, 2, 0));
}

#[test]
fn a_pod_on_a_node_that_was_not_read_is_not_counted_and_said() {
    let text = labelled("gpu", 1, 32_000, 1) + &plain("a", "lost", 1) + &plain("b", "lost", 1);
    let cluster = means(&text);
    assert_eq!(cluster.running.len(), 0);
    let said = "default/a and 1 more pods are on node lost, which was not read; their charges are not counted";
    assert_eq!(message(&cluster, "node-unknown"), said);
}

#[test]
fn every_pod_holds_a_part_of_its_node() {
    let spec = "containers: [{name: main, resources: {requests: {cpu: 1500m, memory: 2Gi}}}]";
    let cluster = means(&(labelled("gpu", 1, 32_000, 1) + &bound("p", "gpu", "", spec)));
    let held = holding(&cluster, "p").resources.clone();
    assert_eq!((held.cpu, held.memory, held.pods), (MilliCpu(1500), Bytes::gib(2), 1));
    assert_eq!(holding(&cluster, "p").charges, []);
}

#[test]
fn a_uid_tells_a_pod_from_its_namesake() {
    let cluster = means(
        &(labelled("gpu", 1, 32_000, 1)
            + &bound("p", "gpu", "namespace: a, uid: u1", "containers: []")),
    );
    let id = &holding(&cluster, "p").request;
    assert_eq!((&*id.account, &*id.name, &*id.uid), ("a", "p", "u1"));
}

#[test]
fn mig_instances_that_run_take_the_first_of_their_kind() {
    let node = "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: gpu\n  labels:\n    nvidia.com/mig.strategy: mixed\n    \
                nvidia.com/gpu.count: \"1\"\n    nvidia.com/gpu.memory: \"40960\"\n    nvidia.com/mig-1g.5gb.count: \"2\"\n    \
                nvidia.com/mig-1g.5gb.memory: \"4864\"\n    nvidia.com/mig-1g.5gb.replicas: \"1\"\nstatus: {capacity: {nvidia.com/mig-1g.5gb: 2}, \
                allocatable: {nvidia.com/mig-1g.5gb: 2}}\n";
    let slice = |name: &str| {
        bound(
            name,
            "gpu",
            "",
            "containers: [{name: main, resources: {limits: {nvidia.com/mig-1g.5gb: 1}}}]",
        )
    };
    let cluster = means(&(node.to_owned() + &slice("a") + &slice("b")));
    let kinds: Vec<&str> =
        cluster.nodes[0].node.devices.iter().map(|device| &*device.kind).collect();
    let (a, b) = (charged(&cluster, "a"), charged(&cluster, "b"));
    assert_eq!((kinds[usize::from(a.0[0])], a.1), ("nvidia.com/mig-1g.5gb", 4864));
    assert_ne!(a.0, b.0);
}
