//! The identity of an object: its kind, its name, and its uid.

use plimsoll_core::units::Name;

use super::{Metadata, PodGroupFlavor, WorkloadKind};

/// The kinds that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Namespace,
    Node,
    Pod,
    Workload(WorkloadKind),
    PodGroup(PodGroupFlavor),
    PriorityClass,
    ResourceClaim,
    ResourceSlice,
    DeviceClass,
    BindRequest,
}

impl Kind {
    /// Returns true if objects of this kind have a namespace.
    pub fn is_namespaced(self) -> bool {
        !matches!(
            self,
            Kind::Namespace
                | Kind::Node
                | Kind::PriorityClass
                | Kind::ResourceSlice
                | Kind::DeviceClass
        )
    }
}

/// A reference to an object, as a watch delivers it for a deletion.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    pub kind: Kind,
    /// Empty for kinds without a namespace.
    pub namespace: Name,
    pub name: Name,
    /// `None` in manifests. A reference without uid matches every object of its name.
    pub uid: Option<Name>,
}

impl ObjectRef {
    /// Creates the reference of an object with this metadata.
    pub fn new(kind: Kind, metadata: &Metadata) -> ObjectRef {
        let namespace = if kind.is_namespaced() { metadata.namespace_or_default() } else { "" };
        ObjectRef {
            kind,
            namespace: namespace.into(),
            name: metadata.name.as_str().into(),
            uid: metadata.known_uid().map(Name::from),
        }
    }

    /// Returns true if an object of the same kind and name with this uid matches the reference.
    pub fn can_be(&self, uid: Option<&str>) -> bool {
        match (self.uid.as_deref(), uid) {
            (Some(meant), Some(known)) => meant == known,
            _ => true,
        }
    }
}
