//! Histories of a small cluster, event by event.

use plimsoll_core::event::Settings;
use plimsoll_core::front::Host;
use proptest::prelude::*;
use serde_json::{Value, json};

mod announced;

use super::*;
use crate::read;

pub(super) fn parse(object: &Value) -> Object {
    let mut objects = Vec::new();
    read::read("test", &object.to_string(), &mut objects).expect("the test's own object is sound");
    objects.pop().expect("one object was written").1
}

/// A node with one card of 32,607 MiB that is advertised 100 times.
pub(super) fn node(name: &str, boot: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": "n", "labels": {
            "nvidia.com/gpu.count": "1", "nvidia.com/gpu.replicas": "100",
            "nvidia.com/gpu.memory": "32607", "nvidia.com/gpu.sharing-strategy": "time-slicing"}},
        "status": {"capacity": {"nvidia.com/gpu": 100}, "allocatable": {"nvidia.com/gpu": 100},
            "nodeInfo": {"bootID": boot}}})
}

/// A pod of 8000 MiB; without a node if that is empty.
pub(super) fn pod(name: &str, node: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "uid": uid, "annotations": {"gpu-memory": "8000"},
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main"}]},
        "status": {"phase": if node.is_empty() { "Pending" } else { "Running" }}})
}

pub(super) fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    object.pointer_mut(parent).expect("a parent")[key] = value;
    object
}

pub(super) fn statuses(state: &str) -> Value {
    json!([{"name": "main", "containerID": "containerd://1", "state": {state: {}}}])
}

pub(super) fn id(name: &str, uid: &str) -> RequestId {
    RequestId::new("a", name).with_uid(uid)
}

struct Cluster {
    host: Host<Watch>,
    now: u64,
}

impl Cluster {
    fn new(objects: &[Value]) -> Cluster {
        let host = Host::new(Watch::new(Reading::default()), Settings::default());
        let mut cluster = Cluster { host, now: 1_000_000 };
        objects.iter().for_each(|object| cluster.apply(object));
        cluster
    }

    fn observe(&mut self, observation: Observation) {
        let now = Millis(self.now);
        self.host.with(now, |watch, core| watch.observe(core, vec![observation]));
    }

    fn apply(&mut self, object: &Value) {
        self.observe(Observation::Applied(parse(object)));
    }

    fn delete(&mut self, object: &Value) {
        self.observe(Observation::Deleted(parse(object)));
    }

