//! Running pods with devices that nothing describes: they hold an unknown amount of each device
//! that they can be on.

use std::collections::BTreeSet;

use plimsoll_core::charge::{Booked, Charge};
use plimsoll_core::device::Node;
use plimsoll_core::request::Role;
use plimsoll_core::units::Name;

use crate::object::Pod;
use crate::plugins::names_device;

use super::super::dra;
use super::super::index::Index;
use super::super::node::vendor_of;
use super::super::pod::{in_start_order, other_resources};
use super::claim::Claim;
use super::findings::Findings;

/// Schedulers and plugins for NVIDIA's cards, by the domain of their resources.
const NVIDIA_DOMAINS: &[&str] = &["nvidia.com", "volcano.sh", "aliyun.com", "koordinator.sh"];

/// Lists resources that request devices and are not known. An allocation by an annotation tells
/// what such a resource means.
pub(super) fn resources(pod: &Pod, claims: &[Claim]) -> Vec<Name> {
    if claims.iter().any(|claim| claim.allocation.is_some()) {
        return Vec::new();
    }
    let names = other_resources(&pod.spec).into_iter().filter(|name| names_device(name));
    names.filter(|name| !is_served(pod, name)).map(Name::from).collect()
}

/// Charges unknown amounts to the cards of these resources, and to all cards of the node for claims
/// that were not read.
pub(super) fn charge(
    pod: &Pod,
    node: &Node,
    index: &Index,
    resources: &[Name],
    charges: &mut Vec<Charge>,
    findings: &mut Findings<'_>,
) {
    let mut on: BTreeSet<u16> = BTreeSet::new();
    for name in resources {
        on.extend(cards_of(name, node));
    }
    if !resources.is_empty() {
        findings.device_resource_unknown(resources);
    }
    for claim in dra::unread_claims(pod, index) {
        on.extend((0_u16..).zip(&node.devices).map(|(ordinal, _)| ordinal));
        findings.claim_unread(claim);
    }
    let on: Vec<u16> = on.into_iter().collect();
    if on.is_empty() {
        return;
    }
    match charges.iter_mut().find(|charge| charge.on == on) {
        Some(charge) => charge.amount = Booked::Undeclared,
        None => charges.push(undeclared(pod, on)),
    }
}

fn is_served(pod: &Pod, resource: &str) -> bool {
    let mut containers = in_start_order(&pod.spec);
    containers.any(|(_, container)| dra::is_served_by_claim(pod, &container.name, resource))
}

/// Lists the cards that a resource can mean: those of NVIDIA for its domain and those of the
/// schedulers that share its cards, else all.
fn cards_of(resource: &str, node: &Node) -> Vec<u16> {
    let domain = resource.split_once('/').map_or("", |(domain, _)| domain);
    let of_nvidia = NVIDIA_DOMAINS.contains(&domain);
    let cards = (0_u16..).zip(&node.devices);
    let cards = cards.filter(|(_, device)| !of_nvidia || vendor_of(&device.kind) == "NVIDIA");
    cards.map(|(ordinal, _)| ordinal).collect()
}

fn undeclared(pod: &Pod, on: Vec<u16>) -> Charge {
    let container = in_start_order(&pod.spec).find(|(role, _)| *role == Role::App);
    let container = container.map_or("", |(_, container)| container.name.as_str());
    Charge::undeclared(on, container.into(), Role::App)
}
