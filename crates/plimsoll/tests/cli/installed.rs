//! The installed program on a real API server: the rights of its account, its callers, and the
//! policy of its guard.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use plimsoll_testbed::api::{Api, pod_path};
use plimsoll_testbed::client::Client;
use plimsoll_testbed::control_plane::{ControlPlane, Settings, User};
use plimsoll_testbed::kubelet::Kubelet;
use plimsoll_testbed::objects::{self, GpuNode};
use plimsoll_testbed::programs;
use serde_json::{Value, json};

use crate::manifests::printed;
use crate::tool::plimsoll;
use crate::watching::Watching;

const NAMESPACE: &str = "gpu-system";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn start(test: &str, users: Vec<User>) -> Option<ControlPlane> {
    let programs = programs::find_or_skip(test)?;
    let settings = Settings { users, ..Settings::default() };
    Some(ControlPlane::start(&programs, &settings).unwrap_or_else(|error| panic!("{error}")))
}

fn kubectl(plane: &ControlPlane, arguments: &str, input: &str) -> String {
    let mut command = plane.kubectl("admin");
    command.args(arguments.split(' ')).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kubectl");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("kubectl reads");
    drop(stdin);
    let output = child.wait_with_output().expect("kubectl ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {arguments}: {error}\n{input}");
    String::from_utf8(output.stdout).expect("text")
}

fn ensure_namespace(admin: &Client, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    match admin.create("/api/v1/namespaces", object) {
        Err(error) if error.status() != Some(409) => panic!("{error}"),
        _ => {}
    }
}

/// Applies what is printed: first by dry run, then for real.
fn install(plane: &ControlPlane, options: &str) {
    let manifests = printed(&format!("--namespace {NAMESPACE} {options}"));
    let admin = plane.admin();
    ensure_namespace(&admin, NAMESPACE);
    ensure_namespace(&admin, "kube-node-lease");
    kubectl(plane, "apply --server-side --force-conflicts --dry-run=server -f -", &manifests);
    kubectl(plane, "apply --server-side --force-conflicts -f -", &manifests);
}

/// A kubeconfig with a token of the installed account, as its pod has one.
fn kubeconfig_of_the_account(plane: &ControlPlane) -> PathBuf {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/plimsoll/token");
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = plane.admin().create(&path, request).expect("a token");
    let config = fs::read_to_string(plane.kubeconfig("admin")).expect("a kubeconfig");
    let mut config: Value = serde_json::from_str(&config).expect("JSON");
    config["users"][0]["user"] = json!({"token": answer["status"]["token"]});
    let file = plane.folder().join("account.kubeconfig");
    fs::write(&file, config.to_string()).expect("a file");
    file
}

/// Grants rules by a role, in one namespace or in the whole cluster.
fn grant(admin: &Client, user: &str, namespace: Option<&str>, rules: &Value) {
    let (prefix, path) = match namespace {
        Some(namespace) => ("", format!("{RBAC}/namespaces/{namespace}")),
        None => ("Cluster", RBAC.to_owned()),
    };
    let name = format!("of-{user}");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{prefix}Role"),
        "metadata": {"name": name}, "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{prefix}RoleBinding"),
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": format!("{prefix}Role"), "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let kind = prefix.to_lowercase();
    admin.create(&format!("{path}/{kind}roles"), role).expect("a role");
    admin.create(&format!("{path}/{kind}rolebindings"), binding).expect("a binding");
}

/// A card of 32,607 MiB, shared 100 ways, and a pod of 8000 MiB that waits in `team-a`.
fn cluster(admin: &Client) {
    let node = GpuNode::new("gpu-node", 1, 32_607).shared(100);
    Kubelet::register(admin, &node, jiff::Timestamp::now()).expect("a node");
    ensure_namespace(admin, "team-a");
    let pods = "/api/v1/namespaces/team-a/pods";
    admin.create(pods, objects::gpu_pod("web", 8000)).expect("a pod");
}

#[test]
fn the_program_runs_with_exactly_the_rights_of_its_account() {
    let users = vec![User::new("alice", "alice", &[]), User::new("bob", "bob", &["operators"])];
    let Some(plane) = start("the installed program", users) else { return };
    install(&plane, "");
    let admin = plane.admin();
    cluster(&admin);
    let config = kubeconfig_of_the_account(&plane).display().to_string();
    let watching = Watching::start_with(&config, &["--cluster-users"]);
    callers_have_the_rights_that_the_cluster_gives_them(&watching, &admin);
    drop(watching);
    a_right_that_is_missing_is_named(&admin, &config);
}

/// The token of a user of the testbed.
fn token(user: &str) -> String {
    format!("token-of-{user}")
}

