//! A control plane with a guarded namespace, and replicas of the guard as processes.

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_testbed::api::{Api, ApiError, pod_path};
use plimsoll_testbed::client::Client;
use plimsoll_testbed::control_plane::{ControlPlane, Settings, free_port};
use plimsoll_testbed::gate::Gate;
use plimsoll_testbed::kubelet::Kubelet;
use plimsoll_testbed::objects::{self, GpuNode};
use plimsoll_testbed::process::Process;
use plimsoll_testbed::programs;
use serde_json::{Value, json};

use crate::manifests::printed;

/// The only node: one card of 32,607 MiB, shared 100 ways.
pub(crate) const NODE: &str = "gpu-node";

/// The namespace whose bindings are checked.
pub(crate) const TEAM: &str = "team-a";

/// The lease of the replica that decides.
pub(crate) const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/plimsoll/leases/plimsoll-guard";

/// The longest wait for anything: a loaded machine is slow, and a pass does not wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster with one shared card and a guarded namespace.
pub(crate) struct Cluster {
    pub(crate) plane: ControlPlane,
    pub(crate) admin: Client,
}

impl Cluster {
    /// Starts one; `None` without the programs. What `kube manifests --guard` prints is applied.
    pub(crate) fn start(test: &str) -> Option<Cluster> {
        let programs = programs::find_or_skip(test)?;
        let plane = ControlPlane::start(&programs, &Settings::default());
        let plane = plane.unwrap_or_else(|error| panic!("{error}"));
        let cluster = Cluster { admin: plane.admin(), plane };
        for name in ["default", "kube-node-lease", "plimsoll"] {
            cluster.namespace(name, None);
        }
        cluster.namespace(TEAM, Some("enforce"));
        let node = GpuNode::new(NODE, 1, 32_607).shared(100);
        Kubelet::register(&cluster.admin, &node, jiff::Timestamp::now()).expect("a node");
        cluster.kubectl("apply --server-side --force-conflicts -f -", &printed("--guard"));
        cluster.keep_alive(vec![NODE.to_owned()]);
        Some(cluster)
    }

    /// Adds nodes like the first one.
    pub(crate) fn add_nodes(&self, names: &[String]) {
        for name in names {
            let node = GpuNode::new(name, 1, 32_607).shared(100);
            Kubelet::register(&self.admin, &node, jiff::Timestamp::now()).expect("a node");
        }
        self.keep_alive(names.to_vec());
    }

    /// Renews the leases of nodes until the API server is gone. A silent node takes nothing new.
    pub(crate) fn keep_alive(&self, nodes: Vec<String>) {
        let admin = self.plane.admin();
        thread::spawn(move || {
            let renew = |node: &String| {
                let path = plimsoll_testbed::api::node_lease_path(node);
                let renewed = format!("{:.6}", jiff::Timestamp::now());
                admin.patch(&path, json!({"spec": {"renewTime": renewed}}))
            };
            while nodes.iter().all(|node| renew(node).is_ok()) {
                thread::sleep(Duration::from_secs(5));
            }
        });
    }

    /// Creates a namespace, or sets its line.
    pub(crate) fn namespace(&self, name: &str, line: Option<&str>) {
        let metadata = json!({"name": name, "labels": {"plimsoll.dev/line": line}});
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match self.admin.create("/api/v1/namespaces", object) {
            Err(error) if error.status() != Some(409) => panic!("{error}"),
            _ => {}
        }
        let path = format!("/api/v1/namespaces/{name}");
        self.admin.patch(&path, json!({"metadata": metadata})).expect("a label");
    }

    pub(crate) fn kubectl(&self, arguments: &str, input: &str) -> String {
        let mut command = self.plane.kubectl("admin");
        command.args(arguments.split(' ')).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl");
        child.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("kubectl ends");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments}: {error}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Creates a pod that asks for this memory and waits for a node.
    pub(crate) fn pod(&self, namespace: &str, name: &str, mib: u64) {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        self.admin.create(&pods, objects::gpu_pod(name, mib)).expect("a pod");
    }

