//! Bindings that are announced, and claims that are given back.

use super::*;

fn bind_request(phase: &Value) -> Value {
    json!({"apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
        "metadata": {"name": "p", "namespace": "a"}, "status": {"phase": phase},
        "spec": {"podName": "p", "selectedNode": "n1"}})
}

#[test]
fn a_pod_that_kai_is_binding_counts_until_its_request_fails_or_is_long_gone() {
    let announced = bind_request(&Value::Null);
    let mut cluster = Cluster::new(&[node("n1", "b1"), pod("p", "", "1")]);
    assert_eq!(cluster.holders(), []);
    cluster.apply(&announced);
    assert_eq!(cluster.holders(), [("a/p".into(), RUNNING)]);
    cluster.apply(&bind_request(&json!("Failed")));
    assert_eq!(cluster.holders(), []);
    cluster.apply(&announced);
    // Its binding may be on its way by another watch.
    cluster.delete(&announced);
    cluster.pass(4);
    assert_eq!(cluster.holders(), [("a/p".into(), RUNNING)]);
    let mut bound = Cluster::new(&[node("n1", "b1"), pod("p", "", "1"), announced.clone()]);
    bound.delete(&announced);
    bound.apply(&pod("p", "n1", "1"));
    bound.pass(10);
    assert_eq!(bound.holders(), [("a/p".into(), RUNNING)]);
    cluster.pass(1);
    assert_eq!(cluster.holders(), []);
    // One that is there again stays.
    cluster.apply(&announced);
    cluster.delete(&announced);
    cluster.apply(&announced);
    cluster.pass(10);
    assert_eq!(cluster.holders(), [("a/p".into(), RUNNING)]);
}

fn slice() -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "n1-s"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": "n1", "pool": {"name": "n1", "generation": 1},
            "devices": [{"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-a"}},
                "capacity": {"memory": {"value": "40Gi"}}}]}})
}

/// A claim of the card of `n1`, or one without devices.
fn claim(allocation: &Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "a", "uid": "c1"}, "status": {"allocation": allocation}})
}

fn allocated() -> Value {
    let node = json!([{"key": "metadata.name", "operator": "In", "values": ["n1"]}]);
    claim(&json!({"nodeSelector": {"nodeSelectorTerms": [{"matchFields": node}]},
        "devices": {"results": [{"driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"}]}}))
}

fn user() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "a", "uid": "1"},
        "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "resources": {"claims": [{"name": "g"}]}}],
            "resourceClaims": [{"name": "g", "resourceClaimName": "c"}]},
        "status": {"phase": "Running"}})
}

/// The MiB that are held on the card of `n1`.
fn held_mib(cluster: &Cluster) -> Vec<Option<u64>> {
    let holdings = cluster.host.scheduler().ledger().holdings();
    let charged = holdings.filter(|(_, holding)| !holding.charges.is_empty());
    charged.map(|(_, holding)| holding.bytes().map(|bytes| bytes.get() >> 20)).collect()
}

#[test]
fn a_claim_keeps_its_devices_while_a_pod_that_vanished_may_still_use_them() {
    let bare = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "n"}});
    for given_back in [Some(claim(&Value::Null)), None] {
        let mut cluster = Cluster::new(&[bare.clone(), slice(), allocated(), user()]);
        assert_eq!(held_mib(&cluster), [Some(40 << 10)]);
        cluster.hear(10);
        cluster.delete(&user());
        match &given_back {
            Some(after) => cluster.apply(after),
            None => cluster.delete(&allocated()),
        }
        cluster.pass(1);
        assert_eq!(held_mib(&cluster), [Some(40 << 10)], "{given_back:?}");
        cluster.hear(100);
        cluster.pass(1);
        assert_eq!(held_mib(&cluster), [], "{given_back:?}");
    }
}

#[test]
fn a_claim_that_was_given_back_while_no_process_watched_counts_as_releasing() {
    let bare = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "n"}});
    let watch = || Watch::new(Reading::default()).keeping_records(RecordKeeping::Always);
    let start = |objects: &[Value]| {
        let mut cluster = Cluster { host: Host::new(watch(), Settings::default()), now: 1_000_000 };
        objects.iter().for_each(|object| cluster.apply(object));
        cluster
    };
    let mut cluster = start(&[bare.clone(), slice(), allocated(), user()]);
    let now = Millis(cluster.now);
    let changes = cluster.host.with(now, |watch, core| watch.take_records(core)).changes;
    let lines = changes.into_iter().filter_map(|change| change.line);
    let records: Vec<HoldersRecord> =
        lines.map(|line| HoldersRecord::decode(&line).expect("it was just written")).collect();
    let recalled = Recalled { records, ..Recalled::default() };
    for (objects, held) in [
        (vec![bare.clone(), slice(), allocated(), user()], 1),
        (vec![bare.clone(), slice(), claim(&Value::Null)], 1),
        (vec![bare.clone(), slice()], 1),
    ] {
        let mut again = start(&objects);
        again.observe(Observation::Recalled(recalled.clone()));
        assert_eq!(held_mib(&again), vec![Some(40 << 10); held], "{objects:?}");
    }
}
