//! A watched cluster whose components fail: after each failure the same charges are on the same
//! cards, byte for byte.

use std::time::Duration;

use plimsoll_testbed::api::{Api, pod_path};
use plimsoll_testbed::client::Client;
use plimsoll_testbed::control_plane::{Component, ControlPlane, Durability, Ending, Settings};
use plimsoll_testbed::kubelet::Kubelet;
use plimsoll_testbed::objects::{self, GpuNode};
use plimsoll_testbed::programs;
use serde_json::{Value, json};

use crate::tool::plimsoll;
use crate::watching::Watching;

const PODS: &str = "/api/v1/namespaces/default/pods";
const WITHIN: Duration = Duration::from_secs(60);

/// A small random number generator with a seed: a failing run is repeated by its seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A pod of some memory on a node, made in one of the ways that the field knows.
fn pod(chance: &mut Chance, at: usize) -> Value {
    let mut pod = objects::pod(&format!("pod-{at:03}"));
    let container = &mut pod["spec"]["containers"][0];
    match chance.below(4) {
        0 => container["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}}),
        1 => {
            container["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
            pod["metadata"]["annotations"] = json!({"gpu-memory": "8k"});
        }
        2 => pod["metadata"]["annotations"] = json!({"gpu-memory": "2000"}),
        // A use of a card without a request.
        _ => container["env"] = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}]),
    }
    if chance.below(4) > 0 {
        let node = ["node-a", "node-b"][usize::from(chance.below(2) == 0)];
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

/// Makes one change as a user, a scheduler or a kubelet would.
fn change(admin: &Client, chance: &mut Chance, made: &mut usize) {
    let some = pod_path("default", &format!("pod-{:03}", chance.below(*made as u64 + 1)));
    let status = |status: Value| {
        // The pod may be gone, which is a change by another one.
        let _ = admin.patch(&format!("{some}/status"), json!({"status": status}));
    };
    match chance.below(8) {
        0 => status(json!({"phase": "Running"})),
        1 => status(json!({"phase": "Succeeded"})),
        2 => status(json!({"phase": "Failed", "reason": "UnexpectedAdmissionError"})),
        3 => {
            let metadata =
                json!({"metadata": {"labels": {"changed": chance.below(9).to_string()}}});
            let _ = admin.patch(&some, metadata);
        }
        4 => {
            let _ = admin.bind(&some, "node-a", &json!({}));
        }
        _ => {
            admin.create(PODS, pod(chance, *made)).unwrap_or_else(|error| panic!("{error}"));
            *made += 1;
        }
    }
}

/// The devices as the cluster's objects prove them, by a program that was just started.
fn proven(config: &str) -> Value {
    let run = plimsoll(&format!("devices --kubeconfig {config} -o json"));
    assert!(run.code.is_some_and(|code| code < 2), "{}", run.err);
    let sheet: Value = serde_json::from_str(&run.out).expect("JSON");
    sheet["devices"].clone()
}

/// Waits until a program that watched all along shows what one that was just started shows.
fn settles(watching: &mut Watching, config: &str, after: &str) {
    let wanted = proven(config);
    let mut shown = Value::Null;
    for _ in 0..600 {
        let text = watching.text("/api/v1/devices").unwrap_or_default();
        shown = serde_json::from_str(&text).unwrap_or_default();
        if shown == wanted {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(shown, wanted, "after {after}");
}

#[test]
fn failures_of_every_component_change_no_charge() {
    let Some(programs) = programs::find_or_skip("failures of every component") else { return };
    let settings = Settings { durability: Durability::Synced, ..Settings::default() };
    let mut plane = ControlPlane::start(&programs, &settings).expect("a control plane");
    let admin = plane.admin();
    for name in ["node-a", "node-b"] {
        let node = GpuNode::new(name, 2, 32_607).shared(10);
        Kubelet::register(&admin, &node, jiff::Timestamp::now()).expect("a node");
    }
    let config = plane.kubeconfig("admin").display().to_string();
    let seed = std::process::id();
    println!("seed {seed}");
    let (mut chance, mut made) = (Chance(u64::from(seed)), 0);
    let mut watching = Watching::start(&config);
    for _ in 0..30 {
        change(&admin, &mut chance, &mut made);
    }
    settles(&mut watching, &config, "changes");

    for component in [Component::Etcd, Component::ApiServer] {
        for ending in [Ending::Clean, Ending::Killed] {
            plane.restart(component, ending).unwrap_or_else(|error| panic!("{error}"));
            watching.until(WITHIN, |_| admin.get("/api/v1/nodes").is_ok());
            for _ in 0..5 {
                change(&admin, &mut chance, &mut made);
            }
            settles(&mut watching, &config, &format!("{component:?} was {ending:?}"));
        }
    }

    // Events that are forgotten while no watch is open are found by a list.
    plane.stop_component(Component::ApiServer, Ending::Killed);
    plane.start_component(Component::ApiServer).unwrap_or_else(|error| panic!("{error}"));
    watching.until(WITHIN, |_| admin.get("/api/v1/nodes").is_ok());
    for _ in 0..5 {
        change(&admin, &mut chance, &mut made);
    }
    plane.compact().unwrap_or_else(|error| panic!("{error}"));
    settles(&mut watching, &config, "a compaction");

    // Killed at any moment: the next one shows the same.
    for round in 0..5 {
        for _ in 0..chance.below(6) {
            change(&admin, &mut chance, &mut made);
        }
        std::thread::sleep(Duration::from_millis(chance.below(50)));
        let before = watching.text("/api/v1/devices");
        drop(watching);
        watching = Watching::start(&config);
        settles(&mut watching, &config, &format!("kill {round}, before: {before:?}"));
    }
    arrivals_move_no_pod(&mut watching, &admin, &config, &mut chance, made);
}

/// A pod's card does not change because another pod arrived.
fn arrivals_move_no_pod(
    watching: &mut Watching,
    admin: &Client,
    config: &str,
    chance: &mut Chance,
    made: usize,
) {
    let cards = |watching: &Watching| -> Vec<(String, String)> {
        let rows = watching.json("/api/v1/devices");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let tenants = |row: &Value| row["tenants"].as_array().cloned().unwrap_or_default();
        let fixed = |row: &Value| -> Vec<(String, String)> {
            let known =
                tenants(row).into_iter().filter(|tenant| tenant["floating"] == json!(false));
            known.map(|tenant| (text(&tenant["pod"]), text(&row["uuid"]))).collect()
        };
        rows.as_array().into_iter().flatten().flat_map(fixed).collect()
    };
    let before = cards(watching);
    for at in made..made + 5 {
        let mut pod = pod(chance, at);
        pod["spec"]["nodeName"] = json!("node-a");
        admin.create(PODS, pod).expect("a pod");
    }
    settles(watching, config, "arrivals");
    let after = cards(watching);
    for held in before {
        assert!(after.contains(&held), "{held:?} has moved: {after:?}");
    }
}
