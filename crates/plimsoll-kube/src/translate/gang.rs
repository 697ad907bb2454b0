//! Groups of pods that are placed all or nothing, and their minimum.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::request::RequestId;
use plimsoll_core::units::Name;

use crate::cluster::GangFacts;
use crate::object::{Pod, PodGroup, PodGroupFlavor};

/// The group that a pod names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupName {
    /// `namespace/name`.
    pub(super) name: Name,
    flavor: PodGroupFlavor,
}

/// Labels by which a pod names its group, each with the flavor of that group.
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

/// Returns true if a pod names a group.
pub(crate) fn is_grouped(pod: &Pod) -> bool {
    named_by(pod).is_some()
}

/// Finds the group that a pod names, by its spec, a label or an annotation.
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
    let name = format!("{}/{}", metadata.namespace_or_default(), name.trim()).into();
    Some(GroupName { name, flavor })
}

/// The known pod groups, and the pods that name one.
#[derive(Debug, Default)]
pub(super) struct Groups {
    minimums: BTreeMap<Name, BTreeMap<PodGroupFlavor, Option<u32>>>,
    members: BTreeMap<Name, Members>,
}

#[derive(Debug, Default)]
struct Members {
    pending: BTreeMap<RequestId, PodGroupFlavor>,
    /// Pods that workloads still need. They are stored separately, because a pod can appear under
    /// the name of a missing one.
    missing: BTreeMap<RequestId, PodGroupFlavor>,
    running: BTreeSet<RequestId>,
}

/// The gang of a pending pod.
pub(super) struct Membership {
    /// `None` where the group has no minimum above one: each of its pods is placed by itself.
    pub(super) gang: Option<Name>,
    /// A note that the minimum is assumed.
    pub(super) assumed: Option<Name>,
}

impl Groups {
    /// Adds a pod group, or replaces the one of its name and flavor.
    pub(super) fn insert(&mut self, group: &PodGroup) -> Name {
        let name = Name::from(group.metadata.namespaced_name());
        self.minimums.entry(name.clone()).or_default().insert(group.flavor, group.min_member);
        name
    }

    /// Removes a pod group.
    pub(super) fn remove(&mut self, name: &Name, flavor: PodGroupFlavor) {
        if let Some(minimums) = self.minimums.get_mut(name) {
            minimums.remove(&flavor);
            if minimums.is_empty() {
                self.minimums.remove(name);
            }
        }
    }

    /// Adds a pending pod to its group.
    pub(super) fn join_pending(&mut self, group: &GroupName, pod: RequestId) {
        let members = self.members.entry(group.name.clone()).or_default();
        members.pending.insert(pod, group.flavor);
    }

    /// Adds a missing pod of a workload to its group.
    pub(super) fn join_missing(&mut self, group: &GroupName, pod: RequestId) {
        let members = self.members.entry(group.name.clone()).or_default();
        members.missing.insert(pod, group.flavor);
    }

    /// Adds a pod that has a node to its group.
    pub(super) fn join_running(&mut self, group: &GroupName, pod: RequestId) {
        self.members.entry(group.name.clone()).or_default().running.insert(pod);
    }

    /// Removes a pod from its group.
    pub(super) fn leave(&mut self, group: &GroupName, pod: &RequestId) {
        self.leave_by(&group.name, |members| {
            members.pending.remove(pod);
            members.running.remove(pod);
        });
    }

    /// Removes a missing pod of a workload from its group.
    pub(super) fn leave_missing(&mut self, group: &GroupName, pod: &RequestId) {
        self.leave_by(&group.name, |members| {
            members.missing.remove(pod);
        });
    }

    fn leave_by(&mut self, name: &Name, leave: impl FnOnce(&mut Members)) {
        if let Some(members) = self.members.get_mut(name) {
            leave(members);
            if members.count() == 0 {
                self.members.remove(name);
            }
        }
    }

    /// Describes a gang that has pending members; `None` if the group is no gang.
    pub(super) fn gang(&self, name: &str) -> Option<GangFacts> {
        let members = self.members.get(name)?;
        // Members can name the same group in the ways of several flavors. One answer must hold for
        // all of them, in any order: the first member by name decides.
        let firsts = [members.pending.first_key_value(), members.missing.first_key_value()];
        let (_, flavor) = firsts.into_iter().flatten().min()?;
        let running = u32::try_from(members.running.len()).unwrap_or(u32::MAX);
        let minimum = self.minimum(name, *flavor).unwrap_or_else(|| members.count());
        (minimum > 1).then(|| GangFacts { name: name.into(), minimum, running })
    }

    /// Describes the gang of a pending pod.
    pub(super) fn membership(&self, group: &GroupName, pod: &RequestId) -> Membership {
        let (name, members) = (&group.name, self.members.get(&group.name));
        if members.is_some_and(|members| members.has_to_place(pod)) {
            let unread = members.filter(|_| !self.minimums.contains_key(name));
            let assumed = unread.map(|members| assumed(name, members.count()));
            return Membership { gang: self.gang(name).map(|gang| gang.name), assumed };
        }
        // The pod is not counted yet.
        let count = members.map_or(0, Members::count).saturating_add(1);
        let minimum = self.minimum(name, group.flavor);
        let assumed = minimum.is_none().then(|| assumed(name, count));
        Membership { gang: (minimum.unwrap_or(count) > 1).then(|| name.clone()), assumed }
    }

    /// Lists the pending pods whose membership depends on the other members: all of them, where the
    /// minimum is assumed or depends on the flavor by which the first one names the group.
    pub(super) fn dependent(&self, name: &str) -> impl Iterator<Item = &RequestId> {
        let is_certain = self.minimums.get(name).is_some_and(|minimums| minimums.len() == 1);
        self.pending(name).filter(move |_| !is_certain)
    }

    /// Lists the pending members of a group.
    pub(super) fn pending(&self, name: &str) -> impl Iterator<Item = &RequestId> {
        self.members.get(name).into_iter().flat_map(Members::to_place).map(|(id, _)| id)
    }

    /// Returns the minimum of a group, preferring this flavor; `None` if the group is unknown.
    fn minimum(&self, name: &str, flavor: PodGroupFlavor) -> Option<u32> {
        let minimums = self.minimums.get(name)?;
        let minimum = minimums.get(&flavor).or_else(|| minimums.values().next())?;
        Some(minimum.unwrap_or(1))
    }
}

impl Members {
    fn count(&self) -> u32 {
        let all = self.pending.len() + self.missing.len() + self.running.len();
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    fn has_to_place(&self, pod: &RequestId) -> bool {
        self.pending.contains_key(pod) || self.missing.contains_key(pod)
    }

    fn to_place(&self) -> impl Iterator<Item = (&RequestId, &PodGroupFlavor)> {
        self.pending.iter().chain(&self.missing)
    }
}

fn assumed(name: &str, pods: u32) -> Name {
    format!("the minimum of pod group {name}, which was not read: all of its {pods} pods are taken for it").into()
}
