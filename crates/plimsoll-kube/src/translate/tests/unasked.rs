//! Pods that use devices without asking for them.

use super::*;

const CARDS: [(&str, u64); 2] = [("GPU-a", 40_960), ("GPU-b", 40_960)];

fn with_variable(value: &str) -> String {
    format!(
        "containers: [{{name: main, env: [{{name: NVIDIA_VISIBLE_DEVICES, value: \"{value}\"}}]}}]"
    )
}

/// The cards of each charge of the first pod, and the codes of all findings.
fn found(metadata: &str, spec: &str) -> (Vec<Vec<u16>>, Vec<String>) {
    let cluster = means(&(registered("n", &CARDS) + &bound("p", "n", metadata, spec)));
    let charges = cluster.running.iter().flat_map(|holding| &holding.charges);
    let charges: Vec<&Charge> = charges.collect();
    assert!(charges.iter().all(|charge| charge.amount == Booked::Undeclared), "{charges:?}");
    let on = charges.iter().map(|charge| charge.on.clone()).collect();
    let codes = cluster.findings.iter().map(|finding| finding.code().as_str().to_owned());
    (on, codes.filter(|code| code == "gpu-without-request").collect())
}

#[test]
fn a_pod_counts_on_the_cards_that_it_names_without_asking() {
    for (value, on) in [
        ("GPU-b", vec![vec![1]]),
        ("0", vec![vec![0]]),
        ("0,GPU-b", vec![vec![0], vec![1]]),
        ("all", vec![vec![0], vec![1]]),
        ("GPU-unknown", vec![vec![0, 1]]),
    ] {
        let (charged, codes) = found("", &with_variable(value));
        assert_eq!((charged, codes.len()), (on, 1), "{value}");
    }
    let cdi = "annotations: {nvidia.cdi.k8s.io/container.main: nvidia.com/gpu=GPU-b}";
    let (charged, codes) = found(cdi, "containers: [{name: main}]");
    assert_eq!((charged, codes.len()), (vec![vec![1]], 1));
}

#[test]
fn a_privileged_container_is_reported_and_is_on_no_card_in_particular() {
    let spec = "containers: [{name: main, securityContext: {privileged: true}}]";
    let (charged, codes) = found("", spec);
    assert_eq!((charged.len(), codes.len()), (0, 1));
    let cluster =
        means(&bound("p", "n", "", spec).replace("---\n", &(without_devices() + "---\n")));
    let reported = cluster.findings.iter().any(|one| one.code() == *"gpu-without-request");
    assert!(!reported, "its node has no device");
}

fn without_devices() -> String {
    "---\napiVersion: v1\nkind: Node\nmetadata: {name: n}\n".to_owned()
}

#[test]
fn a_pod_that_asks_and_an_agent_of_the_node_are_not_reported() {
    let asked = "containers: [{name: main, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}], \
                 resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 1000}}}]";
    let cluster = means(&(registered("n", &CARDS) + &bound("p", "n", "", asked)));
    assert!(!codes(&cluster).contains(&"gpu-without-request"), "{:?}", cluster.findings);
    let set = "ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u, controller: true}]";
    let critical = format!("priorityClassName: system-node-critical, {}", with_variable("all"));
    for (metadata, spec) in [
        (set, with_variable("all")),
        ("", critical),
        ("", with_variable("none")),
        ("", with_variable("void")),
        (
            "",
            "containers: [{name: main, env: [{name: NVIDIA_VISIBLE_DEVICES, valueFrom: {}}]}]"
                .to_owned(),
        ),
    ] {
        assert_eq!(found(metadata, &spec), (vec![], vec![]), "{metadata} {spec}");
    }
}
