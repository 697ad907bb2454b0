//! Nodes, rule by rule: each test has a node's labels and annotations, and expects devices,
//! findings and placements.

mod choice;
mod labels;
mod mig;
mod registers;

use std::num::NonZeroU64;
use std::sync::Arc;

use plimsoll_core::decide::decide;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::policy::Policy;
use plimsoll_core::request::{Amount, Need, Request, RequestId, Shape, Spec, Terms};
use plimsoll_core::rules::Effect;
use plimsoll_core::units::MilliCpu;
use proptest::prelude::{
    ProptestConfig, Strategy as Any, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use serde_json::{Map, Value, json};

use super::*;
use crate::declared::DEVICES;
use crate::finding::Finding;
use crate::read::{Object, read};

/// A node in the making, read from JSON as any other.
#[derive(Clone, Default)]
struct Given {
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
    capacity: Map<String, Value>,
    allocatable: Map<String, Value>,
}

impl Given {
    fn label(mut self, key: &str, value: &str) -> Given {
        self.labels.insert(key.into(), value.into());
        self
    }

    fn annotation(mut self, key: &str, value: &str) -> Given {
        self.annotations.insert(key.into(), value.into());
        self
    }

    fn capacity(mut self, name: &str, amount: &str) -> Given {
        self.capacity.insert(name.into(), amount.into());
        self
    }

    fn allocatable(mut self, name: &str, amount: &str) -> Given {
        self.allocatable.insert(name.into(), amount.into());
        self
    }

    /// The labels of feature discovery, as many as are not empty.
    fn discovered(self, count: &str, replicas: &str, memory: &str) -> Given {
        let labels = [("count", count), ("replicas", replicas), ("memory", memory)];
        labels
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .fold(self, |given, (property, value)| {
                given.label(&format!("nvidia.com/gpu.{property}"), value)
            })
    }

    /// Advertises this many `nvidia.com/gpu`, all healthy.
    fn gpus(self, number: &str) -> Given {
        self.capacity("nvidia.com/gpu", number).allocatable("nvidia.com/gpu", number)
    }

    fn facts(self) -> (NodeFacts, Vec<Finding>) {
        let object = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "n", "labels": self.labels, "annotations": self.annotations},
            "status": {"capacity": self.capacity, "allocatable": self.allocatable},
        });
        facts_of(&object.to_string())
    }
}

fn facts_of(text: &str) -> (NodeFacts, Vec<Finding>) {
    let mut objects = Vec::new();
    read("test", text, &mut objects).expect("the node is well formed");
    match &objects[..] {
        [(_, Object::Node(object))] => {
            let Translation { value, findings } = node(object);
            (value, findings)
        }
        other => panic!("one node was given: {other:?}"),
    }
}

/// The codes of the findings, in the order in which they were found.
fn codes(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code().as_str()).collect()
}

/// Identity, usable MiB, slots and sharing of each device.
fn rows(facts: &NodeFacts) -> Vec<(String, Option<u64>, Option<u32>, String)> {
    let row = |(at, device): (usize, &Device)| {
        let mib = device.memory.usable().map(|bytes| bytes.get() >> 20);
        (facts.node.device_label(at), mib, device.slots, device.sharing.to_string())
    };
    facts.node.devices.iter().enumerate().map(row).collect()
}

/// Counts the pods out of `pods` that are placed, each with this amount of one device of a kind,
/// and returns why the next one is not.
fn placed(facts: &NodeFacts, pods: usize, kind: &str, amount: &Amount) -> (usize, String) {
    let mut ledger = Ledger::default();
    let _ = ledger.put_node(facts.node.clone());
    let mut count = 0;
    for pod in 0..pods {
        let spec = Spec::from_shapes(vec![Shape::single("main", Need::one(kind, amount.clone()))]);
        let id = RequestId::new("default", format!("pod-{pod}"));
        let request = Request { id, spec: Arc::new(spec), terms: Terms::default() };
        let decision = decide(&ledger, &Policy::pack(), &request);
        let Some(candidate) = decision.chosen() else {
            return (count, decision.summary().to_string());
        };
        let _ = ledger.send(&request, &candidate.placement).expect("what is proposed is admitted");
        count += 1;
    }
    (count, String::new())
}

