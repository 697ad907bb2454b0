//! Two replicas: one decides, and another takes over.

use std::thread;
use std::time::Duration;

use plimsoll_testbed::api::Api;
use serde_json::json;

use super::cluster::{Cluster, LEASE, Replica, TEAM, text, until};

/// The time after which the lease of a replica that crashed can be taken, plus three seconds, plus
/// what a loaded machine needs.
const CRASH: Duration = Duration::from_secs(12 + 3 + 10);

#[test]
fn another_replica_takes_over_and_no_device_gets_over_its_line() {
    let Some(cluster) = Cluster::start("two replicas of the guard") else { return };
    let mut one = Replica::deciding(&cluster, "one");
    let mut two = Replica::start(&cluster, "two");
    until("the second replica is ready", || two.is_ready());
    assert_eq!(two.metric("plimsoll_guard_leading"), Some(0.0), "one decides");
    a_paused_leader_lets_nothing_in(&cluster, &one, &mut two);
    a_clean_hand_over_is_quick(&cluster, &mut one, &mut two);
    a_second_installation_does_not_start(&cluster);
    a_missing_right_is_named(&cluster);
}

fn a_second_installation_does_not_start(cluster: &Cluster) {
    let webhooks =
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/plimsoll-guard";
    let before = cluster.admin.get(webhooks).expect("they are registered");
    let mut second = Replica::start_with(cluster, "elsewhere", &["--namespace=elsewhere"]);
    until("it ends", || second.process.exited().is_some());
    let log = second.log();
    assert!(log.contains("is installed in the namespace plimsoll already"), "{log}");
    assert!(log.contains("plimsoll kube uninstall-guard"), "{log}");
    assert_eq!(cluster.admin.get(webhooks).expect("they are registered"), before);
}

/// G5: the leader stops inside an answer, another takes over and fills the card, the first goes on.
fn a_paused_leader_lets_nothing_in(cluster: &Cluster, one: &Replica, two: &mut Replica) {
    for index in 0..12 {
        cluster.pod(TEAM, &format!("late-{index}"), 20_000);
    }
    cluster.pod(TEAM, "first", 20_000);
    until("the leader knows the pods", || {
        one.metric("plimsoll_queue_length{kind=\"pod\"}") >= Some(13.0)
    });
    let outcomes = thread::scope(|scope| {
        let late: Vec<_> = (0..12)
            .map(|index| scope.spawn(move || cluster.bind(TEAM, &format!("late-{index}"))))
            .collect();
        // Somewhere in the middle of those answers.
        thread::sleep(Duration::from_millis(8));
        one.process.pause();
        let took = two.until_deciding();
        assert!(took < CRASH, "{took:?}");
        // The second replica decides now: the card is given away, if it was not before.
        let filled = cluster.bind(TEAM, "first");
        one.process.resume();
        let late: Vec<_> = late.into_iter().map(|one| one.join().expect("no panic")).collect();
        (filled, late)
    });
    until("the first replica knows that it lost", || {
        one.metric("plimsoll_guard_leading") == Some(0.0)
    });
    assert_eq!(cluster.bound(TEAM).len(), 1, "{outcomes:?}");
    let rest = cluster.bind(TEAM, "late-11");
    assert!(rest.is_err() || cluster.bound(TEAM).len() == 1, "{rest:?}");
    assert_eq!(cluster.bound(TEAM).len(), 1);
    cluster.clear(TEAM);
}

fn a_clean_hand_over_is_quick(cluster: &Cluster, one: &mut Replica, two: &mut Replica) {
    cluster.pod(TEAM, "web-1", 20_000);
    cluster.pod(TEAM, "web-2", 20_000);
    until("a binding", || cluster.bind(TEAM, "web-1").is_ok());
    let started = std::time::Instant::now();
    two.process.terminate(Duration::from_secs(20));
    one.until_deciding();
    println!("decides again {:?} after the signal", started.elapsed());
    let lease = cluster.admin.get(LEASE);
    let holder = text(&lease.expect("a lease")["spec"]["holderIdentity"]);
    assert!(two.log().contains("lease handed over"), "{}", two.log());
    assert!(!holder.is_empty(), "{holder}");
    let error = cluster.bind(TEAM, "web-2").expect_err("the new leader knows the holder");
    assert_eq!(error.status(), Some(403), "{error}");
    assert!(error.to_string().contains("web-1"), "{error}");
}

fn a_missing_right_is_named(cluster: &Cluster) {
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/plimsoll/roles/plimsoll-guard";
    cluster.admin.patch(roles, json!({"rules": []})).expect("a patch");
    let mut replica = Replica::start(cluster, "without-rights");
    until("it ends", || replica.process.exited().is_some());
    let log = replica.log();
    assert!(log.contains("missing rights on https://") && log.contains("secrets"), "{log}");
}