    /// Lets seconds pass, in which the kubelet of `n1` renews its lease every ten seconds.
    fn hear(&mut self, seconds: u64) {
        for _ in 0..seconds / 10 {
            self.now += 10_000;
            let renewed = Millis(self.now);
            self.observe(Observation::Heartbeat { node: "n1".into(), renewed });
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += seconds * 1000;
        self.host.tick(Millis(self.now));
    }

    /// The holders of `n1`, with their stages.
    fn holders(&self) -> Vec<(String, &'static str)> {
        let holdings = self.host.scheduler().ledger().holdings();
        let mut holders: Vec<_> = holdings
            .map(|(_, holding)| (holding.request.to_string(), holding.stage.name()))
            .collect();
        holders.sort();
        holders
    }

    fn waits_for(&self, id: &RequestId) -> Option<String> {
        let mut releases = self.host.front().releases();
        releases.find(|(known, _)| *known == id).map(|(_, release)| release.waits_for.to_string())
    }
}

const RUNNING: &str = "running";
const RELEASING: &str = "releasing";

#[test]
fn a_charge_ends_when_its_containers_were_seen_terminated() {
    let running = with(pod("p", "n1", "1"), "/status/containerStatuses", statuses("running"));
    let mut cluster = Cluster::new(&[node("n1", "b1"), running.clone()]);
    assert_eq!(cluster.holders(), [("a/p".into(), RUNNING)]);
    let stopping =
        with(running.clone(), "/metadata/deletionTimestamp", json!("2026-01-01T00:01:00Z"));
    cluster.apply(&stopping);
    assert_eq!(cluster.holders(), [("a/p".into(), RELEASING)]);
    assert_eq!(cluster.waits_for(&id("p", "1")).as_deref(), Some("its containers to terminate"));
    let ended = with(stopping, "/status/containerStatuses", statuses("terminated"));
    cluster.apply(&ended);
    assert_eq!(cluster.holders(), []);
    cluster.delete(&ended);
    assert_eq!((cluster.holders(), cluster.waits_for(&id("p", "1"))), (vec![], None));
    // A container that restarts is no evidence.
    let crashed = with(pod("q", "n1", "2"), "/status/containerStatuses", statuses("terminated"));
    cluster.apply(&crashed);
    assert_eq!(cluster.holders(), [("a/q".into(), RUNNING)]);
}

#[test]
fn a_pod_that_vanished_counts_until_its_kubelet_was_heard_long_enough() {
    let running = with(pod("p", "n1", "1"), "/status/containerStatuses", statuses("running"));
    let mut cluster = Cluster::new(&[node("n1", "b1"), running.clone()]);
    cluster.hear(20);
    cluster.delete(&running);
    assert_eq!(cluster.holders(), [("a/p".into(), RELEASING)]);
    cluster.hear(80);
    assert_eq!(cluster.holders(), [("a/p".into(), RELEASING)]);
    let waits_for = cluster.waits_for(&id("p", "1")).expect("it waits");
    assert!(waits_for.contains("n1 to be heard for 90s (so far 80s)"), "{waits_for}");
    // Time without a heartbeat does not count.
    cluster.pass(3600);
    cluster.hear(10);
    assert_eq!(cluster.holders(), [("a/p".into(), RELEASING)]);
    cluster.hear(10);
    assert_eq!(cluster.holders(), []);
}

#[test]
fn a_new_boot_or_an_operator_ends_the_charge_of_a_pod_that_vanished() {
    let running = pod("p", "n1", "1");
    let mut cluster = Cluster::new(&[node("n1", "b1"), running.clone()]);
    cluster.delete(&running);
    // The same machine returns under its name.
    cluster.delete(&node("n1", "b1"));
    cluster.apply(&node("n1", "b1"));
    assert_eq!(cluster.holders(), [("a/p".into(), RELEASING)]);
    cluster.apply(&node("n1", "b2"));
    assert_eq!(cluster.holders(), []);

    let mut cluster = Cluster::new(&[node("n1", "b1"), running.clone()]);
    cluster.delete(&running);
    let clear = |watch: &mut Watch, core: &mut Core<'_>| watch.clear(core, &id("p", "1"));
    assert!(cluster.host.with(Millis(cluster.now), clear));
    assert_eq!(cluster.holders(), []);
    assert!(!cluster.host.with(Millis(cluster.now), clear), "once");
}

#[test]
fn a_failed_phase_without_terminated_containers_is_no_evidence() {
    let lost = with(pod("p", "n1", "1"), "/status/containerStatuses", statuses("running"));
    let lost = with(lost, "/status/phase", json!("Failed"));
    let mut cluster = Cluster::new(&[node("n1", "b1"), lost.clone()]);
    assert_eq!(cluster.holders(), [("a/p".into(), RELEASING)]);
    cluster.delete(&lost);
    assert_eq!(cluster.holders(), [("a/p".into(), RELEASING)]);
    for (name, change) in [
        ("/status/phase", json!("Succeeded")),
        ("/status/containerStatuses", statuses("terminated")),
    ] {
        let mut cluster = Cluster::new(&[node("n1", "b1"), lost.clone()]);
        cluster.apply(&with(lost.clone(), name, change));
        assert_eq!(cluster.holders(), [], "{name}");
    }
    let rejected = with(pod("q", "n1", "2"), "/status/phase", json!("Failed"));
    let rejected = with(rejected, "/status/reason", json!("OutOfnvidia.com/gpu"));
    let cluster = Cluster::new(&[node("n1", "b1"), pod("q", "n1", "2"), rejected]);
    assert_eq!(cluster.holders(), [], "the kubelet rejected it, and nothing ran");
}

#[test]
fn a_pod_of_the_same_name_does_not_replace_a_pod_that_vanished() {
    let mut cluster = Cluster::new(&[node("n1", "b1"), pod("p", "n1", "1")]);
    cluster.apply(&pod("p", "n1", "2"));
    assert_eq!(cluster.holders(), [("a/p".into(), RELEASING), ("a/p".into(), RUNNING)]);
    // The late deletion of the first one changes nothing.
    cluster.delete(&pod("p", "n1", "1"));
    assert_eq!(cluster.holders().len(), 2);
    cluster.hear(120);
    assert_eq!(cluster.holders(), [("a/p".into(), RUNNING)]);
}

#[test]
fn a_static_pod_holds_once_however_often_its_mirror_is_deleted() {
    let mirror = |uid: &str| {
        let mut pod = pod("p", "n1", uid);
        pod["metadata"]["annotations"] =
            json!({"gpu-memory": "8000", "kubernetes.io/config.mirror": "h"});
        pod
    };
    let mut cluster = Cluster::new(&[node("n1", "b1"), mirror("1")]);
    cluster.delete(&mirror("1"));
    assert_eq!(cluster.holders(), [("a/p".into(), RELEASING)]);
    cluster.apply(&mirror("2"));
    assert_eq!(cluster.holders(), [("a/p".into(), RUNNING)]);
}

#[test]
fn a_silent_node_takes_nothing_new_and_keeps_its_holders() {
    let mut cluster = Cluster::new(&[node("n1", "b1"), pod("p", "n1", "1")]);
    cluster.hear(10);
    cluster.apply(&pod("new", "", "2"));
    let opinion = |cluster: &Cluster| {
        let waiting = cluster.host.front().pending_pod(&id("new", "2")).expect("it is pending");
        waiting.opinion.clone().expect("it was judged")
    };
    let fits = opinion(&cluster);
    cluster.pass(60);
    assert_ne!(opinion(&cluster), fits, "the node is silent");
    assert!(format!("{:?}", opinion(&cluster)).contains("Silent"), "{:?}", opinion(&cluster));
    assert_eq!(cluster.holders(), [("a/p".into(), RUNNING)]);
    cluster.hear(10);
    cluster.pass(1);
    assert_eq!(opinion(&cluster), fits);
}

#[test]
fn gated_pods_are_not_pending_and_name_their_gate() {
    let gated = with(pod("p", "", "1"), "/spec/schedulingGates", json!([{"name": "quota"}]));
    let mut cluster = Cluster::new(&[node("n1", "b1"), gated]);
    assert_eq!(cluster.host.front().pending().count(), 0);
    let gates: Vec<_> = cluster.host.front().gated().collect();
    assert_eq!(gates, [(&id("p", "1"), &["quota".to_string()][..])]);
    cluster.apply(&pod("p", "", "1"));
    assert_eq!(cluster.host.front().pending().count(), 1);
    assert_eq!(cluster.host.front().gated().count(), 0);
}

#[test]
fn a_pending_pod_is_judged_and_charges_nothing() {
    let pods = (0..4).map(|at| pod(&format!("p{at}"), "n1", &format!("u{at}")));
    let objects: Vec<Value> = std::iter::once(node("n1", "b1")).chain(pods).collect();
    let mut cluster = Cluster::new(&objects);
    cluster.apply(&pod("p5", "", "u5"));
    let waiting = cluster.host.front().pending_pod(&id("p5", "u5")).expect("it is pending");
    let opinion = waiting.opinion.clone().expect("it was judged").to_string();
    assert!(opinion.contains("7393 MiB short"), "{opinion}");
    assert_eq!(cluster.holders().len(), 4);
    // The same answer is no record, however often something else changes.
    let before = cluster.host.next_numbers().record;
    cluster.pass(1);
    assert_eq!(cluster.host.next_numbers().record, before);
    cluster.apply(&with(pod("p0", "n1", "u0"), "/status/phase", json!("Succeeded")));
    cluster.pass(1);
    let waiting = cluster.host.front().pending_pod(&id("p5", "u5")).expect("it is pending");
    assert!(!waiting.opinion.clone().expect("it was judged").to_string().contains("short"));
}

#[test]
fn a_relist_finds_what_vanished_and_repeats_nothing() {
    let (one, other) = (pod("p", "n1", "1"), pod("q", "n1", "2"));
    let mut cluster = Cluster::new(&[node("n1", "b1"), one.clone(), other.clone()]);
    let list = |objects: &[&Value]| Observation::Listed {
        kind: Kind::Pod,
        objects: objects.iter().map(|object| parse(object)).collect(),
        version: None,
    };
    let records = cluster.host.next_numbers().record;
    cluster.observe(list(&[&one, &other]));
    assert_eq!(cluster.host.next_numbers().record, records, "a relist of the same is no change");
    cluster.observe(list(&[&other]));
    cluster.observe(list(&[&other]));
    assert_eq!(cluster.holders(), [("a/p".into(), RELEASING), ("a/q".into(), RUNNING)]);
}

proptest! {
    #[test]
    fn the_ledger_is_the_same_whatever_the_order_of_events(
        order in Just((0..12_usize).collect::<Vec<_>>()).prop_shuffle(),
        repeated in prop::collection::vec(0..12_usize, 0..8),
    ) {
        let objects: Vec<Value> = ["n1", "n2", "n3"].iter().map(|name| node(name, "b"))
            .chain((0..9).map(|at| {
                let pod = pod(&format!("p{at}"), &format!("n{}", at % 4), &format!("u{at}"));
                if at % 3 == 0 { with(pod, "/metadata/deletionTimestamp", json!("t")) } else { pod }
            }))
            .collect();
        let straight = Cluster::new(&objects);
        let shuffled: Vec<Value> =
            order.iter().chain(&repeated).map(|at| objects[*at].clone()).collect();
        let shuffled = Cluster::new(&shuffled);
        let charges = |cluster: &Cluster| {
            let ledger = cluster.host.scheduler().ledger();
            let holdings = ledger.holdings().map(|(_, holding)| format!("{holding:?}"));
            let mut rows: Vec<String> = holdings.collect();
            rows.extend(ledger.nodes().map(|(_, view)| format!("{:?}", (&view.node, view.room.devices()[0].free()))));
            rows.sort();
            rows
        };
        prop_assert_eq!(charges(&straight), charges(&shuffled));
    }
}
