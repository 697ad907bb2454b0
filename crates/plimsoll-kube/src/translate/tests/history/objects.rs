//! Objects of a small cluster, in many versions of few names, so that histories meet the same ones
//! again.

mod dra;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::read::{self, Object};

/// Any object of the cluster, in any version.
pub(super) fn any_object() -> impl Strategy<Value = Object> {
    let objects = prop_oneof![
        4 => any_node(),
        12 => any_pod(),
        3 => any_reservation(),
        1 => any_class(),
        1 => any_group(),
        1 => any_workload(),
        3 => dra::any_slice(),
        3 => dra::any_claim(),
        1 => dra::any_device_class(),
        3 => any_bind_request(),
    ];
    objects.prop_map(parse)
}

/// Reads an object as it would be read from a file.
#[expect(clippy::needless_pass_by_value, reason = "prop_map passes values")]
pub(super) fn parse(object: Value) -> Object {
    let mut objects = Vec::new();
    read::read("test", &object.to_string(), &mut objects).expect("the test's own object is sound");
    objects.pop().expect("one object was written").1
}

/// A node with this many cards, which have one token each.
pub(super) fn exclusive_node(name: &str, cards: u64) -> Value {
    labelled_node(name, cards, 1, "none", 0)
}

/// A pod in namespace `a` on a node, which asks for one GPU.
pub(super) fn plain_pod(name: &str, node: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": node,
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}})
}

fn labelled_node(name: &str, cards: u64, tokens: u64, strategy: &str, unhealthy: u64) -> Value {
    let (all, healthy) = (cards * tokens, (cards - unhealthy) * tokens);
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": "node", "labels": {
            "nvidia.com/gpu.count": cards.to_string(), "nvidia.com/gpu.replicas": tokens.to_string(),
            "nvidia.com/gpu.memory": "32000", "nvidia.com/gpu.sharing-strategy": strategy}},
        "status": {"capacity": {"nvidia.com/gpu": all}, "allocatable": {"nvidia.com/gpu": healthy}}})
}

fn registered_node(name: &str, cards: usize) -> Value {
    let cards = ["GPU-a", "GPU-b", "GPU-c"].iter().take(cards).enumerate();
    let cards = cards.map(|(index, id)| {
        json!({"id": id, "index": index, "count": 10, "devmem": 40960, "devcore": 100,
            "type": "NVIDIA A100", "health": index != 2, "mode": "hami-core"})
    });
    let register = Value::Array(cards.collect()).to_string();
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": "node", "annotations": {"hami.io/node-nvidia-register": register}}})
}

fn mig_node(name: &str, slices: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": "node", "labels": {
            "nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "40960",
            "nvidia.com/mig-1g.5gb.count": slices.to_string(), "nvidia.com/mig-1g.5gb.memory": "4864",
            "nvidia.com/mig-1g.5gb.replicas": "1"}},
        "status": {"capacity": {"nvidia.com/mig-1g.5gb": slices}, "allocatable": {"nvidia.com/mig-1g.5gb": slices}}})
}

pub(super) fn node_name() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("n0"), 2 => Just("n1"), 1 => Just("n2")]
}