fn mib(mib: u64) -> Amount {
    Amount::Bytes(NonZeroU64::new(mib << 20).expect("more than nothing"))
}

#[test]
fn what_every_scheduler_reads_is_read() {
    let (facts, findings) = facts_of(
        "
apiVersion: v1
kind: Node
metadata: {name: gpu-1, labels: {zone: a}}
spec:
  unschedulable: true
  taints: [{key: gpu, effect: NoSchedule}, {key: old, value: 'yes', effect: NoExecute}, {key: x, effect: Never}]
status:
  allocatable: {cpu: 7910m, memory: 16Gi, pods: 110}
  capacity: {cpu: 8, memory: 17Gi}
",
    );
    let node = &facts.node;
    assert_eq!(
        (&*node.name, node.labels[&Name::from("zone")].as_ref(), node.unschedulable),
        ("gpu-1", "a", true)
    );
    let effects: Vec<Effect> = node.taints.iter().map(|taint| taint.effect).collect();
    assert_eq!(effects, [Effect::NoSchedule, Effect::NoExecute, Effect::NoSchedule]);
    let limits = &node.allocatable;
    assert_eq!(
        (limits.cpu, limits.memory, limits.pods),
        (Some(MilliCpu(7910)), Some(Bytes::gib(16)), Some(110))
    );
    assert_eq!(codes(&findings), ["taint-effect-unknown"]);
}

#[test]
fn a_node_without_gpu_facts_is_a_plain_node_without_findings() {
    let (facts, findings) =
        Given::default().allocatable("cpu", "4").label("kubernetes.io/os", "linux").facts();
    assert!(facts.node.devices.is_empty() && findings.is_empty(), "{findings:?}");
    assert_eq!((facts.capacity_source, facts.advertised, facts.node.unknown), ("none", None, None));
    let (facts, findings) = Given::default().gpus("0").facts();
    assert_eq!((facts.node.unknown, codes(&findings)), (None, vec![]));
}

#[test]
fn an_unreadable_limit_closes_the_node_to_device_work_and_names_field_and_value() {
    let (facts, findings) = Given::default()
        .discovered("1", "1", "40960")
        .gpus("1")
        .allocatable("memory", "16GB")
        .facts();
    let unknown = facts.node.unknown.as_deref().expect("what the node has is unknown");
    assert!(
        unknown.contains("status.allocatable memory") && unknown.contains("\"16GB\""),
        "{unknown}"
    );
    assert_eq!(codes(&findings), ["quantity-unreadable"]);
    assert_eq!(placed(&facts, 1, "NVIDIA", &mib(1)).0, 0);
}

#[test]
fn a_cordoned_device_is_closed_and_an_unknown_one_is_reported() {
    let register = r#"[{"id":"GPU-a","count":10,"devmem":8192,"health":true},{"id":"GPU-b","count":10,"devmem":8192,"health":true}]"#;
    let given = Given::default().annotation("hami.io/node-nvidia-register", register);
    let (facts, findings) = given.annotation("hami.io/device-cordon", "GPU-b, GPU-x").facts();
    let cordoned: Vec<bool> = facts.node.devices.iter().map(|device| device.cordoned).collect();
    assert_eq!((cordoned, codes(&findings)), (vec![false, true], vec!["cordon-unknown"]));
    assert_eq!(findings[0].device.as_deref(), Some("GPU-x"));
}

