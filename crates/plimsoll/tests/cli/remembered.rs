//! `plimsoll kube --data` on a real API server: what vanished meanwhile, and the history.

use std::fs;
use std::time::Duration;

use plimsoll_testbed::api::{Api, node_path, pod_path};
use plimsoll_testbed::client::Client;
use plimsoll_testbed::control_plane::{ControlPlane, Settings};
use plimsoll_testbed::kubelet::Kubelet;
use plimsoll_testbed::objects::{self, GpuNode};
use plimsoll_testbed::programs;
use serde_json::{Value, json};

use crate::tool::{plimsoll, scratch};
use crate::watching::Watching;

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODE: &str = "gpu-node";
const PATIENCE: Duration = Duration::from_secs(30);

/// A pod of this memory; without a node if that is empty.
fn share(name: &str, mib: &str, node: &str) -> Value {
    let mut pod = objects::pod(name);
    pod["metadata"]["annotations"] = json!({"gpu-memory": mib});
    pod["spec"]["nodeName"] = if node.is_empty() { Value::Null } else { json!(node) };
    pod
}

/// A card of 32,607 MiB that is advertised 100 times.
fn card(admin: &Client) {
    let node = GpuNode::new(NODE, 1, 32_607).shared(100);
    Kubelet::register(admin, &node, jiff::Timestamp::now()).expect("a node");
}

fn reboot(admin: &Client, boot: &str) {
    let boot = json!({"status": {"nodeInfo": {"bootID": boot}}});
    admin.patch(&format!("{}/status", node_path(NODE)), boot).expect("a patch");
}

fn held(names: &[(&str, &str)]) -> Vec<(String, String)> {
    names.iter().map(|(name, stage)| ((*name).to_owned(), (*stage).to_owned())).collect()
}

#[test]
fn a_watch_with_a_data_directory_remembers_holders_and_its_history_replays() {
    let Some(programs) = programs::find_or_skip("kube --data") else { return };
    let plane = ControlPlane::start(&programs, &Settings::default()).expect("a control plane");
    let admin = plane.admin();
    card(&admin);
    for name in ["gone", "stays"] {
        admin.create(PODS, share(name, "8000", NODE)).expect("a pod");
    }
    let config = plane.kubeconfig("admin").display().to_string();
    let data = scratch("kube-data");
    let options = ["--data", data.to_str().expect("text")];

    let mut watching = Watching::start_with(&config, &options);
    assert_eq!(watching.json("/api/v1/watch")["record"], "data_directory");
    let record = data.join("holders.log");
    watching.until(PATIENCE, |_| {
        fs::read_to_string(&record).is_ok_and(|record| record.contains("\"gone\""))
    });
    let second = plimsoll(&format!(
        "kube -q --kubeconfig {config} --listen 127.0.0.1:0 --data {}",
        data.display()
    ));
    second.fails_with(&["is in use by"]);
    // Something to decide, for the history.
    admin.create(PODS, share("pending", "30000", "")).expect("a pod");
    watching.until(PATIENCE, |watching| {
        watching.text("/api/v1/scheduler/queue").is_some_and(|queue| queue.contains(" short"))
    });
    drop(watching);
    admin.delete(&pod_path("default", "gone")).expect("it is deleted by force");

    let mut watching = Watching::start_with(&config, &options);
    assert_eq!(watching.holders(), held(&[("gone", "releasing"), ("stays", "running")]));
    let watch = watching.json("/api/v1/watch");
    assert!(watch["holders_known_since"].as_str() < watch["watching_since"].as_str(), "{watch}");
    reboot(&admin, "another");
    watching.until(PATIENCE, |watching| watching.holders() == held(&[("stays", "running")]));
    drop(watching);

    // Without the directory it is not known, and the program says so.
    let watching = Watching::start(&config);
    let watch = watching.json("/api/v1/watch");
    assert_eq!(watch["record"], "none");
    assert_eq!(watch["holders_known_since"], watch["watching_since"]);
    drop(watching);

    let replayed = plimsoll(&format!("replay {} -o json", data.display())).json(0);
    assert_eq!(replayed["same"], true, "{replayed}");
    assert!(replayed["decisions"].as_u64() > Some(0), "{replayed}");
    let served = plimsoll(&format!("serve -q --listen 127.0.0.1:0 --data {}", data.display()));
    served.fails_with(&["the history of `plimsoll kube` is for `plimsoll replay` only"]);
    a_damaged_line_is_reported(&config, &data);
}

fn a_damaged_line_is_reported(config: &str, data: &std::path::Path) {
    let record = data.join("holders.log");
    let text = fs::read_to_string(&record).expect("a record");
    fs::write(&record, text.replace("\"stays\"", "\"other\"")).expect("a file");
    let watching = Watching::start_with(config, &["--data", data.to_str().expect("text")]);
    assert_eq!(watching.json("/api/v1/watch")["damaged_records"], 1);
    let findings = watching.text("/api/v1/findings").unwrap_or_default();
    assert!(findings.contains("holders-record-damaged"), "{findings}");
    assert_eq!(watching.holders(), held(&[("stays", "running")]));
}

