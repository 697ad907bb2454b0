//! Bindings and pods of plain clients.

use std::thread;
use std::time::{Duration, Instant};

use plimsoll_testbed::api::{Api, ApiError, pod_path};
use plimsoll_testbed::objects;
use serde_json::{Value, json};

use super::cluster::{Cluster, NODE, Replica, TEAM, text, until, until_ok};

/// The least rounds of 64 parallel bindings for the last place, and the least time for them.
/// `PLIMSOLL_ROUNDS` is another number.
const ROUNDS: usize = 3;
const FOR: Duration = Duration::from_secs(25);

#[test]
fn bindings_of_any_client_are_held_at_the_line() {
    let Some(cluster) = Cluster::start("the guard and plain clients") else { return };
    let replica = Replica::deciding(&cluster, "one");
    five_in_parallel(&cluster);
    the_holders_are_those_that_were_admitted(&replica);
    a_dry_run_books_nothing(&cluster, &replica);
    the_legacy_route_is_covered(&cluster);
    a_stale_precondition_of_the_client_stays_one(&cluster);
    a_pod_created_with_a_node_is_decided_at_its_creation(&cluster);
    the_label_switches_the_line(&cluster);
    the_last_place_goes_to_one_of_64(&cluster, &replica);
}

/// Four of 8000 MiB fit on a card of 32,607.
fn five_in_parallel(cluster: &Cluster) {
    let names = ["web-1", "web-2", "web-3", "web-4", "web-5"];
    names.iter().for_each(|name| cluster.pod(TEAM, name, 8000));
    let outcomes = in_parallel(cluster, &names);
    let rejected: Vec<&ApiError> = outcomes.iter().filter_map(|one| one.as_ref().err()).collect();
    assert_eq!((outcomes.len(), rejected.len()), (5, 1), "{outcomes:?}");
    assert_eq!(rejected[0].status(), Some(403), "{}", rejected[0]);
    let message = rejected[0].to_string();
    for number in ["8000", "607", "32607"] {
        assert!(message.contains(number), "{number} is not in: {message}");
    }
    let bound = cluster.bound(TEAM);
    let named = bound.iter().filter(|name| message.contains(name.as_str())).count();
    assert!(named >= 3, "{named} holders are named in: {message}");
    for name in bound {
        let pod = cluster.read(TEAM, &name);
        let allocated = text(&pod["metadata"]["annotations"]["plimsoll.dev/allocated"]);
        let allocated: Value = serde_json::from_str(&allocated).expect("JSON");
        assert_eq!(allocated["node"], NODE, "{allocated}");
        assert!(pod["metadata"]["finalizers"].is_null(), "the mark is never stored: {pod}");
        assert_eq!(allocated["containers"]["main"][0]["bytes"], 8000_u64 << 20, "{allocated}");
    }
}

fn in_parallel(cluster: &Cluster, names: &[&str]) -> Vec<Result<Value, ApiError>> {
    thread::scope(|scope| {
        let threads: Vec<_> =
            names.iter().map(|name| scope.spawn(|| cluster.bind(TEAM, name))).collect();
        threads.into_iter().map(|one| one.join().expect("no panic")).collect()
    })
}

fn the_holders_are_those_that_were_admitted(replica: &Replica) {
    until("four holders", || replica.holders().len() == 4);
}

fn a_dry_run_books_nothing(cluster: &Cluster, replica: &Replica) {
    cluster.clear(TEAM);
    until("nothing is held", || replica.holders().is_empty());
    for name in ["dry-1", "dry-2", "dry-3", "dry-4", "dry-5"] {
        cluster.pod(TEAM, name, 8000);
        let body = binding(name);
        let path = format!("{}/binding?dryRun=All", pod_path(TEAM, name));
        cluster.admin.create(&path, body).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert_eq!(replica.holders(), [""; 0]);
    let path = format!("{}/binding?dryRun=All", pod_path(TEAM, "dry-5"));
    ["dry-1", "dry-2", "dry-3", "dry-4"]
        .iter()
        .for_each(|name| drop(cluster.bind(TEAM, name).expect("room")));
    let error =
        cluster.admin.create(&path, binding("dry-5")).expect_err("a dry run is checked too");
    assert_eq!(error.status(), Some(403), "{error}");
}

fn binding(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    })
}

fn the_legacy_route_is_covered(cluster: &Cluster) {
    let legacy = format!("/api/v1/namespaces/{TEAM}/bindings");
    let error = cluster.admin.create(&legacy, binding("dry-5")).expect_err("the card is full");
    assert_eq!(error.status(), Some(403), "{error}");
    cluster.end(TEAM, "dry-1");
    until_ok("room on the card", || cluster.admin.create(&legacy, binding("dry-5")));
    let pod = cluster.read(TEAM, "dry-5");
    assert!(pod["metadata"]["annotations"]["plimsoll.dev/allocated"].is_string(), "{pod}");
}