    /// Binds a pod as a scheduler would, without preconditions.
    pub(crate) fn bind(&self, namespace: &str, name: &str) -> Result<Value, ApiError> {
        self.admin.bind(&pod_path(namespace, name), NODE, &json!({}))
    }

    pub(crate) fn read(&self, namespace: &str, name: &str) -> Value {
        self.admin.get(&pod_path(namespace, name)).expect("the pod is there")
    }

    pub(crate) fn node_of(&self, namespace: &str, name: &str) -> Option<String> {
        self.read(namespace, name)["spec"]["nodeName"].as_str().map(str::to_owned)
    }

    /// The message of the pod's condition `PodScheduled`.
    pub(crate) fn condition(&self, namespace: &str, name: &str) -> String {
        let pod = self.read(namespace, name);
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let scheduled = conditions.iter().find(|one| one["type"] == "PodScheduled");
        scheduled.map_or(String::new(), |one| text(&one["message"]))
    }

    /// The pods of a namespace that have a node.
    pub(crate) fn bound(&self, namespace: &str) -> Vec<String> {
        let pods = self.admin.get(&format!("/api/v1/namespaces/{namespace}/pods")).expect("pods");
        let items = pods["items"].as_array().cloned().unwrap_or_default();
        let bound = items.iter().filter(|pod| pod["spec"]["nodeName"].is_string());
        bound.map(|pod| text(&pod["metadata"]["name"])).collect()
    }

    /// The MiB that bound pods that have not ended ask for, on the only card.
    pub(crate) fn asked_mib(&self) -> u64 {
        let pods = self.admin.get("/api/v1/pods").expect("pods");
        let items = pods["items"].as_array().cloned().unwrap_or_default();
        let held = items.iter().filter(|pod| pod["spec"]["nodeName"].is_string());
        let held = held.filter(|pod| pod["status"]["phase"] != "Succeeded");
        held.filter_map(|pod| {
            pod["metadata"]["annotations"]["gpu-memory"].as_str()?.parse::<u64>().ok()
        })
        .sum()
    }

    /// Takes the lease from its holder, who does not know it: what no clean hand-over does.
    pub(crate) fn free_lease(&self) {
        let freed = json!({"spec": {"holderIdentity": ""}});
        self.admin.patch(LEASE, freed).expect("a lease");
    }

    /// Deletes all pods of a namespace after their containers have ended, which is evidence.
    pub(crate) fn clear(&self, namespace: &str) {
        let pods = self.admin.get(&format!("/api/v1/namespaces/{namespace}/pods")).expect("pods");
        for pod in pods["items"].as_array().cloned().unwrap_or_default() {
            self.end(namespace, &text(&pod["metadata"]["name"]));
        }
    }

    /// Ends a pod with evidence, and deletes it.
    pub(crate) fn end(&self, namespace: &str, name: &str) {
        let path = pod_path(namespace, name);
        let status = json!({"status": {"phase": "Succeeded", "containerStatuses": [{
            "name": "main", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 0}},
        }]}});
        self.admin.patch(&format!("{path}/status"), status).expect("a status");
        self.admin.delete(&path).expect("it is there");
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Waits until something holds, and returns how long that took.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
    start.elapsed()
}

