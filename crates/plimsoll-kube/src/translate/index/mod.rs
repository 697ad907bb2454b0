//! All objects of a cluster, updated one at a time.
//!
//! A dump is one [`Index::update`] with all objects; a watch is one per event. Both lead to the
//! same state: it depends on the last form of each object, not on the order of arrival. An update
//! returns the affected objects, so that a watch translates only those again.
//!
//! The index stores what other translations need. The value of a node is stored, since all its pods
//! need it; holdings and requests are created on demand, by [`holding`](super::holding()) and
//! [`request`](super::request()).

mod affected;
mod bindings;
mod claims;
mod key;
mod known_pod;
mod namespaces;
mod site;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::request::RequestId;
use plimsoll_core::units::Name;

use crate::cluster::{GangFacts, NodeFacts, Reading};
use crate::finding::Finding;
use crate::kai;
use crate::line::Line;
use crate::object::{Kind, Node, ObjectRef, Pod, Workload};
use crate::read::Object;

use super::dra::{self, Claims, DeviceClasses, Pools};
use super::gang::{self, GroupName, Groups};
use super::holding::Seats;
use super::priority::Classes;
use super::workload::{self, Expansion, Expansions, WorkloadKey};
use super::{PodState, Translation};
use affected::{NodeChange, Touched};
use bindings::Bindings;
use known_pod::KnownPod;
use namespaces::Namespaces;
use site::Site;

pub use affected::Affected;
pub(super) use key::{Created, PodKey, Rank};

/// One change of the cluster.
#[derive(Clone, Debug)]
pub enum Change {
    /// An object that is new or changed.
    Applied(Object),
    /// An object that was deleted.
    Removed(ObjectRef),
}

/// All objects of a cluster.
#[derive(Debug)]
pub struct Index {
    reading: Reading,
    pods: BTreeMap<PodKey, KnownPod>,
    sites: BTreeMap<Name, Site>,
    groups: Groups,
    classes: Classes,
    pools: Pools,
    claims: Claims,
    device_classes: DeviceClasses,
    bindings: Bindings,
    namespaces: Namespaces,
    /// Pods whose priority depends on priority classes. None in a live cluster, where the API
    /// server resolves it.
    unresolved: BTreeSet<PodKey>,
    workloads: BTreeMap<WorkloadKey, Workload>,
    expansions: Expansions,
}

impl Index {
    /// Creates the index of an empty cluster.
    pub fn new(reading: Reading) -> Index {
        Index {
            reading,
            pods: BTreeMap::new(),
            sites: BTreeMap::new(),
            groups: Groups::default(),
            classes: Classes::default(),
            pools: Pools::default(),
            claims: Claims::default(),
            device_classes: DeviceClasses::default(),
            bindings: Bindings::default(),
            namespaces: Namespaces::default(),
            unresolved: BTreeSet::new(),
            workloads: BTreeMap::new(),
            expansions: Expansions::default(),
        }
    }

    /// Adds or replaces an object. A pod with another uid is another pod: both are reported.
    ///
    /// The changes of one object must be applied in order; those of different objects in any order.
    pub fn apply(&mut self, object: Object) -> Affected {
        self.update([Change::Applied(object)])
    }

    /// Removes an object. A uid prevents that a late deletion removes the next object of the same
    /// name.
    ///
    /// A removed pod holds nothing. The deletion of an object is no evidence that its memory is
    /// free: a live front end removes a pod once it has that evidence.
    pub fn remove(&mut self, object: &ObjectRef) -> Affected {
        self.update([Change::Removed(object.clone())])
    }

    /// Applies several changes at once. Cheaper than one at a time: the tenants of a node are
    /// seated once.
    pub fn update(&mut self, changes: impl IntoIterator<Item = Change>) -> Affected {
        let mut touched = Touched::default();
        for change in changes {
            match change {
                Change::Applied(object) => self.store(object, &mut touched),
                Change::Removed(object) => self.delete(&object, &mut touched),
            }
        }
        self.refresh(touched)
    }

    /// Returns the options by which objects are translated.
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Iterates over the nodes, ordered by name.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeFacts> {
        self.sites.values().filter_map(Site::facts)
    }

    /// Finds a node and its findings by its name.
    pub fn node(&self, name: &str) -> Option<&Translation<NodeFacts>> {
        self.sites.get(name)?.node()
    }

