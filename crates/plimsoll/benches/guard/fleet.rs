//! The objects of the cluster: pods that wait for their review, are bound, and end.

use jiff::Timestamp;
use plimsoll_testbed::objects::{self, GpuNode};
use plimsoll_testbed::simulated::SimulatedApiServer;
use serde_json::{Value, json};

use crate::Plan;

const NODES: &str = "/api/v1/nodes";
const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/namespaces/team-a/pods";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// The seconds that a pod exists before its binding is reviewed, and after it.
const BEFORE: usize = 2;
const AFTER: usize = 3;

/// The positions in the cluster of the pods of each review.
pub(crate) struct Fleet {
    nodes: usize,
    rate: usize,
}

impl Fleet {
    pub(crate) fn create(server: &SimulatedApiServer, plan: &Plan) -> Fleet {
        let fleet = Fleet { nodes: plan.nodes, rate: plan.rate };
        for name in ["default", "plimsoll", "kube-node-lease"] {
            server.put(NAMESPACES, json!({"metadata": {"name": name}}));
        }
        let guarded = json!({"metadata": {"name": "team-a", "labels": {
            "plimsoll.dev/line": "enforce", "kubernetes.io/metadata.name": "team-a",
        }}});
        server.put(NAMESPACES, guarded);
        for at in 0..plan.nodes {
            server.put(NODES, GpuNode::new(&node_name(at), 8, 81_920).object());
            server.put(LEASES, lease(at));
        }
        for at in 0..plan.holders {
            let mut pod = whole_card(&format!("holder-{at:06}"), "1");
            pod["spec"]["nodeName"] = json!(node_name(at % plan.nodes));
            server.put(PODS, pod);
        }
        for at in 0..plan.pending {
            server.put(PODS, whole_card(&format!("waiting-{at:05}"), "9"));
        }
        (0..fleet.rate * BEFORE).for_each(|at| fleet.create_pod(server, at));
        fleet
    }

    fn create_pod(&self, server: &SimulatedApiServer, at: usize) {
        server.put(PODS, whole_card(&pod_name(at), "1"));
    }

    /// Creates the pod of a later review, ends the pod of an earlier one, and renews a lease.
    pub(crate) fn turn(&self, server: &SimulatedApiServer, at: usize) {
        self.create_pod(server, at + self.rate * BEFORE);
        if let Some(earlier) = at.checked_sub(self.rate * AFTER) {
            server.remove(&format!("{PODS}/{}", pod_name(earlier)));
        }
        // Every kubelet renews its lease every ten seconds.
        let beats = |until: usize| until * self.nodes / (self.rate * 10);
        for beat in beats(at)..beats(at + 1) {
            server.put(LEASES, lease(beat % self.nodes));
        }
    }

    /// Returns the pod of a review, and the node that its scheduler chose.
    pub(crate) fn review(&self, at: usize) -> (String, String) {
        (pod_name(at), node_name(at % self.nodes))
    }

    /// Writes what the API server writes after an admitted binding; the pod ends as it is removed.
    pub(crate) fn bound(&self, server: &SimulatedApiServer, at: usize, annotations: &Value) {
        let mut pod = whole_card(&pod_name(at), "1");
        pod["spec"]["nodeName"] = json!(node_name(at % self.nodes));
        pod["metadata"]["annotations"] = annotations.clone();
        // It succeeds at once on its last event: a removal alone would be no evidence of release.
        server.put(PODS, pod.clone());
        pod["status"] = json!({"phase": "Succeeded"});
        server.put(PODS, pod);
    }
}

fn node_name(at: usize) -> String {
    format!("node-{at:05}")
}

fn pod_name(at: usize) -> String {
    format!("bound-{at:06}")
}

fn whole_card(name: &str, cards: &str) -> Value {
    let mut pod = objects::pod(name);
    pod["metadata"]["uid"] = json!(format!("uid-of-{name}"));
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": cards}});
    pod["status"] = json!({"phase": "Pending"});
    pod
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
