//! The pods that workloads still miss.

use super::*;

const GPU: &str = "containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]";

fn workload(kind: &str, group: &str, metadata: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: {group}/v1\nkind: {kind}\nmetadata: {{{metadata}}}\nspec: {{{spec} template: {{metadata: \
         {{labels: {{app: web}}, annotations: {{gpu-memory: \"8000\"}}}}, spec: {{containers: [{{name: main}}]}}}}}}\n"
    )
}

fn owned(name: &str, kind: &str, owner: &str, uid: &str, rest: &str) -> String {
    let metadata = format!(
        "ownerReferences: [{{kind: {kind}, name: {owner}, uid: \"{uid}\", controller: true}}], {rest}"
    );
    pod(name, &metadata, GPU)
}

fn names(cluster: &Cluster) -> Vec<&str> {
    cluster.pending.iter().map(|one| &*one.request.id.name).collect()
}

#[test]
fn what_is_missing_is_made_from_the_template() {
    let cluster =
        means(&workload("Deployment", "apps", "name: web, namespace: prod", "replicas: 3,"));
    assert_eq!(names(&cluster), ["web-0", "web-1", "web-2"]);
    assert_eq!((cluster.understood.expanded, cluster.understood.pending), (3, 3));
    let request = &cluster.pending[2].request;
    assert_eq!((&*request.id.account, &*request.id.uid), ("prod", "web-2"));
    let need = &request.spec.shapes()[0].containers[0].needs[0];
    assert_eq!(need.slots, 0, "the annotations of the template count");
}

#[test]
fn pods_that_exist_are_not_made_again_and_keep_their_names() {
    let text = workload("StatefulSet", "apps", "name: db, uid: u1", "replicas: 3,")
        + &owned("db-1", "StatefulSet", "db", "u1", "");
    assert_eq!(names(&means(&text)), ["db-0", "db-2", "db-1"]);
}

#[test]
fn a_stateful_set_may_begin_to_count_elsewhere() {
    for (kind, ordinals, expected) in [
        ("StatefulSet", "ordinals: {start: 5},", ["db-5", "db-7"]),
        ("StatefulSet", "ordinals: {start: 6},", ["db-7", "db-8"]),
        ("StatefulSet", "ordinals: {start: -1},", ["db-0", "db-1"]),
        ("StatefulSet", "ordinals: null,", ["db-0", "db-1"]),
        ("ReplicaSet", "ordinals: {start: 5},", ["db-0", "db-1"]),
    ] {
        let text = workload(kind, "apps", "name: db, uid: u1", &format!("replicas: 3, {ordinals}"))
            + &owned("db-6", kind, "db", "u1", "");
        let made = means(&text);
        assert_eq!(names(&made)[..2], expected, "{kind} {ordinals}");
    }
}

#[test]
fn a_deployment_owns_through_its_replica_sets() {
    let set = workload(
        "ReplicaSet",
        "apps",
        "name: web-abc, uid: u2, ownerReferences: [{kind: Deployment, name: web, uid: u1, controller: true}]",
        "replicas: 3,",
    );
    let deployment = workload("Deployment", "apps", "name: web, uid: u1", "replicas: 3,");
    let two = owned("web-abc-x", "ReplicaSet", "web-abc", "u2", "labels: {pod-template-hash: abc}")
        + &owned("web-abc-y", "ReplicaSet", "web-abc", "u2", "labels: {pod-template-hash: abc}");
    let all = deployment.clone() + &set + &two;
    assert_eq!(means(&all).understood.expanded, 1, "the set is spoken for by its Deployment");
    assert_eq!(
        means(&(deployment.clone() + &two)).understood.expanded,
        1,
        "a set that was not read is known by its name"
    );
    assert_eq!(
        means(&(set + &two)).understood.expanded,
        1,
        "a set without its Deployment speaks for itself"
    );
}

#[test]
fn finished_and_leaving_pods_are_replaced() {
    let deployment = workload("ReplicaSet", "apps", "name: web, uid: u1", "replicas: 2,");
    let failed = owned("a", "ReplicaSet", "web", "u1", "") + "status: {phase: Failed}\n";
    let leaving =
        owned("b", "ReplicaSet", "web", "u1", "deletionTimestamp: \"2026-01-01T00:00:00Z\"");
    assert_eq!(means(&(deployment + &failed + &leaving)).understood.expanded, 2);
    let stateful = workload("StatefulSet", "apps", "name: web, uid: u1", "replicas: 1,");
    let leaving =
        owned("web-0", "StatefulSet", "web", "u1", "deletionTimestamp: \"2026-01-01T00:00:00Z\"");
    assert_eq!(
        means(&(stateful + &leaving)).understood.expanded,
        0,
        "its next pod has the same name"
    );
}

#[test]
fn a_job_runs_what_is_left_of_it() {
    let job = workload("Job", "batch", "name: train, uid: u1", "parallelism: 3, completions: 4,");
    assert_eq!(means(&job).understood.expanded, 3);
    let done = |name: &str| owned(name, "Job", "train", "u1", "") + "status: {phase: Succeeded}\n";
    let text = job + &done("a") + &done("b") + &owned("c", "Job", "train", "u1", "");
    assert_eq!(means(&text).understood.expanded, 1, "two are left, one of them runs");
    let over = text + "---\n" + &workload("Job", "batch", "name: over", "backoffLimit: 0,");
    let over = over + "status: {failed: 1, conditions: [{type: Failed, status: \"True\"}]}\n";
    assert_eq!(means(&over).understood.expanded, 1, "a Job that failed starts no more");
}

#[test]
fn an_absurd_number_is_cut_and_reported() {
    let cluster = means(&workload("Deployment", "apps", "name: web", "replicas: 1000000000,"));
    assert_eq!(cluster.pending.len(), 100_000);
    assert!(message(&cluster, "workload-cut").contains("1000000000"));
}

#[test]
fn a_template_that_is_gated_waits() {
    let text = workload("Deployment", "apps", "name: web", "replicas: 2,")
        .replace("spec: {containers", "spec: {schedulingGates: [{name: a}], containers");
    let cluster = means(&text);
    assert_eq!((cluster.understood.gated, cluster.pending.len()), (2, 0));
}

#[test]
fn a_template_that_names_a_node_goes_there_or_nowhere() {
    let text = workload("Deployment", "apps", "name: web", "replicas: 1,")
        .replace("spec: {containers", "spec: {nodeName: gpu-1, containers");
    let cluster = means(&text);
    assert_eq!(cluster.pending[0].request.spec.rules.named.as_deref(), Some("gpu-1"));
}