/// Waits until an attempt succeeds; fails with the last error.
pub(crate) fn until_ok<T, E: std::fmt::Display>(
    what: &str,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> T {
    let (start, mut first) = (Instant::now(), None);
    loop {
        let error = match attempt() {
            Ok(value) => return value,
            Err(error) => error.to_string(),
        };
        let is_late = start.elapsed() > PATIENCE;
        assert!(!is_late, "not after {PATIENCE:?}: {what}: {error}; at first: {first:?}");
        first.get_or_insert(error);
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the charges of device rows, sorted, without their stage.
pub(crate) fn charges(devices: &Value) -> Vec<String> {
    let rows = devices.as_array().into_iter().flatten();
    let mut charges: Vec<String> = rows
        .flat_map(|row| {
            let tenants = row["tenants"].as_array().into_iter().flatten();
            tenants.map(|tenant| {
                let (pod, bytes) = (text(&tenant["pod"]), &tenant["bytes"]);
                format!("{} {} {pod} {bytes}", text(&row["node"]), text(&row["uuid"]))
            })
        })
        .collect();
    charges.sort();
    charges
}

/// One replica of the guard. It is killed when this is dropped.
pub(crate) struct Replica {
    pub(crate) process: Process,
    url: String,
    log: PathBuf,
}

impl Replica {
    /// Starts one with the rights of the installed account.
    pub(crate) fn start(cluster: &Cluster, name: &str) -> Replica {
        Replica::start_with(cluster, name, &[])
    }

    pub(crate) fn start_with(cluster: &Cluster, name: &str, options: &[&str]) -> Replica {
        let port = free_port().expect("a port");
        Replica::start_called_at(cluster, name, port, port, options)
    }

    /// Starts one whose reviews come through a gate.
    pub(crate) fn start_behind(cluster: &Cluster, name: &str, gate: &Gate) -> Replica {
        let port = free_port().expect("a port");
        gate.lead_to(port);
        Replica::start_called_at(cluster, name, port, gate.port(), &[])
    }

    /// Starts one that listens on one port and is called by the API server at another.
    fn start_called_at(
        cluster: &Cluster,
        name: &str,
        listens: u16,
        called: u16,
        options: &[&str],
    ) -> Replica {
        let api = free_port().expect("a port");
        let mut command: Vec<String> = vec![
            env!("CARGO_BIN_EXE_plimsoll").to_owned(),
            "kube".to_owned(),
            "--guard".to_owned(),
        ];
        command.push(format!("--kubeconfig={}", cluster.plane.kubeconfig("plimsoll").display()));
        command.push(format!("--listen=127.0.0.1:{api}"));
        command.push(format!("--webhook-listen=127.0.0.1:{listens}"));
        command.push(format!("--webhook-url=https://127.0.0.1:{called}"));
        command.extend(options.iter().map(|&option| option.to_owned()));
        let log = cluster.plane.folder().join(format!("{name}.log"));
        let process = Process::start(&command, &log).expect("the binary was built for this test");
        Replica { process, url: format!("http://127.0.0.1:{api}"), log }
    }

    /// Starts one, and waits until it decides and the API server calls it.
    pub(crate) fn deciding(cluster: &Cluster, name: &str) -> Replica {
        let mut replica = Replica::start(cluster, name);
        replica.until_deciding();
        replica
    }

    pub(crate) fn until_deciding(&mut self) -> Duration {
        let start = Instant::now();
        while self.metric("plimsoll_guard_registered") != Some(1.0) {
            let ended = self.process.exited();
            let is_late = start.elapsed() > PATIENCE;
            assert!(
                ended.is_none() && !is_late,
                "{ended:?} after {:?}\n{}",
                start.elapsed(),
                self.log()
            );
            thread::sleep(Duration::from_millis(20));
        }
        start.elapsed()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.get("/readyz").is_some()
    }

    pub(crate) fn get(&self, path: &str) -> Option<String> {
        let agent = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(2)));
        let agent = agent.build().new_agent();
        agent.get(format!("{}{path}", self.url)).call().ok()?.body_mut().read_to_string().ok()
    }

    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let metrics = self.get("/metrics")?;
        let line = metrics.lines().find(|line| line.starts_with(name))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// The reviews of bindings so far that had this outcome.
    pub(crate) fn reviews(&self, outcome: &str) -> f64 {
        let name =
            format!("plimsoll_guard_reviews_total{{kind=\"binding\",outcome=\"{outcome}\"}}");
        self.metric(&name).unwrap_or_default()
    }

    /// The charges of every card, sorted, without their stage: node, card, pod and bytes.
    pub(crate) fn charges(&self) -> Vec<String> {
        let devices = self.get("/api/v1/devices").unwrap_or_default();
        charges(&serde_json::from_str(&devices).unwrap_or_default())
    }

    /// The pods that hold something on the only card.
    pub(crate) fn holders(&self) -> Vec<String> {
        let devices = self.get("/api/v1/devices").unwrap_or_default();
        let devices: Value = serde_json::from_str(&devices).unwrap_or_default();
        let tenants = devices[0]["tenants"].as_array().cloned().unwrap_or_default();
        tenants.iter().map(|tenant| text(&tenant["pod"])).collect()
    }
}
