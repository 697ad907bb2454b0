//! Decisions of other schedulers that are on their way: KAI's bind requests, and nominated nodes.

use super::*;
use crate::read::Object;
use crate::translate::{Affected, Index, PodState};

const SHARE: &str = "labels: {kai.scheduler/queue: q}, annotations: {gpu-memory: \"8000\"}";
const MAIN: &str = "containers: [{name: main}]";

fn bind_request(pod: &str, node: &str, group: &str, more: &str) -> String {
    format!(
        "---\napiVersion: scheduling.run.ai/v1alpha2\nkind: BindRequest\n\
         metadata: {{name: {pod}-1, ownerReferences: [{{kind: Pod, name: {pod}, uid: u1}}]}}\n\
         spec: {{podName: {pod}, selectedNode: {node}, selectedGPUGroups: [{group}]}}\n{more}"
    )
}

fn reservation(group: &str, uuid: &str) -> String {
    let metadata = format!(
        "namespace: kai-resource-reservation, labels: {{runai-gpu-group: {group}}}, \
         annotations: {{run.ai/reserve_for_gpu_index: {uuid}}}"
    );
    bound(&format!("gpu-reservation-{group}"), "gpu", &metadata, MAIN)
}

#[test]
fn a_pod_that_kai_is_binding_holds_its_share_on_the_card_of_its_group() {
    let world = registered("gpu", &[("GPU-a", 16_000), ("GPU-b", 16_000)])
        + &reservation("g2", "GPU-b")
        + &pod("p", &format!("uid: u1, {SHARE}"), MAIN);
    let requested = means(&(world.clone() + &bind_request("p", "gpu", "g2", "")));
    assert_eq!((requested.running.len(), requested.pending.len()), (1, 0));
    assert_eq!(charged(&requested, "p"), (vec![1], 8000));
    for (why, request) in [
        ("it failed", bind_request("p", "gpu", "g2", "status: {phase: Failed}\n")),
        ("it is for an earlier pod", bind_request("p", "gpu", "g2", "").replace("u1", "u0")),
        ("it is for another pod", bind_request("other", "gpu", "g2", "")),
        ("it selects no node", bind_request("p", "\"\"", "g2", "")),
    ] {
        let cluster = means(&(world.clone() + &request));
        assert_eq!((cluster.running.len(), cluster.pending.len()), (0, 1), "{why}");
    }
}

#[test]
fn a_bind_request_that_comes_or_goes_affects_its_pod() {
    let read = |text: &str| -> Object {
        let mut objects = Vec::new();
        read::read("test", text, &mut objects).expect("the test's own object is sound");
        objects.pop().expect("one object was written").1
    };
    let mut index = Index::new(Reading::default());
    let pod = pod("p", &format!("uid: u1, {SHARE}"), MAIN);
    let request = bind_request("p", "gpu", "g", "");
    let steps = [registered("gpu", &[("GPU-a", 16_000)]), request.clone(), pod.clone()];
    steps.iter().for_each(|text| drop(index.apply(read(text))));
    let state = |index: &Index| index.pod_named("default", "p").map(PodState::from_pod);
    let affects = |affected: &Affected| affected.pods.iter().any(|id| &*id.name == "p");
    assert_eq!(state(&index), Some(PodState::Bound));
    assert!(index.apply(read(&pod)).is_empty(), "the pod is as it was");
    let gone = index.remove(&read(&request).reference());
    assert_eq!((affects(&gone), state(&index)), (true, Some(PodState::Pending)));
    let back = index.apply(read(&request));
    assert_eq!((affects(&back), state(&index)), (true, Some(PodState::Bound)));
    let other = index.apply(read(&request.replace("podName: p", "podName: q")));
    assert_eq!((affects(&other), state(&index)), (true, Some(PodState::Pending)));
}

#[test]
fn the_node_of_a_pod_counts_more_than_a_bind_request() {
    let nodes = registered("gpu", &[("GPU-a", 16_000)]) + &registered("old", &[("GPU-b", 16_000)]);
    let pod = bound("p", "gpu", &format!("uid: u1, {SHARE}"), MAIN);
    let cluster = means(&(nodes + &pod + &bind_request("p", "old", "g", "")));
    assert_eq!(&*holding(&cluster, "p").node, "gpu");
}

#[test]
fn a_nominated_pod_comes_first_among_its_priority_and_goes_to_its_node() {
    let nodes = registered("a", &[("GPU-a", 16_000)]) + &registered("b", &[("GPU-b", 16_000)]);
    let share = "annotations: {gpu-memory: \"16000\"}";
    let pods: String = [("first", "1", ""), ("second", "2", "b"), ("urgent", "3", "")]
        .map(|(name, day, nominated)| {
            let created = format!("creationTimestamp: \"2026-01-0{day}T00:00:00Z\", {share}");
            let priority = if name == "urgent" { "priority: 9, " } else { "" };
            let pod = pod(name, &created, &format!("{priority}{MAIN}"));
            format!("{pod}status: {{nominatedNodeName: \"{nominated}\"}}\n")
        })
        .concat();
    let cluster = means(&(nodes + &pods));
    let order: Vec<&str> = cluster.pending.iter().map(|one| &*one.request.id.name).collect();
    assert_eq!(order, ["urgent", "second", "first"]);
    let decision = decide(&ledger(&cluster), &Policy::pack(), &cluster.pending[1].request);
    assert_eq!(&*decision.chosen().expect("there is room").placement.node, "b");
}
