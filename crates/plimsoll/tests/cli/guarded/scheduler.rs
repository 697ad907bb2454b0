//! The first incident: the stock kube-scheduler without configuration, and the guard.

use plimsoll_testbed::api::Api;
use plimsoll_testbed::control_plane::Component;
use plimsoll_testbed::objects;

use super::cluster::{Cluster, Replica, TEAM, text, until, until_ok};
use crate::tool::plimsoll;

#[test]
fn the_stock_scheduler_binds_four_of_five_pods_and_the_fifth_says_why() {
    let Some(mut cluster) = Cluster::start("the guard and the stock scheduler") else { return };
    cluster.plane.start_component(Component::Scheduler).unwrap_or_else(|error| panic!("{error}"));
    let replica = Replica::deciding(&cluster, "one");
    let fifth = the_first_incident(&cluster);
    // The API server takes a moment to load a policy that is new to it.
    std::thread::sleep(std::time::Duration::from_secs(3));
    drop(replica);
    while_plimsoll_is_down_only_pods_with_devices_wait(&cluster, &fifth);
    back_up_they_are_bound(&cluster, &fifth);
    uninstalling_leaves_nothing_that_blocks(&cluster);
}

/// Returns the pod that is not bound.
fn the_first_incident(cluster: &Cluster) -> String {
    let names = ["web-1", "web-2", "web-3", "web-4", "web-5"];
    names.iter().for_each(|name| cluster.pod(TEAM, name, 8000));
    until("four pods are bound", || cluster.bound(TEAM).len() == 4);
    let bound = cluster.bound(TEAM);
    let fifth = names.iter().find(|name| !bound.iter().any(|one| one == *name));
    let fifth = *fifth.expect("one of five is not among four");
    until("the condition has the numbers", || has_numbers(&cluster.condition(TEAM, fifth), &bound));
    until("the event has the numbers", || {
        let events =
            cluster.admin.get(&format!("/api/v1/namespaces/{TEAM}/events")).expect("events");
        let events = events["items"].as_array().cloned().unwrap_or_default();
        events.iter().any(|event| {
            event["reason"] == "FailedScheduling"
                && event["involvedObject"]["name"] == *fifth
                && has_numbers(&text(&event["message"]), &bound)
        })
    });
    for name in &bound {
        let pod = cluster.read(TEAM, name);
        assert!(pod["metadata"]["annotations"]["plimsoll.dev/allocated"].is_string(), "{pod}");
    }
    fifth.to_owned()
}

fn has_numbers(message: &str, holders: &[String]) -> bool {
    let named = holders.iter().filter(|name| message.contains(name.as_str())).count();
    message.contains("8000") && message.contains("607") && named >= 3
}

fn while_plimsoll_is_down_only_pods_with_devices_wait(cluster: &Cluster, fifth: &str) {
    let pods = format!("/api/v1/namespaces/{TEAM}/pods");
    cluster.admin.create(&pods, objects::pod("plain")).expect("a pod");
    cluster.pod("default", "elsewhere", 100);
    until("a pod without devices is bound", || cluster.node_of(TEAM, "plain").is_some());
    until("other namespaces are bound", || cluster.node_of("default", "elsewhere").is_some());
    until_ok("the condition says why", || {
        let condition = cluster.condition(TEAM, fifth);
        if condition.contains("Plimsoll does not answer") { Ok(()) } else { Err(condition) }
    });
    assert_eq!(cluster.node_of(TEAM, fifth), None);
    let placed = objects::gpu_pod("while-down", 100);
    let error = cluster.admin.create(&pods, placed).expect_err("it could be bound unchecked");
    assert!(error.to_string().contains("guard.plimsoll.dev"), "{error}");
}

fn back_up_they_are_bound(cluster: &Cluster, fifth: &str) {
    let replica = Replica::deciding(cluster, "two");
    until_ok("a pod with devices", || {
        let pods = format!("/api/v1/namespaces/{TEAM}/pods");
        cluster.admin.create(&pods, objects::gpu_pod("small", 100))
    });
    // The scheduler repeats after a pause that it chooses.
    until("the small pod is bound", || cluster.node_of(TEAM, "small").is_some());
    assert_eq!(cluster.node_of(TEAM, fifth), None);
    let holder = cluster.bound(TEAM).into_iter().find(|name| name.starts_with("web"));
    cluster.end(TEAM, &holder.expect("four are bound"));
    until("the fifth is bound", || cluster.node_of(TEAM, fifth).is_some());
    assert!(cluster.asked_mib() <= 32_607, "{} MiB", cluster.asked_mib());
    drop(replica);
}

fn uninstalling_leaves_nothing_that_blocks(cluster: &Cluster) {
    let replica = Replica::deciding(cluster, "three");
    cluster.pod(TEAM, "too-much", 30_000);
    until("it waits", || !cluster.condition(TEAM, "too-much").is_empty());
    drop(replica);
    let webhooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    let webhooks = cluster.admin.get(&format!("{webhooks}/plimsoll-guard")).expect("registered");
    // The cluster deletes them with the role of the installation.
    assert_eq!(webhooks["metadata"]["ownerReferences"][0]["kind"], "ClusterRole", "{webhooks}");
    let config = cluster.plane.kubeconfig("plimsoll").display().to_string();
    let run = plimsoll(&format!("kube uninstall-guard --kubeconfig {config}"));
    assert_eq!(run.code, Some(0), "{}", run.err);
    until("nothing is checked", || cluster.node_of(TEAM, "too-much").is_some());
    let again = plimsoll(&format!("kube uninstall-guard --kubeconfig {config}"));
    assert_eq!(again.code, Some(0), "{}", again.err);
}