fn any_node() -> impl Strategy<Value = Value> {
    let kinds = prop_oneof![
        (
            1u64..4,
            prop::sample::select(vec![1u64, 1, 4]),
            prop::sample::select(vec!["time-slicing", "mps"])
        )
            .prop_map(|(cards, tokens, strategy)| {
                let strategy = if tokens == 1 { "none" } else { strategy };
                labelled_node("", cards, tokens, strategy, 0)
            }),
        (2u64..4).prop_map(|cards| labelled_node("", cards, 1, "none", 1)),
        (1usize..4).prop_map(|cards| registered_node("", cards)),
        (1u64..4).prop_map(|slices| mig_node("", slices)),
        Just(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": ""}})),
    ];
    (kinds, node_name(), any::<bool>(), any::<bool>()).prop_map(
        |(mut node, name, cordoned, ready)| {
            node["metadata"]["name"] = json!(name);
            node["spec"] = json!({"unschedulable": cordoned});
            node["status"]["conditions"] =
                json!([{"type": "Ready", "status": if ready { "True" } else { "False" }}]);
            node
        },
    )
}

/// A pod's request and its scheduler's annotations: labels, annotations, init containers,
/// containers.
fn any_asking() -> impl Strategy<Value = (Value, Value, Value)> {
    let gpu = |limits: Value| json!([{"name": "main", "resources": {"limits": limits}}]);
    let uuid = || prop::sample::select(vec!["GPU-a", "GPU-b", "GPU-z"]);
    let group = || prop::sample::select(vec!["k0", "k1", "k2"]);
    prop_oneof![
        1 => Just((json!({}), json!({}), json!({"containers": [{"name": "main"}]}))),
        3 => (1u64..3).prop_map(move |gpus| {
            (json!({}), json!({}), json!({"containers": gpu(json!({"nvidia.com/gpu": gpus}))}))
        }),
        2 => (uuid(), 1u64..5, any::<bool>()).prop_map(move |(uuid, gib, written)| {
            let mib = gib * 4096;
            let allocated = format!("{uuid},NVIDIA,{mib},0:;");
            let annotations = if written { json!({"hami.io/vgpu-devices-allocated": allocated}) } else { json!({}) };
            (json!({}), annotations, json!({"containers": gpu(json!({"nvidia.com/gpu": 1, "nvidia.com/gpumem": mib}))}))
        }),
        4 => (group(), 1u64..3).prop_map(|(group, devices)| {
            let mut labels = Map::new();
            labels.insert(format!("runai-gpu-group/{group}"), json!(group));
            if devices > 1 {
                labels.insert("runai-gpu-group/k9".to_owned(), json!("k9"));
            }
            let annotations = json!({"gpu-fraction": "0.5", "gpu-fraction-num-devices": devices.to_string()});
            (Value::Object(labels), annotations, json!({"containers": [{"name": "main"}]}))
        }),
        1 => Just((json!({}), json!({}), json!({"containers": gpu(json!({"nvidia.com/mig-1g.5gb": 1}))}))),
        1 => Just((json!({}), json!({}), json!({
            "initContainers": [{"name": "init", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
            "containers": gpu(json!({"nvidia.com/gpu": 1}))}))),
        3 => dra::any_claiming(),
        1 => Just((json!({}), json!({}), json!({"containers": gpu(json!({"example.com/gpu": 1}))}))),
        1 => Just((json!({}), json!({"gpu-memory": "8000"}), json!({"containers": gpu(json!({"nvidia.com/gpu": 1}))}))),
    ]
}

fn any_priority() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({}),
        json!({}),
        json!({"priority": 5}),
        json!({"priorityClassName": "high"}),
        json!({"priorityClassName": "unknown"}),
    ])
}

/// A label by which a pod names a group, in the ways of two flavors.
fn any_membership() -> impl Strategy<Value = Option<(&'static str, &'static str)>> {
    prop::sample::select(vec![
        None,
        None,
        Some(("scheduling.x-k8s.io/pod-group", "g0")),
        Some(("pod-group-name", "g0")),
        Some(("pod-group-name", "g1")),
    ])
}

