//! Translates a whole dump: puts all objects into an index, and translates each from there.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plimsoll_core::request::Request;
use plimsoll_core::units::Name;

use crate::cluster::{Cluster, Pending, Reading, Understood};
use crate::finding::{Finding, PodProblem, Problem};
use crate::object::{Kind, Metadata, ObjectRef, Pod};
use crate::read::{Object, Origin};

use super::index::{Change, Created, Index, PodKey, Rank};
use super::pod::request_as;
use super::workload::{Expansion, WorkloadKey};
use super::{PodRequest, PodState, Translation, claim_holding, holding, request};

/// Translates all these objects. `ignored` are the kinds that were not read.
///
/// An object that occurs twice counts once, in its last form; but a pod that has a node is never
/// replaced by one that has none. Nodes and running pods are listed in order of appearance.
pub fn cluster(
    objects: Vec<(Origin, Object)>,
    ignored: BTreeMap<String, usize>,
    reading: &Reading,
) -> Cluster {
    let dump = Dump::from_objects(objects.into_iter().map(|(_, object)| object));
    let order: Vec<ObjectRef> = dump.objects.iter().map(Object::reference).collect();
    let mut index = Index::new(reading.clone());
    index.update(dump.objects.into_iter().map(Change::Applied));
    let mut listing = Listing::new(&index);
    listing.nodes(&order);
    for object in &order {
        match object.kind {
            Kind::Pod => listing.pod(object),
            Kind::Workload(kind) => {
                let (namespace, name) = (object.namespace.clone(), object.name.clone());
                let expansion = index.expansion(&WorkloadKey { namespace, kind, name });
                expansion.into_iter().for_each(|expansion| listing.expansion(expansion));
            }
            Kind::ResourceClaim => listing.claim(object),
            Kind::Namespace
            | Kind::Node
            | Kind::PodGroup(_)
            | Kind::PriorityClass
            | Kind::ResourceSlice
            | Kind::DeviceClass
            | Kind::BindRequest => {}
        }
    }
    listing.finish(dump.findings, ignored)
}

/// The objects of a dump, each once, in order of appearance.
#[derive(Default)]
struct Dump {
    objects: Vec<Object>,
    positions: BTreeMap<(Kind, Name, Name), usize>,
    unnamed: usize,
    findings: Vec<Finding>,
}

impl Dump {
    fn from_objects(objects: impl Iterator<Item = Object>) -> Dump {
        let mut dump = Dump::default();
        objects.for_each(|object| dump.add(object));
        dump
    }

    fn add(&mut self, mut object: Object) {
        match &mut object {
            Object::Pod(pod) => self.name(&mut pod.metadata),
            Object::Workload(workload) => self.name(&mut workload.metadata),
            Object::Namespace(_)
            | Object::Node(_)
            | Object::PodGroup(_)
            | Object::PriorityClass(_)
            | Object::ResourceClaim(_)
            | Object::ResourceSlice(_)
            | Object::DeviceClass(_)
            | Object::BindRequest(_) => {}
        }
        let ObjectRef { kind, namespace, name, .. } = object.reference();
        let position = *self.positions.entry((kind, namespace, name)).or_insert(self.objects.len());
        match (self.objects.get_mut(position), object) {
            (None, object) => self.objects.push(object),
            (Some(Object::Pod(known)), Object::Pod(pod)) => {
                let (had, has) = (known.node_name().is_some(), pod.node_name().is_some());
                if has || !had {
                    *known = pod;
                }
                if had != has {
                    self.findings.push(given_twice(known));
                }
            }
            (Some(known), object) => *known = object,
        }
    }

    /// Names an object whose name is left to the API server (`generateName`), so that each counts
    /// separately.
    fn name(&mut self, metadata: &mut Metadata) {
        if metadata.name.is_empty() {
            self.unnamed += 1;
            metadata.name = format!("unnamed-{}", self.unnamed);
        }
    }
}

fn given_twice(bound: &Pod) -> Finding {
    let node = Name::from(bound.node_name().unwrap_or_default());
    let pod = bound.metadata.namespaced_name().into();
    let problem = PodProblem::GivenTwice { pod, node: node.clone() };
    Finding { node: Some(node), device: None, problem: Problem::Pod(problem) }
}

/// A cluster while the objects of its index are listed.
struct Listing<'a> {
    index: &'a Index,
    cluster: Cluster,
    pending: Vec<(Turn, PodRequest)>,
    /// Findings about running pods, which are listed after those about pending ones.
    running_findings: Vec<Finding>,
}

/// The order of pending pods: by priority, then those for which a scheduler makes room already,
/// then by creation. Pods that do not exist yet keep their order of appearance, in which a client
/// would create them.
type Turn = (Reverse<i32>, Nominated, Created, Option<PodKey>);

