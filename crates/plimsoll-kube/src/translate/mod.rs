//! From objects to a cluster: what each means, and how they belong together.

mod gang;
mod misuse;
pub mod node;
mod pod;
mod priority;
mod rules;
mod running;
mod workload;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use plimsoll_core::device::Node;
use plimsoll_core::request::Request;
use plimsoll_core::units::Name;

use crate::cluster::{Cluster, NodeFacts, Pending, Reading, Understood};
use crate::finding::{Finding, Severity};
use crate::kai::{self, Reservation};
use crate::object::{self, Pod, PodGroup, PriorityClass, Workload};
use crate::read::{Object, Origin};

use gang::{GroupName, Groups};
use priority::Classes;
use workload::Owners;

/// What these objects mean together. `ignored` are the kinds that were read over.
///
/// An object that stands twice counts once, as it was written last; but a pod that has a node is never forgotten for one
/// that has none.
pub fn cluster(
    objects: Vec<(Origin, Object)>,
    ignored: BTreeMap<String, usize>,
    reading: &Reading,
) -> Cluster {
    let inventory = Inventory::of(objects.into_iter().map(|(_, object)| object));
    let (mut nodes, mut findings) = (Vec::new(), inventory.findings.clone());
    for object in &inventory.nodes {
        let (facts, found) = node::node(object, reading);
        nodes.push(facts);
        findings.extend(found);
    }
    let understood = Understood { ignored, ..Understood::default() };
    let cluster = Cluster { nodes, findings, understood, ..Cluster::default() };
    with_pods(cluster, &inventory, reading)
}

/// All objects, by what they are.
#[derive(Default)]
struct Inventory {
    nodes: Vec<object::Node>,
    /// Pods and what stands for pods, in the order of appearance.
    work: Vec<Work>,
    groups: Vec<PodGroup>,
    classes: Vec<PriorityClass>,
    /// What was found while they were sorted.
    findings: Vec<Finding>,
}

/// A pod, or what stands for pods.
enum Work {
    Pod(Box<Pod>),
    Workload(Box<Workload>),
}

impl Inventory {
    fn of(objects: impl Iterator<Item = Object>) -> Inventory {
        let mut inventory = Inventory::default();
        let mut seen: BTreeMap<(&'static str, String), usize> = BTreeMap::new();
        let mut unnamed = 0;
        for object in objects {
            match object {
                Object::Node(node) => {
                    put(
                        &mut inventory.nodes,
                        seen.entry(("Node", node.metadata.name.clone())),
                        *node,
                    );
                }
                Object::Pod(mut pod) => {
                    name(&mut pod.metadata, &mut unnamed);
                    let key = ("Pod", pod.metadata.namespaced_name());
                    let at = *seen.entry(key).or_insert(inventory.work.len());
                    inventory.put_pod(at, pod);
                }
                Object::Workload(mut workload) => {
                    name(&mut workload.metadata, &mut unnamed);
                    let key = (workload.kind.name(), workload.metadata.namespaced_name());
                    put(&mut inventory.work, seen.entry(key), Work::Workload(workload));
                }
                Object::PodGroup(group) => inventory.groups.push(*group),
                Object::PriorityClass(class) => inventory.classes.push(*class),
            }
        }
        inventory
    }

    /// Appends a pod, or replaces the one that it is again: the later one counts, unless only the earlier one has a node.
    fn put_pod(&mut self, at: usize, pod: Box<Pod>) {
        let Some(Work::Pod(known)) = self.work.get_mut(at) else {
            return self.work.push(Work::Pod(pod));
        };
        let (had, has) = (known.node_name().is_some(), pod.node_name().is_some());
        if has || !had {
            *known = pod;
        }
        if had != has {
            self.findings.push(given_twice(known));
        }
    }

    fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.work
            .iter()
            .filter_map(|work| if let Work::Pod(pod) = work { Some(&**pod) } else { None })
    }

    fn workloads(&self) -> impl Iterator<Item = &Workload> + Clone {
        self.work
            .iter()
            .filter_map(|work| if let Work::Workload(one) = work { Some(&**one) } else { None })
    }
}

/// Appends an object, or replaces the one that it is again.
fn put<K: Ord, T>(
    list: &mut Vec<T>,
    entry: std::collections::btree_map::Entry<'_, K, usize>,
    object: T,
) {
    let at = *entry.or_insert(list.len());
    match list.get_mut(at) {
        Some(place) => *place = object,
        None => list.push(object),
    }
}

/// That a pod was given both with a node and without one.
fn given_twice(bound: &Pod) -> Finding {
    let node = bound.node_name().unwrap_or_default();
    Finding {
        code: "object-given-twice",
        severity: Severity::Note,
        node: Some(node.into()),
        uuid: None,
        message: format!(
            "{} is given twice, on node {node} and without a node; the one that has a node counts",
            bound.metadata.namespaced_name()
        ),
        numbers: BTreeMap::new(),
        remedy: "to have the other one placed as well, give it a name of its own".to_owned(),
    }
}