fn a_stale_precondition_of_the_client_stays_one(cluster: &Cluster) {
    cluster.end(TEAM, "dry-2");
    cluster.pod(TEAM, "stale", 8000);
    let path = pod_path(TEAM, "stale");
    let old = text(&cluster.read(TEAM, "stale")["metadata"]["resourceVersion"]);
    cluster.admin.patch(&path, json!({"metadata": {"labels": {"a": "b"}}})).expect("a label");
    let bind =
        |version: &str| cluster.admin.bind(&path, NODE, &json!({"resourceVersion": version}));
    let error = bind(&old).expect_err("a stale version");
    assert_eq!(error.status(), Some(409), "{error}");
    let new = text(&cluster.read(TEAM, "stale")["metadata"]["resourceVersion"]);
    bind(&new).unwrap_or_else(|error| panic!("{error}"));
}

fn a_pod_created_with_a_node_is_decided_at_its_creation(cluster: &Cluster) {
    let pods = format!("/api/v1/namespaces/{TEAM}/pods");
    let placed = |name: &str| {
        let mut pod = objects::gpu_pod(name, 8000);
        pod["spec"]["nodeName"] = json!(NODE);
        pod
    };
    let error = cluster.admin.create(&pods, placed("placed")).expect_err("the card is full");
    assert_eq!(error.status(), Some(403), "{error}");
    assert!(error.to_string().contains("607"), "{error}");
    let mut plain = objects::pod("plain");
    plain["spec"]["nodeName"] = json!(NODE);
    cluster.admin.create(&pods, plain).expect("a pod without devices");
    cluster.end(TEAM, "stale");
    until_ok("room on the card", || cluster.admin.create(&pods, placed("placed")));
}

/// Off: never called for. Warn: passes with the same sentence. On again: rejected.
fn the_label_switches_the_line(cluster: &Cluster) {
    cluster.clear(TEAM);
    cluster.namespace("team-b", None);
    for name in ["b-1", "b-2", "b-3", "b-4", "b-5"] {
        cluster.pod("team-b", name, 8000);
        cluster.bind("team-b", name).unwrap_or_else(|error| panic!("{error}"));
    }
    assert_eq!(cluster.asked_mib(), 40_000, "without the label nothing is checked");
    let pod = cluster.read("team-b", "b-1");
    assert!(pod["metadata"]["annotations"]["plimsoll.dev/allocated"].is_null(), "{pod}");
    cluster.namespace("team-b", Some("warn"));
    cluster.pod("team-b", "b-6", 8000);
    until("a warning", || cluster.bind("team-b", "b-6").is_ok());
    cluster.namespace("team-b", Some("enforce"));
    cluster.pod("team-b", "b-7", 8000);
    let rejected = || cluster.bind("team-b", "b-7").is_err_and(|error| error.status() == Some(403));
    // The API server follows the label within milliseconds; so does the guard.
    until("a rejection", rejected);
    assert_eq!(cluster.node_of("team-b", "b-7"), None);
    cluster.namespace("team-b", None);
    until("no check", || cluster.bind("team-b", "b-7").is_ok());
    cluster.clear("team-b");
}

/// The winner of a round ends, and a new pod takes its place among the 64.
fn the_last_place_goes_to_one_of_64(cluster: &Cluster, replica: &Replica) {
    until("nothing is held", || replica.holders().is_empty());
    let wanted: Option<usize> =
        std::env::var("PLIMSOLL_ROUNDS").ok().and_then(|text| text.parse().ok());
    let start = Instant::now();
    let mut names: Vec<String> = (0..64).map(|at| format!("last-{at}")).collect();
    names.iter().for_each(|name| cluster.pod(TEAM, name, 20_000));
    let mut round = 0;
    while wanted.map_or(round < ROUNDS || start.elapsed() < FOR, |wanted| round < wanted) {
        round += 1;
        let outcomes = in_parallel(cluster, &names.iter().map(String::as_str).collect::<Vec<_>>());
        let won: Vec<usize> = (0..64).filter(|at| outcomes[*at].is_ok()).collect();
        assert_eq!(won.len(), cluster.bound(TEAM).len(), "round {round}: {outcomes:?}");
        let mut lost = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        assert!(lost.all(|error| error.status() == Some(403)), "round {round}: {outcomes:?}");
        if won.is_empty() && wanted.is_some() {
            // Over hours a busy machine keeps a replica from answering in time now and then.
            let mut lost = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
            let is_silent = |error: &ApiError| error.to_string().contains("does not answer");
            assert!(lost.any(is_silent), "round {round}: {outcomes:?}");
            println!("round {round}: no answer in time");
            continue;
        }
        assert_eq!(won.len(), 1, "round {round}: {outcomes:?}");
        cluster.end(TEAM, &names[won[0]]);
        names[won[0]] = format!("round-{round}");
        cluster.pod(TEAM, &names[won[0]], 20_000);
        until("nothing is held", || replica.holders().is_empty());
    }
    println!("{round} rounds of 64 bindings in {:.1} s", start.elapsed().as_secs_f64());
}