fn callers_have_the_rights_that_the_cluster_gives_them(watching: &Watching, admin: &Client) {
    let pods = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    grant(admin, "alice", Some("team-a"), &pods);
    let lists = json!([{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}]);
    grant(admin, "bob", None, &lists);
    let log = |namespace: &str, pod: &str| {
        format!("/api/v1/namespaces/{namespace}/pods/{pod}/schedulerlog")
    };
    let (web, gone, other) = (log("team-a", "web"), log("team-a", "gone"), log("team-b", "web"));
    let clear = "/api/v1/releasing/team-a/web/uid".to_owned();
    let devices = "/api/v1/devices".to_owned();
    let (page, metrics) = ("/openapi.json".to_owned(), "/metrics".to_owned());
    for (method, path, user, status, part) in [
        ("GET", &web, None, 401, "no token was sent"),
        ("GET", &gone, None, 401, "no token was sent"),
        ("GET", &web, Some("unknown"), 401, "the token is unknown"),
        ("GET", &web, Some("guest"), 403, "guest may not get pods team-a/web"),
        ("GET", &gone, Some("guest"), 403, "guest may not get pods team-a/gone"),
        ("GET", &web, Some("alice"), 200, "\"status\""),
        ("GET", &gone, Some("alice"), 404, "team-a/gone"),
        ("GET", &other, Some("alice"), 403, "alice may not get pods team-b/web"),
        ("GET", &devices, Some("alice"), 403, "alice may not list nodes in the whole cluster"),
        ("GET", &devices, Some("bob"), 200, "gpu-node"),
        ("GET", &web, Some("bob"), 403, "bob may not get pods team-a/web"),
        ("DELETE", &clear, Some("bob"), 403, "bob may not patch nodes/status"),
        ("DELETE", &clear, Some("admin"), 404, "has not vanished"),
        ("GET", &metrics, Some("bob"), 403, "bob may not get /metrics"),
        ("GET", &metrics, Some("admin"), 200, "plimsoll_build_info"),
        ("GET", &page, Some("guest"), 200, "openapi"),
        ("GET", &page, None, 401, "no token was sent"),
    ] {
        let token = user.map(token);
        let (found, body) = watching.ask(method, path, token.as_deref());
        assert_eq!(found, status, "{method} {path} by {user:?}: {body}");
        assert!(body.contains(part), "{method} {path} by {user:?}: {body}");
    }
    // Without a token, a prober learns that the program lives and is ready, and nothing else.
    assert_eq!(watching.ask("GET", "/readyz", None).0, 200);
}

/// Takes the right to list pods from the account.
fn a_right_that_is_missing_is_named(admin: &Client, config: &str) {
    let path = format!("{RBAC}/clusterroles/plimsoll");
    let mut role = admin.get(&path).expect("the role");
    let rules = role["rules"].as_array_mut().expect("rules");
    let core = rules.iter_mut().find(|rule| rule["apiGroups"] == json!([""])).expect("a rule");
    core["resources"].as_array_mut().expect("resources").retain(|one| one != "pods");
    admin.replace(&path, role).expect("the role is changed");
    let run = || plimsoll(&format!("kube -q --kubeconfig {config} --listen 127.0.0.1:0"));
    // The API server learns of changed roles by a watch of its own.
    std::thread::sleep(Duration::from_secs(1));
    run().fails_with(&["missing rights on", "list pods", "grant them to this account"]);
}

#[test]
fn annotations_that_bind_devices_are_plimsolls_and_hamis_in_guarded_namespaces() {
    let account = format!("system:serviceaccount:{NAMESPACE}:plimsoll");
    let hami = "system:serviceaccount:kube-system:hami-scheduler";
    let users = vec![
        User::new("account", &account, &["system:masters"]),
        User::new("hami", hami, &["system:masters"]),
    ];
    let Some(plane) = start("the policy of the guard", users) else { return };
    install(&plane, "--guard");
    let admin = plane.admin();
    for (namespace, line) in [("team-a", "enforce"), ("team-b", "warn"), ("team-c", "")] {
        ensure_namespace(&admin, namespace);
        let labels = if line.is_empty() { json!({}) } else { json!({"plimsoll.dev/line": line}) };
        let patch = json!({"metadata": {"labels": labels}});
        admin.patch(&format!("/api/v1/namespaces/{namespace}"), patch).expect("a label");
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        admin.create(&pods, objects::pod("web")).expect("a pod");
    }
    let write = |user: &str, namespace: &str, key: &str, value: Value| {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        plane.client(user).patch(&pod_path(namespace, "web"), patch)
    };
    // A new policy is in force a moment after it was made.
    let start = std::time::Instant::now();
    while write("admin", "team-a", "plimsoll.dev/allocated", json!("x")).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(30), "the policy is not in force");
        write("account", "team-a", "plimsoll.dev/allocated", Value::Null).expect("it may");
        std::thread::sleep(Duration::from_millis(100));
    }
    for key in [
        "plimsoll.dev/allocated",
        "plimsoll.dev/touched",
        "nvidia.cdi.k8s.io/container.main",
        "hami.io/vgpu-devices-allocated",
        "hami.io/vgpu-devices-to-allocate",
    ] {
        let error = write("admin", "team-a", key, json!("x")).expect_err("it is not theirs");
        assert_eq!(error.status(), Some(403), "{error}");
        assert!(error.to_string().contains(key), "{error}");
        for user in ["account", "hami"] {
            write(user, "team-a", key, json!(user)).unwrap_or_else(|error| panic!("{error}"));
            for value in [json!("another"), Value::Null] {
                let error = write("admin", "team-a", key, value).expect_err("it is not theirs");
                assert_eq!(error.status(), Some(403), "{error}");
            }
        }
        for namespace in ["team-b", "team-c"] {
            write("admin", namespace, key, json!("x")).expect("it is not enforced there");
        }
    }
    for key in ["gpu-memory", "hami.io/gpu-scheduler-policy", "nvidia.com/use-gpuuuid", "note"] {
        write("admin", "team-a", key, json!("x")).unwrap_or_else(|error| panic!("{error}"));
    }
    let mut forged = objects::pod("forged");
    forged["metadata"]["annotations"] = json!({"plimsoll.dev/allocated": "x"});
    let pods = "/api/v1/namespaces/team-a/pods";
    let error = admin.create(pods, forged).expect_err("it is not theirs");
    assert_eq!(error.status(), Some(403), "{error}");
    // The status of a pod that Plimsoll has marked stays free.
    let kubelet = plane.admin();
    let running = json!({"status": {"phase": "Running"}});
    kubelet.patch(&format!("{}/status", pod_path("team-a", "web")), running).expect("a status");
}
