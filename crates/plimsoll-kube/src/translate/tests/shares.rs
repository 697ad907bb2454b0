//! KAI's shares: what they ask, and which card they are on.

use plimsoll_core::charge::Booked;
use plimsoll_core::request::Amount;
use plimsoll_core::units::Portion;

use super::*;

const MAIN: &str = "containers: [{name: main}]";

fn asking(annotations: &str, spec: &str) -> Cluster {
    means(&pod("p", &format!("annotations: {{{annotations}}}"), spec))
}

fn share(name: &str, node: &str, group: &str, fraction: &str) -> String {
    let metadata = format!(
        "labels: {{runai-gpu-group: {group}}}, annotations: {{gpu-fraction: \"{fraction}\"}}"
    );
    bound(name, node, &metadata, MAIN)
}

fn reservation(node: &str, group: &str, uuid: &str) -> String {
    let metadata = format!(
        "namespace: kai-resource-reservation, labels: {{runai-gpu-group: {group}}}, \
         annotations: {{run.ai/reserve_for_gpu_index: \"{uuid}\"}}"
    );
    let limits = "containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]";
    bound(&format!("gpu-reservation-{node}-{group}"), node, &metadata, limits)
}

#[test]
fn a_share_goes_to_the_container_that_is_named_or_to_the_first() {
    let spec = "initContainers: [{name: init}], containers: [{name: main}, {name: side}]";
    for (annotations, wanted, count, amount) in [
        ("gpu-memory: \"8k\"", "main", 1, Amount::bytes(Bytes::mib(8000))),
        ("gpu-fraction: \"0.5\"", "main", 1, Amount::Portion(Portion::new(1, 2).unwrap())),
        (
            "gpu-fraction: \"0.25\", gpu-fraction-num-devices: \"2\", gpu-fraction-container-name: side",
            "side",
            2,
            Amount::Portion(Portion::new(1, 4).unwrap()),
        ),
    ] {
        let cluster = asking(annotations, spec);
        for container in containers(&cluster) {
            match &container.needs[..] {
                [need] if &*container.name == wanted => {
                    assert_eq!((&*need.kind, need.count.get(), need.slots), ("NVIDIA", count, 0));
                    assert_eq!(need.amount, amount);
                }
                needs => assert!(needs.is_empty() && &*container.name != wanted, "{annotations}"),
            }
        }
    }
}

#[test]
fn a_share_that_cannot_be_read_is_rejected_with_its_annotation() {
    for (annotations, field, said) in [
        ("gpu-memory: \"-1\"", "gpu-memory", "-1"),
        ("gpu-memory: 8000MB", "gpu-memory", "8000MB"),
        ("gpu-memory: \"\"", "gpu-memory", "empty"),
        ("gpu-memory: 3Gi", "gpu-memory", "write 3072"),
        ("gpu-fraction: \"1.5\"", "gpu-fraction", "1.5"),
        ("gpu-fraction-num-devices: \"2\"", "gpu-fraction-num-devices", "without gpu-memory"),
        (
            "gpu-memory: \"1\", gpu-fraction-num-devices: \"70000\"",
            "gpu-fraction-num-devices",
            "70000",
        ),
        (
            "gpu-memory: \"1\", gpu-fraction-container-name: absent",
            "gpu-fraction-container-name",
            "absent",
        ),
    ] {
        let cluster = asking(annotations, MAIN);
        let misuse = misuse(&cluster);
        assert_eq!(*misuse.fields, [format!("metadata.annotations[\"{field}\"]")], "{annotations}");
        assert!(misuse.problem.contains(said), "{}", misuse.problem);
    }
}

#[test]
fn a_share_beside_instances_by_annotation_is_rejected_with_both() {
    let cluster = asking("gpu-memory: \"1\", nvidia.com/mig-1g.5gb: \"1\"", MAIN);
    assert_eq!(
        *misuse(&cluster).fields,
        ["gpu-memory", "nvidia.com/mig-1g.5gb"]
            .map(|key| format!("metadata.annotations[\"{key}\"]"))
    );
}

#[test]
fn two_halves_are_on_each_of_eight_cards() {
    // Acceptance B8.
    let half = |at| pod(&format!("half-{at}"), "annotations: {gpu-fraction: \"0.5\"}", MAIN);
    let pods: String = (0..17).map(half).collect();
    assert_eq!(placed(&means(&(labelled("gpu", 8, 32_607, 1) + &pods))).0, 16);
}