    /// Iterates over the pods, ordered by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().map(|known| &*known.pod)
    }

    /// Finds a pod; `None` if it is unknown, or if the pod of its name has another uid.
    pub fn pod(&self, id: &RequestId) -> Option<&Pod> {
        let known = self.pods.get(&PodKey::from_request(id))?;
        (known.id == *id).then_some(&*known.pod)
    }

    /// Finds the pod that has this name now, whichever uid it has.
    pub fn pod_named(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.pod_by_key(&PodKey { namespace: namespace.into(), name: name.into() })
    }

    /// Iterates over the pods as they were applied: without the node of a bind request.
    pub fn applied_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().map(KnownPod::as_applied)
    }

    /// Finds a pod by its name as it was applied: without the node of a bind request.
    pub fn applied_pod(&self, namespace: &str, name: &str) -> Option<&Pod> {
        let key = PodKey { namespace: namespace.into(), name: name.into() };
        self.pods.get(&key).map(KnownPod::as_applied)
    }

    /// Returns the line that a namespace asks for; `None` if the namespace is not known.
    pub fn line(&self, namespace: &str) -> Option<Line> {
        self.namespaces.line(namespace)
    }

    /// Lists the objects of a kind that are known. Kinds that hold nothing and place nothing by
    /// themselves are not listed: an object of them that vanished unseen changes no charge.
    pub fn references(&self, kind: Kind) -> Vec<ObjectRef> {
        match kind {
            Kind::Pod => {
                let pods = self.pods.values().map(|known| &known.pod.metadata);
                pods.map(|metadata| ObjectRef::new(kind, metadata)).collect()
            }
            Kind::Node => self.sites.values().filter_map(Site::reference).collect(),
            Kind::ResourceClaim => {
                let claims = self.claims.iter().map(|claim| &claim.metadata);
                claims.map(|metadata| ObjectRef::new(kind, metadata)).collect()
            }
            Kind::Namespace => self.namespaces.references(),
            Kind::Workload(_)
            | Kind::PodGroup(_)
            | Kind::PriorityClass
            | Kind::ResourceSlice
            | Kind::DeviceClass
            | Kind::BindRequest => Vec::new(),
        }
    }

    /// Describes a gang by `namespace/name`; `None` if the group is no gang or has no pending
    /// members.
    pub fn gang(&self, name: &str) -> Option<GangFacts> {
        self.groups.gang(name)
    }

    /// Iterates over the missing pods of workloads. Only offline dumps have workloads: in a live
    /// cluster their controllers create the pods.
    pub fn expansions(&self) -> impl Iterator<Item = &Expansion> {
        self.expansions.iter()
    }

    /// Lists findings that belong to no single object: pods on unknown nodes, and workloads that
    /// were cut.
    pub fn findings(&self) -> Vec<Finding> {
        let unknown = self.sites.iter().filter_map(|(name, site)| site.unknown(name));
        let claims = self.claims.iter().filter_map(|claim| dra::unplaced(claim, self));
        unknown.chain(self.expansions.cut().cloned()).chain(claims).collect()
    }

    pub(super) fn expansion(&self, workload: &WorkloadKey) -> Option<&Expansion> {
        self.expansions.get(workload)
    }

    pub(super) fn pod_by_key(&self, key: &PodKey) -> Option<&Pod> {
        self.pods.get(key).map(|known| &*known.pod)
    }

    pub(super) fn site(&self, node: &str) -> Option<&Site> {
        self.sites.get(node)
    }

    pub(super) fn classes(&self) -> &Classes {
        &self.classes
    }

    pub(super) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Returns the seats of a bound pod. A pod that is not stored in this form is seated last.
    pub(super) fn seats<'a>(&'a self, pod: &Pod, site: &'a Site) -> Cow<'a, Seats> {
        let key = PodKey::new(&pod.metadata);
        let known = self.pods.get(&key).map(|known| &*known.pod);
        if known.is_some_and(|known| std::ptr::eq(known, pod) || known == pod) {
            return site.seats_of(&key).map_or(Cow::default(), Cow::Borrowed);
        }
        let others = site.tenants().filter(|rank| rank.key != key);
        let others = others.filter_map(|rank| self.device_tenant(rank));
        Cow::Owned(site.seat(others.chain([pod]), &self.reading).pop().unwrap_or_default())
    }

    fn device_tenant(&self, rank: &Rank) -> Option<&Pod> {
        let known = self.pods.get(&rank.key)?;
        known.concerns_devices.then_some(&*known.pod)
    }
}

