//! The resources that are served, and the paths that name their objects.

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// The resources that are served: group and version, plural, kind.
pub(super) const RESOURCES: &[(&str, &str, &str)] = &[
    ("v1", "nodes", "Node"),
    ("v1", "pods", "Pod"),
    ("v1", "namespaces", "Namespace"),
    ("v1", "secrets", "Secret"),
    ("v1", "configmaps", "ConfigMap"),
    ("coordination.k8s.io/v1", "leases", "Lease"),
    ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass"),
    ("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole"),
    (ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    (ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
    (ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
];

/// The parts of a path: `/api/v1/namespaces/default/pods/web/status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) resource: usize,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

impl Path {
    pub(super) fn parse(path: &str) -> Option<Path> {
        let rest = path.strip_prefix("/apis/").or_else(|| path.strip_prefix("/api/"))?;
        let served = RESOURCES.iter().position(|(version, ..)| {
            rest.strip_prefix(version).is_some_and(|rest| rest.starts_with('/'))
        });
        let version = RESOURCES[served?].0;
        let mut parts: Vec<&str> = rest[version.len() + 1..].split('/').collect();
        let mut namespace = None;
        // `namespaces/NAME` alone is an object.
        if parts.len() > 2 && parts[0] == "namespaces" {
            namespace = Some(parts[1].to_owned());
            parts.drain(..2);
        }
        let resource = RESOURCES
            .iter()
            .position(|(known, plural, _)| *known == version && *plural == parts[0])?;
        let part = |at: usize| parts.get(at).map(|part| (*part).to_owned());
        Some(Path { resource, namespace, name: part(1), subresource: part(2) })
    }

    pub(super) fn kind(&self) -> &'static str {
        RESOURCES[self.resource].2
    }

    pub(super) fn plural(&self) -> &'static str {
        RESOURCES[self.resource].1
    }

    pub(super) fn api_version(&self) -> &'static str {
        RESOURCES[self.resource].0
    }

    /// Returns the namespace, empty for none, and the name of the object.
    pub(super) fn key(&self) -> Option<Key> {
        Some((self.namespace.clone().unwrap_or_default(), self.name.clone()?))
    }
}

/// Namespace, empty for none, and name.
pub(super) type Key = (String, String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_resource_and_an_object() {
        let parse = |path: &str| Path::parse(path).expect(path);
        let pod = parse("/api/v1/namespaces/default/pods/web/status");
        assert_eq!((pod.kind(), pod.namespace.as_deref()), ("Pod", Some("default")));
        assert_eq!(
            (pod.name.as_deref(), pod.subresource.as_deref()),
            (Some("web"), Some("status"))
        );
        let namespace = parse("/api/v1/namespaces/default");
        assert_eq!((namespace.kind(), namespace.name.as_deref()), ("Namespace", Some("default")));
        let lease = parse("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases");
        assert_eq!((lease.kind(), lease.name), ("Lease", None));
        assert_eq!(Path::parse("/api/v1/services"), None);
    }
}
