//! Translates pods that have a node into holdings: charges on devices, and resources of the node.
//!
//! Reality wins: nothing is rejected here. An unreadable pod is a finding and counts as undeclared,
//! which closes the devices it can be on.

mod allocated;
mod booked;
mod cards;
mod charges;
mod claim;
mod findings;
mod named;
mod reserved;
mod seating;
mod unasked;
mod unknown;

use plimsoll_core::charge::{Activity, Holding, Stage};
use plimsoll_core::device::Node;
use plimsoll_core::request::{Amount, Container, Misuse, Need, Role, Shape, Terms};
use plimsoll_core::units::Millis;

use crate::cluster::Reading;
use crate::finding::{Finding, PodProblem, Problem, UserAnnotation};
use crate::kai::{GPU_FRACTION, GPU_MEMORY};
use crate::object::Pod;

use super::dra::is_served_by_claim;
use super::index::Index;
use super::pod::{self, id, in_start_order, kind_asked};
use super::{PodState, Translation};
use cards::Cards;
use charges::{Names, charges};
use claim::{Assignment, Claim, by_spec};
use findings::Findings;

pub(super) use unasked::found_pending;

pub(crate) use named::on_chosen_cards;
pub(super) use reserved::Reserved;
pub(super) use seating::Seats;

/// Translates a pod that has a node into its holding.
///
/// `None` if it holds nothing (see [`PodState`]), or if the index does not know its node. A pod
/// that the index does not know in this form is translated as if it had come to its node last.
pub fn holding(pod: &Pod, index: &Index) -> Option<Translation<Holding>> {
    if PodState::from_pod(pod) != PodState::Bound {
        return None;
    }
    let site = index.site(pod.node_name()?)?;
    let node = &site.facts()?.node;
    let seats = index.seats(pod, site);
    let (mut tenant, found) = Tenant::read(pod, node, site.reserved(), index.reading());
    tenant.apply_seats(&seats);
    let mut value = tenant.holding(node, index);
    let mut findings = Findings::new(pod, &node.name);
    let resources = unknown::resources(pod, &tenant.claims);
    unknown::charge(pod, node, index, &resources, &mut value.charges, &mut findings);
    unasked::charge(pod, &tenant.claims, Cards { node }, &mut value.charges, &mut findings);
    findings.kinds_missing(&tenant.claims, node);
    findings.claims_without_devices(index);
    let findings = found.into_iter().chain(findings.found).collect();
    Some(Translation { value, findings })
}

/// Assigns the cards of a node to its tenants, which are in order of creation.
pub(super) fn seat_tenants<'a>(
    tenants: impl Iterator<Item = &'a Pod>,
    node: &Node,
    reserved: &Reserved,
    reading: &Reading,
) -> Vec<Seats> {
    let mut claims: Vec<Vec<Claim>> =
        tenants.map(|pod| Tenant::read(pod, node, reserved, reading).0.claims).collect();
    seating::seat(Cards { node }, &mut claims);
    let ordinal = |claim: &Claim| match claim.assignment {
        Assignment::Card(ordinal) => Some(ordinal),
        Assignment::Shared { .. } | Assignment::Own | Assignment::Unknown => None,
    };
    claims.iter().map(|claims| claims.iter().map(ordinal).collect()).collect()
}

/// Returns false if a pod certainly holds no device.
pub(crate) fn may_claim_devices(pod: &Pod) -> bool {
    may_ask(pod) || unasked::names_devices(pod)
}

/// Returns false if a pod certainly holds no device and reaches none.
pub(crate) fn concerns_devices(pod: &Pod) -> bool {
    may_ask(pod) || unasked::may_use(pod)
}

/// Returns false if a pod certainly asks for no device. Does not read its amounts.
fn may_ask(pod: &Pod) -> bool {
    let annotations = &pod.metadata.annotations;
    let is_annotated = || {
        [GPU_MEMORY, GPU_FRACTION].iter().any(|key| annotations.contains_key(key))
            || allocated::keys(pod).next().is_some()
            || pod::asks_legacy_mig(pod)
    };
    (!annotations.is_empty() && is_annotated())
        || !pod.spec.resource_claims.is_empty()
        || in_start_order(&pod.spec).any(|(_, container)| container.resources.has_extended())
}

/// Reports annotations that only a scheduler should write on a pod that has no node.
pub(super) fn written_by_user(pod: &Pod) -> Option<Finding> {
    let key = allocated::keys(pod).next()?;
    let pod = pod.metadata.namespaced_name().into();
    let annotation = UserAnnotation::PodHasNoNode;
    let problem = PodProblem::AnnotationByUser { pod, key, annotation };
    Some(Finding { node: None, device: None, problem: Problem::Pod(problem) })
}

/// A pod on a node, with its claims on the node's devices.
struct Tenant<'a> {
    pod: &'a Pod,
    names: Names,
    claims: Vec<Claim>,
}

impl<'a> Tenant<'a> {
    fn read(
        pod: &'a Pod,
        node: &Node,
        reserved: &Reserved,
        reading: &Reading,
    ) -> (Tenant<'a>, Vec<Finding>) {
        let cards = Cards { node };
        let mut findings = Findings::new(pod, &node.name);
        let shape = pod::shape(pod, reading)
            .unwrap_or_else(|misuse| undeclared(pod, &misuse, &mut findings));
        let mut claims = by_spec(&shape, cards);
        claims.retain(|claim| !is_served(pod, claim));
        reserved.place_shares(pod, cards, &mut claims, &mut findings);
        allocated::add(pod, cards, &mut claims, &mut findings);
        booked::add(pod, cards, &mut claims, &mut findings);
        (Tenant { pod, names: Names::from_shape(&shape), claims }, findings.found)
    }

    /// Applies the seats that were assigned to the claims.
    fn apply_seats(&mut self, seats: &Seats) {
        for (claim, seat) in self.claims.iter_mut().zip(seats) {
            claim.assignment = seat.map_or(Assignment::Unknown, Assignment::Card);
        }
    }

    fn holding(&self, node: &Node, index: &Index) -> Holding {
        let since = Millis(0);
        let (priority, _) = index.classes().priority(&self.pod.spec);
        Holding {
            request: id(self.pod),
            node: node.name.clone(),
            stage: if self.pod.metadata.is_terminating() {
                Stage::Releasing { since }
            } else {
                Stage::Running { since }
            },
            charges: charges(&self.claims, &self.names, Cards { node }),
            resources: pod::peak(&self.pod.spec, index.reading()).0,
            terms: Terms { priority, ..Terms::default() },
            activity: Activity::Unknown,
            spec: None,
        }
    }
}

/// Returns true if a claim of dynamic resource allocation serves the resource of this claim, and
/// holds its device.
fn is_served(pod: &Pod, claim: &Claim) -> bool {
    let Some((_, container)) = in_start_order(&pod.spec).nth(claim.container) else { return false };
    let resources = &container.resources;
    let mut names = resources.limits.iter().chain(resources.requests.iter()).map(|(name, _)| name);
    names.any(|name| {
        kind_asked(name) == Some(&*claim.kind) && is_served_by_claim(pod, &container.name, name)
    })
}

/// Creates the shape of a running pod whose spec is invalid: an unknown amount of one device of
/// each kind that it names.
fn undeclared(pod: &Pod, misuse: &Misuse, findings: &mut Findings<'_>) -> Shape {
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
        findings.request_invalid(&misuse.problem);
    }
    Shape { containers }
}
