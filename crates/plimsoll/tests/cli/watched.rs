//! A live cluster on a real API server: the commands on it, and `plimsoll kube`.

use std::fs;
use std::time::Duration;

use plimsoll_testbed::api::{Api, pod_path};
use plimsoll_testbed::client::Client;
use plimsoll_testbed::control_plane::{Component, ControlPlane, Ending, Settings};
use plimsoll_testbed::kubelet::Kubelet;
use plimsoll_testbed::objects::{self, GpuNode};
use plimsoll_testbed::programs;
use serde_json::{Value, json};

use crate::tool::{piped, plimsoll, root};
use crate::watching::Watching;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod of 8000 MiB; without a node if that is empty.
fn share(name: &str, node: &str) -> Value {
    let mut pod = objects::pod(name);
    pod["metadata"]["annotations"] = json!({"gpu-memory": "8000"});
    pod["spec"]["schedulerName"] = json!("another-scheduler");
    if !node.is_empty() {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

/// The first incident: a card of 32,607 MiB that is advertised 100 times, four pods of 8000 MiB on
/// it, and a fifth that is pending.
fn incident(admin: &Client) {
    let node = GpuNode::new("gpu-node", 1, 32_607).shared(100);
    Kubelet::register(admin, &node, jiff::Timestamp::now()).expect("a node");
    for name in ["web-1", "web-2", "web-3", "web-4"] {
        admin.create(PODS, share(name, "gpu-node")).expect("a pod");
    }
    admin.create(PODS, share("web-5", "")).expect("a pod");
}

#[test]
fn commands_on_a_live_cluster_answer_as_on_its_dump() {
    let Some(programs) = programs::find_or_skip("commands_on_a_live_cluster") else { return };
    let plane = ControlPlane::start(&programs, &Settings::default()).expect("a control plane");
    incident(&plane.admin());
    let dump = plane.kubectl("admin").args(["get", "nodes,pods", "-A", "-o", "json"]).output();
    let dump = String::from_utf8(dump.expect("kubectl runs").stdout).expect("JSON is UTF-8");
    let config = plane.kubeconfig("admin");
    for command in [
        "audit -o json",
        "audit -o sarif",
        "audit",
        "simulate -o json",
        "simulate",
        "devices",
        "explain default/web-5",
        "explain -o json default/web-5",
    ] {
        let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
        let live = plimsoll(&format!("{name} --kubeconfig {} {rest}", config.display()));
        let offline = piped(&format!("{name} {rest} -f -"), &dump);
        assert_eq!((live.code, &live.err), (offline.code, &offline.err), "{command}");
        assert_eq!(live.out, offline.out, "{command}");
    }
    let named = plimsoll(&format!("explain --kubeconfig {} web-5 -n default", config.display()));
    assert!(named.out.contains("7393 MiB short"), "{}{}", named.out, named.err);
    let other = plimsoll(&format!("explain --kubeconfig {} web-5 -n other", config.display()));
    other.fails_with(&["there is no pod other/web-5"]);
}

/// Both are reported within two seconds, and are gone once their cause is.
fn a_use_without_a_request_and_a_contradiction_are_found_in_time(
    watching: &mut Watching,
    admin: &Client,
) {
    let mut pod = objects::pod("unasked");
    pod["spec"]["nodeName"] = json!("gpu-node");
    let all = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
    pod["spec"]["containers"][0]["env"] = all;
    admin.create(PODS, pod).expect("a pod");
    let has = |code: &'static str| {
        move |watching: &Watching| {
            watching.text("/api/v1/findings").is_some_and(|found| found.contains(code))
        }
    };
    let took = watching.until(Duration::from_secs(10), has("gpu-without-request"));
    assert!(took < Duration::from_secs(2), "{took:?}");
    let held = ("unasked".to_owned(), "running".to_owned());
    assert!(watching.holders().contains(&held), "{:?}", watching.holders());
    let status = json!({"status": {"phase": "Succeeded"}});
    admin.patch(&format!("{}/status", pod_path("default", "unasked")), status).expect("a status");
    watching.until(Duration::from_secs(10), |watching| !has("gpu-without-request")(watching));

    let label = |count: &str| {
        let labels = json!({"metadata": {"labels": {"nvidia.com/gpu.count": count}}});
        admin.patch("/api/v1/nodes/gpu-node", labels).expect("a label");
    };
    label("3");
    let took = watching.until(Duration::from_secs(10), has("capacity-contradiction"));
    assert!(took < Duration::from_secs(2), "{took:?}");
    label("1");
    watching.until(Duration::from_secs(10), |watching| !has("capacity-contradiction")(watching));
}

/// The metrics that the page about live clusters lists are served.
fn documented_metrics_are_served(watching: &Watching) {
    let page = fs::read_to_string(root().join("docs/kubernetes-live.md")).expect("the page");
    let names =
        page.lines().filter_map(|line| line.strip_prefix("| `plimsoll_")?.split('`').next());
    let names: Vec<String> = names.map(|name| format!("plimsoll_{name}")).collect();
    let served = watching.text("/metrics").expect("metrics");
    assert!(names.len() > 4, "{names:?}");
    for name in names {
        assert!(served.contains(&format!("\n{name}")), "{name} is not served");
    }
}

/// Every metric of the rules and of the dashboard is in the documentation, and every runbook is a
/// section of a page.
#[test]
fn alerts_and_dashboard_of_a_cluster_use_documented_metrics_and_runbooks() {
    let page = |name: &str| fs::read_to_string(root().join(name)).expect("a page");
    let documented = page("docs/metrics.md") + &page("docs/kubernetes-live.md");
    let rules = page("deploy/prometheus/alerts-cluster.yaml");
    for text in [&rules, &page("deploy/grafana/plimsoll-cluster.json")] {
        for (at, _) in text.match_indices("plimsoll_") {
            let rest = &text[at..];
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let name = rest[..end.unwrap_or(rest.len())].trim_end_matches("_bucket");
            assert!(documented.contains(&format!("| `{name}` |")), "{name} is not documented");
        }
    }
    let rules: Value = serde_saphyr::from_str(&rules).expect("YAML");
    for rule in rules["groups"][0]["rules"].as_array().expect("rules") {
        let runbook = rule["annotations"]["runbook"].as_str().expect("a runbook");
        let (file, section) = runbook.split_once('#').unwrap_or((runbook, ""));
        let text = page(file);
        let headings =
            text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
        let mut anchors = headings.map(|heading| heading.to_lowercase().replace(' ', "-"));
        assert!(section.is_empty() || anchors.any(|anchor| anchor == section), "{runbook}");
    }
}

#[test]
fn a_watched_cluster_has_the_charges_that_its_objects_prove() {
    let Some(programs) = programs::find_or_skip("a_watched_cluster") else { return };
    let mut plane = ControlPlane::start(&programs, &Settings::default()).expect("a control plane");
    let admin = plane.admin();
    incident(&admin);
    let config = plane.kubeconfig("admin").display().to_string();
    let mut watching = Watching::start(&config);

    let devices = watching.text("/api/v1/devices").expect("an answer");
    let once = plimsoll(&format!("devices --kubeconfig {config} -o json")).json(0);
    let rows: Value = serde_json::from_str(&devices).expect("JSON");
    assert_eq!(rows, once["devices"], "continuously and once is the same");
    let queue = watching.json("/api/v1/scheduler/queue");
    assert_eq!(queue[0]["id"], "default/web-5");
    assert_eq!(queue[0]["scheduler"], "another-scheduler");
    assert!(queue[0]["reason"].as_str().is_some_and(|text| text.contains("7393 MiB short")));
    let forecast = &queue[0]["forecast"];
    assert_eq!(forecast["account"]["account"], "default");
    // The pods that are in the way end only by themselves.
    assert_eq!(
        (&forecast["start"]["code"], &forecast["start"]["at"]),
        (&json!("no_bound"), &Value::Null)
    );
    let log = watching.json("/api/v1/namespaces/default/pods/web-5/schedulerlog");
    assert_eq!((&log["status"], &log["filter"]["status"]), (&json!("failed"), &json!("failed")));
    let decision = watching.json("/api/v1/scheduler/decisions")[0].clone();
    assert_eq!((&decision["opinion"], &decision["placed"]), (&json!(true), &json!(false)));

    // A card over its line is reported within two seconds, with the names on it.
    admin.create(PODS, share("over", "gpu-node")).expect("a pod");
    let took = watching.until(Duration::from_secs(10), |watching| {
        let found = watching.text("/api/v1/findings").unwrap_or_default();
        found.contains("device-over-line") && found.contains("default/over")
    });
    assert!(took < Duration::from_secs(2), "{took:?}");

    a_use_without_a_request_and_a_contradiction_are_found_in_time(&mut watching, &admin);
    documented_metrics_are_served(&watching);

    // A forced deletion is no evidence; a reboot of the node is.
    admin.delete(&pod_path("default", "over")).expect("it is there");
    watching.until(Duration::from_secs(10), |watching| {
        watching.holders().contains(&("over".into(), "releasing".into()))
    });
    let releasing = watching.json("/api/v1/releasing");
    let waits_for = releasing[0]["waits_for"].as_str().unwrap_or_default();
    assert!(waits_for.contains("the kubelet of gpu-node to be heard for 90s"), "{waits_for}");
    let node = GpuNode::new("gpu-node", 1, 32_607).shared(100);
    let boot = json!({"status": {"nodeInfo": {"bootID": "another"}}});
    admin.patch(&format!("/api/v1/nodes/{}/status", node.name), boot).expect("a patch");
    watching.until(Duration::from_secs(10), |watching| {
        watching.text("/api/v1/devices").as_deref() == Some(devices.as_str())
    });

    // The API server restarts, and changes are followed again.
    plane.restart(Component::ApiServer, Ending::Killed).expect("it starts again");
    admin.create(PODS, share("web-6", "")).expect("a pod");
    watching.until(Duration::from_secs(30), |watching| {
        watching.text("/api/v1/scheduler/queue").is_some_and(|queue| queue.contains("web-6"))
    });
    assert_eq!(watching.text("/api/v1/devices").as_deref(), Some(devices.as_str()));

    // Killed and started again: the same charges on the same cards, byte for byte.
    drop(watching);
    let watching = Watching::start(&config);
    assert_eq!(watching.text("/api/v1/devices").as_deref(), Some(devices.as_str()));
}
