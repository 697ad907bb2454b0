//! Which card a share of KAI is on: its reservation pods know. They hold nothing themselves.

use std::collections::BTreeMap;

use crate::kai::{self, Reservation};
use crate::object::Pod;

use super::cards::Cards;
use super::claim::{Claim, Held, Place, asked_of};
use super::notes::Notes;

/// The UUIDs that reservation pods have learnt, by node and group.
pub(super) struct Reserved(BTreeMap<(String, String), Option<String>>);

impl Reserved {
    /// What these reservation pods say.
    pub(super) fn of(reservations: &[Reservation]) -> Reserved {
        let mut learnt: BTreeMap<_, Option<String>> = BTreeMap::new();
        for one in reservations {
            if let (Some(node), Some(group)) = (&one.node, &one.group) {
                let uuid = learnt.entry((node.clone(), group.clone())).or_default();
                *uuid = uuid.take().or_else(|| one.uuid.clone());
            }
        }
        Reserved(learnt)
    }

    /// Puts the shares of a pod on the cards of its groups, one each.
    pub(super) fn add(
        &self,
        pod: &Pod,
        cards: &Cards<'_>,
        claims: &mut [Claim],
        notes: &mut Notes<'_>,
    ) {
        let groups = kai::gpu_groups(&pod.metadata.labels);
        let shares = claims.iter_mut().filter(|claim| claim.slots == 0);
        for (claim, group) in shares.zip(groups.iter().map(Some).chain(std::iter::repeat(None))) {
            claim.place = match group {
                Some(group) => self.place(group, claim, cards, notes),
                None => Place::Somewhere,
            };
        }
    }

    fn place(&self, group: &str, claim: &Claim, cards: &Cards<'_>, notes: &mut Notes<'_>) -> Place {
        let key = (cards.node.name.to_string(), group.to_owned());
        let uuid = self.0.get(&key).and_then(Option::as_ref);
        let called = uuid.and_then(|uuid| cards.called(&claim.kind, uuid));
        match (uuid, called) {
            (_, Some(ordinal)) => Place::On(ordinal),
            // The UUID is true, and which ordinal it has does not matter: the same one for all who share it.
            (Some(uuid), None) if cards.unnamed(&claim.kind) => {
                Place::Card { name: uuid.clone(), unnamed_only: true }
            }
            (Some(uuid), None) => {
                let device = cards.node.devices.iter().find(|device| device.kind == claim.kind);
                let held =
                    device.zip(claim.asked.as_ref()).map(|(device, need)| asked_of(need, device));
                let bytes =
                    if let Some(Held::Share(bytes)) = held { bytes } else { Default::default() };
                notes.unknown_device("the reservation pod of its group", uuid, bytes);
                Place::Somewhere
            }
            // A group has a card to itself where each card has one token.
            (None, None) if cards.exclusive(&claim.kind) => {
                Place::Card { name: group.to_owned(), unnamed_only: false }
            }
            (None, None) => Place::Somewhere,
        }
    }
}
