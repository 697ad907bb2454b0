//! A node name: the node itself, once it is known, and its pods.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::units::Name;

use crate::cluster::{NodeFacts, Reading};
use crate::finding::{Finding, PodProblem, Problem};
use crate::kai::Reservation;
use crate::object::{Kind, Node, ObjectRef, Pod};

use super::super::Translation;
use super::super::dra::Published;
use super::super::holding::{Reserved, Seats, seat_tenants};
use super::super::node::node_with;
use super::affected::NodeChange;
use super::key::{PodKey, Rank};

/// A node and its pods, in order of creation.
#[derive(Debug, Default)]
pub(in crate::translate) struct Site {
    /// `None` while only pods name the node.
    node: Option<Translation<NodeFacts>>,
    /// The node as it was read, to describe it again when its published devices change.
    object: Option<Box<Node>>,
    tenants: BTreeSet<Rank>,
    reservations: BTreeMap<Rank, Reservation>,
    reserved: Reserved,
    /// The seats of the tenants that may claim devices.
    seats: BTreeMap<PodKey, Seats>,
}

impl Site {
    pub(in crate::translate) fn node(&self) -> Option<&Translation<NodeFacts>> {
        self.node.as_ref()
    }

    pub(in crate::translate) fn facts(&self) -> Option<&NodeFacts> {
        self.node.as_ref().map(|node| &node.value)
    }

    pub(in crate::translate) fn reserved(&self) -> &Reserved {
        &self.reserved
    }

    pub(super) fn tenants(&self) -> impl Iterator<Item = &Rank> {
        self.tenants.iter()
    }

    pub(super) fn seats_of(&self, key: &PodKey) -> Option<&Seats> {
        self.seats.get(key)
    }

    /// Iterates over the tenants that may claim devices.
    pub(super) fn seated(&self) -> impl Iterator<Item = &PodKey> {
        self.seats.keys()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.node.is_none() && self.tenants.is_empty() && self.reservations.is_empty()
    }

    /// Stores the node, with the devices that drivers publish for it.
    pub(super) fn describe(
        &mut self,
        object: Box<Node>,
        published: &[Published<'_>],
    ) -> NodeChange {
        let node = node_with(&object, published);
        self.object = Some(object);
        self.replace(node)
    }

    /// Returns the reference of the node, if it is known.
    pub(super) fn reference(&self) -> Option<ObjectRef> {
        self.object.as_ref().map(|object| ObjectRef::new(Kind::Node, &object.metadata))
    }

    /// Describes the node again, if it is known, with other published devices.
    pub(super) fn publish(&mut self, published: &[Published<'_>]) -> NodeChange {
        match &self.object {
            Some(object) => self.replace(node_with(object, published)),
            None => NodeChange::Same,
        }
    }

    fn replace(&mut self, node: Translation<NodeFacts>) -> NodeChange {
        // Kubelets report often, and seldom a change that matters here.
        if self.node.as_ref() == Some(&node) {
            return NodeChange::Same;
        }
        match self.node.replace(node) {
            Some(_) => NodeChange::Described,
            None => NodeChange::Existence,
        }
    }

    /// Removes the node if it matches the reference. Its pods stay.
    pub(super) fn forget_node(&mut self, object: &ObjectRef) -> NodeChange {
        let uid = self.object.as_ref().and_then(|known| known.metadata.known_uid());
        if self.node.is_none() || !object.can_be(uid) {
            return NodeChange::Same;
        }
        (self.node, self.object) = (None, None);
        NodeChange::Existence
    }

    pub(super) fn add_tenant(&mut self, rank: Rank) {
        self.tenants.insert(rank);
    }

    pub(super) fn add_reservation(&mut self, rank: Rank, reservation: Reservation) {
        self.reservations.insert(rank, reservation);
    }

    pub(super) fn remove_pod(&mut self, rank: &Rank) {
        self.tenants.remove(rank);
        self.reservations.remove(rank);
    }

    /// Collects the UUIDs of the reservation pods.
    pub(super) fn learn_reserved(&self) -> Reserved {
        Reserved::from_pods(self.reservations.values())
    }

    /// Assigns cards to these tenants, in their order.
    pub(super) fn seat<'a>(
        &self,
        tenants: impl Iterator<Item = &'a Pod>,
        reading: &Reading,
    ) -> Vec<Seats> {
        self.seat_under(&self.reserved, tenants, reading)
    }

    pub(super) fn seat_under<'a>(
        &self,
        reserved: &Reserved,
        tenants: impl Iterator<Item = &'a Pod>,
        reading: &Reading,
    ) -> Vec<Seats> {
        match self.facts() {
            Some(facts) => seat_tenants(tenants, &facts.node, reserved, reading),
            None => Vec::new(),
        }
    }

    /// Stores new seats. Returns the pods whose seats have changed.
    pub(super) fn reseat(
        &mut self,
        seats: BTreeMap<PodKey, Seats>,
        reserved: Reserved,
    ) -> Vec<PodKey> {
        let moved = seats.iter().filter(|(key, seats)| self.seats.get(*key) != Some(*seats));
        let moved = moved.map(|(key, _)| key.clone()).collect();
        (self.seats, self.reserved) = (seats, reserved);
        moved
    }

    /// Reports pods on a node that is not known.
    pub(super) fn unknown(&self, name: &Name) -> Option<Finding> {
        let first = self.tenants.first().filter(|_| self.node.is_none())?;
        let first = format!("{}/{}", first.key.namespace, first.key.name).into();
        let pods = self.tenants.len() as u64;
        let problem = PodProblem::NodeUnknown { node: name.clone(), pods, first };
        Some(Finding { node: Some(name.clone()), device: None, problem: Problem::Pod(problem) })
    }
}
