//! Which card a tenant is on, where that follows from nothing but who else is there.
//!
//! On cards of one token each, a holder has a card to itself, and any free ordinal will do for the account. So has a group of
//! KAI. Elsewhere the card of a tenant is told, or it is one of several.

use std::collections::BTreeMap;

use plimsoll_core::device::{Health, Identity, Node, Sharing};
use plimsoll_core::request::Role;
use plimsoll_core::units::Name;

use super::claim::{Claim, Place};

/// The cards of one node while its tenants are seated.
pub(super) struct Cards<'a> {
    /// The node.
    pub(super) node: &'a Node,
    tenants: Vec<bool>,
    known: BTreeMap<String, u16>,
}

impl<'a> Cards<'a> {
    /// The cards of a node without tenants.
    pub(super) fn of(node: &'a Node) -> Cards<'a> {
        Cards { node, tenants: vec![false; node.devices.len()], known: BTreeMap::new() }
    }

    /// Notes those whose card was told.
    pub(super) fn seat_told(&mut self, claims: &[Claim]) {
        for claim in claims {
            if let Place::On(ordinal) = claim.place {
                self.occupy(ordinal);
            }
        }
    }

    /// Seats those who share a card with others of the same group or the same reserved UUID.
    pub(super) fn seat_groups(&mut self, claims: &mut [Claim]) {
        for claim in claims {
            if let Place::Card { name, unnamed_only } = &claim.place {
                let card = self.known.get(name).copied();
                let card = card.or_else(|| self.open(&claim.kind, *unnamed_only));
                if let Some(ordinal) = card {
                    self.known.insert(name.clone(), ordinal);
                    self.occupy(ordinal);
                }
                claim.place = card.map_or(Place::Somewhere, Place::On);
            }
        }
    }

    /// Seats those who have a card of their own. As in kubelet, what an init container had goes on to the next container.
    pub(super) fn seat_alone(&mut self, claims: &mut [Claim]) {
        let mut handed_on: BTreeMap<Name, Vec<u16>> = BTreeMap::new();
        let mut ended: Vec<(usize, Name, u16)> = Vec::new();
        for claim in claims {
            if claim.place != Place::Own {
                continue;
            }
            for (_, kind, ordinal) in
                ended.extract_if(.., |(container, ..)| *container != claim.container)
            {
                handed_on.entry(kind).or_default().push(ordinal);
            }
            let reused = handed_on
                .get_mut(&claim.kind)
                .and_then(|cards| (!cards.is_empty()).then(|| cards.remove(0)));
            let card = reused.or_else(|| self.open(&claim.kind, false));
            if let Some(ordinal) = card {
                self.occupy(ordinal);
                if claim.role == Role::Init {
                    ended.push((claim.container, claim.kind.clone(), ordinal));
                }
            }
            claim.place = card.map_or(Place::Somewhere, Place::On);
        }
    }

    /// The ordinals of a kind.
    pub(super) fn of_kind(&self, kind: &str) -> Vec<u16> {
        self.each(kind).map(|(ordinal, _)| ordinal).collect()
    }

    /// The ordinal of a device of this kind, by its UUID.
    pub(super) fn called(&self, kind: &str, uuid: &str) -> Option<u16> {
        let is =
            |identity: &Identity| matches!(identity, Identity::Uuid(known) if **known == *uuid);
        self.each(kind).find(|(_, device)| is(&device.identity)).map(|(ordinal, _)| ordinal)
    }

    /// Whether each card of this kind has one token, so that who has it has the card.
    pub(super) fn exclusive(&self, kind: &str) -> bool {
        let mut cards = self.each(kind).peekable();
        cards.peek().is_some() && cards.all(|(_, device)| device.sharing == Sharing::Exclusive)
    }

    /// Whether some card of this kind is known by its place only.
    pub(super) fn unnamed(&self, kind: &str) -> bool {
        self.each(kind).any(|(_, device)| device.identity == Identity::Ordinal)
    }

    /// A card that nobody is on: a healthy one if there is one, in the order of ordinals.
    fn open(&self, kind: &str, unnamed_only: bool) -> Option<u16> {
        let open = self.each(kind).filter(|(ordinal, device)| {
            !self.tenants[usize::from(*ordinal)]
                && (!unnamed_only || device.identity == Identity::Ordinal)
        });
        open.min_by_key(|(ordinal, device)| (device.health != Health::Healthy, *ordinal))
            .map(|(ordinal, _)| ordinal)
    }

    fn occupy(&mut self, ordinal: u16) {
        if let Some(tenant) = self.tenants.get_mut(usize::from(ordinal)) {
            *tenant = true;
        }
    }

    fn each(&self, kind: &str) -> impl Iterator<Item = (u16, &'a plimsoll_core::device::Device)> {
        (0_u16..).zip(&self.node.devices).filter(move |(_, device)| &*device.kind == kind)
    }
}
