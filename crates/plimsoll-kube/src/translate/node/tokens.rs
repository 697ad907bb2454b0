//! The number of cards and of tokens per card, from labels, capacity and allocatable.
//!
//! Tokens are never cards. With one card their number only limits its tenants, so that a
//! contradiction is reported and changes nothing else. With several cards it decides how many cards
//! the labels describe, so that a contradiction makes the node's devices unknown.

use plimsoll_core::units::Name;

use crate::finding::{CountProblem, LabelProblem};
use crate::hami::capacity::MAX_DEVICES;
use crate::labels::Field;

use super::advertised::Advertised;
use super::notes::Notes;

/// The facts about the devices of one resource.
pub(super) struct CountFacts<'a> {
    pub(super) resource: &'a str,
    /// The number of devices, by label.
    pub(super) count: &'a Field<u64>,
    /// Tokens per device, by label.
    pub(super) replicas: &'a Field<u64>,
    /// True if other labels describe such devices, so that there must be some.
    pub(super) described: bool,
    pub(super) advertised: Advertised,
}

/// The number of devices and of their tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) cards: u16,
    /// Tokens per device.
    pub(super) tokens: u32,
    /// Unhealthy devices of which it is unknown which they are.
    pub(super) missing: u16,
}

impl CountFacts<'_> {
    /// Counts devices and tokens; `None` if unknown, which is reported.
    pub(super) fn count(&self, notes: &mut Notes) -> Option<Counted> {
        let cards = self.cards(notes)?;
        if cards == 0 {
            return Some(Counted::default());
        }
        let tokens = if cards == 1 {
            self.tokens_of_one(notes)?
        } else {
            self.tokens_of_each(cards, notes)?
        };
        let missing =
            missing(self.resource, u64::from(cards), tokens, self.advertised, notes).unwrap_or(0);
        Some(Counted { cards, tokens: u32::try_from(tokens).unwrap_or(u32::MAX), missing })
    }

    fn cards(&self, notes: &mut Notes) -> Option<u16> {
        let capacity = self.advertised.capacity.unwrap_or(0);
        match self.count {
            None if capacity == 0 && !self.described => Some(0),
            None => {
                let resource = self.resource();
                notes.add(LabelProblem::CountMissing { resource, advertised: capacity });
                None
            }
            Some(Err(error)) => {
                notes.add(LabelProblem::Unreadable(error.clone()));
                None
            }
            Some(Ok(0)) if capacity > 0 => {
                self.contradicts(0, 0, notes);
                None
            }
            Some(Ok(count)) if *count > MAX_DEVICES => {
                let resource = self.resource();
                notes.add(LabelProblem::CountTooLarge { resource, count: *count });
                None
            }
            Some(Ok(count)) => {
                Some(u16::try_from(*count).expect("more than MAX_DEVICES is rejected above"))
            }
        }
    }

    /// Determines the tokens of a single card. The kubelet hands out what is advertised, whatever
    /// the label says.
    fn tokens_of_one(&self, notes: &mut Notes) -> Option<u64> {
        let said = match self.replicas {
            Some(Ok(0)) => return self.cut_up(notes),
            Some(Ok(replicas)) => Some(*replicas),
            Some(Err(_)) | None => None,
        };
        let expected = said.unwrap_or(1);
        match self.advertised.capacity {
            None => Some(expected),
            Some(0) => self.contradicts(1, expected, notes),
            Some(advertised) if advertised == expected => Some(advertised),
            Some(advertised) => {
                notes.add(CountProblem::Replicas {
                    resource: self.resource(),
                    label: self.replicas.clone(),
                    replicas: expected,
                    advertised,
                });
                Some(advertised)
            }
        }
    }

    fn tokens_of_each(&self, cards: u16, notes: &mut Notes) -> Option<u64> {
        let said = match self.replicas {
            Some(Ok(0)) => return self.cut_up(notes),
            Some(Ok(replicas)) => *replicas,
            Some(Err(error)) => {
                notes.add(LabelProblem::Unreadable(error.clone()));
                return None;
            }
            None => 1,
        };
        let expected = u64::from(cards).saturating_mul(said);
        match self.advertised.capacity {
            Some(advertised) if advertised != expected => {
                self.contradicts(u64::from(cards), said, notes);
                // If fewer tokens are advertised than the labels imply, they are tokens of these
                // cards: the cards are kept, so that running pods can be audited. More can belong
                // to cards that the labels do not count.
                (said > 1 && advertised < expected).then_some(said)
            }
            _ => Some(said),
        }
    }

    fn contradicts(&self, cards: u64, replicas: u64, notes: &mut Notes) -> Option<u64> {
        notes.add(CountProblem::Cards {
            resource: self.resource(),
            count: cards,
            label: self.replicas.clone(),
            replicas,
            advertised: self.advertised.capacity.unwrap_or(0),
        });
        None
    }

    /// Reports cards that cannot be used whole, for which feature discovery writes 0 replicas.
    fn cut_up(&self, notes: &mut Notes) -> Option<u64> {
        notes.add(LabelProblem::CardsCut { resource: self.resource() });
        None
    }

    fn resource(&self) -> Name {
        self.resource.into()
    }
}

/// Counts unhealthy devices: the kubelet takes their tokens out of allocatable, and does not tell
/// which they are. `None` if the difference is no whole number of devices, which is reported.
pub(super) fn missing(
    resource: &str,
    cards: u64,
    tokens: u64,
    said: Advertised,
    notes: &mut Notes,
) -> Option<u16> {
    let (Some(capacity), Some(allocatable)) = (said.capacity, said.allocatable) else {
        return Some(0);
    };
    let resource = Name::from(resource);
    let gone = capacity.checked_sub(allocatable);
    let missing = gone.filter(|gone| tokens > 0 && gone.is_multiple_of(tokens));
    match missing.map(|gone| gone / tokens) {
        Some(0) => Some(0),
        Some(missing) => {
            notes.add(CountProblem::Unhealthy {
                resource,
                capacity,
                allocatable,
                tokens_per_card: tokens,
                missing,
                cards,
            });
            Some(u16::try_from(missing).unwrap_or(u16::MAX))
        }
        None => {
            notes.add(CountProblem::Allocatable {
                resource,
                capacity,
                allocatable,
                tokens_per_card: tokens,
            });
            None
        }
    }
}