#[test]
fn what_if_answers_for_pods_and_manifests() {
    let Some(programs) = programs::find_or_skip("what-if of kube") else { return };
    let plane = ControlPlane::start(&programs, &Settings::default()).expect("a control plane");
    let admin = plane.admin();
    card(&admin);
    admin.create(PODS, share("holder", "20000", NODE)).expect("a pod");
    admin.create(PODS, share("large", "13000", "")).expect("a pod");
    let watching = Watching::start(&plane.kubeconfig("admin").display().to_string());
    let ask = |body: &Value| watching.post("/api/v1/scheduler/whatif", body);
    let asked = |body: Value| {
        let (status, text) = ask(&body);
        let row: Value = serde_json::from_str(&text).unwrap_or_default();
        assert_eq!(status, 200, "{text}");
        row
    };
    let known = asked(json!({"pod": {"namespace": "default", "name": "large"}}));
    assert_eq!((&known["placed"], &known["opinion"]), (&json!(false), &json!(true)));
    let device = &known["candidates"][0]["containers"][0]["devices"][0];
    assert_eq!(device["short_by"], 393_u64 << 20, "{known}");
    let remedies = known["would_fit_if"].to_string();
    assert!(remedies.contains("holder") || remedies.contains("12607"), "{known}");
    let fits = asked(json!({"manifest": share("new", "12607", "")}));
    assert_eq!((&fits["placed"], &fits["node"]), (&json!(true), &json!(NODE)));
    let over = asked(json!({"manifest": share("new", "12608", "")}));
    assert_eq!(over["placed"], false, "{over}");
    // Nothing was done.
    assert_eq!(watching.holders(), held(&[("holder", "running")]));

    let unreadable = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": 5}});
    for (body, status, part) in [
        (json!({}), 400, "either the name of a pod or a manifest"),
        (json!({"pod": {"namespace": "default"}}), 400, "name"),
        (json!({"manifests": {}}), 400, "manifests"),
        (
            json!({"manifest": {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}}),
            400,
            "kind Pod",
        ),
        (json!({"manifest": unreadable}), 400, "manifest"),
        (json!({"pod": {"namespace": "default", "name": "none"}}), 404, "no pod default/none"),
        (json!({"pod": {"namespace": "default", "name": "holder"}}), 409, "is on gpu-node already"),
    ] {
        let (found, text) = ask(&body);
        assert_eq!(found, status, "{body}: {text}");
        assert!(text.contains(part), "{body}: {text}");
    }
}

/// The definition of KAI's bind requests, as far as placement reads them.
fn bind_requests() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "bindrequests.scheduling.run.ai"},
        "spec": {
            "group": "scheduling.run.ai", "scope": "Namespaced",
            "names": {"plural": "bindrequests", "singular": "bindrequest", "kind": "BindRequest"},
            "versions": [{"name": "v1alpha2", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}],
        },
    })
}

#[test]
fn bind_requests_are_followed_while_the_cluster_serves_them() {
    let Some(programs) = programs::find_or_skip("bind requests") else { return };
    let plane = ControlPlane::start(&programs, &Settings::default()).expect("a control plane");
    let admin = plane.admin();
    card(&admin);
    admin.create(PODS, share("web", "8000", "")).expect("a pod");
    let mut watching = Watching::start(&plane.kubeconfig("admin").display().to_string());
    assert_eq!(watching.holders(), []);

    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    admin.create(definitions, bind_requests()).expect("a definition");
    let requests = "/apis/scheduling.run.ai/v1alpha2/namespaces/default/bindrequests";
    let request = json!({
        "apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
        "metadata": {"name": "web-1"}, "spec": {"podName": "web", "selectedNode": NODE},
    });
    let start = std::time::Instant::now();
    while let Err(error) = admin.create(requests, request.clone()) {
        assert!(start.elapsed() < PATIENCE, "{error}");
        std::thread::sleep(Duration::from_millis(100));
    }
    // It was not served at the start, and is found by a look at what is.
    watching.until(Duration::from_secs(60), |watching| {
        watching.holders() == held(&[("web", "running")])
    });
    assert_eq!(watching.json("/api/v1/scheduler/queue"), json!([]));
    let failed = json!({"status": {"phase": "Failed"}});
    admin.patch(&format!("{requests}/web-1"), failed).expect("a patch");
    watching.until(PATIENCE, |watching| watching.holders().is_empty());
    admin.patch(&format!("{requests}/web-1"), json!({"status": null})).expect("a patch");
    watching.until(PATIENCE, |watching| !watching.holders().is_empty());
    // One that is deleted still counts for a moment: the binding may be on its way.
    admin.delete(&format!("{requests}/web-1")).expect("it is there");
    let took = watching.until(PATIENCE, |watching| watching.holders().is_empty());
    assert!(took > Duration::from_secs(3), "{took:?}");
    admin.delete(&format!("{definitions}/bindrequests.scheduling.run.ai")).expect("it is there");
    admin.create(PODS, share("later", "8000", NODE)).expect("a pod");
    watching.until(PATIENCE, |watching| watching.holders() == held(&[("later", "running")]));
}
