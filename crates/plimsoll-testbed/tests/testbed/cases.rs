//! Cases that a real and a simulated API server must satisfy alike. Each uses a namespace of its
//! own, so that all of them can share one server.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use plimsoll_testbed::api::{
    Api, ApiError, WatchEvent, WatchEventKind, node_path, pod_path, version,
};
use plimsoll_testbed::kubelet::Kubelet;
use plimsoll_testbed::objects::{self, GpuNode};
use serde_json::{Value, json};

/// The longest wait for an event of a watch.
const WITHIN: Duration = Duration::from_secs(20);

type Case = (&'static str, fn(&dyn Api));

/// Every case, with the sentence that it proves.
pub(crate) const CASES: &[Case] = &[
    ("a binding sets node and annotations together", a_binding_sets_node_and_annotations),
    ("a binding with another uid is a conflict", a_binding_with_another_uid_is_a_conflict),
    ("a binding with a stale version is a conflict", a_binding_with_a_stale_version_is_a_conflict),
    ("a second binding is a conflict", a_second_binding_is_a_conflict),
    ("a binding of a missing pod is not found", a_binding_of_a_missing_pod_is_not_found),
    ("a touch fails an older binding", a_touch_fails_an_older_binding),
    ("a dry run binds nothing", a_dry_run_binds_nothing),
    ("a replacement with a stale version is a conflict", a_stale_replacement_is_a_conflict),
    ("a lease has one winner", a_lease_has_one_winner),
    ("status and spec are written apart", status_and_spec_are_written_apart),
    ("a merge patch without an effect keeps the version", an_empty_patch_keeps_the_version),
    ("the kubelet stand-in reports as told", the_kubelet_reports_as_told),
    ("a watch continues where a list ends", a_watch_continues_where_a_list_ends),
    ("a watch shows what follows a list", a_watch_shows_what_follows_a_list),
    ("a graceful deletion waits for the kubelet", a_graceful_deletion_waits_for_the_kubelet),
    ("a list in pages is complete", a_list_in_pages_is_complete),
    ("a name is created once", a_name_is_created_once),
    ("an unknown object is not found", an_unknown_object_is_not_found),
];

fn now() -> Timestamp {
    "2026-11-18T12:00:00Z".parse().expect("a time")
}

fn namespace(api: &dyn Api, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    match api.create("/api/v1/namespaces", object) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.status(), Some(409), "{error}"),
    }
}

fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// Creates a namespace with one pod, and returns the pod and its path.
fn one_pod(api: &dyn Api, name: &str) -> (String, Value) {
    namespace(api, name);
    let pod = api.create(&pods(name), objects::gpu_pod("web", 8000)).expect("a pod");
    (pod_path(name, "web"), pod)
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().expect("an object has a uid")
}

fn conflict(result: Result<Value, ApiError>) -> String {
    let error = result.expect_err("a conflict");
    assert_eq!((error.status(), error.reason()), (Some(409), Some("Conflict")), "{error}");
    error.to_string()
}

fn a_binding_sets_node_and_annotations(api: &dyn Api) {
    let (path, pod) = one_pod(api, "bound");
    assert_eq!(pod["spec"]["nodeName"], Value::Null);
    let metadata = json!({
        "uid": uid(&pod),
        "resourceVersion": version(&pod),
        "annotations": {"plimsoll.dev/allocated": "gpu-0"},
    });
    api.bind(&path, "n1", &metadata).expect("the preconditions hold");
    let bound = api.get(&path).expect("the pod");
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["metadata"]["annotations"]["plimsoll.dev/allocated"], "gpu-0");
    assert_eq!(bound["metadata"]["annotations"]["gpu-memory"], "8000");
    assert_ne!(version(&bound), version(&pod));
    let scheduled = &bound["status"]["conditions"][0];
    assert_eq!(
        (&scheduled["type"], &scheduled["status"]),
        (&json!("PodScheduled"), &json!("True"))
    );
}

fn a_binding_with_another_uid_is_a_conflict(api: &dyn Api) {
    let (path, _) = one_pod(api, "other-uid");
    let message = conflict(api.bind(&path, "n1", &json!({"uid": "another"})));
    assert!(message.contains("Precondition failed: UID"), "{message}");
    assert_eq!(api.get(&path).expect("the pod")["spec"]["nodeName"], Value::Null);
}

