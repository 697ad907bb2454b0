//! Priorities of pods, by number or by class. `nvidia.com/priority` is a setting of HAMi's runtime
//! and does not matter here.

use std::collections::BTreeMap;

use plimsoll_core::units::Name;

use crate::object::{PodSpec, PriorityClass};

/// The classes that every cluster has.
const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The priority classes of a cluster.
#[derive(Debug, Default)]
pub(super) struct Classes {
    values: BTreeMap<Name, i32>,
    /// The values of the classes that are the default for pods without a class.
    defaults: BTreeMap<Name, i32>,
}

impl Classes {
    /// Adds or replaces a class. Returns true if a priority can have changed.
    pub(super) fn insert(&mut self, class: &PriorityClass) -> bool {
        let name = Name::from(class.metadata.name.as_str());
        let default = class.global_default.then_some(class.value);
        let before = (
            self.values.insert(name.clone(), class.value),
            match default {
                Some(value) => self.defaults.insert(name, value),
                None => self.defaults.remove(&name),
            },
        );
        before != (Some(class.value), default)
    }

    /// Removes a class. Returns true if it existed.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.defaults.remove(name);
        self.values.remove(name).is_some()
    }

    /// Resolves the priority of a pod. Also returns the class that the pod names and no object
    /// defines.
    pub(super) fn priority(&self, spec: &PodSpec) -> (i32, Option<Name>) {
        if let Some(priority) = spec.priority {
            return (priority, None);
        }
        let class = spec.priority_class_name.as_deref().filter(|class| !class.is_empty());
        match class.map(|class| (class, self.value(class))) {
            Some((_, Some(value))) => (value, None),
            Some((class, None)) => (self.default(), Some(class.into())),
            None => (self.default(), None),
        }
    }

    fn value(&self, class: &str) -> Option<i32> {
        let built_in = || BUILT_IN.iter().find(|(name, _)| *name == class).map(|(_, value)| *value);
        self.values.get(class).copied().or_else(built_in)
    }

    /// Returns the default priority. Kubernetes uses the lowest value where several classes claim
    /// to be the default.
    fn default(&self) -> i32 {
        self.defaults.values().copied().min().unwrap_or(0)
    }
}