#[test]
fn reservation_pods_hold_nothing_and_tell_the_card() {
    // Acceptance B19.
    let node = registered("gpu", &[("GPU-a", 40_960), ("GPU-b", 40_960)]);
    let text = node + &reservation("gpu", "g1", "GPU-b") + &share("p", "gpu", "g1", "0.5");
    let cluster = means(&text);
    assert_eq!((cluster.running.len(), cluster.pending.len()), (1, 0));
    assert_eq!(charged(&cluster, "p"), (vec![1], 20_480));
    assert_eq!(holding(&cluster, "p").charges[0].slots, 0);
}

#[test]
fn groups_on_cards_known_by_their_place_have_a_card_each() {
    let pods = [
        share("a", "gpu", "g1", "0.5"),
        share("b", "gpu", "g2", "0.25"),
        share("c", "gpu", "g1", "0.5"),
        bound(
            "whole",
            "gpu",
            "",
            "containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]",
        ),
    ];
    let cluster = means(
        &(labelled("gpu", 4, 32_000, 1) + &reservation("gpu", "g2", "GPU-x") + &pods.concat()),
    );
    assert_eq!(charged(&cluster, "a"), (vec![0], 16_000));
    assert_eq!(charged(&cluster, "b"), (vec![1], 8000));
    assert_eq!(charged(&cluster, "c"), (vec![0], 16_000));
    assert_eq!(charged(&cluster, "whole"), (vec![2], 32_000));
    assert_eq!(codes(&cluster), [""; 0]);
}

#[test]
fn groups_that_reserved_the_same_card_share_it_under_time_slicing() {
    let text = [
        labelled("gpu", 2, 32_000, 10),
        reservation("gpu", "g1", "GPU-x"),
        reservation("gpu", "g2", "GPU-x"),
        reservation("gpu", "g3", "GPU-y"),
        share("a", "gpu", "g1", "0.5"),
        share("b", "gpu", "g2", "0.75"),
        share("c", "gpu", "g3", "0.5"),
        share("d", "gpu", "g4", "0.1"),
    ];
    let cluster = means(&text.concat());
    assert_eq!((charged(&cluster, "a").0, charged(&cluster, "b").0), (vec![0], vec![0]));
    assert_eq!((charged(&cluster, "c").0, charged(&cluster, "d").0), (vec![1], vec![0, 1]));
    let breaches = plimsoll_core::breach::audit(&ledger(&cluster));
    assert_eq!(breaches.len(), 1, "two groups, one card, a quarter too much");
}

#[test]
fn a_share_of_no_group_is_on_the_only_card_or_on_any() {
    let alone = bound("p", "gpu", "annotations: {gpu-memory: \"8000\"}", MAIN);
    assert_eq!(charged(&means(&(labelled("gpu", 1, 32_607, 100) + &alone)), "p"), (vec![0], 8000));
    assert_eq!(charged(&means(&(labelled("gpu", 2, 32_607, 1) + &alone)), "p"), (vec![0, 1], 8000));
}

#[test]
fn a_reserved_card_that_the_node_does_not_have_is_a_finding() {
    let node = registered("gpu", &[("GPU-a", 40_960), ("GPU-b", 40_960)]);
    let cluster =
        means(&(node + &reservation("gpu", "g1", "GPU-z") + &share("p", "gpu", "g1", "0.5")));
    assert_eq!(charged(&cluster, "p"), (vec![0, 1], 20_480));
    assert_eq!(codes(&cluster), ["allocation-unknown-device"]);
}

#[test]
fn a_pod_that_runs_and_contradicts_itself_closes_what_it_may_be_on() {
    let spec = "containers: [{name: main, resources: {limits: {nvidia.com/gpumem: 1}}}]";
    let wrong = bound("p", "gpu", "annotations: {gpu-memory: \"8000\"}", spec);
    let cluster = means(&(labelled("gpu", 1, 32_607, 100) + &wrong));
    assert_eq!(holding(&cluster, "p").charges[0].amount, Booked::Undeclared);
    assert!(message(&cluster, "pod-unreadable").contains("gpu-memory"));
}