fn a_binding_with_a_stale_version_is_a_conflict(api: &dyn Api) {
    let (path, pod) = one_pod(api, "stale");
    let touched = api.patch(&path, json!({"metadata": {"labels": {"a": "b"}}})).expect("a label");
    assert_ne!(version(&touched), version(&pod));
    let stale = json!({"uid": uid(&pod), "resourceVersion": version(&pod)});
    let message = conflict(api.bind(&path, "n1", &stale));
    assert!(message.contains("Precondition failed: ResourceVersion"), "{message}");
    let current = json!({"uid": uid(&pod), "resourceVersion": version(&touched)});
    api.bind(&path, "n1", &current).expect("the current version");
}

fn a_second_binding_is_a_conflict(api: &dyn Api) {
    let (path, _) = one_pod(api, "twice");
    api.bind(&path, "n1", &json!({})).expect("a binding without preconditions");
    let message = conflict(api.bind(&path, "n2", &json!({})));
    assert!(message.contains("already assigned to node \"n1\""), "{message}");
}

fn a_binding_of_a_missing_pod_is_not_found(api: &dyn Api) {
    namespace(api, "nothing");
    let error = api.bind(&pod_path("nothing", "web"), "n1", &json!({})).expect_err("no pod");
    assert_eq!((error.status(), error.reason()), (Some(404), Some("NotFound")), "{error}");
}

fn a_touch_fails_an_older_binding(api: &dyn Api) {
    let (path, pod) = one_pod(api, "touched");
    let touch = json!({"metadata": {"annotations": {"plimsoll.dev/touched": "1"}}});
    api.patch(&path, touch).expect("a touch");
    conflict(api.bind(&path, "n1", &json!({"resourceVersion": version(&pod)})));
}

fn a_dry_run_binds_nothing(api: &dyn Api) {
    let (path, pod) = one_pod(api, "dry");
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web"},
        "target": {"kind": "Node", "name": "n1"},
    });
    api.create(&format!("{path}/binding?dryRun=All"), binding).expect("a dry run");
    let after = api.get(&path).expect("the pod");
    assert_eq!(after["spec"]["nodeName"], Value::Null);
    assert_eq!(version(&after), version(&pod));
}

fn a_stale_replacement_is_a_conflict(api: &dyn Api) {
    let (path, pod) = one_pod(api, "replaced");
    let mut labelled = pod.clone();
    labelled["metadata"]["labels"] = json!({"round": "1"});
    api.replace(&path, labelled.clone()).expect("the current version");
    labelled["metadata"]["labels"] = json!({"round": "2"});
    conflict(api.replace(&path, labelled));
    let patch = json!({"metadata": {"resourceVersion": version(&pod), "labels": {"round": "3"}}});
    conflict(api.patch(&path, patch));
    assert_eq!(api.get(&path).expect("the pod")["metadata"]["labels"]["round"], "1");
}

fn a_lease_has_one_winner(api: &dyn Api) {
    namespace(api, "leader");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/leader/leases";
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "plimsoll"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0},
    });
    let lease = api.create(leases, lease).expect("a lease");
    let path = format!("{leases}/plimsoll");
    let claims = ["b", "c"].map(|name| {
        let mut claim = lease.clone();
        claim["spec"]["holderIdentity"] = json!(name);
        claim["spec"]["leaseTransitions"] = json!(1);
        api.replace(&path, claim)
    });
    let [won, lost] = claims;
    won.expect("the first claim");
    conflict(lost);
    assert_eq!(api.get(&path).expect("the lease")["spec"]["holderIdentity"], "b");
}

fn status_and_spec_are_written_apart(api: &dyn Api) {
    let (path, _) = one_pod(api, "apart");
    let both = |label: &str, phase: &str| json!({"metadata": {"labels": {"of": label}}, "status": {"phase": phase}});
    let object = api.patch(&path, both("object", "Failed")).expect("a patch of the object");
    assert_eq!(object["metadata"]["labels"]["of"], "object");
    assert_eq!(object["status"]["phase"], "Pending");
    let spec = json!({"spec": {"activeDeadlineSeconds": 5}, "status": {"phase": "Running"}});
    let status = api.patch(&format!("{path}/status"), spec).expect("a patch of the status");
    assert_eq!(status["status"]["phase"], "Running");
    assert_eq!(status["spec"]["activeDeadlineSeconds"], Value::Null);
}

