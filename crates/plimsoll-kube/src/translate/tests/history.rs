//! Histories of single changes lead to the same cluster as reading its last state at once.

mod objects;

use std::collections::BTreeMap;

use plimsoll_core::charge::Holding;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Name;
use proptest::prelude::*;

use crate::cluster::{Cluster, GangFacts, NodeFacts, Reading};
use crate::finding::Finding;
use crate::object::{Kind, ObjectRef, Pod};
use crate::read::{Object, Origin};
use crate::translate::{
    Affected, Change, Index, PodRequest, PodState, Translation, claim_holding, cluster, holding,
    request,
};

use objects::any_object;

/// One event of a history.
#[derive(Clone, Debug)]
enum Event {
    Apply(Object),
    /// Delivers an object again that is there already.
    Redeliver(prop::sample::Index),
    Remove(prop::sample::Index),
    /// Reports the deletion of an object that another one of the same name has replaced.
    RemoveLate(prop::sample::Index),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => any_object().prop_map(Event::Apply),
        1 => any::<prop::sample::Index>().prop_map(Event::Redeliver),
        3 => any::<prop::sample::Index>().prop_map(Event::Remove),
        1 => any::<prop::sample::Index>().prop_map(Event::RemoveLate),
    ]
}

/// The objects that are there, as an API server has them.
#[derive(Default)]
struct Store(BTreeMap<(Kind, Name, Name), Object>);

impl Store {
    /// Turns an event into the change that a watch delivers.
    fn change(&mut self, event: Event) -> Option<Change> {
        match event {
            Event::Apply(object) => {
                self.0.insert(key(&object.reference()), object.clone());
                Some(Change::Applied(object))
            }
            Event::Redeliver(at) => self.pick(&at).cloned().map(Change::Applied),
            Event::Remove(at) => {
                let gone = self.pick(&at)?.reference();
                self.0.remove(&key(&gone));
                Some(Change::Removed(gone))
            }
            Event::RemoveLate(at) => {
                let known = self.pick(&at)?.reference();
                let is_told_apart =
                    matches!(known.kind, Kind::Node | Kind::Pod | Kind::Workload(_));
                let uid = known.uid.as_ref().filter(|_| is_told_apart)?;
                let uid = Some(format!("before-{uid}").into());
                Some(Change::Removed(ObjectRef { uid, ..known }))
            }
        }
    }

    fn pick(&self, at: &prop::sample::Index) -> Option<&Object> {
        (!self.0.is_empty()).then(|| self.0.values().nth(at.index(self.0.len())))?
    }
}

fn key(object: &ObjectRef) -> (Kind, Name, Name) {
    (object.kind, object.namespace.clone(), object.name.clone())
}

/// Everything that was translated.
#[derive(Debug, Default, PartialEq)]
struct Translated {
    nodes: BTreeMap<Name, Translation<NodeFacts>>,
    holdings: BTreeMap<RequestId, Translation<Holding>>,
    requests: BTreeMap<RequestId, Translation<PodRequest>>,
    gangs: BTreeMap<Name, GangFacts>,
}

impl Translated {
    /// Translates again what a change affected, and nothing else.
    fn follow(&mut self, index: &Index, affected: &Affected) {
        for name in &affected.nodes {
            put(&mut self.nodes, name, index.node(name).cloned());
        }
        for id in &affected.pods {
            let missing = missing_pod(index, id);
            let pod = index.pod(id).or(missing.as_ref());
            let is_waiting = |pod: &&Pod| {
                missing.is_some()
                    || matches!(PodState::from_pod(pod), PodState::Gated | PodState::Pending)
            };
            put(&mut self.holdings, id, index.pod(id).and_then(|pod| holding(pod, index)));
            put(&mut self.requests, id, pod.filter(is_waiting).map(|pod| request(pod, index)));
        }
        for id in &affected.claims {
            let held = index.claim(id).and_then(|claim| claim_holding(claim, index));
            put(&mut self.holdings, id, held);
        }
        for name in &affected.gangs {
            put(&mut self.gangs, name, index.gang(name));
        }
    }

    fn findings(&self, index: &Index) -> Vec<Finding> {
        let nodes = self.nodes.values().flat_map(|node| &node.findings);
        let holdings = self.holdings.values().flat_map(|holding| &holding.findings);
        // The pods of a workload are made from one pattern, and what is wrong with it is said once.
        let missing = |id: &&RequestId| index.pod(id).is_none();
        let requests = self.requests.iter().filter(|(id, _)| !missing(id));
        let requests = requests.flat_map(|(_, request)| &request.findings);
        let found = nodes.chain(holdings).chain(requests).cloned().chain(index.findings());
        let patterns = index.expansions().map(|one| request(&one.pattern, index).findings);
        sorted(found.chain(patterns.flatten()).collect())
    }
}

fn put<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, key: &K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key.clone(), value),
        None => map.remove(key),
    };
}

/// The pod of this identity that a workload misses.
fn missing_pod(index: &Index, id: &RequestId) -> Option<Pod> {
    let expansion = index.expansions().find(|one| one.ids().any(|missing| missing == *id))?;
    let mut pod = expansion.pattern.clone();
    pod.metadata.name = id.name.to_string();
    Some(pod)
}

fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| format!("{finding:?}"));
    findings
}

/// Holds what was translated step by step against a dump of the last state.
fn check(followed: &Translated, index: &Index, dump: &Cluster) -> Result<(), TestCaseError> {
    prop_assert_eq!(followed.nodes.len(), dump.nodes.len());
    for facts in &dump.nodes {
        prop_assert_eq!(&followed.nodes[&facts.node.name].value, facts);
    }
    prop_assert_eq!(followed.holdings.len(), dump.running.len());
    for holding in &dump.running {
        let known = followed.holdings.get(&holding.request).map(|one| &one.value);
        prop_assert_eq!(known, Some(holding));
    }
    let gated = dump.understood.gated;
    prop_assert_eq!(followed.requests.len(), dump.pending.len() + gated);
    for pending in &dump.pending {
        let known = &followed.requests[&pending.request.id].value;
        prop_assert_eq!(&known.request, &pending.request);
        prop_assert_eq!(&known.not_considered, &pending.not_considered);
        let gang = pending.gang.map(|at| &dump.gangs[at]);
        prop_assert_eq!(known.gang.as_ref(), gang.map(|gang| &gang.name));
        prop_assert_eq!(known.gang.as_ref().and_then(|name| followed.gangs.get(name)), gang);
    }
    prop_assert_eq!(followed.gangs.len(), dump.gangs.len());
    prop_assert_eq!(followed.findings(index), sorted(dump.findings.clone()));
    Ok(())
}

fn dump(objects: impl Iterator<Item = Object>) -> Cluster {
    let origin = || Origin { source: "test".into(), document: 1, object: String::new() };
    let objects = objects.map(|object| (origin(), object)).collect();
    cluster(objects, BTreeMap::new(), &Reading::default())
}

proptest! {
    #[test]
    fn any_history_of_changes_gives_what_the_last_dump_gives(
        batches in prop::collection::vec(prop::collection::vec(any_event(), 1..4), 1..24),
        seed in any::<u64>(),
    ) {
        let mut store = Store::default();
        let mut index = Index::new(Reading::default());
        let mut followed = Translated::default();
        for batch in batches {
            let changes: Vec<Change> =
                batch.into_iter().filter_map(|event| store.change(event)).collect();
            let affected = index.update(changes);
            followed.follow(&index, &affected);
        }
        let mut objects: Vec<Object> = store.0.into_values().collect();
        let last = objects.last().cloned();
        objects.sort_by_key(|object| shuffled(seed, object));
        check(&followed, &index, &dump(objects.clone().into_iter()))?;
        objects.reverse();
        check(&followed, &index, &dump(objects.into_iter().chain(last)))?;
    }
}

/// A place in an order that depends on nothing but the seed and the name.
fn shuffled(seed: u64, object: &Object) -> u64 {
    let name = format!("{:?}", object.reference());
    name.bytes()
        .fold(seed | 1, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn an_event_affects_what_it_changes_and_nothing_else() {
    let node = |name: &str| objects::parse(objects::exclusive_node(name, 2));
    let pod = |name: &str, node: &str| objects::parse(objects::plain_pod(name, node, "u1"));
    let id = |name: &str| RequestId::new("a", name).with_uid("u1");
    let mut index = Index::new(Reading::default());
    index.update(["n0", "n1"].map(|name| Change::Applied(node(name))));
    index.update(
        [("p0", "n0"), ("p1", "n0"), ("p2", "n1")].map(|(p, n)| Change::Applied(pod(p, n))),
    );

    let again = index.apply(node("n0"));
    assert!(again.is_empty(), "a node that says the same changes nothing: {again:?}");
    assert!(index.apply(pod("p0", "n0")).is_empty());

    let added = index.apply(pod("p3", "n0"));
    assert_eq!(added.pods, [id("p3")].into(), "a new pod does not move the others");

    let gone = index.remove(&pod("p0", "n0").reference());
    assert_eq!(gone.pods, [id("p0"), id("p1"), id("p3")].into(), "the cards of one node only");
    assert!(gone.nodes.is_empty() && gone.gangs.is_empty());

    let renamed = index.apply(objects::parse(objects::plain_pod("p2", "n1", "u2")));
    let second = RequestId::new("a", "p2").with_uid("u2");
    assert_eq!(renamed.pods, [id("p2"), second.clone()].into(), "another uid is another pod");
    assert!(index.pod(&id("p2")).is_none() && index.pod(&second).is_some());

    let late = index.remove(&pod("p2", "n1").reference());
    assert!(late.is_empty(), "the pod that was deleted has another uid");
    assert!(index.pod(&second).is_some());
}

#[test]
fn a_pod_that_the_index_does_not_know_is_seated_after_the_others() {
    let mut index = Index::new(Reading::default());
    index.apply(objects::parse(objects::exclusive_node("n0", 3)));
    index.apply(objects::parse(objects::plain_pod("p1", "n0", "u1")));
    let Object::Pod(new) = objects::parse(objects::plain_pod("p0", "n0", "u1")) else {
        unreachable!("a pod was written")
    };
    let translated = holding(&new, &index).expect("its node is known");
    assert_eq!(translated.value.charges[0].on, [1]);
}
