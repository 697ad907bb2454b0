//! The number of cards and of tokens per card, from labels, capacity and allocatable.
//!
//! Tokens are never cards. With one card their number only limits its tenants, so that a
//! contradiction is reported and changes nothing else. With several cards it decides how many cards
//! the labels describe, so that a contradiction makes the node's devices unknown.

use crate::declared::DEVICES;
use crate::hami::capacity::MAX_DEVICES;
use crate::labels::Field;

use super::advertised::Advertised;
use super::notes::{Note, Notes};

/// The facts about the devices of one resource.
pub(super) struct Claim<'a> {
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

impl Claim<'_> {
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
        let label = self.label("count");
        match self.count {
            None if capacity == 0 && !self.described => Some(0),
            None => {
                let advertises = match capacity {
                    0 => "labels describe its devices".to_owned(),
                    _ => format!(
                        "{capacity} of {} are advertised, which may be shares of fewer cards",
                        self.resource
                    ),
                };
                let message = format!(
                    "label {label} is missing: how many devices there are is unknown; {advertises}"
                );
                let remedy = format!(
                    "run NVIDIA's GPU feature discovery on this node, or declare its devices in annotation {DEVICES}"
                );
                notes.close(
                    Note::warning("count-label-missing", message)
                        .with([("advertised", capacity)])
                        .remedy(remedy),
                );
                None
            }
            Some(Err(error)) => {
                let note = Note::error("label-unreadable", error.to_string());
                notes.close(note.remedy(format!(
                    "correct the label, or declare the devices in annotation {DEVICES}"
                )));
                None
            }
            Some(Ok(0)) if capacity > 0 => {
                self.contradicts(0, 0, notes);
                None
            }
            Some(Ok(count)) if *count > MAX_DEVICES => {
                let message = format!(
                    "label {label} is {count}, and no node has more than {MAX_DEVICES} devices"
                );
                notes.close(
                    Note::error("too-many-devices", message)
                        .with([("count", *count)])
                        .remedy("correct the label"),
                );
                None
            }
            Some(Ok(count)) => {
                Some(u16::try_from(*count).expect("at most 1024 devices were let through"))
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
                let message = format!(
                    "{}, and {advertised} of {} are advertised for one card; tokens are not capacity, so that this card \
                     counts once all the same",
                    self.replicas_in_words(),
                    self.resource
                );
                let numbers = [("count", 1), ("replicas", expected), ("advertised", advertised)];
                let remedy = "restart feature discovery, so that its labels follow the device plugin's configuration";
                notes.add(
                    Note::warning("replicas-contradict", message).with(numbers).remedy(remedy),
                );
                Some(advertised)
            }
        }
    }

    fn tokens_of_each(&self, cards: u16, notes: &mut Notes) -> Option<u64> {
        let said = match self.replicas {
            Some(Ok(0)) => return self.cut_up(notes),
            Some(Ok(replicas)) => *replicas,
            Some(Err(error)) => {
                let note = Note::error("label-unreadable", error.to_string());
                notes.close(note.remedy(format!(
                    "correct the label, or declare the devices in annotation {DEVICES}"
                )));
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
        let advertised = self.advertised.capacity.unwrap_or(0);
        let cause = match advertised {
            0 => "the device plugin may not be running",
            _ => {
                "cards of different models in one node, which labels cannot describe, are a likely cause"
            }
        };
        let message = format!(
            "label {} is {cards} and {}, which makes {}, but {advertised} of {} are advertised; {cause}",
            self.label("count"),
            self.replicas_in_words(),
            cards.saturating_mul(replicas),
            self.resource,
        );
        let remedy = format!(
            "declare the devices of this node in annotation {DEVICES}, or use HAMi's register"
        );
        let numbers = [("count", cards), ("replicas", replicas), ("advertised", advertised)];
        notes.close(Note::warning("capacity-contradiction", message).with(numbers).remedy(remedy));
        None
    }

    /// Reports cards that cannot be used whole, for which feature discovery writes 0 replicas.
    fn cut_up(&self, notes: &mut Notes) -> Option<u64> {
        let message = format!(
            "label {} is 0: these cards are cut by MIG in a way that the labels do not describe",
            self.label("replicas")
        );
        let remedy = format!(
            "correct the MIG layout of this node, or declare its devices in annotation {DEVICES}"
        );
        notes.close(Note::warning("mig-invalid", message).remedy(remedy));
        None
    }

    fn replicas_in_words(&self) -> String {
        let label = self.label("replicas");
        match self.replicas {
            Some(Ok(replicas)) => format!("label {label} is {replicas}"),
            Some(Err(error)) => error.to_string(),
            None => format!("label {label} is missing"),
        }
    }

    fn label(&self, property: &str) -> String {
        format!("{}.{property}", self.resource)
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
    let numbers =
        [("capacity", capacity), ("allocatable", allocatable), ("tokens_per_card", tokens)];
    let gone = capacity.checked_sub(allocatable);
    match gone.filter(|gone| tokens > 0 && gone.is_multiple_of(tokens)).map(|gone| gone / tokens) {
        Some(0) => Some(0),
        Some(missing) => {
            let message = format!(
                "{allocatable} of {capacity} {resource} are allocatable: {missing} of {cards} cards are unhealthy, and \
                 nobody says which"
            );
            let note = Note::remark("cards-unhealthy", message).with(numbers);
            notes.add(note.remedy(
                "see the device plugin's log for the cards that it took out, and repair them",
            ));
            Some(u16::try_from(missing).unwrap_or(u16::MAX))
        }
        None => {
            let message = format!(
                "{allocatable} of {capacity} {resource} are allocatable, and the difference is no whole number of cards of \
                 {tokens} each"
            );
            let note = Note::warning("allocatable-contradiction", message).with(numbers);
            notes.close(note.remedy(
                "restart the device plugin on this node, and see its log for unhealthy devices",
            ));
            None
        }
    }
}
