//! Slices, claims and device classes, and pods that name claims.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::node_name;

fn version() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "resource.k8s.io/v1",
        "resource.k8s.io/v1beta1",
        "resource.k8s.io/v1beta2",
    ])
}

fn uuid() -> impl Strategy<Value = Option<&'static str>> {
    prop::sample::select(vec![None, Some("GPU-a"), Some("GPU-b"), Some("GPU-y")])
}

prop_compose! {
    pub(super) fn any_slice()(
        version in version(),
        name in "s[0-2]",
        node in prop::option::weighted(0.9, node_name()),
        driver in prop::sample::select(vec!["gpu.nvidia.com", "gpu.example.com", "net.example.com"]),
        (pool, generation) in ("l[01]", 1..3),
        uuid in uuid(),
        memory in prop::option::of(1u64..3),
        parted in prop::bool::weighted(0.2),
    ) -> Value {
        let mut attributes = json!({});
        if let Some(uuid) = uuid {
            attributes["uuid"] = json!({"string": uuid});
        }
        if parted {
            attributes["parentUUID"] = json!({"string": "GPU-a"});
        }
        let capacity = memory.map_or(json!({}), |gib| json!({"memory": {"value": format!("{}Gi", gib * 10)}}));
        let facts = json!({"attributes": attributes, "capacity": capacity});
        let device = if version.ends_with("v1beta1") {
            json!({"name": "d0", "basic": facts})
        } else {
            json!({"name": "d0", "attributes": attributes, "capacity": capacity})
        };
        json!({"apiVersion": version, "kind": "ResourceSlice", "metadata": {"name": name},
            "spec": {"driver": driver, "nodeName": node, "pool": {"name": pool, "generation": generation},
                "devices": [device, {"name": "d1"}]}})
    }
}

prop_compose! {
    pub(super) fn any_claim()(
        version in version(),
        name in "c[0-2]",
        uid in prop::sample::select(vec![None, Some("u1"), Some("u2")]),
        allocated in prop::bool::weighted(0.8),
        driver in prop::sample::select(vec!["gpu.nvidia.com", "gpu.example.com", "net.example.com"]),
        (pool, device) in ("l[01]", "d[0-2]"),
        node in prop::option::of(node_name()),
        consumed in prop::option::of(1u64..9),
        (admin, terminating) in (prop::bool::weighted(0.1), prop::bool::weighted(0.1)),
    ) -> Value {
        let mut claim = json!({"apiVersion": version, "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "a", "uid": uid,
                "deletionTimestamp": terminating.then_some("2026-02-01T00:00:00Z")}});
        if allocated {
            let consumed = consumed.map_or(json!({}), |gib| json!({"memory": format!("{gib}Gi")}));
            let result = json!({"driver": driver, "pool": pool, "device": device,
                "adminAccess": admin, "consumedCapacity": consumed});
            claim["status"] = json!({"allocation": {"devices": {"results": [result]}}});
            if let Some(node) = node {
                claim["status"]["allocation"]["nodeSelector"] = json!({"nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]});
            }
        }
        claim
    }
}

prop_compose! {
    pub(super) fn any_device_class()(
        name in "k[01]",
        resource in prop::option::of(prop::sample::select(vec!["nvidia.com/gpu", "example.com/gpu"])),
    ) -> Value {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
            "spec": {"extendedResourceName": resource}})
    }
}

/// A pod that names a claim, as labels, annotations and spec.
pub(super) fn any_claiming() -> impl Strategy<Value = (Value, Value, Value)> {
    prop::option::weighted(0.8, "c[0-2]").prop_map(|claim| {
        let spec = json!({"containers": [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]});
        (json!({}), json!({}), spec)
    })
}
