//! An independent model of the ledger: plain maps, in whole GiB, summed on demand.
//!
//! It knows only shares of single devices. That is enough to predict for every verb whether the
//! ledger accepts it, and every sum that the ledger reports afterwards, without using any code of
//! the core.

use std::collections::BTreeMap;

/// Usable memory of each device.
pub(crate) const DEVICE_GIB: u64 = 16;

/// A device: the index of its node and its ordinal.
pub(crate) type Card = (usize, u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Offered { until: u64 },
    Queued,
    Sent,
    Running,
    Releasing,
}

impl Life {
    pub(crate) fn is_before_start(self) -> bool {
        matches!(self, Life::Offered { .. } | Life::Queued)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) card: Card,
    pub(crate) gib: u64,
    pub(crate) life: Life,
    /// Placed by the ledger, not only observed.
    pub(crate) placed: bool,
}

/// Sums of one device.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) held: u64,
    pub(crate) releasing: u64,
    pub(crate) foreign: u64,
    pub(crate) promised: u64,
    pub(crate) free: u64,
    pub(crate) open: u64,
    pub(crate) tenants: usize,
}

/// Requests and promises are keyed by a number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) held: BTreeMap<u8, Held>,
    pub(crate) promised: BTreeMap<u8, (Card, u64)>,
    pub(crate) foreign: BTreeMap<Card, u64>,
}

impl Model {
    pub(crate) fn sums(&self, card: Card) -> Sums {
        let tenants = || self.held.values().filter(|held| held.card == card);
        let all: u64 = tenants().map(|held| held.gib).sum();
        let releasing: u64 =
            tenants().filter(|held| held.life == Life::Releasing).map(|held| held.gib).sum();
        let promises = self.promised.values().filter(|(promised, _)| *promised == card);
        let promised: u64 = promises.map(|(_, gib)| gib).sum();
        let foreign = self.foreign.get(&card).copied().unwrap_or(0);
        let free = DEVICE_GIB.saturating_sub(all + foreign);
        let after_releases =
            DEVICE_GIB.saturating_sub(all - releasing + foreign).saturating_sub(promised);
        let open = if promised == 0 { free } else { free.min(after_releases) };
        let held = all - releasing;
        Sums { held, releasing, foreign, promised, free, open, tenants: tenants().count() }
    }

    /// Predicts a commit: only a holding that has not started may be replaced, and the need must
    /// fit without the request's own holding and promise.
    pub(crate) fn hold(&mut self, request: u8, card: Card, gib: u64, life: Life) -> bool {
        if self.held.get(&request).is_some_and(|own| !own.life.is_before_start()) {
            return false;
        }
        let mut without = self.clone();
        without.held.remove(&request);
        without.promised.remove(&request);
        let fits = gib <= without.sums(card).open;
        if fits {
            *self = without;
            self.held.insert(request, Held { card, gib, life, placed: true });
        }
        fits
    }

    /// Predicts an observation. It is never rejected and does not lower a charge that was placed.
    pub(crate) fn observe(&mut self, request: u8, card: Card, gib: u64) {
        self.promised.remove(&request);
        let own = self.held.get(&request).filter(|own| own.placed && own.card.0 == card.0);
        let booked = own.filter(|own| own.card == card).map_or(0, |own| own.gib);
        let seen = Held { card, gib: gib.max(booked), life: Life::Running, placed: own.is_some() };
        self.held.insert(request, seen);
    }

    /// Predicts a change of stage that is allowed from some stages only.
    pub(crate) fn restage(&mut self, request: u8, from: fn(Life) -> bool, to: Life) -> bool {
        match self.held.get_mut(&request).filter(|held| from(held.life)) {
            Some(held) => {
                held.life = to;
                true
            }
            None => false,
        }
    }

    /// Predicts the end of a holding that is allowed from some stages only.
    pub(crate) fn end(&mut self, request: u8, from: fn(Life) -> bool) -> bool {
        let ends = self.held.get(&request).is_some_and(|held| from(held.life));
        if ends {
            self.held.remove(&request);
        }
        ends
    }

    pub(crate) fn expire(&mut self, now: u64) {
        self.held.retain(|_, held| !matches!(held.life, Life::Offered { until } if until <= now));
    }

    pub(crate) fn raise(&mut self, request: u8, ordinal: u16, gib: u64) -> bool {
        let Some(held) = self.held.get_mut(&request) else { return false };
        if held.card.1 == ordinal {
            held.gib = held.gib.max(gib);
        }
        true
    }

    /// Returns bytes in GiB and the number of holdings of all requests, which share one account.
    pub(crate) fn account(&self) -> (u64, usize) {
        (self.held.values().map(|held| held.gib).sum(), self.held.len())
    }
}
