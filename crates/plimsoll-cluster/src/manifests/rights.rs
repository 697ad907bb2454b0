//! The account, and exactly the rights that the program uses.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{GUARD, Installation, Manifest, NAME, Part, clustered};
use crate::registration::REGISTRATION;
use crate::served::{NODE_LEASES, watched};

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn manifests(installation: &Installation) -> Vec<Manifest> {
    let mut manifests = vec![account(installation)];
    let why = "Rights in the whole cluster: it reads what placement depends on, and asks who its callers are.";
    manifests.extend(cluster_role(installation, NAME, why, &reading()));
    let why = "Nodes are heard by their leases, which are in this namespace.";
    let heartbeats = [rule("coordination.k8s.io", &["leases"], &["list", "watch"])];
    manifests.extend(role(installation, NAME, NODE_LEASES, why, &heartbeats));
    if installation.part == Part::Guard {
        let why = "Rights of the guard in the whole cluster: it touches pods that wait for a node, and registers its certificate.";
        manifests.extend(cluster_role(installation, GUARD, why, &guarding()));
        let why = "Rights of the guard in its own namespace: its lease, its certificate, and its record of holders.";
        manifests.extend(role(installation, GUARD, &installation.namespace, why, &own_objects()));
    }
    manifests
}

fn account(installation: &Installation) -> Manifest {
    Manifest {
        why: "The account that Plimsoll runs as.",
        object: json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": installation.namespaced(NAME),
        }),
    }
}

/// The rules for what is watched: the list of the watch itself, by API group.
fn reading() -> Vec<Value> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (group, plural) in watched() {
        groups.entry(group).or_default().push(plural);
    }
    let mut rules: Vec<Value> = groups
        .into_iter()
        .map(|(group, resources)| rule(group, &resources, &["list", "watch"]))
        .collect();
    rules.push(rule("authentication.k8s.io", &["tokenreviews"], &["create"]));
    rules.push(rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]));
    rules
}

/// The rules for pods that wait for a node, and for the registration. Rights to create cannot be
/// limited to a name. The registration names pods as parameters, which takes the right to get them.
fn guarding() -> Vec<Value> {
    let mut rules = vec![rule("", &["pods"], &["get", "patch"])];
    for (resource, name) in REGISTRATION {
        let group = "admissionregistration.k8s.io";
        let mut changes = rule(group, &[resource], &["get", "update", "delete"]);
        changes["resourceNames"] = json!([name]);
        rules.extend([rule(group, &[resource], &["create"]), changes]);
    }
    // The registration belongs to this role, and is deleted with it.
    let mut owner = rule(RBAC, &["clusterroles"], &["get"]);
    owner["resourceNames"] = json!([GUARD]);
    rules.push(owner);
    rules
}

/// The rules for the guard's own objects. Rights to create cannot be limited to a name.
fn own_objects() -> Vec<Value> {
    let mut rules = Vec::new();
    for (group, resource) in [("coordination.k8s.io", "leases"), ("", "secrets")] {
        let mut changes = rule(group, &[resource], &["get", "update"]);
        changes["resourceNames"] = json!([GUARD]);
        rules.extend([rule(group, &[resource], &["create"]), changes]);
    }
    // One for each node with holders, so that no name is known before.
    rules.push(rule("", &["configmaps"], &["list", "get", "create", "update", "delete"]));
    rules
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn cluster_role(
    installation: &Installation,
    name: &str,
    why: &'static str,
    rules: &[Value],
) -> [Manifest; 2] {
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRole",
        "metadata": clustered(name),
        "rules": rules,
    });
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": clustered(name),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [subject(installation)],
    });
    [Manifest { why, object: role }, Manifest { why: "", object: binding }]
}

fn role(
    installation: &Installation,
    name: &str,
    namespace: &str,
    why: &'static str,
    rules: &[Value],
) -> [Manifest; 2] {
    let mut metadata = clustered(name);
    metadata["namespace"] = json!(namespace);
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "Role",
        "metadata": metadata,
        "rules": rules,
    });
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        "subjects": [subject(installation)],
    });
    [Manifest { why, object: role }, Manifest { why: "", object: binding }]
}

fn subject(installation: &Installation) -> Value {
    json!({"kind": "ServiceAccount", "name": NAME, "namespace": installation.namespace})
}
