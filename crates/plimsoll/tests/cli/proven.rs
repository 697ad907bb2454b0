//! Accounting on a live cluster (acceptance B5 to B19): each row has its own node and pods on one
//! real API server, and states what `/api/v1/devices`, the queue and the scheduler log say of them.

mod changes;
mod rows;

use plimsoll_testbed::api::{Api, node_path, pod_path};
use plimsoll_testbed::client::Client;
use plimsoll_testbed::control_plane::{ControlPlane, Settings};
use plimsoll_testbed::programs;
use serde_json::{Value, json};

use crate::watching::Watching;

/// One case: a node, and pods that are on it or can only go there.
pub(super) struct Row {
    pub(super) case: &'static str,
    pub(super) node: Value,
    pub(super) pods: Vec<Value>,
    /// The holders of each card, in order: card, pod and MiB.
    pub(super) held: Vec<(&'static str, &'static str, u64)>,
    /// The opinions about pending pods.
    pub(super) asked: Vec<Asked>,
    /// Codes of findings that name the node.
    pub(super) found: &'static [&'static str],
}

/// The opinion about a pending pod.
pub(super) struct Asked {
    pub(super) pod: &'static str,
    pub(super) fits: bool,
    /// Parts of the reason.
    pub(super) because: &'static [&'static str],
}

impl Row {
    pub(super) fn name(&self) -> &str {
        self.node["metadata"]["name"].as_str().expect("a node has a name")
    }
}

fn namespace(admin: &Client, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    match admin.create("/api/v1/namespaces", object) {
        Err(error) if error.status() != Some(409) => panic!("{error}"),
        _ => {}
    }
}

/// Creates the objects of a row; its pods are in a namespace of its name, and can go to no other
/// node.
fn create(admin: &Client, row: &Row) {
    let name = row.name();
    admin.create("/api/v1/nodes", row.node.clone()).unwrap_or_else(|error| panic!("{error}"));
    admin.patch(&node_path(name), json!({"spec": {"taints": null}})).expect("a node");
    // The API server does not store the status of resources that its kubelet would report.
    let status = json!({"status": row.node["status"]});
    admin.patch(&format!("{}/status", node_path(name)), status).expect("a status");
    namespace(admin, name);
    for pod in &row.pods {
        let mut pod = pod.clone();
        if pod["spec"]["nodeName"].is_null() {
            pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": name});
        }
        let (status, namespace) = (pod["status"].clone(), pod["metadata"]["namespace"].clone());
        let namespace = namespace.as_str().unwrap_or(name);
        self::namespace(admin, namespace);
        let created = admin.create(&format!("/api/v1/namespaces/{namespace}/pods"), pod.clone());
        created.unwrap_or_else(|error| panic!("{}: {error}", row.case));
        if status.is_object() {
            let path = pod_path(namespace, pod["metadata"]["name"].as_str().expect("a name"));
            admin.patch(&format!("{path}/status"), json!({"status": status})).expect("a status");
        }
    }
}

/// The holders of the cards of a node: card, pod and MiB.
pub(super) fn held(watching: &Watching, node: &str) -> Vec<(String, String, u64)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let devices = watching.json("/api/v1/devices");
    let cards = devices.as_array().into_iter().flatten().filter(|row| row["node"] == node);
    let tenants = cards.flat_map(|card| {
        let tenants = card["tenants"].as_array().into_iter().flatten();
        tenants.map(|tenant| {
            let mib = tenant["bytes"].as_u64().unwrap_or_default() >> 20;
            (text(&card["uuid"]), text(&tenant["pod"]), mib)
        })
    });
    tenants.collect()
}

/// Returns what is said about a pending pod: whether it fits, and why not.
fn opinion(watching: &Watching, namespace: &str, pod: &str) -> Option<(bool, String)> {
    let queue = watching.json("/api/v1/scheduler/queue");
    let id = format!("{namespace}/{pod}");
    let row = queue.as_array()?.iter().find(|row| row["id"] == id.as_str())?.clone();
    Some((row["fits"].as_bool()?, row["reason"].as_str()?.to_owned()))
}

fn is_as_stated(watching: &Watching, row: &Row) {
    let (case, node) = (row.case, row.name());
    let wanted: Vec<_> =
        row.held.iter().map(|(card, pod, mib)| ((*card).into(), (*pod).into(), *mib)).collect();
    assert_eq!(held(watching, node), wanted, "{case}");
    for Asked { pod, fits, because } in &row.asked {
        let said = opinion(watching, node, pod);
        let (found, reason) = said.unwrap_or_else(|| panic!("{case}: {pod} is not judged"));
        assert_eq!(found, *fits, "{case}: {pod}: {reason}");
        for part in *because {
            assert!(reason.contains(part), "{case}: {pod}: {part} is not in: {reason}");
        }
        // The log has the same outcome in the words of HAMi's proposal (A3).
        let log = watching.json(&format!("/api/v1/namespaces/{node}/pods/{pod}/schedulerlog"));
        let passed = if *fits { "passed" } else { "failed" };
        assert_eq!(log["status"], "failed", "{case}: {pod} is not bound: {log}");
        assert_eq!(log["filter"]["status"], passed, "{case}: {pod}: {log}");
        assert_eq!(log["bind"], json!({"status": "", "summary": ""}), "{case}: {pod}: {log}");
    }
    let findings = watching.json("/api/v1/findings");
    for code in row.found {
        let named = findings.as_array().into_iter().flatten().any(|finding| {
            finding["code"] == *code && finding.to_string().contains(&format!("\"{node}"))
        });
        assert!(named, "{case}: {code} is not found: {findings}");
    }
}

#[test]
fn a_live_cluster_is_accounted_for_as_its_objects_prove() {
    let Some(programs) = programs::find_or_skip("accounting on a live cluster") else { return };
    let plane = ControlPlane::start(&programs, &Settings::default()).expect("a control plane");
    let admin = plane.admin();
    let rows = rows::rows();
    rows.iter().for_each(|row| create(&admin, row));
    let config = plane.kubeconfig("admin").display().to_string();
    let mut watching = Watching::start(&config);
    watching.until(std::time::Duration::from_secs(30), |watching| {
        let queue = watching.json("/api/v1/scheduler/queue");
        queue.as_array().is_some_and(|rows| rows.iter().all(|row| !row["fits"].is_null()))
    });
    rows.iter().for_each(|row| is_as_stated(&watching, row));
    changes::are_followed(&admin, &mut watching);
    // What was followed is what a program says that was just started, byte for byte.
    let followed = watching.text("/api/v1/devices");
    drop(watching);
    let again = Watching::start(&config);
    assert_eq!(again.text("/api/v1/devices"), followed);
}
