//! Whose turn comes first: a pod's priority, by number or by class. `nvidia.com/priority` is a runtime setting and orders nothing.

use std::collections::BTreeMap;

use plimsoll_core::units::Name;

use crate::object::{PodSpec, PriorityClass};

/// The classes of every cluster.
const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The classes of a cluster.
pub(super) struct Classes {
    values: BTreeMap<String, i32>,
    default: i32,
}

impl Classes {
    /// The classes that were read, beside those that every cluster has.
    pub(super) fn of(classes: &[PriorityClass]) -> Classes {
        let built_in = BUILT_IN.iter().map(|(name, value)| ((*name).to_owned(), *value));
        let read = classes.iter().map(|class| (class.metadata.name.clone(), class.value));
        // Kubernetes takes the lowest where several claim to be the default.
        let default =
            classes.iter().filter(|class| class.global_default).map(|class| class.value).min();
        Classes { values: built_in.chain(read).collect(), default: default.unwrap_or(0) }
    }

    /// The priority of a pod, and the class that it names without anybody knowing it.
    pub(super) fn priority(&self, spec: &PodSpec) -> (i32, Option<Name>) {
        let class = spec.priority_class_name.as_deref().filter(|class| !class.is_empty());
        match (spec.priority, class.map(|class| (class, self.values.get(class)))) {
            (Some(priority), _) => (priority, None),
            (None, Some((_, Some(value)))) => (*value, None),
            (None, Some((class, None))) => (self.default, Some(class.into())),
            (None, None) => (self.default, None),
        }
    }
}
