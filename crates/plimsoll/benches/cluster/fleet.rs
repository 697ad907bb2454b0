//! The objects of the cluster and their changes.

use jiff::Timestamp;
use plimsoll_testbed::objects::{self, GpuNode};
use plimsoll_testbed::simulated::SimulatedApiServer;
use serde_json::{Value, json};

use crate::Plan;

const PODS: &str = "/api/v1/namespaces/default/pods";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Positions in the cluster from which the next change is made.
pub(crate) struct Fleet {
    nodes: usize,
    /// Pods with a device: the next one to finish, and the number of the next one to create.
    oldest: usize,
    next: usize,
    others: usize,
    beat: usize,
}

impl Fleet {
    pub(crate) fn create(server: &SimulatedApiServer, plan: &Plan) -> Fleet {
        for at in 0..plan.nodes {
            let node = GpuNode::new(&node_name(at), 8, 81_920);
            server.put("/api/v1/nodes", node.object());
            server.put(LEASES, lease(at));
        }
        for at in 0..plan.holders {
            server.put(PODS, holder(at, plan.nodes));
        }
        for at in 0..plan.pending {
            server.put(PODS, waiting(at));
        }
        let others = plan.pods.saturating_sub(plan.holders + plan.pending);
        for at in 0..others {
            server.put(PODS, other(at, plan.nodes, 0));
        }
        Fleet { nodes: plan.nodes, oldest: 0, next: plan.holders, others, beat: 0 }
    }

    /// Makes the next change. Returns the name of the pod if it changes the ledger.
    pub(crate) fn change(&mut self, server: &SimulatedApiServer, at: usize) -> Option<String> {
        match at % 4 {
            0 => {
                server.put(PODS, holder(self.next, self.nodes));
                self.next += 1;
                Some(holder_name(self.next - 1))
            }
            1 => {
                let mut pod = holder(self.oldest, self.nodes);
                pod["status"] = json!({"phase": "Succeeded"});
                server.put(PODS, pod);
                self.oldest += 1;
                Some(holder_name(self.oldest - 1))
            }
            _ if self.others == 0 => None,
            _ => {
                server.put(PODS, other(at % self.others, self.nodes, at));
                None
            }
        }
    }

    /// Renews the lease of the next node.
    pub(crate) fn beat(&mut self, server: &SimulatedApiServer) {
        server.put(LEASES, lease(self.beat % self.nodes));
        self.beat += 1;
    }
}

fn node_name(at: usize) -> String {
    format!("node-{at:05}")
}

fn holder_name(at: usize) -> String {
    format!("holder-{at:06}")
}

fn holder(at: usize, nodes: usize) -> Value {
    let mut pod = whole_card(&holder_name(at));
    pod["spec"]["nodeName"] = json!(node_name(at % nodes));
    pod["status"] = running();
    pod
}

/// A pod that fits nowhere: its opinion lists every node.
fn waiting(at: usize) -> Value {
    let mut pod = whole_card(&format!("waiting-{at:05}"));
    let limits = &mut pod["spec"]["containers"][0]["resources"]["limits"];
    limits["nvidia.com/gpu"] = json!(if at.is_multiple_of(2) { "8" } else { "9" });
    pod["status"] = json!({"phase": "Pending"});
    pod
}

fn whole_card(name: &str) -> Value {
    let mut pod = described(name);
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
    pod
}

/// A pod without devices, as most are.
fn other(at: usize, nodes: usize, generation: usize) -> Value {
    let mut pod = described(&format!("other-{at:06}"));
    pod["spec"]["nodeName"] = json!(node_name(at % nodes));
    pod["status"] = running();
    pod["status"]["conditions"] = json!([{
        "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
        "message": format!("generation {generation}"),
    }]);
    pod
}

/// A pod with the fields that make real ones long.
fn described(name: &str) -> Value {
    let mut pod = objects::pod(name);
    let metadata = &mut pod["metadata"];
    metadata["uid"] = json!(format!("uid-of-{name}"));
    metadata["labels"] = json!({"app": name, "pod-template-hash": "5d5f8f7c9d", "team": "a"});
    metadata["managedFields"] = json!([{
        "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}},
    }]);
    let variables: Vec<Value> = (0..10)
        .map(|at| json!({"name": format!("VARIABLE_{at}"), "value": "some value"}))
        .collect();
    pod["spec"]["containers"][0]["env"] = json!(variables);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    pod["spec"]["tolerations"] = json!([
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
    ]);
    pod
}

fn running() -> Value {
    json!({
        "phase": "Running",
        "containerStatuses": [{
            "name": "main", "containerID": "containerd://0123456789abcdef", "image": "registry.example/model:1",
            "ready": true, "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }],
    })
}

fn lease(at: usize) -> Value {
    let node = node_name(at);
    json!({
        "metadata": {"name": node},
        "spec": {
            "holderIdentity": node, "leaseDurationSeconds": 40,
            "renewTime": format!("{:.6}", Timestamp::now()),
        },
    })
}