/// Pods for which a scheduler makes room already come first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Nominated {
    Yes,
    No,
}

impl Nominated {
    fn from_pod(pod: &Pod) -> Nominated {
        if pod.nominated_node().is_some() { Nominated::Yes } else { Nominated::No }
    }
}

impl<'a> Listing<'a> {
    fn new(index: &'a Index) -> Listing<'a> {
        Listing {
            index,
            cluster: Cluster::default(),
            pending: Vec::new(),
            running_findings: Vec::new(),
        }
    }

    fn nodes(&mut self, order: &[ObjectRef]) {
        for object in order.iter().filter(|object| object.kind == Kind::Node) {
            if let Some(node) = self.index.node(&object.name) {
                self.cluster.nodes.push(node.value.clone());
                self.cluster.findings.extend(node.findings.iter().cloned());
            }
        }
    }

    fn pod(&mut self, object: &ObjectRef) {
        let (namespace, name) = (object.namespace.clone(), object.name.clone());
        let Some(pod) = self.index.pod_by_key(&PodKey { namespace, name }) else { return };
        let name = || Name::from(pod.metadata.namespaced_name());
        match PodState::from_pod(pod) {
            PodState::Finished => self.cluster.understood.finished_pods.push(name()),
            PodState::Reservation => {}
            PodState::Bound => {
                if let Some(holding) = holding(pod, self.index) {
                    self.cluster.running.push(holding.value);
                    self.running_findings.extend(holding.findings);
                }
            }
            PodState::Gated => {
                self.cluster.findings.extend(request(pod, self.index).findings);
                self.cluster.understood.gated_pods.push(name());
            }
            PodState::Pending => {
                let Translation { value, findings } = request(pod, self.index);
                self.cluster.findings.extend(findings);
                self.push(Nominated::from_pod(pod), Rank::new(&pod.metadata), value);
            }
        }
    }

    fn claim(&mut self, object: &ObjectRef) {
        let (namespace, name) = (object.namespace.clone(), object.name.clone());
        let claim = self.index.claims().get(&PodKey { namespace, name });
        if let Some(holding) = claim.and_then(|claim| claim_holding(claim, self.index)) {
            self.cluster.running.push(holding.value);
            self.running_findings.extend(holding.findings);
        }
    }

    fn expansion(&mut self, expansion: &Expansion) {
        // All of them have the same request: the first one is translated, and its request shared.
        let Some(id) = expansion.ids().next() else { return };
        let first = request_as(id, &expansion.pattern, self.index);
        self.cluster.findings.extend(first.findings);
        if !expansion.is_pending() {
            let names = expansion.ids().map(|id| Name::from(id.to_string()));
            self.cluster.understood.gated_pods.extend(names);
            return;
        }
        self.cluster.understood.expanded += expansion.names.len();
        for id in expansion.ids() {
            let rank = Rank { created: Created::NotYet, key: PodKey::from_request(&id) };
            let request = Request { id, ..first.value.request.clone() };
            self.push(Nominated::No, rank, PodRequest { request, ..first.value.clone() });
        }
    }

    fn push(&mut self, nominated: Nominated, rank: Rank, request: PodRequest) {
        let key = (rank.created != Created::NotYet).then_some(rank.key);
        let turn = (Reverse(request.request.terms.priority), nominated, rank.created, key);
        self.pending.push((turn, request));
    }

    fn finish(mut self, given_twice: Vec<Finding>, ignored: BTreeMap<String, usize>) -> Cluster {
        self.pending.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut gangs: BTreeMap<Name, usize> = BTreeMap::new();
        for (_, request) in self.pending {
            let gang = request.gang.and_then(|name| {
                let known = gangs.get(&name).copied();
                known.or_else(|| {
                    self.cluster.gangs.push(self.index.gang(&name)?);
                    gangs.insert(name, self.cluster.gangs.len() - 1);
                    Some(self.cluster.gangs.len() - 1)
                })
            });
            let PodRequest { request, not_considered, .. } = request;
            self.cluster.pending.push(Pending { request, gang, not_considered });
        }
        let mut cluster = self.cluster;
        let findings = given_twice.into_iter().chain(cluster.findings);
        let findings = findings.chain(self.running_findings).chain(self.index.findings());
        cluster.findings = findings.collect();
        let terminating =
            cluster.running.iter().filter(|holding| holding.stage.is_releasing()).count();
        cluster.understood = Understood {
            running: cluster.running.len() - terminating,
            terminating,
            finished: cluster.understood.finished_pods.len(),
            gated: cluster.understood.gated_pods.len(),
            pending: cluster.pending.len(),
            ignored,
            ..cluster.understood
        };
        cluster
    }
}
