//! The rules between the devices of one need: their number, their NUMA node, who picks them.

use super::Trial;
use crate::reason::Reason;
use crate::request::Need;

impl Trial<'_> {
    /// Returns why a device that fits alone cannot serve a need together with others. `fitting` are
    /// the devices that fit alone; no set of them obeys the rules.
    pub(crate) fn set_reason(&self, need: &Need, fitting: &[u16], ordinal: u16) -> Reason {
        let wanted = need.count.get();
        if self.node.floats(&need.kind) {
            return match wanted {
                1 => Reason::ChoiceNotOwned,
                _ => Reason::ChoiceNotDistinct { wanted },
            };
        }
        if need.selector.one_numa && wanted > 1 {
            let numa = self.numa(ordinal);
            let beside = fitting.iter().filter(|other| self.numa(**other) == numa).count();
            return Reason::NumaNotFit { fitting: narrow(beside), wanted };
        }
        if self.spare.is_some() && fitting.len() >= usize::from(wanted) {
            return Reason::SomeCardFaulty { bookable: self.bookable() };
        }
        Reason::TooFew { fitting: narrow(fitting.len()), wanted }
    }

    pub(super) fn numa(&self, ordinal: u16) -> Option<u16> {
        self.node.devices.get(usize::from(ordinal)).and_then(|device| device.numa)
    }

    /// Returns the number of cards that may be in use at once.
    pub(super) fn bookable(&self) -> u16 {
        let missing = usize::from(self.node.missing_cards);
        narrow(self.node.devices.len().saturating_sub(missing))
    }
}

fn narrow(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}
