//! The JSON of small clusters made by hand.

use plimsoll_core::charge::Stage;
use plimsoll_core::units::Bytes;
use plimsoll_core::units::Millis;
use plimsoll_sim::fixture;
use serde_json::{Value, json};

use super::*;

fn sheet(cluster: &Cluster, candidates: Candidates) -> Value {
    let output = simulate_output(cluster, &fixture::run(cluster), candidates);
    serde_json::to_value(output).expect("rows are JSON")
}

const MIB: u64 = 1 << 20;

#[test]
fn an_unplaced_pod_has_the_documented_fields() {
    let sheet = sheet(&fixture::time_sliced(5), Candidates::Nearest);
    assert_eq!(sheet["schema_version"], SCHEMA_VERSION);
    assert_eq!(sheet["nodes"][0]["physical"], 1);
    assert_eq!(sheet["nodes"][0]["advertised"], 100);
    assert_eq!(sheet["nodes"][0]["idle_whole"], 0);
    assert_eq!(sheet["placements"].as_array().map(Vec::len), Some(4));
    let device = &sheet["devices"][0];
    assert_eq!(
        (&device["uuid"], &device["identity"]),
        (&json!("gpu-node/gpu-0"), &json!("assumed"))
    );
    assert_eq!((&device["held"], &device["free"]), (&json!(32_000 * MIB), &json!(607 * MIB)));
    let sum: u64 = device["tenants"]
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|t| t["bytes"].as_u64())
        .sum();
    assert_eq!(sum, 32_000 * MIB);
    let unplaced = &sheet["unplaced"][0];
    assert_eq!(unplaced["status"], "pending");
    assert_eq!(unplaced["nodes_considered"], 1);
    assert_eq!(unplaced["promised"], Value::Null);
    let container = &unplaced["candidates"][0]["containers"][0];
    assert_eq!(container["reason"], "1/1 CardInsufficientMemory");
    let row = &container["devices"][0];
    assert_eq!(row["reason"], "CardInsufficientMemory");
    assert_eq!((&row["need"], &row["free"]), (&json!(8000 * MIB), &json!(607 * MIB)));
    assert_eq!(row["short_by"], json!(7393 * MIB));
    assert!(
        unplaced["would_fit_if"]
            .as_array()
            .expect("rows")
            .iter()
            .all(|remedy| remedy["verified"] == true)
    );
}

#[test]
fn unknown_is_null_and_never_zero() {
    let mut cluster = fixture::time_sliced(1);
    cluster.nodes[0].node.devices[0].memory.total = plimsoll_core::device::Capacity::Unknown {
        missing: "label nvidia.com/gpu.memory is missing".into(),
    };
    let sheet = sheet(&cluster, Candidates::Nearest);
    let device = &sheet["devices"][0];
    for name in ["total", "usable", "free", "over_by"] {
        assert_eq!(device[name], Value::Null, "{name}");
    }
    assert_eq!(
        sheet["unplaced"][0]["candidates"][0]["containers"][0]["devices"][0]["free"],
        Value::Null
    );
}

#[test]
fn a_sum_with_an_undeclared_part_is_null() {
    let columns = |stage, on: Vec<u16>| {
        let mut cluster = fixture::too_late();
        let card = cluster.nodes[0].node.devices[0].clone();
        cluster.nodes[0].node.devices.push(card);
        cluster.running.truncate(2);
        cluster.running[0].stage = stage;
        let charge = &mut cluster.running[0].charges[0];
        (charge.amount, charge.on) = (plimsoll_core::charge::Booked::Undeclared, on);
        let device = sheet(&cluster, Candidates::Nearest)["devices"][0].clone();
        ["held", "floating", "releasing", "free"].map(|name| device[name].as_u64())
    };
    let (running, releasing) =
        (Stage::Running { since: Millis(0) }, Stage::Releasing { since: Millis(0) });
    let held = Some(8000 * MIB);
    assert_eq!(columns(running, vec![0]), [None, Some(0), Some(0), None]);
    assert_eq!(columns(running, vec![0, 1]), [held, None, Some(0), None]);
    assert_eq!(columns(releasing, vec![0]), [held, Some(0), None, None]);
}

#[test]
fn the_ten_nearest_nodes_are_listed_and_all_on_request() {
    let mut cluster = fixture::time_sliced(1);
    let card = |mib| {
        plimsoll_core::device::Device::new(
            "NVIDIA",
            Bytes::mib(mib),
            plimsoll_core::device::Source::Label,
        )
    };
    cluster.nodes =
        (0..30).map(|i| fixture::facts(&format!("n{i:02}"), vec![card(100 + i)])).collect();
    cluster.nodes[29].node.unschedulable = true;
    let few = sheet(&cluster, Candidates::Nearest);
    let names = |sheet: &Value| -> Vec<String> {
        let rows = sheet["unplaced"][0]["candidates"].as_array().expect("rows").iter();
        rows.map(|row| row["name"].as_str().expect("a name").to_string()).collect()
    };
    assert_eq!(names(&few).len(), 10);
    assert_eq!(names(&few)[..2], ["n28", "n27"], "the nearest miss first");
    assert_eq!(few["unplaced"][0]["nodes_considered"], 30);
    let all = sheet(&cluster, Candidates::All);
    assert_eq!(
        names(&all).last().map(String::as_str),
        Some("n29"),
        "what a node rule keeps out comes last"
    );
    let last = &all["unplaced"][0]["candidates"][29];
    assert_eq!((&last["status"], &last["score"]), (&json!("failed"), &json!(0)));
    assert_eq!(last["reason"]["code"], "NodeUnschedulable");
}

#[test]
fn an_overcommitted_device_has_its_excess() {
    let sheet = sheet(&fixture::too_late(), Candidates::Nearest);
    assert_eq!(sheet["devices"][0]["over_by"], json!(7393 * MIB));
    assert_eq!(sheet["devices"][0]["free"], 0);
    let breach = &sheet["breaches"][0];
    assert_eq!(breach["kind"], "over_line");
    assert_eq!(breach["over_by"], json!(7393 * MIB));
    assert_eq!(breach["holders"].as_array().map(Vec::len), Some(5));
}

#[test]
fn a_promise_names_devices_and_the_pods_that_must_stop() {
    let sheet = sheet(&fixture::releasing(), Candidates::Nearest);
    let promised = &sheet["unplaced"][0]["promised"];
    assert_eq!(
        (&promised["devices"], &promised["devices_wanted"]),
        (&json!(["node/gpu-0"]), &json!(1))
    );
    assert_eq!(promised["after"], json!(["default/leaving"]));
}
