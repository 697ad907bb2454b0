//! The identity of an object: its kind, its name, and the uid that tells it from an earlier bearer of that name.

use plimsoll_core::units::Name;

use super::{Metadata, PodGroupFlavor, WorkloadKind};

/// The kinds that placement reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Node,
    Pod,
    Workload(WorkloadKind),
    PodGroup(PodGroupFlavor),
    PriorityClass,
}

impl Kind {
    /// Reports whether objects of this kind live in a namespace.
    pub fn is_namespaced(self) -> bool {
        !matches!(self, Kind::Node | Kind::PriorityClass)
    }
}

/// A reference to an object of the cluster, as a watch names what was deleted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    pub kind: Kind,
    /// Empty for kinds without a namespace.
    pub namespace: Name,
    pub name: Name,
    /// `None` in manifests, and where any bearer of the name is meant.
    pub uid: Option<Name>,
}

impl ObjectRef {
    /// Refers to the object of this kind with this metadata.
    pub fn new(kind: Kind, metadata: &Metadata) -> ObjectRef {
        let namespace = if kind.is_namespaced() { metadata.namespace_or_default() } else { "" };
        ObjectRef {
            kind,
            namespace: namespace.into(),
            name: metadata.name.as_str().into(),
            uid: metadata.known_uid().map(Name::from),
        }
    }

    /// Reports whether an object of the same kind and name with this uid can be the one that is meant.
    pub fn can_be(&self, uid: Option<&str>) -> bool {
        match (self.uid.as_deref(), uid) {
            (Some(meant), Some(known)) => meant == known,
            _ => true,
        }
    }
}
