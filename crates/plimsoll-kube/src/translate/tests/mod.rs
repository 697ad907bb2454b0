//! Small clusters as text, and what they mean.

mod asks;
mod bindings;
mod dra;
mod edges;
mod given;
mod groups;
mod history;
mod incident;
mod peers;
mod places;
mod rules;
mod shares;
mod unasked;
mod vendors;
mod wild;
mod workloads;

use plimsoll_core::charge::{Booked, Charge, Holding};
use plimsoll_core::decide::decide;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::policy::Policy;
use plimsoll_core::request::{Asks, Container, Misuse, Need};
use plimsoll_core::units::Bytes;

use crate::cluster::{Cluster, Pending, Reading};
use crate::read;

use super::cluster;

/// Translates the objects of a YAML text.
fn means(yaml: &str) -> Cluster {
    means_under(yaml, &Reading::default())
}

fn means_under(yaml: &str, reading: &Reading) -> Cluster {
    let mut objects = Vec::new();
    let summary =
        read::read("test.yaml", yaml, &mut objects).expect("the test's own text is sound");
    cluster(objects, summary.ignored, reading)
}

/// A pod of one container with these limits, written as YAML in one line.
fn pod_with(limits: &str) -> String {
    pod("p", "", &format!("containers: [{{name: main, resources: {{limits: {{{limits}}}}}}}]"))
}

/// A pod with this name, these lines of metadata in flow style, and this spec.
fn pod(name: &str, metadata: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, {metadata}}}\nspec: {{{spec}}}\n"
    )
}

/// A pod that runs on a node.
fn bound(name: &str, node: &str, metadata: &str, spec: &str) -> String {
    pod(name, metadata, &format!("nodeName: {node}, {spec}"))
}

/// A node that HAMi's register describes: each device with its id and its MiB.
fn registered(name: &str, devices: &[(&str, u64)]) -> String {
    let devices: Vec<String> = devices
        .iter()
        .enumerate()
        .map(|(index, (id, mib))| {
            format!(
                r#"{{"id":"{id}","index":{index},"count":10,"devmem":{mib},"devcore":100,"type":"NVIDIA A100","health":true,"mode":"hami-core"}}"#
            )
        })
        .collect();
    let register = format!("[{}]", devices.join(","));
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  annotations:\n    hami.io/node-nvidia-register: '{register}'\n"
    )
}

/// A node described by labels: `count` cards of `mib` MiB, `replicas` tokens each.
fn labelled(name: &str, count: u64, mib: u64, replicas: u64) -> String {
    let strategy = if replicas > 1 { "time-slicing" } else { "none" };
    let all = count * replicas;
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  labels:\n    nvidia.com/gpu.count: \"{count}\"\n    \
         nvidia.com/gpu.replicas: \"{replicas}\"\n    nvidia.com/gpu.memory: \"{mib}\"\n    \
         nvidia.com/gpu.sharing-strategy: {strategy}\nstatus: {{capacity: {{nvidia.com/gpu: {all}}}, allocatable: {{nvidia.com/gpu: {all}}}}}\n"
    )
}

/// The limits of a container that asks HAMi for memory.
fn gpumem(name: &str, mib: u64) -> String {
    format!(
        "{{name: {name}, resources: {{limits: {{nvidia.com/gpu: 1, nvidia.com/gpumem: {mib}}}}}}}"
    )
}

fn only(cluster: &Cluster) -> &Pending {
    let [pending] = &cluster.pending[..] else {
        panic!("one pod waits, not {}", cluster.pending.len())
    };
    pending
}

fn containers(cluster: &Cluster) -> &[Container] {
    match &only(cluster).request.spec.asks {
        Asks::Shapes(shapes) => &shapes[0].containers,
        Asks::Malformed(misuse) | Asks::Waiting(misuse) => panic!("{}", misuse.problem),
    }
}

/// The only need of the only container of the only pod.
fn need(limits: &str) -> Need {
    let cluster = means(&pod_with(limits));
    let [container] = containers(&cluster) else { panic!("one container") };
    let [need] = &container.needs[..] else { panic!("one need, not {:?}", container.needs) };
    need.clone()
}

fn misuse(cluster: &Cluster) -> &Misuse {
    match &only(cluster).request.spec.asks {
        Asks::Malformed(misuse) | Asks::Waiting(misuse) => misuse,
        Asks::Shapes(shapes) => panic!("{shapes:?}"),
    }
}

fn holding<'a>(cluster: &'a Cluster, name: &str) -> &'a Holding {
    cluster.running.iter().find(|holding| &*holding.request.name == name).expect("it runs")
}

/// The only charge of a pod that runs, as its ordinals and its MiB.
fn charged(cluster: &Cluster, name: &str) -> (Vec<u16>, u64) {
    let [charge] = &holding(cluster, name).charges[..] else {
        panic!("one charge, not {:?}", holding(cluster, name).charges)
    };
    (charge.on.clone(), mib(charge))
}

fn mib(charge: &Charge) -> u64 {
    match charge.amount {
        Booked::Undeclared => panic!("undeclared"),
        _ => charge.bytes().expect("a size").get() >> 20,
    }
}

fn codes(cluster: &Cluster) -> Vec<&'static str> {
    let mut codes: Vec<&str> =
        cluster.findings.iter().map(|finding| finding.code().as_str()).collect();
    codes.dedup();
    codes
}

fn message(cluster: &Cluster, code: &str) -> String {
    let found = cluster.findings.iter().find(|finding| finding.code() == code);
    found.map_or_else(
        || panic!("no {code} among {:?}", codes(cluster)),
        super::super::finding::Finding::message,
    )
}

fn ledger(cluster: &Cluster) -> Ledger {
    let mut ledger = Ledger::default();
    for facts in &cluster.nodes {
        ledger.put_node(facts.node.clone());
    }
    for holding in &cluster.running {
        ledger.observe(holding.clone()).expect("its node is known");
    }
    ledger
}

/// Places pending pods one after the other. Returns the placed ones and the reasons of the others.
fn placed(cluster: &Cluster) -> (usize, Vec<String>) {
    let mut ledger = ledger(cluster);
    let (mut placed, mut rejected) = (0, Vec::new());
    for pending in &cluster.pending {
        let decision = decide(&ledger, &Policy::pack(), &pending.request);
        match decision.chosen() {
            Some(found) => {
                ledger
                    .send(&pending.request, &found.placement)
                    .expect("what is proposed is admitted");
                placed += 1;
            }
            None => rejected.push(decision.summary().to_string()),
        }
    }
    (placed, rejected)
}

fn mib_of(bytes: Bytes) -> u64 {
    bytes.get() >> 20
}