fn an_empty_patch_keeps_the_version(api: &dyn Api) {
    let (path, pod) = one_pod(api, "unchanged");
    let annotations = json!({"metadata": {"annotations": {"gpu-memory": "8000"}}});
    let same = api.patch(&path, annotations).expect("a patch");
    assert_eq!(version(&same), version(&pod));
}

fn the_kubelet_reports_as_told(api: &dyn Api) {
    let (path, _) = one_pod(api, "reports");
    let node = GpuNode::new("reporter", 1, 32_607).shared(100);
    let kubelet = Kubelet::register(api, &node, now()).expect("a node");
    let registered = api.get(&node_path("reporter")).expect("the node");
    assert_eq!(registered["status"]["allocatable"]["nvidia.com/gpu"], "100");
    assert_eq!(registered["spec"]["taints"], Value::Null);
    api.bind(&path, "reporter", &json!({})).expect("a binding");

    kubelet.run(&path, now()).expect("a running pod");
    let running = api.get(&path).expect("the pod");
    assert_eq!(running["status"]["phase"], "Running");
    assert!(running["status"]["containerStatuses"][0]["state"]["running"].is_object());
    kubelet.finish(&path, 137, now()).expect("a finished pod");
    let finished = api.get(&path).expect("the pod");
    assert_eq!(finished["status"]["phase"], "Failed");
    let state = &finished["status"]["containerStatuses"][0]["state"];
    assert_eq!(state["terminated"]["exitCode"], 137);
    assert_eq!(state["running"], Value::Null);

    kubelet.reboot("boot-2").expect("a reboot");
    kubelet.report_allocatable("nvidia.com/gpu", 0).expect("a broken card");
    let later = "2026-11-18T12:00:10.5Z".parse().expect("a time");
    kubelet.heartbeat(later).expect("a heartbeat");
    let node = api.get(&node_path("reporter")).expect("the node");
    assert_eq!(node["status"]["nodeInfo"]["bootID"], "boot-2");
    assert_eq!(node["status"]["allocatable"]["nvidia.com/gpu"], "0");
    assert_eq!(node["status"]["capacity"]["nvidia.com/gpu"], "100");
    let lease = plimsoll_testbed::api::node_lease_path("reporter");
    let lease = api.get(&lease).expect("the lease");
    assert_eq!(lease["spec"]["renewTime"], "2026-11-18T12:00:10.500000Z");
}

/// Reads events, except bookmarks, until `count` of them have arrived.
pub(crate) fn events(
    watch: &mut dyn plimsoll_testbed::api::Watch,
    count: usize,
) -> Vec<WatchEvent> {
    let deadline = Instant::now() + WITHIN;
    let mut found = Vec::new();
    while found.len() < count && Instant::now() < deadline {
        let event = watch.next(Duration::from_millis(200));
        found.extend(event.filter(|event| event.kind != WatchEventKind::Bookmark));
    }
    found
}

fn a_watch_continues_where_a_list_ends(api: &dyn Api) {
    let (path, _) = one_pod(api, "watched");
    let list = api.get(&pods("watched")).expect("a list");
    assert_eq!(list["kind"], "PodList");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let mut watch = api.watch(&pods("watched"), version(&list)).expect("a watch");
    api.bind(&path, "n1", &json!({})).expect("a binding");
    api.create(&pods("watched"), objects::pod("other")).expect("another pod");
    let first = api.get(&path).expect("the pod");
    api.delete(&path).expect("a deletion");
    one_pod(api, "not-watched");

    let seen = events(&mut *watch, 4);
    let names: Vec<_> =
        seen.iter().map(|event| (event.kind, &event.object["metadata"]["name"])).collect();
    let (web, other) = (json!("web"), json!("other"));
    let wanted = [
        (WatchEventKind::Modified, &web),
        (WatchEventKind::Added, &other),
        (WatchEventKind::Modified, &web),
        (WatchEventKind::Deleted, &web),
    ];
    assert_eq!(names, wanted);
    assert_eq!(version(&seen[0].object), version(&first));
    // The version of a deletion is that of the deletion, not of the last change before it.
    let deleted: u64 = version(&seen[3].object).parse().expect("a version");
    let added: u64 = version(&seen[1].object).parse().expect("a version");
    assert!(deleted > added, "deleted at {deleted}, added at {added}");
}