/// Names what a manifest leaves to the API server to name, so that each is one of its own.
fn name(metadata: &mut object::Metadata, unnamed: &mut usize) {
    if metadata.name.is_empty() {
        *unnamed += 1;
        metadata.name = format!("unnamed-{unnamed}");
    }
}

fn with_pods(mut cluster: Cluster, inventory: &Inventory, reading: &Reading) -> Cluster {
    let classes = Classes::of(&inventory.classes);
    let mut sorted = Sorted::new(&classes, reading);
    let mut owners = Owners::of(inventory.workloads(), inventory.pods());
    for work in &inventory.work {
        match work {
            Work::Pod(pod) => sorted.pod(pod),
            Work::Workload(workload) => sorted.workload(workload, &mut owners),
        }
    }
    let nodes = by_name(&cluster.nodes);
    let context = running::Context {
        nodes: &nodes,
        reservations: &sorted.reservations,
        classes: &classes,
        reading,
    };
    let seen = running::observe(&sorted.bound, &context);
    drop(nodes);
    cluster.running = seen.holdings;
    sorted.waiting.sort_by_key(|(pending, _)| std::cmp::Reverse(pending.request.terms.priority));
    cluster.gangs =
        gang::gather(&Groups::of(&inventory.groups), &mut sorted.waiting, &sorted.members);
    cluster.pending = sorted.waiting.into_iter().map(|(pending, _)| pending).collect();
    cluster
        .findings
        .extend(sorted.findings.into_iter().chain(seen.findings).chain(owners.into_finding()));
    let gone = |holding: &&plimsoll_core::charge::Holding| holding.stage.is_releasing();
    let terminating = cluster.running.iter().filter(gone).count();
    cluster.understood = Understood {
        running: cluster.running.len() - terminating,
        terminating,
        pending: cluster.pending.len(),
        ignored: cluster.understood.ignored,
        ..sorted.understood
    };
    cluster
}

fn by_name(nodes: &[NodeFacts]) -> BTreeMap<Name, &Node> {
    nodes.iter().map(|facts| (facts.node.name.clone(), &facts.node)).collect()
}

/// Pods by what is to be done about them.
struct Sorted<'a> {
    classes: &'a Classes,
    reading: &'a Reading,
    bound: Vec<&'a Pod>,
    /// The groups of those that run.
    members: Vec<GroupName>,
    waiting: Vec<(Pending, Option<GroupName>)>,
    reservations: Vec<Reservation>,
    findings: Vec<Finding>,
    understood: Understood,
}

impl<'a> Sorted<'a> {
    fn new(classes: &'a Classes, reading: &'a Reading) -> Sorted<'a> {
        Sorted {
            classes,
            reading,
            bound: Vec::new(),
            members: Vec::new(),
            waiting: Vec::new(),
            reservations: Vec::new(),
            findings: Vec::new(),
            understood: Understood::default(),
        }
    }

    fn pod(&mut self, pod: &'a Pod) {
        if pod.is_finished() {
            self.understood.finished += 1;
            self.understood.finished_pods.push(pod.metadata.namespaced_name().into());
        } else if let Some(reservation) = kai::reservation(pod) {
            self.reservations.push(reservation);
        } else if pod.node_name().is_some() {
            self.bound.push(pod);
            self.members.extend(gang::named_by(pod).filter(|_| !pod.metadata.is_terminating()));
        } else if pod.metadata.is_terminating() {
            // It never had a place, and will not get one.
            self.understood.finished += 1;
            self.understood.finished_pods.push(pod.metadata.namespaced_name().into());
        } else {
            self.findings.extend(running::written_by_user(pod));
            if pod.spec.scheduling_gates.is_empty() {
                self.waiting
                    .push((pod::pending(pod, self.classes, self.reading), gang::named_by(pod)));
            } else {
                self.understood.gated += 1;
                self.understood.gated_pods.push(pod.metadata.namespaced_name().into());
            }
        }
    }

    fn workload(&mut self, workload: &'a Workload, owners: &mut Owners) {
        let Some((pattern, names)) = owners.missing(workload) else {
            return;
        };
        self.findings.extend(running::written_by_user(&pattern));
        if !pattern.spec.scheduling_gates.is_empty() {
            self.understood.gated += names.len();
            let account = pattern.metadata.namespace.as_deref().unwrap_or("default");
            let named = names.iter().map(|name| Name::from(format!("{account}/{name}")));
            self.understood.gated_pods.extend(named);
            return;
        }
        self.understood.expanded += names.len();
        let (first, group) =
            (pod::pending(&pattern, self.classes, self.reading), gang::named_by(&pattern));
        for name in names {
            let id = plimsoll_core::request::RequestId::new(first.request.id.account.clone(), name);
            let request = Request { id, ..first.request.clone() };
            self.waiting.push((Pending { request, ..first.clone() }, group.clone()));
        }
    }
}
