//! The resources that are read, and which of them a cluster serves.

use std::collections::BTreeSet;

use plimsoll_kube::object::{Kind, PodGroupFlavor};

use crate::access::Connection;
use crate::error::ClusterError;

/// A resource as an API server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: String,
    pub plural: &'static str,
    pub(crate) content: Content,
}

/// The content of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Objects that placement reads.
    Objects(Kind),
    /// Leases of nodes, which their kubelets renew.
    Heartbeats,
}

impl Resource {
    /// Returns the path of its list over all namespaces.
    pub(crate) fn path(&self) -> String {
        if self.content == Content::Heartbeats {
            let (group, version) = (self.group, &self.version);
            return format!("/apis/{group}/{version}/namespaces/{NODE_LEASES}/{}", self.plural);
        }
        match self.group {
            "" => format!("/api/{}/{}", self.version, self.plural),
            group => format!("/apis/{group}/{}/{}", self.version, self.plural),
        }
    }

    /// Returns true for a resource that a running cluster can cease to serve: its operator is
    /// removed, or an upgrade ends a version that is not stable.
    pub(crate) fn can_vanish(&self) -> bool {
        self.version != "v1"
    }

    /// Returns the name as in a role: `pods`, `resourceclaims.resource.k8s.io`.
    pub fn name(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }
}

/// The resources in the order in which they are listed: nodes before the pods on them, as in the
/// dump that the documentation asks for. The versions of a resource that is not in version 1
/// everywhere are listed with the preferred one first.
const RESOURCES: &[(&str, &str, Kind, &[&str])] = &[
    ("", "nodes", Kind::Node, &["v1"]),
    ("", "pods", Kind::Pod, &["v1"]),
    ("scheduling.k8s.io", "priorityclasses", Kind::PriorityClass, &["v1"]),
    (
        "scheduling.k8s.io",
        "podgroups",
        Kind::PodGroup(PodGroupFlavor::Kubernetes),
        &["v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"],
    ),
    (
        "scheduling.x-k8s.io",
        "podgroups",
        Kind::PodGroup(PodGroupFlavor::Coscheduling),
        &["v1alpha1"],
    ),
    ("scheduling.run.ai", "podgroups", Kind::PodGroup(PodGroupFlavor::Kai), &["v2alpha2"]),
    ("scheduling.volcano.sh", "podgroups", Kind::PodGroup(PodGroupFlavor::Volcano), &["v1beta1"]),
    ("resource.k8s.io", "deviceclasses", Kind::DeviceClass, DRA),
    ("resource.k8s.io", "resourceslices", Kind::ResourceSlice, DRA),
    ("resource.k8s.io", "resourceclaims", Kind::ResourceClaim, DRA),
    ("scheduling.run.ai", "bindrequests", Kind::BindRequest, &["v1alpha2"]),
];

/// The resources that `plimsoll kube` watches in the whole cluster, as group and plural.
pub(crate) fn watched() -> impl Iterator<Item = (&'static str, &'static str)> {
    let objects = RESOURCES.iter().map(|(group, plural, ..)| (*group, *plural));
    objects.chain([("", NAMESPACES)])
}

/// The resource whose labels say how bindings are checked. A dump needs none.
const NAMESPACES: &str = "namespaces";

/// The versions of dynamic resource allocation, newest first.
const DRA: &[&str] = &["v1", "v1beta2", "v1beta1"];

/// The namespace of the leases of nodes.
pub(crate) const NODE_LEASES: &str = "kube-node-lease";

/// Finds the resources that the cluster serves, in listing order. A cluster without dynamic
/// resource allocation, or without any kind of pod group, does not serve those.
pub(crate) async fn served(connection: &Connection) -> Result<Vec<Resource>, ClusterError> {
    let failed = |error: kube::Error| {
        ClusterError::from_request(&connection.server, "list its API groups", &error)
    };
    let groups = connection.client.list_api_groups().await.map_err(failed)?;
    let versions: BTreeSet<String> = groups
        .groups
        .iter()
        .flat_map(|group| &group.versions)
        .map(|version| version.group_version.clone())
        .collect();
    let mut found = Vec::new();
    for (group, plural, kind, wanted) in RESOURCES {
        for version in *wanted {
            let (version, content) = ((*version).to_owned(), Content::Objects(*kind));
            let resource = Resource { group, version, plural, content };
            if serves(connection, &versions, &resource).await? {
                found.push(resource);
                break;
            }
        }
    }
    Ok(found)
}

/// Finds the resources to watch: those of a dump, namespaces, and the heartbeats of nodes.
pub(crate) async fn served_for_watch(
    connection: &Connection,
) -> Result<Vec<Resource>, ClusterError> {
    let mut resources = served(connection).await?;
    let content = Content::Objects(Kind::Namespace);
    let version = "v1".to_owned();
    resources.insert(0, Resource { group: "", version, plural: NAMESPACES, content });
    resources.push(Resource {
        group: "coordination.k8s.io",
        version: "v1".to_owned(),
        plural: "leases",
        content: Content::Heartbeats,
    });
    Ok(resources)
}

async fn serves(
    connection: &Connection,
    versions: &BTreeSet<String>,
    resource: &Resource,
) -> Result<bool, ClusterError> {
    if resource.group.is_empty() {
        return Ok(true);
    }
    let version = format!("{}/{}", resource.group, resource.version);
    if !versions.contains(&version) {
        return Ok(false);
    }
    let listed = connection.client.list_api_group_resources(&version).await.map_err(|error| {
        ClusterError::from_request(&connection.server, &format!("describe {version}"), &error)
    })?;
    Ok(listed.resources.iter().any(|one| one.name == resource.plural))
}
