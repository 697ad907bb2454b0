//! What pods that have a node hold there: their charges on devices, and what they take of the node.
//!
//! Reality wins: nothing is refused here. What cannot be read is a finding, and is counted as undeclared, which closes the
//! devices it may be on.

mod cards;
mod charges;
mod claim;
mod given;
mod group;
mod notes;

use std::collections::BTreeMap;

use plimsoll_core::charge::{Activity, Holding, Stage};
use plimsoll_core::device::Node;
use plimsoll_core::request::{Amount, Container, Misuse, Need, Role, Shape, Terms};
use plimsoll_core::units::{Millis, Name};

use crate::cluster::Reading;
use crate::finding::Finding;
use crate::kai::{GPU_FRACTION, GPU_MEMORY, Reservation};
use crate::object::Pod;

use super::pod::{self, id, in_start_order, kind_asked};
use super::priority::Classes;
use cards::Cards;
use charges::{Names, charges};
use claim::{Claim, by_spec};
use group::Reserved;
use notes::Notes;

/// What was seen of pods that have a node.
#[derive(Default)]
pub(super) struct Seen {
    /// What they hold, in their order.
    pub(super) holdings: Vec<Holding>,
    /// What is wrong with what is written on them.
    pub(super) findings: Vec<Finding>,
}

/// What else is known while running pods are read.
pub(super) struct Context<'a> {
    /// The nodes by name.
    pub(super) nodes: &'a BTreeMap<Name, &'a Node>,
    /// What KAI's reservation pods say.
    pub(super) reservations: &'a [Reservation],
    /// The classes of priority.
    pub(super) classes: &'a Classes,
    /// How to read what is left open.
    pub(super) reading: &'a Reading,
}

/// What these pods hold. Those whose card is told are seated first, then those who share one, then those who have one of their
/// own: so that nobody is put on a card that somebody is known to be on.
pub(super) fn observe(pods: &[&Pod], context: &Context<'_>) -> Seen {
    let reserved = Reserved::of(context.reservations);
    let mut cards: BTreeMap<Name, Cards<'_>> =
        context.nodes.iter().map(|(name, node)| (name.clone(), Cards::of(node))).collect();
    let (mut seen, mut tenants) = (Seen::default(), Vec::new());
    let mut astray: BTreeMap<&str, (u64, String)> = BTreeMap::new();
    for pod in pods {
        let name = pod.node_name().unwrap_or_default();
        match cards.get_mut(name) {
            Some(cards) => {
                let (tenant, findings) = Tenant::read(pod, cards, &reserved, context.reading);
                cards.seat_told(&tenant.claims);
                seen.findings.extend(findings);
                tenants.push(tenant);
            }
            None => astray.entry(name).or_insert((0, pod.metadata.namespaced_name())).0 += 1,
        }
    }
    seat(&mut tenants, &mut cards);
    seen.holdings = tenants
        .iter()
        .map(|tenant| tenant.holding(&cards[&tenant.node], context.classes))
        .collect();
    seen.findings.extend(
        astray.into_iter().map(|(node, (pods, first))| notes::node_unknown(node, pods, &first)),
    );
    seen
}

/// That a pod without a node carries annotations which only its scheduler should write.
pub(super) fn written_by_user(pod: &Pod) -> Option<Finding> {
    given::keys(pod).next().map(|key| notes::by_user(pod, key, "but has no node yet"))
}

fn seat(tenants: &mut [Tenant<'_>], cards: &mut BTreeMap<Name, Cards<'_>>) {
    for seat in [Cards::seat_groups, Cards::seat_alone] {
        for tenant in &mut *tenants {
            if let Some(cards) = cards.get_mut(&tenant.node) {
                seat(cards, &mut tenant.claims);
            }
        }
    }
}

/// A pod on a node that is known.
struct Tenant<'a> {
    pod: &'a Pod,
    node: Name,
    names: Names,
    claims: Vec<Claim>,
}

impl<'a> Tenant<'a> {
    fn read(
        pod: &'a Pod,
        cards: &Cards<'_>,
        reserved: &Reserved,
        reading: &Reading,
    ) -> (Tenant<'a>, Vec<Finding>) {
        let node = cards.node.name.clone();
        let mut notes = Notes::on(pod, &node);
        let shape =
            pod::shape(pod, reading).unwrap_or_else(|misuse| undeclared(pod, &misuse, &mut notes));
        let mut claims = by_spec(&shape, cards);
        reserved.add(pod, cards, &mut claims, &mut notes);
        given::add(pod, cards, &mut claims, &mut notes);
        (Tenant { pod, node, names: Names::of(&shape), claims }, notes.findings)
    }

    fn holding(&self, cards: &Cards<'_>, classes: &Classes) -> Holding {
        let since = Millis(0);
        let (priority, _) = classes.priority(&self.pod.spec);
        Holding {
            request: id(self.pod),
            node: self.node.clone(),
            stage: if self.pod.metadata.is_terminating() {
                Stage::Releasing { since }
            } else {
                Stage::Running { since }
            },
            charges: charges(&self.claims, &self.names, cards),
            resources: pod::peak(&self.pod.spec).0,
            terms: Terms { priority, ..Terms::default() },
            activity: Activity::Unknown,
            spec: None,
        }
    }
}

/// What a pod holds that runs although its spec contradicts itself: an unknown amount of one device of each kind that it names.
fn undeclared(pod: &Pod, misuse: &Misuse, notes: &mut Notes<'_>) -> Shape {
    let unknown = |kind: &str| Need::one(kind, Amount::Unknown("what it asks".into()));
    let containers = in_start_order(&pod.spec).map(|(role, container)| {
        let lists = [&container.resources.limits, &container.resources.requests];
        let names = lists.into_iter().flat_map(|list| list.iter().map(|(name, _)| name));
        let mut kinds: Vec<&str> = names.filter_map(kind_asked).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let needs = kinds.into_iter().map(unknown).collect();
        Container { name: container.name.as_str().into(), role, needs }
    });
    let mut containers: Vec<Container> = containers.collect();
    let shares =
        [GPU_MEMORY, GPU_FRACTION].iter().any(|key| pod.metadata.annotations.contains_key(key));
    let first = containers.iter_mut().find(|container| container.role == Role::App);
    if let Some(first) = first.filter(|first| shares && first.needs.is_empty()) {
        first.needs.push(Need { slots: 0, ..unknown("NVIDIA") });
    }
    if containers.iter().any(|container| !container.needs.is_empty()) {
        notes.misunderstood(&misuse.problem);
    }
    Shape { containers }
}
