//! Assigns cards to the tenants of one node where nothing names the card of each.
//!
//! On cards with one token each, a holder has a card of its own; so has a group of KAI. It is
//! unknown which card that is, and for the sums any free ordinal is as good as another, as long as
//! each tenant gets a different one. Elsewhere an annotation names the card, or the charge counts
//! against each of several.
//!
//! All tenants of a node are seated together, in three passes, each in order of creation: tenants
//! whose card is named, tenants that share a card with their group, tenants that have a card of
//! their own. Named cards come first, so that no tenant is assumed to be on a card that another one
//! is known to be on. The order of creation makes the result a function of the pods alone: the
//! order in which a watch delivers them does not matter, and a new pod does not move the others. A
//! pod that ends may move those created after it. Remembering earlier seats would avoid that, but
//! then two programs that watch the same cluster could disagree, and a restart would change the
//! ledger.
//!
//! Each pass visits each claim once and searches the first free card: at most claims times cards
//! steps per node.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::device::{Health, Identity};
use plimsoll_core::request::Role;
use plimsoll_core::units::Name;

use super::cards::Cards;
use super::claim::{Assignment, CardSet, Claim};

/// The ordinal of each claim of a pod, in the order of its claims; `None` where the card is one of
/// several.
pub(in crate::translate) type Seats = Vec<Option<u16>>;

/// Seats the claims of all tenants of a node, which are in order of creation.
pub(super) fn seat(cards: Cards<'_>, tenants: &mut [Vec<Claim>]) {
    let mut seating = Seating { cards, taken: BTreeSet::new(), groups: BTreeMap::new() };
    tenants.iter().for_each(|claims| seating.seat_named(claims));
    tenants.iter_mut().for_each(|claims| seating.seat_groups(claims));
    tenants.iter_mut().for_each(|claims| seating.seat_alone(claims));
}

/// The cards of a node while its tenants are seated.
struct Seating<'a> {
    cards: Cards<'a>,
    taken: BTreeSet<u16>,
    /// The card of each group, and of each reserved UUID.
    groups: BTreeMap<String, u16>,
}

impl Seating<'_> {
    fn seat_named(&mut self, claims: &[Claim]) {
        for claim in claims {
            if let Assignment::Card(ordinal) = claim.assignment {
                self.taken.insert(ordinal);
            }
        }
    }

    fn seat_groups(&mut self, claims: &mut [Claim]) {
        for claim in claims {
            let Assignment::Shared { name, among } = &claim.assignment else { continue };
            let known = self.groups.get(name).copied();
            let card = known.or_else(|| self.first_free(&claim.kind, *among));
            if let Some(ordinal) = card {
                self.groups.insert(name.clone(), ordinal);
                self.taken.insert(ordinal);
            }
            claim.assignment = card.map_or(Assignment::Unknown, Assignment::Card);
        }
    }

    /// Seats claims that have a card of their own. As in the kubelet, the cards of an init
    /// container that ended are handed on to the containers after it.
    fn seat_alone(&mut self, claims: &mut [Claim]) {
        let mut handed_on: BTreeMap<Name, Vec<u16>> = BTreeMap::new();
        let mut of_init: Vec<(usize, Name, u16)> = Vec::new();
        for claim in claims.iter_mut().filter(|claim| claim.assignment == Assignment::Own) {
            let ended = of_init.extract_if(.., |(container, ..)| *container != claim.container);
            for (_, kind, ordinal) in ended {
                handed_on.entry(kind).or_default().push(ordinal);
            }
            let reused = handed_on
                .get_mut(&claim.kind)
                .and_then(|cards| (!cards.is_empty()).then(|| cards.remove(0)));
            let card = reused.or_else(|| self.first_free(&claim.kind, CardSet::All));
            if let Some(ordinal) = card {
                self.taken.insert(ordinal);
                if claim.role == Role::Init {
                    of_init.push((claim.container, claim.kind.clone(), ordinal));
                }
            }
            claim.assignment = card.map_or(Assignment::Unknown, Assignment::Card);
        }
    }

    /// Finds a card without tenants, a healthy one if there is one, by ordinal.
    fn first_free(&self, kind: &str, among: CardSet) -> Option<u16> {
        let free = self.cards.each(kind).filter(|(ordinal, device)| {
            let allowed = among == CardSet::All || device.identity == Identity::Ordinal;
            allowed && !self.taken.contains(ordinal)
        });
        free.min_by_key(|(ordinal, device)| (device.health != Health::Healthy, *ordinal))
            .map(|(ordinal, _)| ordinal)
    }
}
