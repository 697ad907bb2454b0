//! Objects that only the guard needs, such as the policy that keeps annotations honest.

use plimsoll_kube::booking::ALLOCATED;
use plimsoll_kube::hami::allocated::{BIND_PHASE, MIG_ALLOCATIONS, NODE, TIME};
use plimsoll_kube::hami::vendor::VENDORS;
use plimsoll_kube::live::TOUCHED;
use serde_json::{Value, json};

use super::{
    GUARD, HAMI_ACCOUNTS, Installation, LINE, LINE_ENFORCE, LINE_WARN, Manifest, clustered, labels,
};

/// The prefix of the pod annotations by which NVIDIA's runtime gives devices to containers.
const CDI: &str = "nvidia.cdi.k8s.io/";

/// Above everything that is not critical for the cluster: while the guard does not run, no device
/// pod starts in a guarded namespace.
const PRIORITY: u32 = 1_000_000_000;

/// Returns what the deployment refers to.
pub(super) fn before_the_workload(_: &Installation) -> Vec<Manifest> {
    vec![Manifest {
        why: "Keeps the guard running when a node is short of room.",
        object: json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": clustered(GUARD),
            "value": PRIORITY,
            "description": "The guard of Plimsoll: device pods of guarded namespaces wait without it.",
        }),
    }]
}

pub(super) fn manifests(installation: &Installation) -> Vec<Manifest> {
    vec![
        Manifest { why: "One of the two replicas stays.", object: budget(installation) },
        Manifest {
            why: "Annotations that bind devices can be written by Plimsoll and HAMi only. All others stay free.",
            object: policy(installation),
        },
        Manifest {
            why: "In namespaces with plimsoll.dev/line=enforce others are rejected.",
            object: policy_binding(GUARD, LINE_ENFORCE, &["Deny"], installation),
        },
        Manifest {
            why: "In namespaces with plimsoll.dev/line=warn they are warned.",
            object: policy_binding(
                "plimsoll-guard-warn",
                LINE_WARN,
                &["Warn", "Audit"],
                installation,
            ),
        },
    ]
}

fn budget(installation: &Installation) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": installation.namespaced(GUARD),
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels()}},
    })
}

/// Returns the pod annotations that only HAMi writes.
fn hami_annotations() -> Vec<&'static str> {
    let of_vendors = VENDORS.iter().flat_map(|vendor| [Some(vendor.allocated), vendor.to_allocate]);
    let mut keys: Vec<&str> = of_vendors.flatten().filter(|key| !key.is_empty()).collect();
    keys.extend([BIND_PHASE, MIG_ALLOCATIONS, NODE, TIME]);
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Bindings are not checked here: the guard answers each of them, and the scheduler that binds
/// sends what the guard has added.
fn policy(installation: &Installation) -> Value {
    let own = [ALLOCATED, TOUCHED];
    let keys: Vec<String> =
        own.into_iter().chain(hami_annotations()).map(|key| format!("'{key}'")).collect();
    let binds = format!("(k.startsWith('{CDI}') || k in variables.binding)");
    let annotations = |object: &str| {
        format!("has({object}.metadata.annotations) ? {object}.metadata.annotations : {{}}")
    };
    let mut accounts = vec![format!("'{}'", installation.account())];
    accounts.extend(HAMI_ACCOUNTS.iter().map(|account| format!("'{account}'")));
    let variables = json!([
        {"name": "binding", "expression": format!("[{}]", keys.join(", "))},
        {"name": "after", "expression": annotations("object")},
        {
            "name": "before",
            "expression": format!("oldObject == null ? {{}} : ({})", annotations("oldObject")),
        },
        {
            "name": "changed",
            "expression": format!(
                "variables.after.filter(k, {binds} && \
                 !(k in variables.before && variables.before[k] == variables.after[k])) + \
                 variables.before.filter(k, {binds} && !(k in variables.after))"
            ),
        },
    ]);
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": clustered(GUARD),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["pods", "pods/status", "pods/ephemeralcontainers", "pods/resize"],
            }]},
            "matchConditions": [{
                "name": "not-by-plimsoll-or-hami",
                "expression": format!("!(request.userInfo.username in [{}])", accounts.join(", ")),
            }],
            "variables": variables,
            "validations": [{
                "expression": "variables.changed.size() == 0",
                "messageExpression":
                    "'the annotation ' + variables.changed.join(', ') + ' binds devices: only \
                     Plimsoll and HAMi may write it in this namespace (label plimsoll.dev/line)'",
                "reason": "Forbidden",
            }],
        },
    })
}

fn policy_binding(name: &str, line: &str, actions: &[&str], installation: &Installation) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": clustered(name),
        "spec": {
            "policyName": GUARD,
            "validationActions": actions,
            "matchResources": {"namespaceSelector": namespaces(&[line], installation)},
        },
    })
}

/// Selects guarded namespaces. The cluster's own and Plimsoll's can never be guarded: Plimsoll must
/// be able to start without itself.
fn namespaces(lines: &[&str], installation: &Installation) -> Value {
    json!({"matchExpressions": [
        {"key": LINE, "operator": "In", "values": lines},
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", installation.namespace],
        },
    ]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_by_which_users_select_devices_stay_free() {
        let keys = hami_annotations();
        assert!(keys.contains(&"hami.io/vgpu-devices-allocated"), "{keys:?}");
        assert!(keys.contains(&"hami.io/vgpu-devices-to-allocate"), "{keys:?}");
        for vendor in VENDORS {
            for key in [vendor.uuids.wanted, vendor.uuids.unwanted] {
                assert!(!keys.contains(&key), "{key}");
            }
        }
    }
}