prop_compose! {
    fn any_pod()(
        (namespace, name) in (prop::sample::select(vec!["a", "a", "b"]), "p[0-4]|w-[01]"),
        uid in prop::sample::select(vec![None, Some("u1"), Some("u2")]),
        created in prop::option::of("2026-01-0[1-3]T00:00:00Z"),
        node in prop::option::weighted(0.7, node_name()),
        phase in prop::sample::select(vec!["Running", "Running", "Running", "Succeeded"]),
        (terminating, gated, owned) in (prop::bool::weighted(0.15), prop::bool::weighted(0.1), prop::bool::weighted(0.2)),
        (labels, annotations, containers) in any_asking(),
        priority in any_priority(),
        member in any_membership(),
    ) -> Value {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": created,
                "labels": labels, "annotations": annotations,
                "deletionTimestamp": terminating.then_some("2026-02-01T00:00:00Z")},
            "spec": containers, "status": {"phase": phase}});
        pod["spec"]["nodeName"] = json!(node);
        if let (Value::Object(spec), Value::Object(priority)) = (&mut pod["spec"], priority) {
            spec.extend(priority);
        }
        if gated && node.is_none() {
            pod["spec"]["schedulingGates"] = json!([{"name": "wait"}]);
        }
        if owned {
            pod["metadata"]["ownerReferences"] =
                json!([{"kind": "StatefulSet", "name": "w", "uid": "", "controller": true}]);
        }
        if let Some((label, group)) = member {
            pod["metadata"]["labels"][label] = json!(group);
        }
        pod
    }
}

prop_compose! {
    fn any_reservation()(
        name in "gpu-reservation-[0-3]",
        group in prop::sample::select(vec!["k0", "k1", "k2"]),
        uuid in prop::option::weighted(0.8, prop::sample::select(vec!["GPU-a", "GPU-b", "GPU-x"])),
        node in prop::option::weighted(0.9, node_name()),
        created in prop::option::of("2026-01-0[1-3]T00:00:00Z"),
        phase in prop::sample::select(vec!["Running", "Running", "Running", "Failed"]),
    ) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "kai-resource-reservation", "creationTimestamp": created,
                "labels": {"runai-gpu-group": group}, "annotations": {"run.ai/reserve_for_gpu_index": uuid.unwrap_or("")}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
            "status": {"phase": phase}})
    }
}

prop_compose! {
    fn any_bind_request()(
        name in "b[01]",
        pod in "p[0-4]",
        uid in prop::sample::select(vec!["", "", "u1"]),
        node in prop::option::weighted(0.9, node_name()),
        group in prop::option::of(prop::sample::select(vec!["k0", "k1"])),
        phase in prop::sample::select(vec!["", "Pending", "Failed"]),
    ) -> Value {
        let groups: Vec<&str> = group.into_iter().collect();
        json!({"apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
            "metadata": {"name": name, "namespace": "a", "ownerReferences": [{"kind": "Pod", "name": pod, "uid": uid}]},
            "spec": {"podName": pod, "selectedNode": node, "selectedGPUGroups": groups},
            "status": {"phase": phase}})
    }
}

prop_compose! {
    fn any_class()(name in "high|low", value in 0i32..3, default in any::<bool>()) -> Value {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value * 100, "globalDefault": default})
    }
}

prop_compose! {
    fn any_group()(
        api in prop::sample::select(vec!["scheduling.x-k8s.io/v1alpha1", "scheduling.run.ai/v2alpha2"]),
        name in "g[01]",
        minimum in 1u32..4,
    ) -> Value {
        json!({"apiVersion": api, "kind": "PodGroup", "metadata": {"name": name, "namespace": "a"}, "spec": {"minMember": minimum}})
    }
}

prop_compose! {
    fn any_workload()(
        kind in prop::sample::select(vec!["StatefulSet", "Deployment"]),
        replicas in 0u32..4,
        priority in any_priority(),
        member in any_membership(),
        gated in prop::bool::weighted(0.2),
    ) -> Value {
        let mut template = json!({"metadata": {"labels": {}}, "spec": {"containers": [{"name": "main"}]}});
        if let (Value::Object(spec), Value::Object(priority)) = (&mut template["spec"], priority) {
            spec.extend(priority);
        }
        if let Some((label, group)) = member {
            template["metadata"]["labels"][label] = json!(group);
        }
        if gated {
            template["spec"]["schedulingGates"] = json!([{"name": "wait"}]);
        }
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w", "namespace": "a"},
            "spec": {"replicas": replicas, "template": template}})
    }
}
