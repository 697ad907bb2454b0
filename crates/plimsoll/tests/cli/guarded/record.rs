//! The record of holders of a guard, over crashes.

use std::time::Duration;

use plimsoll_testbed::api::{Api, node_path, pod_path};
use serde_json::{Value, json};

use super::cluster::{Cluster, NODE, Replica, TEAM, text, until, until_ok};

const CONFIG_MAPS: &str = "/api/v1/namespaces/plimsoll/configmaps";

#[test]
fn a_pod_that_vanished_while_no_guard_ran_counts_until_there_is_evidence() {
    let Some(cluster) = Cluster::start("the record of holders") else { return };
    let mut replica = Replica::deciding(&cluster, "first");
    for name in ["gone", "stays", "next", "last"] {
        cluster.pod(TEAM, name, 12_000);
    }
    for name in ["gone", "stays"] {
        until_ok("a binding", || cluster.bind(TEAM, name));
    }
    until("both are recorded", || {
        let record = record(&cluster).unwrap_or_default();
        record.contains("\"gone\"") && record.contains("\"stays\"")
    });
    let watch = watch(&replica);
    assert_eq!(watch["record"], "config_maps", "{watch}");
    replica.process.kill();
    cluster.admin.delete(&pod_path(TEAM, "gone")).expect("it is deleted by force");

    let mut replica = Replica::deciding(&cluster, "second");
    assert_eq!(replica.holders(), ["gone", "stays"]);
    let again = self::watch(&replica);
    assert!(again["holders_known_since"].as_str() < again["watching_since"].as_str(), "{again}");
    assert_eq!(again["holders_known_since"], watch["holders_known_since"]);
    let error = cluster.bind(TEAM, "next").expect_err("24,000 of 32,607 MiB are held");
    assert!(error.to_string().contains("team-a/gone"), "{error}");
    let releasing: Value = json_of(&replica, "/api/v1/releasing");
    let waits_for = text(&releasing[0]["waits_for"]);
    assert!(waits_for.contains("the kubelet of gpu-node to be heard for 90s"), "{releasing}");

    // The evidence: the node has booted, and no container of it runs.
    let boot = json!({"status": {"nodeInfo": {"bootID": "another"}}});
    cluster.admin.patch(&format!("{}/status", node_path(NODE)), boot).expect("a patch");
    until("its memory is free", || replica.holders() == ["stays"]);
    until_ok("a binding", || cluster.bind(TEAM, "next"));
    until("the record follows", || {
        record(&cluster).is_some_and(|record| !record.contains("\"gone\""))
    });
    a_damaged_record_is_reported_and_not_believed(&cluster, &mut replica);
    a_node_without_holders_has_no_record(&cluster);
}

fn a_damaged_record_is_reported_and_not_believed(cluster: &Cluster, replica: &mut Replica) {
    until("the record is whole", || {
        record(cluster).is_some_and(|record| record.contains("\"next\""))
    });
    replica.process.kill();
    let (name, line) = recorded(cluster).expect("a record");
    let forged = line.replace("\"next\"", "\"evil\"");
    let patch = json!({"data": {"record": forged}});
    cluster.admin.patch(&format!("{CONFIG_MAPS}/{name}"), patch).expect("a patch");
    let third = Replica::deciding(cluster, "third");
    assert_eq!(third.holders(), ["next", "stays"]);
    assert_eq!(third.metric("plimsoll_holders_record_damaged"), Some(1.0));
    let findings = third.get("/api/v1/findings").unwrap_or_default();
    assert!(findings.contains("holders-record-damaged") && findings.contains(&name), "{findings}");
    let watch = watch(&third);
    assert_eq!(watch["holders_known_since"], watch["watching_since"], "there is a gap");
    assert!(third.log().contains("damaged and not used"), "{}", third.log());
    until("what is held is recorded again", || {
        record(cluster).is_some_and(|record| record.contains("\"next\""))
    });
}

fn a_node_without_holders_has_no_record(cluster: &Cluster) {
    let mut fourth = Replica::deciding(cluster, "fourth");
    cluster.clear(TEAM);
    until("there is no record", || recorded(cluster).is_none());
    fourth.process.terminate(Duration::from_secs(20));
}

fn record(cluster: &Cluster) -> Option<String> {
    recorded(cluster).map(|(_, line)| line)
}

/// The name and the line of the only record.
fn recorded(cluster: &Cluster) -> Option<(String, String)> {
    let found = cluster.admin.get(CONFIG_MAPS).expect("a list");
    let items = found["items"].as_array().cloned().unwrap_or_default();
    let mut records = items.iter().filter_map(|item| {
        let line = item["data"]["record"].as_str()?;
        Some((text(&item["metadata"]["name"]), line.to_owned()))
    });
    let only = records.next();
    assert!(records.next().is_none(), "one node has one record: {found}");
    only
}

fn watch(replica: &Replica) -> Value {
    json_of(replica, "/api/v1/watch")
}

fn json_of(replica: &Replica, path: &str) -> Value {
    serde_json::from_str(&replica.get(path).unwrap_or_default()).unwrap_or_default()
}