fn a_watch_shows_what_follows_a_list(api: &dyn Api) {
    let (path, _) = one_pod(api, "followed");
    let list = api.get(&pods("followed")).expect("a list");
    let mut watch = api.watch(&pods("followed"), version(&list)).expect("a watch");
    let changed = api.patch(&path, json!({"metadata": {"labels": {"a": "b"}}})).expect("a patch");
    let created = api.create(&pods("followed"), objects::pod("other")).expect("another pod");
    let seen = events(&mut *watch, 2);
    let kinds: Vec<_> = seen.iter().map(|event| (event.kind, version(&event.object))).collect();
    let wanted =
        [(WatchEventKind::Modified, version(&changed)), (WatchEventKind::Added, version(&created))];
    assert_eq!(kinds, wanted);
}

fn a_graceful_deletion_waits_for_the_kubelet(api: &dyn Api) {
    use plimsoll_testbed::api::Verb;
    let (path, _) = one_pod(api, "graceful");
    api.bind(&path, "n1", &json!({})).expect("a binding");
    let list = api.get(&pods("graceful")).expect("a list");
    let mut watch = api.watch(&pods("graceful"), version(&list)).expect("a watch");
    api.call(Verb::Delete, &path, None).expect("a graceful deletion");
    let terminating = api.get(&path).expect("the pod is still there");
    assert!(terminating["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(terminating["metadata"]["deletionGracePeriodSeconds"], 30);
    api.delete(&path).expect("the kubelet's deletion");
    assert_eq!(api.get(&path).expect_err("it is gone").status(), Some(404));
    // A pod without a node has no kubelet to wait for.
    api.create(&pods("graceful"), objects::pod("unbound")).expect("a pod");
    let unbound = pod_path("graceful", "unbound");
    api.call(Verb::Delete, &unbound, None).expect("a deletion");
    assert_eq!(api.get(&unbound).expect_err("it is gone").status(), Some(404));
    // The last step of a deletion is a change of its own: a grace period of 0, then the removal.
    let seen = events(&mut *watch, 6);
    let steps: Vec<_> = seen
        .iter()
        .map(|event| (event.kind, event.object["metadata"]["deletionGracePeriodSeconds"].as_i64()))
        .collect();
    let wanted = [
        (WatchEventKind::Modified, Some(30)),
        (WatchEventKind::Modified, Some(0)),
        (WatchEventKind::Deleted, Some(0)),
        (WatchEventKind::Added, None),
        (WatchEventKind::Modified, Some(0)),
        (WatchEventKind::Deleted, Some(0)),
    ];
    assert_eq!(steps, wanted);
}

fn a_list_in_pages_is_complete(api: &dyn Api) {
    namespace(api, "pages");
    for index in 0..5 {
        api.create(&pods("pages"), objects::pod(&format!("p{index}"))).expect("a pod");
    }
    let mut names = Vec::new();
    let mut versions = Vec::new();
    let mut token = String::new();
    loop {
        let path = format!("{}?limit=2&continue={token}", pods("pages"));
        let page = api.get(&path).expect("a page");
        let items = page["items"].as_array().expect("items");
        names.extend(items.iter().map(|item| item["metadata"]["name"].clone()));
        versions.push(version(&page).to_owned());
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
        // A pod that is created between two pages belongs to the watch, not to the list.
        api.create(&pods("pages"), objects::pod(&format!("z{}", versions.len()))).expect("a pod");
    }
    assert_eq!(names, ["p0", "p1", "p2", "p3", "p4"]);
    versions.dedup();
    assert_eq!(versions.len(), 1, "the pages are of different versions");
    let mut watch = api.watch(&pods("pages"), &versions[0]).expect("a watch");
    assert_eq!(events(&mut *watch, 2).len(), 2);
}

fn a_name_is_created_once(api: &dyn Api) {
    one_pod(api, "once");
    let error = api.create(&pods("once"), objects::pod("web")).expect_err("it exists");
    assert_eq!((error.status(), error.reason()), (Some(409), Some("AlreadyExists")), "{error}");
}

fn an_unknown_object_is_not_found(api: &dyn Api) {
    namespace(api, "empty");
    let path = pod_path("empty", "web");
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    for result in [api.get(&path), api.patch(&path, patch), api.delete(&path)] {
        let error = result.expect_err("there is no such pod");
        assert_eq!((error.status(), error.reason()), (Some(404), Some("NotFound")), "{error}");
    }
}