/// Storing changes, and linking objects that concern each other.
impl Index {
    fn store(&mut self, object: Object, touched: &mut Touched) {
        match object {
            Object::Namespace(namespace) => self.namespaces.insert(&namespace),
            Object::Node(node) => self.store_node(node, touched),
            Object::Pod(pod) => self.store_pod(pod, touched),
            Object::Workload(workload) => {
                self.workloads.insert(WorkloadKey::new(&workload), *workload);
                touched.workloads = true;
            }
            Object::PodGroup(group) => {
                let name = self.groups.insert(&group);
                touched.group_objects.insert(name);
            }
            Object::PriorityClass(class) => touched.classes |= self.classes.insert(&class),
            Object::ResourceClaim(claim) => self.store_claim(*claim, touched),
            Object::ResourceSlice(slice) => touched.slices(self.pools.insert(*slice)),
            Object::DeviceClass(class) => {
                touched.device_classes |= self.device_classes.insert(&class);
            }
            Object::BindRequest(request) => self.store_bind_request(*request, touched),
        }
    }

    fn delete(&mut self, object: &ObjectRef, touched: &mut Touched) {
        let key = PodKey { namespace: object.namespace.clone(), name: object.name.clone() };
        match object.kind {
            Kind::Namespace => self.namespaces.remove(object),
            Kind::Node => {
                if let Some(site) = self.sites.get_mut(&object.name) {
                    touched.node(&object.name, site.forget_node(object));
                }
            }
            Kind::Pod => {
                let known = self.pods.get(&key);
                if known.is_some_and(|known| object.can_be(known.pod.metadata.known_uid())) {
                    self.delete_pod(&key, touched);
                }
            }
            Kind::Workload(kind) => {
                let key = WorkloadKey { namespace: key.namespace, kind, name: key.name };
                let known = self.workloads.get(&key);
                if known.is_some_and(|known| object.can_be(known.metadata.known_uid())) {
                    self.workloads.remove(&key);
                    touched.workloads = true;
                }
            }
            Kind::PodGroup(flavor) => {
                let name = Name::from(format!("{}/{}", key.namespace, key.name));
                self.groups.remove(&name, flavor);
                touched.group_objects.insert(name);
            }
            Kind::PriorityClass => touched.classes |= self.classes.remove(&object.name),
            Kind::ResourceClaim => self.delete_claim(object, touched),
            Kind::ResourceSlice => touched.slices(self.pools.remove(object)),
            Kind::DeviceClass => {
                touched.device_classes |= self.device_classes.remove(&object.name);
            }
            Kind::BindRequest => self.delete_bind_request(object, touched),
        }
    }

    fn store_node(&mut self, object: Box<Node>, touched: &mut Touched) {
        let name = Name::from(object.metadata.name.as_str());
        let published = self.pools.on_node(&name);
        let site = self.sites.entry(name.clone()).or_default();
        touched.node(&name, site.describe(object, &published));
    }

    fn store_pod(&mut self, pod: Box<Pod>, touched: &mut Touched) {
        let key = PodKey::new(&pod.metadata);
        // A watch delivers the same pod repeatedly: after each reconnection, and whenever a field
        // that is not read here has changed.
        if let Some(known) = self.pods.get_mut(&key)
            && known.as_applied().is_same_but_version(&pod)
        {
            known.set_version(pod.metadata.resource_version);
            return;
        }
        self.replace_pod(key, pod, touched);
    }

    fn replace_pod(&mut self, key: PodKey, pod: Box<Pod>, touched: &mut Touched) {
        self.delete_pod(&key, touched);
        let known = match self.bindings.bound(&key, &pod) {
            Some(bound) => KnownPod::new(Box::new(bound), Some(pod)),
            None => KnownPod::new(pod, None),
        };
        touched.pod(&known);
        self.link(&key, &known);
        self.pods.insert(key, known);
    }

    fn delete_pod(&mut self, key: &PodKey, touched: &mut Touched) {
        if let Some(known) = self.pods.remove(key) {
            touched.pod(&known);
            self.unlink(key, &known);
        }
    }

    fn link(&mut self, key: &PodKey, known: &KnownPod) {
        let KnownPod { pod, id, group, .. } = known;
        match (known.state, pod.node_name()) {
            (PodState::Bound, Some(node)) => {
                let site = self.sites.entry(node.into()).or_default();
                site.add_tenant(Rank::new(&pod.metadata));
                if let Some(group) = group.as_ref().filter(|_| !pod.metadata.is_terminating()) {
                    self.groups.join_running(group, id.clone());
                }
            }
            (PodState::Reservation, Some(node)) => {
                if let Some(reservation) = kai::reservation(pod) {
                    let site = self.sites.entry(node.into()).or_default();
                    site.add_reservation(Rank::new(&pod.metadata), reservation);
                }
            }
            (PodState::Pending, _) => {
                if let Some(group) = group {
                    self.groups.join_pending(group, id.clone());
                }
            }
            _ => {}
        }
        if pod.spec.priority.is_none() {
            self.unresolved.insert(key.clone());
        }
        self.link_claims(key, pod);
    }

