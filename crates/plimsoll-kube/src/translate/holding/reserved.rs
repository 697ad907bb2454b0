//! The cards of KAI's shares, which KAI's reservation pods name.

use std::collections::BTreeMap;

use plimsoll_core::units::Bytes;

use crate::finding::GivenBy;
use crate::kai::{self, Reservation};
use crate::object::Pod;

use super::cards::Cards;
use super::claim::{Assignment, CardSet, Claim, Held, held_by_need};
use super::findings::Findings;

/// The UUIDs that the reservation pods of one node have reported, by group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::translate) struct Reserved(BTreeMap<String, String>);

impl Reserved {
    /// Collects the UUIDs of these reservation pods. The first one of a group counts.
    pub(in crate::translate) fn from_pods<'a>(
        reservations: impl Iterator<Item = &'a Reservation>,
    ) -> Reserved {
        let mut learnt = BTreeMap::new();
        for one in reservations {
            if let (Some(group), Some(uuid)) = (&one.group, &one.uuid) {
                learnt.entry(group.clone()).or_insert_with(|| uuid.clone());
            }
        }
        Reserved(learnt)
    }

    /// Lists the groups whose UUID differs.
    pub(in crate::translate) fn changed<'a>(
        &'a self,
        other: &'a Reserved,
    ) -> impl Iterator<Item = &'a str> {
        let groups = self.0.keys().chain(other.0.keys());
        groups.filter(|group| self.0.get(*group) != other.0.get(*group)).map(String::as_str)
    }

    /// Assigns the shares of a pod to the cards of its groups, one each.
    pub(super) fn place_shares(
        &self,
        pod: &Pod,
        cards: Cards<'_>,
        claims: &mut [Claim],
        findings: &mut Findings<'_>,
    ) {
        let groups = kai::gpu_groups(&pod.metadata.labels);
        let shares = claims.iter_mut().filter(|claim| claim.slots == 0);
        for (claim, group) in shares.zip(groups.iter().map(Some).chain(std::iter::repeat(None))) {
            claim.assignment = match group {
                Some(group) => self.place(group, claim, cards, findings),
                None => Assignment::Unknown,
            };
        }
    }

    fn place(
        &self,
        group: &str,
        claim: &Claim,
        cards: Cards<'_>,
        findings: &mut Findings<'_>,
    ) -> Assignment {
        let Some(uuid) = self.0.get(group) else {
            // A group has a card of its own where each card has one token.
            return if cards.are_exclusive(&claim.kind) {
                Assignment::Shared { name: group.to_owned(), among: CardSet::All }
            } else {
                Assignment::Unknown
            };
        };
        if let Some(ordinal) = cards.by_uuid(&claim.kind, uuid) {
            return Assignment::Card(ordinal);
        }
        // The UUID is valid although the node does not list it. Its ordinal does not matter, as
        // long as all pods on this card get the same one.
        if cards.has_unnamed(&claim.kind) {
            return Assignment::Shared { name: uuid.clone(), among: CardSet::Unnamed };
        }
        let device = cards.each(&claim.kind).next();
        let held =
            device.zip(claim.need.as_ref()).map(|((_, device), need)| held_by_need(need, device));
        let bytes = if let Some(Held::Share(bytes)) = held { bytes } else { Bytes::ZERO };
        findings.unknown_device(GivenBy::ReservationPod, uuid, bytes);
        Assignment::Unknown
    }
}
