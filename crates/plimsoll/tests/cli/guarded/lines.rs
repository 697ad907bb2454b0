//! The line of nodes of many kinds: the bindings of each row arrive in parallel, and as many are
//! admitted as the cards hold, on the cards that hold them.

use std::collections::BTreeMap;
use std::thread;

use plimsoll_testbed::api::{Api, pod_path};
use plimsoll_testbed::objects::{self, GpuNode};
use serde_json::{Value, json};

use super::cluster::{Cluster, Replica, TEAM, text};

/// A node, the pods whose bindings to it arrive at once, and what comes of them.
struct Row {
    node: Value,
    pods: Vec<Value>,
    admitted: usize,
    /// Parts of the rejection of every other pod.
    because: &'static [&'static str],
    /// The most MiB that the bookings of one card may sum to, if the pods say how many.
    each_card: Option<u64>,
}

fn node(name: &str, cards: u32, mib: u64, replicas: u32) -> Value {
    GpuNode::new(name, cards, mib).shared(replicas).object()
}

fn annotated(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["annotations"][key] = json!(value);
    object
}

fn labelled(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["labels"][key] = json!(value);
    object
}

fn shares(prefix: &str, count: usize, mib: u64) -> Vec<Value> {
    (0..count).map(|at| objects::gpu_pod(&format!("{prefix}-{at}"), mib)).collect()
}

fn plain(name: &str, tokens: &str) -> Value {
    let mut pod = objects::pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": tokens}});
    pod
}

fn halves(prefix: &str, count: usize) -> Vec<Value> {
    let half = |at| annotated(objects::pod(&format!("{prefix}-{at}")), "gpu-fraction", "0.5");
    (0..count).map(half).collect()
}

fn rows() -> Vec<Row> {
    let owned = |node: Value| annotated(node, "plimsoll.dev/device-choice", "owned");
    vec![
        Row {
            node: node("a1-one", 1, 32_607, 100),
            pods: shares("one", 5, 8000),
            admitted: 4,
            because: &["8000 MiB", "607 MiB free", "7393 MiB short", "one-"],
            each_card: Some(32_607),
        },
        Row {
            node: node("a1-many", 1, 32_607, 100),
            pods: shares("many", 400, 8000),
            admitted: 4,
            because: &["8000 MiB", "607 MiB free"],
            each_card: Some(32_607),
        },
        // As the original report has it: 99 replicas of 100 that are advertised.
        Row {
            node: labelled(node("a1-report", 1, 32_600, 100), "nvidia.com/gpu.replicas", "99"),
            pods: shares("report", 5, 8000),
            admitted: 4,
            because: &["8000 MiB", "600 MiB free"],
            each_card: Some(32_600),
        },
        // The plugin picks the card: four on whichever.
        Row {
            node: node("a1-two", 2, 32_607, 100),
            pods: shares("two", 12, 8000),
            admitted: 4,
            because: &["8000 MiB", "607 MiB free"],
            each_card: None,
        },
        Row {
            node: owned(node("a1-owned", 2, 32_607, 100)),
            pods: shares("owned", 12, 8000),
            admitted: 8,
            because: &["8000 MiB", "607 MiB free"],
            each_card: Some(32_607),
        },
        Row {
            node: node("a1-mixed", 1, 32_607, 100),
            pods: [shares("mixed", 1, 8000), vec![plain("mixed-plain", "1")]].concat(),
            admitted: 1,
            because: &["mixed-"],
            each_card: None,
        },
        Row {
            node: node("a1-plain", 1, 32_607, 100),
            pods: (0..5).map(|at| plain(&format!("plain-{at}"), "1")).collect(),
            admitted: 1,
            because: &["plain-"],
            each_card: None,
        },
        Row {
            node: node("b6", 1, 40_960, 10),
            pods: shares("b6", 1, 40_961),
            admitted: 0,
            because: &["40961 MiB", "40960 MiB"],
            each_card: Some(40_960),
        },
        Row {
            node: owned(node("b8", 8, 40_960, 10)),
            pods: halves("b8", 17),
            admitted: 16,
            because: &["20.0 GiB on b8", "0.0 GiB free of 40.0 GiB"],
            each_card: Some(40_960),
        },
        Row {
            node: node("b8-small", 1, 32_607, 100),
            pods: shares("small", 99, 330),
            admitted: 98,
            because: &["330 MiB", "267 MiB free"],
            each_card: Some(32_607),
        },
        Row {
            node: node("b16", 1, 32_607, 100),
            pods: vec![plain("b16", "2")],
            admitted: 0,
            because: &["2 GPUs"],
            each_card: None,
        },
    ]
}