    fn unlink(&mut self, key: &PodKey, known: &KnownPod) {
        if let Some((node, site)) =
            known.pod.node_name().and_then(|node| Some((node, self.sites.get_mut(node)?)))
        {
            site.remove_pod(&Rank::new(&known.pod.metadata));
            if site.is_empty() {
                self.sites.remove(node);
            }
        }
        if let Some(group) = &known.group {
            self.groups.leave(group, &known.id);
        }
        self.unresolved.remove(key);
        self.unlink_claims(key, &known.pod);
    }
}

/// Computing the effects of changes, once all of them are stored.
impl Index {
    fn refresh(&mut self, mut touched: Touched) -> Affected {
        self.expand_workloads(&mut touched);
        self.describe_published(&mut touched);
        self.affect_by_claims(&mut touched);
        self.affect_by_class(&mut touched);
        for node in std::mem::take(&mut touched.sites) {
            self.refresh_site(&node, &mut touched);
        }
        for group in &touched.group_objects {
            touched.affected.pods.extend(self.groups.pending(group).cloned());
        }
        for group in &touched.groups {
            touched.affected.pods.extend(self.groups.dependent(group).cloned());
        }
        let mut affected = touched.affected;
        affected.gangs.extend(touched.groups.into_iter().chain(touched.group_objects));
        affected
    }

    fn affect_by_class(&mut self, touched: &mut Touched) {
        if !touched.classes {
            return;
        }
        let ids = self.unresolved.iter().filter_map(|key| self.pods.get(key));
        touched.affected.pods.extend(ids.map(|known| known.id.clone()));
        let missing = self.expansions.iter().filter(|one| one.pattern.spec.priority.is_none());
        touched.affected.pods.extend(missing.flat_map(Expansion::ids));
    }

    /// Seats the tenants of a node again, and adds those whose translation can have changed to the
    /// affected pods.
    fn refresh_site(&mut self, node: &Name, touched: &mut Touched) {
        let Some(site) = self.sites.get(node) else { return };
        if site.is_empty() {
            self.sites.remove(node);
            return;
        }
        let (keys, tenants): (Vec<&PodKey>, Vec<&Pod>) =
            site.tenants().filter_map(|rank| Some((&rank.key, self.device_tenant(rank)?))).unzip();
        let reserved = site.learn_reserved();
        let in_group = |pod: &Pod| {
            let groups = kai::gpu_groups(&pod.metadata.labels);
            site.reserved().changed(&reserved).any(|group| groups.contains(group))
        };
        let mut moved: BTreeSet<PodKey> = keys
            .iter()
            .zip(&tenants)
            .filter(|(_, pod)| in_group(pod))
            .map(|(key, _)| (*key).clone())
            .collect();
        let seats = site.seat_under(&reserved, tenants.into_iter(), &self.reading);
        let seats = keys.into_iter().cloned().zip(seats).collect();
        let Some(site) = self.sites.get_mut(node) else { return };
        moved.extend(site.reseat(seats, reserved));
        match touched.nodes.get(node) {
            None | Some(NodeChange::Same) => {}
            Some(NodeChange::Described) => moved.extend(site.seated().cloned()),
            Some(NodeChange::Existence) => {
                moved.extend(site.tenants().map(|rank| rank.key.clone()));
            }
        }
        let ids = moved.iter().filter_map(|key| self.pods.get(key)).map(|known| known.id.clone());
        touched.affected.pods.extend(ids);
    }

    /// Creates the missing pods of workloads. Visits all workloads and pods, since they determine
    /// which names are free; skipped where no workload was ever read, as in a live cluster.
    fn expand_workloads(&mut self, touched: &mut Touched) {
        let owned = !self.workloads.is_empty() && !touched.affected.pods.is_empty();
        if !touched.workloads && !owned {
            return;
        }
        let fresh = workload::expand(&self.workloads, self.pods());
        for (before, group) in self.expansions.differing(&fresh).map(with_group) {
            for id in before.ids() {
                if let Some(group) = &group {
                    self.groups.leave_missing(group, &id);
                    touched.groups.insert(group.name.clone());
                }
                touched.affected.pods.insert(id);
            }
        }
        for (after, group) in fresh.differing(&self.expansions).map(with_group) {
            for id in after.ids() {
                if let Some(group) = group.as_ref().filter(|_| after.is_pending()) {
                    self.groups.join_missing(group, id.clone());
                    touched.groups.insert(group.name.clone());
                }
                touched.affected.pods.insert(id);
            }
        }
        self.expansions = fresh;
    }
}

fn with_group(expansion: &Expansion) -> (&Expansion, Option<GroupName>) {
    (expansion, gang::named_by(&expansion.pattern))
}