/// Values as people and tools get them wrong, and numbers at the edges.
fn value() -> impl Any<Value = String> {
    let edges = [
        "",
        "0",
        "1",
        "2",
        "7",
        "99",
        "100",
        "1024",
        "1025",
        "65536",
        "4294967296",
        "18446744073709551615",
    ];
    let words = [
        "mixed",
        "single",
        "mps",
        "time-slicing",
        "A100-SHARED",
        "A100-MIG-INVALID",
        "owned",
        "plugin",
        "[]",
        "null",
    ];
    let lists = [
        r#"[{"id":"a","mode":"mig","health":true,"devmem":9,"migProfiles":[{"name":"1g","memoryMB":1,"placements":[{"start":60,"size":9}]}]}]"#,
        r#"[{"id":"a","devmem":18446744073709551615,"count":18446744073709551615},{"id":"b"}]"#,
        r#"[{"uuid":"a","memory":"1GiB"},{"vendor":"MLU","slots":9,"foreign":5}]"#,
        r#"{"devices":[{"capacity":6}],"profiles":{"6g.40gb":"2"}}"#,
        r#"[{"uuid":"a","score":{"a":-1,"b":9}}]"#,
        "a,1,2,3,m,0,true:b,1,2,3,m,0,true:",
    ];
    let fixed: Vec<String> =
        edges.iter().chain(&words).chain(&lists).map(|text| (*text).to_owned()).collect();
    prop_oneof![4 => proptest::sample::select(fixed), 1 => "\\PC{0,40}", 1 => "[0-9]{1,4}(m|k|Gi)?"]
}

fn some_of(keys: Vec<String>) -> impl Any<Value = Vec<(String, String)>> {
    let number = keys.len();
    proptest::collection::vec((proptest::sample::select(keys), value()), 0..number.min(8))
}

fn known_labels() -> Vec<String> {
    let gpu = ["count", "replicas", "memory", "product", "sharing-strategy"]
        .map(|p| format!("nvidia.com/gpu.{p}"));
    let mig =
        ["count", "replicas", "memory", "product"].map(|p| format!("nvidia.com/mig-1g.5gb.{p}"));
    gpu.into_iter().chain(mig).chain(["nvidia.com/mig.strategy".into()]).collect()
}

fn known_annotations() -> Vec<String> {
    use crate::hami::register::SCORE;
    use crate::hami::vendor::{Register, VENDORS};
    let registers = VENDORS.iter().filter_map(|vendor| match vendor.register {
        Register::Annotation(key) | Register::MetaxSgpu(key) | Register::EnflameDrs(key) => {
            Some(key)
        }
        Register::Capacity(_) => None,
    });
    registers.chain([SCORE, CORDON, DEVICES, DEVICES, DEVICE_CHOICE]).map(str::to_owned).collect()
}

fn known_resources() -> Vec<String> {
    let vendors =
        crate::hami::vendor::VENDORS.iter().flat_map(crate::hami::vendor::Vendor::resource_names);
    let more = [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/mig-1g.5gb.shared",
        "cpu",
    ];
    vendors.chain(more).map(str::to_owned).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn nothing_that_a_node_says_makes_it_panic_and_an_unknown_node_takes_no_work(
        labels in some_of(known_labels()), annotations in some_of(known_annotations()),
        capacity in some_of(known_resources()), allocatable in some_of(known_resources()),
    ) {
        let object = object::Node {
            metadata: object::Metadata {
                name: "n".into(),
                labels: labels.into_iter().collect(),
                annotations: annotations.into_iter().collect(),
                ..Default::default()
            },
            status: object::NodeStatus {
                capacity: capacity.into_iter().collect(),
                allocatable: allocatable.into_iter().collect(),
                conditions: Vec::new(),
                ..object::NodeStatus::default()
            },
            ..Default::default()
        };
        let translation = node(&object);
        prop_assert_eq!(&translation, &node(&object));
        let Translation { value: facts, findings } = translation;
        prop_assert!(facts.node.devices.len() <= 1024);
        if facts.node.unknown.is_some() {
            prop_assert!(!findings.is_empty());
            prop_assert_eq!(placed(&facts, 1, "NVIDIA", &Amount::Whole).0, 0);
        }
        prop_assert_eq!(facts.capacity_source == "none", facts.node.devices.is_empty());
        prop_assert!(findings.iter().all(|finding| !finding.message().is_empty() && !finding.remedy().is_empty()));
    }
}
