//! The floating charges that can meet on one card, and the tokens of cards that the plugin chooses.
//!
//! Where the device plugin picks the card, a charge floats: it is on one of several cards, and
//! it is unknown on which. The plugin hands out tokens, `Device::slots` of them per card, and a
//! container is on the card of its token. So the charges on a card never need more tokens than it
//! has.
//!
//! Rule. On a card with `s` slots, of which charges on this known card hold `p`, at most
//! `t = s - p` floating charges with a token meet. The card's load is
//!
//! ```text
//! pinned + foreign + releasing + untokened + the t largest tokened charges that may be on the card
//! ```
//!
//! - A releasing charge may have given its token back already. It counts in full and takes no token
//!   from `t`; for the number of free tokens it still holds its own.
//! - A charge without slots (a share that takes no token of the plugin) counts in full.
//! - Containers that run at the same time have a token and a charge each. Where init containers
//!   have devices too, the pod has one charge for the peak of all: its containers can be on a card
//!   with fewer tokens than the charge has, so that it counts in full.
//! - A charge of one container with several slots counts as one token, which is too many charges
//!   rather than too few. The plugin may give one card to a container twice, so that a request for
//!   several different cards is rejected, and only observed work has such a charge.
//! - An undeclared charge has no bound, and closes every card that it may be on; a whole one leaves
//!   no room for a second charge, unless the card has a single token.
//! - Where more slots are pinned than a card has, its number of tokens is wrong, and all count.
//!
//! Safe: the tokened charges on a card in any assignment are at most `t` of those that may be
//! there, and the `t` largest are the largest sum of at most `t`. Exact, for charges with one token
//! that may be on the same cards: the tokens of the group hold all charges (`TokenGroup`), so that
//! with the `t` largest on one card, the tokens of the other cards hold the rest, and the plugin
//! may have picked exactly that. Where charges may be on different sets of cards, because a card
//! became healthy or unhealthy in between, the rest need not fit on the others, and the rule counts
//! too much rather than too little. `tests/core/tokens.rs` compares it with all assignments.
//!
//! A new charge of `b` bytes with a token adds `b - d`, where `d` is the `t`-th largest charge, or
//! nothing if there are fewer: `b` takes the place of `d` among the largest. The largest of several
//! new charges takes the place of the `t`-th largest, the next one that of the one before it, and
//! so on, and each adds what it has more. For the first container of a request `d` is the only
//! number that `fit` needs besides the sums; for further ones `DeviceRoom::added_by` lists the
//! charges (`Meetable`).

use crate::charge::Charge;
use crate::device::{Health, Node};
use crate::units::Bytes;

use super::{DeviceRoom, NodeRoom, Tenant};

/// The floating charges that count against one card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Meeting {
    /// The largest sum of floating charges that can meet on the card.
    pub bytes: Bytes,
    /// The part of a new charge with a token that takes the place of another charge.
    pub displaced: Bytes,
}

impl Meeting {
    /// Sums the floating charges that can meet on a card with this number of slots.
    pub(super) fn sum(slots: Option<u32>, usable: Option<Bytes>, tenants: &[Tenant]) -> Self {
        let meetable = Meetable::list(slots, tenants);
        let displaced = meetable.displaced_by(0).or(usable).unwrap_or(Bytes::ZERO);
        let bytes = meetable.largest.iter().fold(meetable.rest, |sum, next| sum.plus(*next));
        Meeting { bytes, displaced }
    }
}

/// The floating charges that can meet on one card, one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meetable {
    /// The number of charges with a token that can meet; `None` if all can.
    tokens: Option<usize>,
    /// The largest charges with a token, the largest first: at most `tokens`.
    largest: Vec<Bytes>,
    /// The sum of the charges without one.
    rest: Bytes,
}

