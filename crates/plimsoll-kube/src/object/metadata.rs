//! What every object carries: its name, its labels and who owns it.

use serde::Deserialize;

use super::{StringMap, nullable};

/// The metadata of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// The name; empty if the object has none yet (`generateName`).
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// The namespace; `None` for objects of the cluster, and in manifests that leave it to the client.
    pub namespace: Option<String>,
    /// The identity that Kubernetes gave it; `None` in manifests.
    pub uid: Option<String>,
    /// The time of creation as written, in UTC, so that texts order as times do; `None` in manifests.
    pub creation_timestamp: Option<String>,
    /// The labels.
    #[serde(deserialize_with = "nullable")]
    pub labels: StringMap,
    /// The annotations.
    #[serde(deserialize_with = "nullable")]
    pub annotations: StringMap,
    /// The objects that this one belongs to.
    #[serde(deserialize_with = "nullable")]
    pub owner_references: Vec<OwnerReference>,
    /// When deletion was asked for, as written; its presence means that the object is going.
    pub deletion_timestamp: Option<String>,
    /// The seconds that a deleted pod may take to end.
    pub deletion_grace_period_seconds: Option<i64>,
}

impl Metadata {
    /// Whether deletion was asked for.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The owner that controls this object, if any.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// `namespace/name`, with the namespace that a client would use where none is written.
    pub fn namespaced_name(&self) -> String {
        format!("{}/{}", self.namespace_or_default(), self.name)
    }

    /// The namespace, or the one that a client would use where none is written.
    pub fn namespace_or_default(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }

    /// The uid, unless it is missing or empty.
    pub fn known_uid(&self) -> Option<&str> {
        self.uid.as_deref().filter(|uid| !uid.is_empty())
    }
}

/// One owner of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    /// The owner's kind.
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    /// The owner's name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// The owner's identity.
    #[serde(deserialize_with = "nullable")]
    pub uid: String,
    /// Whether it is the one that creates and deletes this object.
    #[serde(deserialize_with = "nullable")]
    pub controller: bool,
}
