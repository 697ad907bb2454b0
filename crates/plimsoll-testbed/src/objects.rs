//! Objects that tests create: nodes with GPUs and pods that ask for them.

use serde_json::{Value, json};

/// A node with NVIDIA GPUs as the device plugin and its feature discovery report it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuNode {
    pub name: String,
    /// Physical cards.
    pub cards: u32,
    /// Time-slicing replicas of each card.
    pub replicas: u32,
    pub memory_mib: u64,
    pub boot_id: String,
}

impl GpuNode {
    /// Describes a node of cards that are not shared, with a boot id of its name.
    pub fn new(name: &str, cards: u32, memory_mib: u64) -> Self {
        GpuNode {
            name: name.to_owned(),
            cards,
            replicas: 1,
            memory_mib,
            boot_id: format!("boot-1-of-{name}"),
        }
    }

    /// Shares every card by time-slicing.
    #[must_use]
    pub fn shared(self, replicas: u32) -> Self {
        GpuNode { replicas, ..self }
    }

    /// Returns the object that the kubelet of the node would create.
    pub fn object(&self) -> Value {
        let tokens = (self.cards * self.replicas).to_string();
        let resources = json!({
            "cpu": "64",
            "memory": "256Gi",
            "pods": "1000",
            "nvidia.com/gpu": tokens,
        });
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": {
                    "kubernetes.io/hostname": self.name,
                    "nvidia.com/gpu.count": self.cards.to_string(),
                    "nvidia.com/gpu.memory": self.memory_mib.to_string(),
                    "nvidia.com/gpu.replicas": self.replicas.to_string(),
                    "nvidia.com/gpu.sharing-strategy":
                        if self.replicas > 1 { "time-slicing" } else { "none" },
                },
            },
            "status": {
                "capacity": resources,
                "allocatable": resources,
                "nodeInfo": node_info(&self.boot_id),
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        })
    }
}

/// Returns `status.nodeInfo` with a boot id. The API server requires the other fields.
pub(crate) fn node_info(boot_id: &str) -> Value {
    json!({
        "architecture": "amd64",
        "bootID": boot_id,
        "containerRuntimeVersion": "containerd://2.4.2",
        "kernelVersion": "6.12.0",
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.36.3",
        "machineID": "testbed",
        "operatingSystem": "linux",
        "osImage": "testbed",
        "systemUUID": "testbed",
    })
}

/// Returns a pod with one container that asks for one GPU token, and for memory by annotation.
pub fn gpu_pod(name: &str, memory_mib: u64) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["annotations"] = json!({"gpu-memory": memory_mib.to_string()});
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
    pod
}

/// Returns a pod with one container that asks for nothing.
pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": "registry.example/model:1"}],
        },
    })
}
