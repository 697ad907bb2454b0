//! The metadata of every object: name, labels, owners, deletion.

use serde::Deserialize;

use super::{StringMap, nullable};

/// `metadata` of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Empty if the API server is to generate it (`generateName`).
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// `None` for cluster-scoped objects, and in manifests that leave it to the client.
    pub namespace: Option<String>,
    /// `None` in manifests.
    pub uid: Option<String>,
    /// The version of the object, which changes with every write. `None` in manifests.
    pub resource_version: Option<String>,
    /// The time of creation as written: RFC 3339 in UTC, which sorts as text. `None` in manifests.
    pub creation_timestamp: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub labels: StringMap,
    #[serde(deserialize_with = "nullable")]
    pub annotations: StringMap,
    #[serde(deserialize_with = "nullable")]
    pub owner_references: Vec<OwnerReference>,
    /// The time of the deletion request, as written. Present while the object terminates.
    pub deletion_timestamp: Option<String>,
    pub deletion_grace_period_seconds: Option<i64>,
}

impl Metadata {
    /// Returns true if nothing but the version differs.
    pub(crate) fn is_same_but_version(&self, other: &Metadata) -> bool {
        let Metadata {
            name,
            namespace,
            uid,
            resource_version: _,
            creation_timestamp,
            labels,
            annotations,
            owner_references,
            deletion_timestamp,
            deletion_grace_period_seconds,
        } = self;
        (name, namespace, uid) == (&other.name, &other.namespace, &other.uid)
            && (labels, annotations) == (&other.labels, &other.annotations)
            && *owner_references == other.owner_references
            && (creation_timestamp, deletion_timestamp, deletion_grace_period_seconds)
                == (
                    &other.creation_timestamp,
                    &other.deletion_timestamp,
                    &other.deletion_grace_period_seconds,
                )
    }

    /// Returns true if deletion was requested.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns the owner that controls this object, if any.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Returns `namespace/name`, with the client's default namespace where none is written.
    pub fn namespaced_name(&self) -> String {
        format!("{}/{}", self.namespace_or_default(), self.name)
    }

    /// Returns the namespace, or the client's default where none is written.
    pub fn namespace_or_default(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }

    /// Returns the version as a number. The versions of one resource are ordered, and decimal
    /// numbers, in every API server since Kubernetes 1.35 and in all that use etcd.
    pub fn revision(&self) -> Option<u64> {
        self.resource_version.as_deref()?.parse().ok()
    }

    /// Returns the uid, unless it is missing or empty.
    pub fn known_uid(&self) -> Option<&str> {
        self.uid.as_deref().filter(|uid| !uid.is_empty())
    }
}

/// An owner of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub uid: String,
    /// True for the owner that creates and deletes this object.
    #[serde(deserialize_with = "nullable")]
    pub controller: bool,
}