#[test]
fn as_many_pods_are_bound_as_the_cards_of_a_node_hold() {
    let Some(cluster) = Cluster::start("the lines of many nodes") else { return };
    let rows = rows();
    let names: Vec<String> = rows.iter().map(|row| text(&row.node["metadata"]["name"])).collect();
    for row in &rows {
        let path = "/api/v1/nodes";
        cluster.admin.create(path, row.node.clone()).expect("a node");
        let node = plimsoll_testbed::api::node_path(&text(&row.node["metadata"]["name"]));
        cluster.admin.patch(&node, json!({"spec": {"taints": null}})).expect("a node");
    }
    names.iter().for_each(|name| lease(&cluster, name));
    cluster.keep_alive(names);
    let replica = Replica::deciding(&cluster, "one");
    rows.iter().for_each(|row| holds_its_line(&cluster, row));
    drop(replica);
}

/// Makes the lease of a node, as its kubelet does.
fn lease(cluster: &Cluster, node: &str) {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let renewed = format!("{:.6}", jiff::Timestamp::now());
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": node},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": renewed},
    });
    cluster.admin.create(leases, lease).expect("a lease");
}

fn holds_its_line(cluster: &Cluster, row: &Row) {
    let node = text(&row.node["metadata"]["name"]);
    let pods = format!("/api/v1/namespaces/{TEAM}/pods");
    let names: Vec<String> = row.pods.iter().map(|pod| text(&pod["metadata"]["name"])).collect();
    let one = |pod: &Value, name: &str| {
        cluster.admin.create(&pods, pod.clone()).unwrap_or_else(|error| panic!("{error}"));
        cluster.admin.bind(&pod_path(TEAM, name), &node, &json!({}))
    };
    // Sixteen at a time: the first ones race, and the rest meets a full card.
    let together: Vec<_> = row.pods.iter().zip(&names).collect();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let mut outcomes = Vec::new();
        for group in together.chunks(16) {
            let threads: Vec<_> =
                group.iter().map(|(pod, name)| scope.spawn(|| one(pod, name))).collect();
            outcomes.extend(threads.into_iter().map(|one| one.join().expect("no panic")));
        }
        outcomes
    });
    let rejected: Vec<String> =
        outcomes.iter().filter_map(|one| one.as_ref().err()).map(ToString::to_string).collect();
    assert_eq!(outcomes.len() - rejected.len(), row.admitted, "{node}: {rejected:?}");
    for message in &rejected {
        for part in row.because {
            assert!(message.contains(part), "{node}: {part} is not in: {message}");
        }
    }
    if let Some(line) = row.each_card {
        let booked = booked(cluster, &names);
        assert!(booked.values().all(|mib| *mib <= line), "{node}: {booked:?}");
        let all: u64 = booked.values().sum();
        assert_eq!(booked.is_empty(), row.admitted == 0, "{node}: {all} MiB");
    }
}

/// Sums the MiB that are written on bound pods, by card.
fn booked(cluster: &Cluster, names: &[String]) -> BTreeMap<String, u64> {
    let mut booked = BTreeMap::new();
    for name in names {
        let pod = cluster.read(TEAM, name);
        let allocated = &pod["metadata"]["annotations"]["plimsoll.dev/allocated"];
        let Some(allocated) = allocated.as_str() else { continue };
        let allocated: Value = serde_json::from_str(allocated).expect("JSON");
        for card in allocated["containers"].as_object().expect("containers").values() {
            for card in card.as_array().expect("cards") {
                let mib = card["bytes"].as_u64().expect("bytes") >> 20;
                *booked.entry(text(&card["device"])).or_default() += mib;
            }
        }
    }
    booked
}
