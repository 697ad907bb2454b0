//! A stand-in for the kubelet of one node: it reports what a test tells it to report.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::{Api, ApiError, node_lease_path, node_path};
use crate::objects::{GpuNode, node_info};

/// The state of one container, as in `status.containerStatuses[].state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerState {
    Waiting,
    Running,
    Terminated { exit_code: i32 },
}

/// The kubelet of one node.
pub struct Kubelet<'a> {
    api: &'a dyn Api,
    node: String,
}

impl<'a> Kubelet<'a> {
    /// Creates the node and its lease, and removes the taint of new nodes, which otherwise stays
    /// where no controller manager runs.
    ///
    /// # Errors
    ///
    /// [`ApiError`], as for all methods below.
    pub fn register(api: &'a dyn Api, node: &GpuNode, now: Timestamp) -> Result<Self, ApiError> {
        api.create("/api/v1/nodes", node.object())?;
        api.patch(&node_path(&node.name), json!({"spec": {"taints": null}}))?;
        ensure_lease_namespace(api)?;
        let kubelet = Kubelet { api, node: node.name.clone() };
        let lease = kubelet.lease(now);
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        api.create(leases, lease)?;
        Ok(kubelet)
    }

    /// Renews the node's lease.
    ///
    /// # Errors
    ///
    /// [`ApiError`]
    pub fn heartbeat(&self, now: Timestamp) -> Result<(), ApiError> {
        let lease = self.lease(now);
        self.api.patch(&node_lease_path(&self.node), json!({"spec": lease["spec"]})).map(drop)
    }

    /// Reports that the machine has restarted with this boot id.
    ///
    /// # Errors
    ///
    /// [`ApiError`]
    pub fn reboot(&self, boot_id: &str) -> Result<(), ApiError> {
        self.patch_node_status(&json!({"nodeInfo": node_info(boot_id)}))
    }

    /// Reports the `Ready` condition: `True`, `False` or `Unknown`.
    ///
    /// # Errors
    ///
    /// [`ApiError`]
    pub fn report_ready(&self, status: &str, now: Timestamp) -> Result<(), ApiError> {
        let condition = json!({
            "type": "Ready",
            "status": status,
            "lastHeartbeatTime": seconds(now),
            "lastTransitionTime": seconds(now),
        });
        self.patch_node_status(&json!({"conditions": [condition]}))
    }

    /// Reports allocatable GPU tokens, as after a card became unhealthy.
    ///
    /// # Errors
    ///
    /// [`ApiError`]
    pub fn report_allocatable(&self, resource: &str, amount: u32) -> Result<(), ApiError> {
        self.patch_node_status(&json!({"allocatable": {resource: amount.to_string()}}))
    }

    /// Reports that all containers of a pod run.
    ///
    /// # Errors
    ///
    /// [`ApiError`]
    pub fn run(&self, pod: &str, now: Timestamp) -> Result<(), ApiError> {
        self.report(pod, "Running", ContainerState::Running, now)
    }

    /// Reports that all containers of a pod have terminated, with the phase that follows.
    ///
    /// # Errors
    ///
    /// [`ApiError`]
    pub fn finish(&self, pod: &str, exit_code: i32, now: Timestamp) -> Result<(), ApiError> {
        let phase = if exit_code == 0 { "Succeeded" } else { "Failed" };
        self.report(pod, phase, ContainerState::Terminated { exit_code }, now)
    }

    /// Reports a pod that was rejected before any container started, such as
    /// `UnexpectedAdmissionError`.
    ///
    /// # Errors
    ///
    /// [`ApiError`]
    pub fn reject(&self, pod: &str, reason: &str) -> Result<(), ApiError> {
        let status = json!({
            "phase": "Failed",
            "reason": reason,
            "message": format!("Pod was rejected: {reason}"),
            "containerStatuses": null,
        });
        self.report_status(pod, &status)
    }

    /// Reports a phase, with all containers of the pod in one state.
    ///
    /// # Errors
    ///
    /// [`ApiError`]
    pub fn report(
        &self,
        pod: &str,
        phase: &str,
        state: ContainerState,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let object = self.api.get(pod)?;
        let containers = object["spec"]["containers"].as_array().cloned().unwrap_or_default();
        let statuses: Vec<Value> =
            containers.iter().map(|container| container_status(container, state, now)).collect();
        let status = json!({
            "phase": phase,
            "startTime": seconds(now),
            "containerStatuses": statuses,
        });
        self.report_status(pod, &status)
    }

    /// Merges fields into the status of a pod, as told.
    ///
    /// # Errors
    ///
    /// [`ApiError`]
    pub fn report_status(&self, pod: &str, status: &Value) -> Result<(), ApiError> {
        self.api.patch(&format!("{pod}/status"), json!({"status": status})).map(drop)
    }

    fn patch_node_status(&self, status: &Value) -> Result<(), ApiError> {
        let path = format!("{}/status", node_path(&self.node));
        self.api.patch(&path, json!({"status": status})).map(drop)
    }

    fn lease(&self, now: Timestamp) -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.node, "namespace": "kube-node-lease"},
            "spec": {
                "holderIdentity": self.node,
                "leaseDurationSeconds": 40,
                "renewTime": format!("{now:.6}"),
            },
        })
    }
}

/// The API server creates its namespaces some time after it reports that it is ready.
fn ensure_lease_namespace(api: &dyn Api) -> Result<(), ApiError> {
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "kube-node-lease"},
    });
    match api.create("/api/v1/namespaces", namespace) {
        Err(error) if error.status() != Some(409) => Err(error),
        _ => Ok(()),
    }
}

fn container_status(container: &Value, state: ContainerState, now: Timestamp) -> Value {
    let name = container["name"].as_str().unwrap_or_default();
    let details = match state {
        ContainerState::Waiting => json!({"waiting": {"reason": "ContainerCreating"}}),
        ContainerState::Running => json!({"running": {"startedAt": seconds(now)}}),
        ContainerState::Terminated { exit_code } => json!({
            "terminated": {
                "exitCode": exit_code,
                "reason": if exit_code == 0 { "Completed" } else { "Error" },
                "finishedAt": seconds(now),
            },
        }),
    };
    json!({
        "name": name,
        "image": container["image"],
        "imageID": "",
        "containerID": format!("containerd://{name}"),
        "ready": state == ContainerState::Running,
        "started": state == ContainerState::Running,
        "restartCount": 0,
        "state": details,
    })
}

/// Returns a time as `metav1.Time` has it.
fn seconds(now: Timestamp) -> String {
    format!("{now:.0}")
}
