//! The namespaces of a cluster, with the line that each asks for.

use std::collections::BTreeMap;

use plimsoll_core::units::Name;

use crate::line::Line;
use crate::object::{Kind, Namespace, ObjectRef};

/// The namespaces by name. One that was deleted is not guarded any more.
#[derive(Debug, Default)]
pub(super) struct Namespaces(BTreeMap<Name, KnownNamespace>);

#[derive(Debug)]
struct KnownNamespace {
    uid: Option<Name>,
    line: Line,
}

impl Namespaces {
    pub(super) fn insert(&mut self, namespace: &Namespace) {
        let metadata = &namespace.metadata;
        let uid = metadata.known_uid().map(Name::from);
        let line = Line::from_labels(&metadata.labels);
        self.0.insert(metadata.name.as_str().into(), KnownNamespace { uid, line });
    }

    pub(super) fn remove(&mut self, object: &ObjectRef) {
        let known = self.0.get(&object.name);
        if known.is_some_and(|known| object.can_be(known.uid.as_deref())) {
            self.0.remove(&object.name);
        }
    }

    pub(super) fn line(&self, namespace: &str) -> Option<Line> {
        self.0.get(namespace).map(|known| known.line)
    }

    pub(super) fn references(&self) -> Vec<ObjectRef> {
        let reference = |(name, known): (&Name, &KnownNamespace)| ObjectRef {
            kind: Kind::Namespace,
            namespace: "".into(),
            name: name.clone(),
            uid: known.uid.clone(),
        };
        self.0.iter().map(reference).collect()
    }
}