impl Meetable {
    pub(super) fn list(slots: Option<u32>, tenants: &[Tenant]) -> Self {
        let staying = || tenants.iter().filter(|tenant| !tenant.stage.is_releasing());
        let pinned =
            staying().filter(|tenant| !tenant.floating).map(|tenant| u64::from(tenant.slots));
        let tokens = slots.and_then(|slots| u64::from(slots).checked_sub(pinned.sum()));
        let tokens = tokens.and_then(|tokens| usize::try_from(tokens).ok());
        let mut largest: Vec<Bytes> = Vec::new();
        let mut rest = Bytes::ZERO;
        for tenant in staying().filter(|tenant| tenant.floating) {
            let charged = tenant.bytes.unwrap_or(Bytes::ZERO);
            if tenant.tokened {
                largest.push(charged);
            } else {
                rest = rest.plus(charged);
            }
        }
        largest.sort_unstable_by(|one, other| other.cmp(one));
        largest.truncate(tokens.unwrap_or(largest.len()));
        Meetable { tokens, largest, rest }
    }

    /// Returns the charge whose place a new charge with a token takes. New charges are counted from
    /// the largest on; `None` if this one is not among those that can meet.
    pub(super) fn displaced_by(&self, index: usize) -> Option<Bytes> {
        let Some(tokens) = self.tokens else { return Some(Bytes::ZERO) };
        let at = tokens.checked_sub(index + 1)?;
        Some(self.largest.get(at).copied().unwrap_or(Bytes::ZERO))
    }
}

/// The cards of one kind among which the device plugin chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenGroup {
    /// Index into the node's sorted list of kinds.
    pub kind: u16,
    /// Slots of floating charges, each counted once.
    pub floating: u64,
}

/// The tokens of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupTokens {
    pub all: u32,
    pub free: u32,
}

impl TokenGroup {
    /// Counts the tokens of the healthy cards of a kind; `None` if a card does not limit them.
    ///
    /// Where the node reports a number of unhealthy cards without naming them, the cards with the
    /// most free tokens may be the unhealthy ones.
    pub(super) fn tokens<'a>(
        &self,
        node: &Node,
        cards: impl Iterator<Item = (usize, &'a DeviceRoom)>,
    ) -> Option<GroupTokens> {
        let mut by_card: Vec<(u64, u64)> = Vec::new();
        for (ordinal, room) in cards {
            let device = &node.devices[ordinal];
            if device.health == Health::Healthy {
                let slots = u64::from(device.slots?);
                let pinned = u64::from(room.slots.saturating_sub(room.floating_slots));
                by_card.push((slots.saturating_sub(pinned), slots));
            }
        }
        by_card.sort_unstable();
        by_card.truncate(by_card.len().saturating_sub(usize::from(node.missing_cards)));
        let (free, all) =
            by_card.iter().fold((0_u64, 0_u64), |sum, card| (sum.0 + card.0, sum.1 + card.1));
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Some(GroupTokens { all: narrow(all), free: narrow(free.saturating_sub(self.floating)) })
    }
}

impl NodeRoom {
    /// Adds the slots of a floating charge to its group, or removes them.
    pub(super) fn change_floating_slots(&mut self, charge: &Charge, change: fn(u64, u64) -> u64) {
        if !charge.floats() {
            return;
        }
        for group in &mut self.groups {
            let on_kind = |ordinal: &u16| {
                let input = self.fit_inputs.get(usize::from(*ordinal));
                input.is_some_and(|input| input.kind == group.kind)
            };
            if charge.on.iter().any(on_kind) {
                group.floating = change(group.floating, u64::from(charge.slots));
            }
        }
    }

    /// Gives every card of a group the tokens of the group. The plugin may hand out a token of any
    /// of them, and a token is used up for all.
    pub(super) fn refresh_groups(&mut self, node: &Node) {
        for group in &self.groups {
            let devices = &self.devices;
            let cards = self.fit_inputs.iter().enumerate().filter(|(_, i)| i.kind == group.kind);
            let tokens = group.tokens(node, cards.map(|(at, _)| (at, &*devices[at])));
            for input in self.fit_inputs.iter_mut().filter(|input| input.kind == group.kind) {
                input.slots = tokens.map(|tokens| tokens.all);
                input.slots_used = tokens.map_or(0, |tokens| tokens.all - tokens.free);
            }
        }
    }
}
