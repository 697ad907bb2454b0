//! The cards that another scheduler has chosen for a pod that it is about to bind.
//!
//! HAMi writes them on the pod before it binds, and a group of KAI has the card of its reservation
//! pod. Whatever else would fit, the containers get those cards, so that the check of the binding
//! is about them. An amount in an annotation raises what the spec asks for and never lowers it.

use std::num::NonZeroU64;

use plimsoll_core::device::{DeviceChoice, Node};
use plimsoll_core::request::{Amount, Asks, Need, Request};
use plimsoll_core::units::Name;

use crate::booking::ALLOCATED;
use crate::hami::allocated::NODE;
use crate::object::Pod;

use super::super::index::Index;
use super::Tenant;
use super::allocated;
use super::claim::{Assignment, Claim, Held};

/// Returns the request of a pod without a node on the cards that its scheduler has chosen on this
/// node; the request as it is where none is chosen.
pub(crate) fn on_chosen_cards(
    mut asked: Request,
    pod: &Pod,
    node: &Name,
    index: &Index,
) -> Request {
    let Some(site) = index.site(node) else { return asked };
    let Some(facts) = site.facts() else { return asked };
    let bound = as_bound(pod, node, index);
    let (tenant, _) = Tenant::read(&bound, &facts.node, site.reserved(), index.reading());
    let mut spec = (*asked.spec).clone();
    let Asks::Shapes(shapes) = &mut spec.asks else { return asked };
    // A pod's spec has one shape. Alternatives come from claims, which name devices themselves.
    let [shape] = &mut shapes[..] else { return asked };
    for (index, container) in shape.containers.iter_mut().enumerate() {
        let of_spec = |claim: &&Claim| claim.container == index && claim.need.is_some();
        let mut claims = tenant.claims.iter().filter(of_spec);
        for need in &mut container.needs {
            let claims: Vec<&Claim> = claims.by_ref().take(need.count.get().into()).collect();
            choose(need, &claims, &facts.node);
        }
    }
    asked.spec = spec.into();
    asked
}

/// Returns the pod as it will be with the node, without what no scheduler has chosen: on a pod
/// without a node, users write annotations too.
fn as_bound(pod: &Pod, node: &Name, index: &Index) -> Pod {
    let known = index.pod(&super::id(pod)).filter(|known| known.node_name() == Some(node));
    let mut bound = known.unwrap_or(pod).clone();
    bound.spec.node_name = Some(node.to_string());
    let is_hamis = pod.metadata.annotations.get(NODE).is_some_and(|chosen| *chosen == **node);
    let ignored: Vec<&str> =
        allocated::keys(pod).filter(|key| *key == ALLOCATED || !is_hamis).collect();
    let believed = pod.metadata.annotations.iter().filter(|(key, _)| !ignored.contains(key));
    bound.metadata.annotations =
        believed.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    bound
}

/// Limits a need to the cards of its claims, if all of them are known and can be chosen.
fn choose(need: &mut Need, claims: &[&Claim], node: &Node) {
    let cards: Option<Vec<u16>> = claims
        .iter()
        .map(|claim| match claim.assignment {
            Assignment::Card(ordinal) if claim.kind == need.kind => Some(ordinal),
            _ => None,
        })
        .collect();
    let is_free = node.choice_for(&need.kind) == DeviceChoice::Owned;
    let Some(cards) = cards.filter(|cards| is_free && !cards.is_empty()) else { return };
    let held = claims.iter().zip(&cards).filter_map(|(claim, ordinal)| {
        let device = node.devices.get(usize::from(*ordinal))?;
        match claim.held_on(device).0 {
            Held::Share(bytes) if claim.allocation.is_some() => NonZeroU64::new(bytes.get()),
            _ => None,
        }
    });
    if let (Amount::Bytes(_) | Amount::Portion(_), Some(most)) = (&need.amount, held.max()) {
        need.amount = Amount::Bytes(most);
    }
    need.selector.ordinals = cards;
}
