//! The charges of one request that can meet on a card that the device plugin picks.

use super::OwnUse;
use super::target::{MemoryNeed, Target};
use crate::request::Role;
use crate::room::DeviceRoom;
use crate::units::Bytes;

/// The charges of a request that can be on one card.
///
/// Containers that run at the same time have a token each, and any of them may be on the card. With
/// init containers the peak of all counts, as in the charge (`OwnUse::floating_charges`).
pub(super) struct OwnMeeting {
    /// The charges with a token, the largest first.
    tokened: Vec<Bytes>,
    /// The charge for the peak, or all charges without a token.
    rest: Bytes,
}

impl Target<'_> {
    /// Returns the charges of the request on this card, with the one of this need.
    pub(super) fn own_meeting(&self, need: MemoryNeed) -> OwnMeeting {
        let is_one = self.own.is_none();
        let is_concurrent = self.own.is_some_and(|own| own.floats_apart(need.role));
        if !is_one && !is_concurrent {
            return OwnMeeting { tokened: Vec::new(), rest: need.peak };
        }
        let own = self.own.into_iter().flat_map(|own| &own.parts);
        let own = own.map(|(_, part)| (part.bytes.unwrap_or(Bytes::ZERO), part.slots));
        let mut meeting = OwnMeeting { tokened: Vec::new(), rest: Bytes::ZERO };
        for (bytes, slots) in own.chain([(need.alone, need.slots)]) {
            if slots > 0 {
                meeting.tokened.push(bytes);
            } else {
                meeting.rest = meeting.rest.plus(bytes);
            }
        }
        meeting.tokened.sort_unstable_by(|one, other| other.cmp(one));
        meeting
    }
}

impl OwnUse {
    /// Returns true if another container of this role would have a floating charge of its own.
    fn floats_apart(&self, role: Role) -> bool {
        self.floating && role != Role::Init && self.peak.is_concurrent()
    }
}

impl OwnMeeting {
    /// Returns what the charges add to the most that can be on a card.
    pub(super) fn added(&self, room: &DeviceRoom) -> Bytes {
        room.added_by(&self.tokened, self.rest)
    }

    /// Returns the most that the charges can come to on a card without others.
    pub(super) fn on_empty_card(&self, slots: Option<u32>) -> Bytes {
        let most = slots.and_then(|slots| usize::try_from(slots).ok()).unwrap_or(usize::MAX);
        self.tokened.iter().take(most).fold(self.rest, |sum, next| sum.plus(*next))
    }

    pub(super) fn has_tokens(&self) -> bool {
        !self.tokened.is_empty()
    }
}
