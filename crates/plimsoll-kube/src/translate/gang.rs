//! Which pods are placed together or not at all, and how many of them must be.

use std::collections::BTreeMap;

use plimsoll_core::units::Name;

use crate::cluster::{GangFacts, Pending};
use crate::object::{Metadata, Pod, PodGroup, PodGroupFlavor};

/// The group that a pod names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupName {
    namespace: String,
    name: String,
    flavor: PodGroupFlavor,
}

/// Labels by which a pod names its group, each with whose group that is.
const LABELS: [(&str, PodGroupFlavor); 4] = [
    ("scheduling.x-k8s.io/pod-group", PodGroupFlavor::Coscheduling),
    ("pod-group.scheduling.sigs.k8s.io", PodGroupFlavor::Coscheduling),
    ("pod-group-name", PodGroupFlavor::Kai),
    ("scheduling.volcano.sh/group-name", PodGroupFlavor::Volcano),
];

/// Annotations by which a pod names its group.
const ANNOTATIONS: [(&str, PodGroupFlavor); 3] = [
    ("pod-group-name", PodGroupFlavor::Kai),
    ("scheduling.k8s.io/group-name", PodGroupFlavor::Volcano),
    ("scheduling.volcano.sh/group-name", PodGroupFlavor::Volcano),
];

/// The group that a pod names, by its spec, a label or an annotation.
pub(super) fn named_by(pod: &Pod) -> Option<GroupName> {
    let metadata = &pod.metadata;
    let in_spec =
        pod.spec.scheduling_group.as_ref().and_then(|group| group.pod_group_name.as_deref());
    let in_spec = in_spec.map(|name| (name, PodGroupFlavor::Kubernetes));
    let labels =
        LABELS.iter().filter_map(|(key, flavor)| Some((metadata.labels.get(key)?, *flavor)));
    let annotations = ANNOTATIONS
        .iter()
        .filter_map(|(key, flavor)| Some((metadata.annotations.get(key)?, *flavor)));
    let mut named = in_spec.into_iter().chain(labels).chain(annotations);
    let (name, flavor) = named.find(|(name, _)| !name.trim().is_empty())?;
    Some(GroupName {
        namespace: namespace(metadata).to_owned(),
        name: name.trim().to_owned(),
        flavor,
    })
}

/// The groups that were read.
pub(super) struct Groups {
    minimums: BTreeMap<Key, Vec<(PodGroupFlavor, Option<u32>)>>,
}

/// A group's namespace and name.
type Key = (String, String);

impl Groups {
    /// The groups that were read.
    pub(super) fn of(groups: &[PodGroup]) -> Groups {
        let mut minimums: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for group in groups {
            let key = (namespace(&group.metadata).to_owned(), group.metadata.name.clone());
            minimums.entry(key).or_default().push((group.flavor, group.min_member));
        }
        Groups { minimums }
    }

    /// The minimum of a group; `None` if no such group was read. One of the pod's own flavor is meant first.
    fn minimum(&self, group: &GroupName) -> Option<u32> {
        let read = self.minimums.get(&(group.namespace.clone(), group.name.clone()))?;
        let own = read.iter().find(|(flavor, _)| *flavor == group.flavor);
        own.or(read.first()).map(|(_, minimum)| minimum.unwrap_or(1))
    }
}

/// Gathers pending pods, in the order of their turns, into gangs. `members` are the groups of the pods that run.
///
/// A group whose minimum is one pod or none is no gang: each of its pods stands for itself.
pub(super) fn gather(
    groups: &Groups,
    pending: &mut [(Pending, Option<GroupName>)],
    members: &[GroupName],
) -> Vec<GangFacts> {
    let mut waiting: BTreeMap<Key, u32> = BTreeMap::new();
    let mut running: BTreeMap<Key, u32> = BTreeMap::new();
    for group in pending.iter().filter_map(|(_, group)| group.as_ref()) {
        *waiting.entry(key(group)).or_default() += 1;
    }
    for group in members {
        *running.entry(key(group)).or_default() += 1;
    }
    let mut gangs: Vec<GangFacts> = Vec::new();
    let mut known: BTreeMap<Key, Option<usize>> = BTreeMap::new();
    for (pod, group) in pending {
        let Some(group) = group else { continue };
        let count = |of: &BTreeMap<_, u32>| of.get(&key(group)).copied().unwrap_or(0);
        let read = groups.minimum(group);
        if read.is_none() {
            pod.not_considered.push(unread(group, count(&waiting).saturating_add(count(&running))));
        }
        pod.gang = *known.entry(key(group)).or_insert_with(|| {
            let minimum = read.unwrap_or_else(|| count(&waiting).saturating_add(count(&running)));
            (minimum > 1).then(|| {
                let name = format!("{}/{}", group.namespace, group.name).into();
                gangs.push(GangFacts { name, minimum, running: count(&running) });
                gangs.len() - 1
            })
        });
    }
    gangs
}

fn unread(group: &GroupName, pods: u32) -> Name {
    let GroupName { namespace, name, .. } = group;
    format!("the minimum of pod group {namespace}/{name}, which was not read: all of its {pods} pods are taken for it")
        .into()
}

fn key(group: &GroupName) -> Key {
    (group.namespace.clone(), group.name.clone())
}

fn namespace(metadata: &Metadata) -> &str {
    metadata.namespace.as_deref().unwrap_or("default")
}
