//! Whatever is written on pods and nodes, translation ends with an answer.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::hami::vendor::VENDORS;

fn quantity() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,6}",
        "[-+0-9.eEkMGi]{0,8}",
        "\\PC{0,5}",
        Just("18446744073709551615".to_owned()),
        Just("65535".to_owned())
    ]
}

fn resource() -> impl Strategy<Value = String> {
    let vendors: Vec<String> =
        VENDORS.iter().flat_map(|vendor| vendor.resource_names().map(str::to_owned)).collect();
    prop_oneof![
        4 => prop::sample::select(vendors),
        1 => Just("nvidia.com/mig-1g.5gb".to_owned()),
        1 => Just("nvidia.com/gpu.shared".to_owned()),
        1 => Just("cpu".to_owned()),
        1 => "[a-z]{1,4}/[a-z]{1,4}",
    ]
}

fn annotation() -> impl Strategy<Value = (String, String)> {
    let allocated: Vec<&'static str> = VENDORS
        .iter()
        .flat_map(|vendor| [Some(vendor.allocated), vendor.to_allocate])
        .flatten()
        .collect();
    prop_oneof![
        (prop::sample::select(allocated), "(GPU-[a-c],NVIDIA,-?[0-9]{1,9},[0-9]{1,3}:){0,3};{0,3}(GPU-a,T,9,9:)?;?")
            .prop_map(|(key, value)| (key.to_owned(), value)),
        (
            prop::sample::select(vec!["gpu-memory", "gpu-fraction", "gpu-fraction-num-devices", "gpu-fraction-container-name"]),
            prop_oneof![quantity(), Just("0.5".to_owned())]
        )
            .prop_map(|(key, value)| (key.to_owned(), value)),
        (
            prop::sample::select(vec!["hami.io/gpu-scheduler-policy", "nvidia.com/numa-bind", "hami.io/vgpu-node", "pod-group-name"]),
            "[a-z,-]{0,12}"
        )
            .prop_map(|(key, value)| (key.to_owned(), value)),
        (
            Just("hami.io/vgpu-mig-allocations".to_owned()),
            (0u32..3, 0u32..300).prop_map(|(container, start)| {
                format!(r#"[{{"containerIndex":{container},"deviceIndex":0,"gpuUUID":"GPU-a","profile":"1g.5gb","placement":{{"start":{start},"size":1}}}}]"#)
            })
        ),
    ]
}

fn container() -> impl Strategy<Value = Value> {
    let amounts = || prop::collection::btree_map(resource(), quantity(), 0..3);
    (amounts(), amounts(), any::<bool>()).prop_map(|(limits, requests, sidecar)| {
        json!({"name": "c", "resources": {"limits": limits, "requests": requests},
               "restartPolicy": if sidecar { "Always" } else { "" }})
    })
}

prop_compose! {
    fn any_pod()(
        name in "[a-c]",
        node in prop::option::of("[a-b]"),
        annotations in prop::collection::btree_map(annotation().prop_map(|pair| pair.0), quantity(), 0..2),
        more in prop::collection::vec(annotation(), 0..3),
        group in prop::option::of("[a-b]"),
        init in prop::collection::vec(container(), 0..2),
        containers in prop::collection::vec(container(), 0..3),
        going in any::<bool>(),
    ) -> Value {
        let mut written = serde_json::Map::new();
        written.extend(annotations.into_iter().chain(more).map(|(key, value)| (key, Value::String(value))));
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": written,
                "labels": group.map_or(json!({}), |group| json!({"runai-gpu-group": group})),
                "deletionTimestamp": going.then_some("2026-01-01T00:00:00Z")},
            "spec": {"nodeName": node, "initContainers": init, "containers": containers}})
    }
}

proptest! {
    #[test]
    fn no_pod_makes_it_panic(
        pods in prop::collection::vec(any_pod(), 1..6),
        cards in 0u64..4,
        replicas in 1u64..3,
        shared in any::<bool>(),
    ) {
        let nodes = if shared {
            registered("a", &[("GPU-a", 1000), ("GPU-b", 2000)][..usize::try_from(cards.min(2)).unwrap()])
        } else {
            labelled("a", cards, 1000, replicas)
        };
        let pods: Vec<String> = pods.iter().map(|pod| format!("---\n{pod}\n")).collect();
        let text = nodes + &labelled("b", 1, 1000, 1) + &pods.concat();
        let cluster = means(&text);
        let devices: Vec<usize> = cluster.nodes.iter().map(|facts| facts.node.devices.len()).collect();
        for holding in &cluster.running {
            let at = usize::from(&*holding.node == "b");
            for charge in &holding.charges {
                prop_assert!(!charge.on.is_empty() && charge.on.iter().all(|on| usize::from(*on) < devices[at]));
                prop_assert!(!charge.parts.is_empty());
            }
        }
        let _ = (ledger(&cluster), placed(&cluster));
        prop_assert_eq!(format!("{cluster:?}"), format!("{:?}", means(&text)));
    }
}
