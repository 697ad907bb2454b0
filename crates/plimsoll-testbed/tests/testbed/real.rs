//! A real control plane: the cases, rights, restarts, compaction and the stock scheduler.

use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use plimsoll_testbed::api::{Api, WatchEventKind, pod_path, version};
use plimsoll_testbed::control_plane::{Component, ControlPlane, Durability, Ending, Settings};
use plimsoll_testbed::kubelet::Kubelet;
use plimsoll_testbed::objects::{self, GpuNode};
use plimsoll_testbed::programs;
use serde_json::{Value, json};

use crate::cases::CASES;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn start(test: &str, settings: &Settings) -> Option<ControlPlane> {
    let programs = programs::find_or_skip(test)?;
    let plane = ControlPlane::start(&programs, settings).unwrap_or_else(|error| panic!("{error}"));
    ensure_default_namespace(&plane.admin());
    Some(plane)
}

/// The API server creates its own namespaces some time after it is ready.
fn ensure_default_namespace(api: &dyn Api) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    if let Err(error) = api.create("/api/v1/namespaces", object) {
        assert_eq!(error.status(), Some(409), "{error}");
    }
}

fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} did not happen within 60 s");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_real_api_server_satisfies_every_case() {
    let Some(plane) = start("the cases on a real API server", &Settings::default()) else { return };
    let api = plane.admin();
    for (name, case) in CASES {
        println!("{name}");
        case(&api);
    }
    // Bookmarks are the one case that a real server takes minutes for.
    rights_are_those_of_the_user(&plane);
    kubectl_uses_the_kubeconfig_of_the_user(&plane);
}

fn rights_are_those_of_the_user(plane: &ControlPlane) {
    let error = plane.client("guest").get("/api/v1/pods").expect_err("a guest has no rights");
    assert_eq!((error.status(), error.reason()), (Some(403), Some("Forbidden")), "{error}");
    let unknown = plimsoll_testbed::client::Client::new(
        &plane.url(),
        &plane.authority().certificate,
        "no-such-token",
    );
    assert_eq!(unknown.get("/api/v1/pods").expect_err("no user").status(), Some(401));
}

fn kubectl_uses_the_kubeconfig_of_the_user(plane: &ControlPlane) {
    let output = plane.kubectl("plimsoll").args(["auth", "whoami", "-o", "json"]).output();
    let output = output.expect("kubectl runs");
    let review: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let user = &review["status"]["userInfo"]["username"];
    assert_eq!(user, "system:serviceaccount:plimsoll:plimsoll");
}

#[test]
fn restarts_and_crashes_of_etcd_and_the_api_server_keep_the_objects() {
    let settings = Settings { durability: Durability::Synced, ..Settings::default() };
    let Some(mut plane) = start("restarts of a real control plane", &settings) else { return };
    let api = plane.admin();
    let pod = api.create(PODS, objects::gpu_pod("web", 8000)).expect("a pod");
    for component in [Component::Etcd, Component::ApiServer] {
        for ending in [Ending::Clean, Ending::Killed] {
            plane.restart(component, ending).unwrap_or_else(|error| panic!("{error}"));
            let found = wait_for("an answer after the restart", || {
                api.get(&pod_path("default", "web")).ok()
            });
            assert_eq!(found, pod, "after {component:?} was {ending:?}");
        }
    }
    plane.stop_component(Component::ApiServer, Ending::Killed);
    let error = api.get(PODS).expect_err("the API server is gone");
    assert_eq!(error.status(), None, "{error}");
}

#[test]
fn a_version_before_a_compaction_is_gone() {
    let Some(mut plane) = start("compaction on a real API server", &Settings::default()) else {
        return;
    };
    let api = plane.admin();
    let first = api.get(PODS).expect("a list");
    for index in 0..3 {
        api.create(PODS, objects::pod(&format!("p{index}"))).expect("a pod");
    }
    plane.compact().unwrap_or_else(|error| panic!("{error}"));
    // A restart empties the watch cache, which would still know the events.
    plane.restart(Component::ApiServer, Ending::Clean).unwrap_or_else(|error| panic!("{error}"));
    let status = match api.watch(PODS, version(&first)) {
        Err(error) => json!(error.status()),
        Ok(mut watch) => {
            let event = watch.next(Duration::from_secs(20)).expect("an event");
            assert_eq!(event.kind, WatchEventKind::Error, "{event:?}");
            event.object["code"].clone()
        }
    };
    assert_eq!(status, 410);
}

#[test]
fn the_stock_scheduler_binds_a_pod_to_the_node_of_a_stand_in() {
    let Some(mut plane) = start("the stock kube-scheduler", &Settings::default()) else { return };
    let api = plane.admin();
    let node = GpuNode::new("gpu-node", 1, 32_607).shared(100);
    Kubelet::register(&api, &node, Timestamp::now()).expect("a node");
    plane.start_component(Component::Scheduler).unwrap_or_else(|error| panic!("{error}"));
    api.create(PODS, objects::gpu_pod("web", 8000)).expect("a pod");
    let path = pod_path("default", "web");
    let bound = wait_for("a binding", || {
        let pod = api.get(&path).ok()?;
        pod["spec"]["nodeName"].is_string().then_some(pod)
    });
    assert_eq!(bound["spec"]["nodeName"], "gpu-node");
}
