//! Small clusters made by hand, for the tests of this crate and of the crates above it.

use std::num::NonZeroU64;
use std::sync::Arc;

use plimsoll_core::charge::{Activity, Booked, Charge, Holding, Part, Stage};
use plimsoll_core::device::{Device, DeviceChoice, Identity, Node, Sharing, Source, Strategy};
use plimsoll_core::policy::Policy;
use plimsoll_core::request::{
    Amount, Need, NodeNeed, Request, RequestId, Role, Shape, Spec, Terms,
};
use plimsoll_core::units::{Bytes, Cores, Millis, Name};
use plimsoll_kube::cluster::{Cluster, GangFacts, NodeFacts, Pending};

use crate::simulation::{Advising, Simulation, simulate};

/// Simulates a cluster under the default policy, with advice for all pods.
pub fn run(cluster: &Cluster) -> Simulation {
    simulate(cluster, &Policy::default(), &Advising::all(), &mut |_| {})
}

/// One card of 32,607 MiB advertised as 100, and a number of pods that need 8000 MiB each.
pub fn time_sliced(pods: usize) -> Cluster {
    let mut card = Device::new("NVIDIA", Bytes::mib(32_607), Source::Label);
    card.sharing = Sharing::Tokens { replicas: 100, strategy: Strategy::TimeSlicing };
    card.model = Some("RTX-5090".into());
    let mut cluster = Cluster { nodes: vec![facts("gpu-node", vec![card])], ..Cluster::default() };
    cluster.nodes[0].advertised = Some(100);
    cluster.nodes[0].replicas = Some(100);
    cluster.pending = (0..pods)
        .map(|pod| pending(&format!("test-{pod}"), Amount::bytes(Bytes::mib(8000))))
        .collect();
    cluster
}

/// Two nodes of two cards, one card busy, and a gang of four that needs a whole card each.
pub fn gang() -> Cluster {
    let nodes = ["node-a", "node-b"].map(node_with_two_cards).to_vec();
    let mut cluster = Cluster { nodes, ..Cluster::default() };
    let whole = Booked::Whole { bytes: Some(Bytes::gib(80)) };
    cluster.running.push(holding("busy", "node-a", whole, Stage::Running { since: Millis(0) }));
    cluster.gangs.push(GangFacts { name: "default/training".into(), minimum: 4, running: 0 });
    let member =
        |i: usize| Pending { gang: Some(0), ..pending(&format!("worker-{i}"), Amount::Whole) };
    cluster.pending = (0..4).map(member).collect();
    cluster
}

fn node_with_two_cards(name: &str) -> NodeFacts {
    let cards = [0, 1].map(|ordinal| {
        let mut card = Device::new("NVIDIA", Bytes::gib(80), Source::Register);
        card.identity = Identity::Uuid(format!("GPU-{name}-{ordinal}").into());
        card
    });
    facts(name, cards.to_vec())
}

/// A card of 80 GiB with 60 GiB being released, and a pod that needs 30 GiB.
pub fn releasing() -> Cluster {
    let card = Device::new("NVIDIA", Bytes::gib(80), Source::Declared);
    let mut cluster = Cluster { nodes: vec![facts("node", vec![card])], ..Cluster::default() };
    let stage = Stage::Releasing { since: Millis(0) };
    cluster.running.push(holding("leaving", "node", Booked::share(Bytes::gib(60)), stage));
    cluster.pending.push(pending("waiting", Amount::bytes(Bytes::gib(30))));
    cluster
}

/// Five running pods of 8000 MiB on the card of [`time_sliced`], which has room for four.
pub fn too_late() -> Cluster {
    let mut cluster = time_sliced(0);
    let stage = Stage::Running { since: Millis(0) };
    let running = |i: usize| {
        holding(&format!("test-{i}"), "gpu-node", Booked::share(Bytes::mib(8000)), stage)
    };
    cluster.running = (0..5).map(running).collect();
    cluster
}

/// A node with some devices, as labels would describe it.
pub fn facts(name: &str, devices: Vec<Device>) -> NodeFacts {
    let mut node = Node::new(name);
    node.devices = devices;
    node.choice = DeviceChoice::Owned;
    let physical = u16::try_from(node.devices.len()).unwrap_or(u16::MAX);
    NodeFacts {
        node,
        advertised: None,
        replicas: None,
        physical,
        foreign: Vec::new(),
        capacity_source: "label",
        choice: DeviceChoice::Owned,
    }
}

/// A pod that needs an amount of one NVIDIA device.
pub fn pending(name: &str, amount: Amount) -> Pending {
    let spec = Spec::from_shapes(vec![Shape::single("main", Need::one("NVIDIA", amount))]);
    let request = Request {
        id: RequestId::new("default", name),
        spec: Arc::new(spec),
        terms: Terms::default(),
    };
    Pending { request, gang: None, not_considered: Vec::new() }
}

/// The holding of a pod on the first device of a node.
pub fn holding(name: &str, node: &str, amount: Booked, stage: Stage) -> Holding {
    let bytes = match amount {
        Booked::Share(bytes) => Some(Bytes::new(NonZeroU64::get(bytes))),
        Booked::Whole { bytes } => bytes,
        Booked::Undeclared => None,
    };
    let part = Part { container: "main".into(), role: Role::App, bytes, cores: Cores(0) };
    let charge =
        Charge { on: vec![0], amount, cores: Cores(0), slots: 1, slice: None, parts: vec![part] };
    Holding {
        request: RequestId::new("default", name),
        node: Name::from(node),
        stage,
        charges: vec![charge],
        resources: NodeNeed::default(),
        terms: Terms::default(),
        activity: Activity::Unknown,
        spec: None,
    }
}
