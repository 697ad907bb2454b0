//! Lookup of the cards of one node.

use plimsoll_core::device::{Device, Identity, Node, Sharing};

/// The cards of one node.
#[derive(Clone, Copy)]
pub(super) struct Cards<'a> {
    pub(super) node: &'a Node,
}

impl<'a> Cards<'a> {
    /// Lists the ordinals of a kind.
    pub(super) fn of_kind(self, kind: &str) -> Vec<u16> {
        self.each(kind).map(|(ordinal, _)| ordinal).collect()
    }

    /// Finds the ordinal of a device of this kind by its UUID.
    pub(super) fn by_uuid(self, kind: &str, uuid: &str) -> Option<u16> {
        let is_named =
            |identity: &Identity| matches!(identity, Identity::Uuid(known) if **known == *uuid);
        self.each(kind).find(|(_, device)| is_named(&device.identity)).map(|(ordinal, _)| ordinal)
    }

    /// Returns true if each card of this kind has one token, so that its holder has the whole card.
    pub(super) fn are_exclusive(self, kind: &str) -> bool {
        let mut cards = self.each(kind).peekable();
        cards.peek().is_some() && cards.all(|(_, device)| device.sharing == Sharing::Exclusive)
    }

    /// Returns true if a card of this kind is known by its ordinal only.
    pub(super) fn has_unnamed(self, kind: &str) -> bool {
        self.each(kind).any(|(_, device)| device.identity == Identity::Ordinal)
    }

    /// Iterates over the devices of a kind with their ordinals.
    pub(super) fn each(self, kind: &str) -> impl Iterator<Item = (u16, &'a Device)> {
        (0_u16..).zip(&self.node.devices).filter(move |(_, device)| &*device.kind == kind)
    }
}
