//! The leases of clients, followed apart from the desk: a reservation ends when its client has
//! vanished, and not before.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{DeskView, Ending, Reservation, ReservationId, ReservationState};
use plimsoll_slots::lease::Lease;

/// The signs of life of clients, and the times at which the server could act on them. All times
/// are those of the server.
#[derive(Debug, Default)]
pub(crate) struct LeaseWatch {
    signs: BTreeMap<ReservationId, Millis>,
    started: Millis,
    ticks: Option<Ticks>,
    expired: BTreeSet<ReservationId>,
}

/// The first and the last tick since the server started.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    first: Millis,
    last: Millis,
}

impl LeaseWatch {
    /// Takes a renewal.
    pub(crate) fn on_sign(&mut self, id: ReservationId, now: Millis) {
        self.signs.insert(id, now);
    }

    pub(crate) fn on_start(&mut self, now: Millis) {
        (self.started, self.ticks) = (now, None);
    }

    pub(crate) fn on_tick(&mut self, now: Millis) {
        let first = self.ticks.map_or(now, |ticks| ticks.first);
        self.ticks = Some(Ticks { first, last: now });
    }

    /// Counts the leases that have expired since the last call.
    pub(crate) fn newly_expired(&mut self, view: DeskView<'_>) -> usize {
        let before = self.expired.len();
        let expired = view.reservations().filter(|one| expired_at(one).is_some());
        self.expired.extend(expired.map(|reservation| reservation.id));
        self.expired.len() - before
    }

    /// Returns a reservation that ended before its lease did, or that outlived it.
    pub(crate) fn contradicted(&self, view: DeskView<'_>) -> Option<String> {
        view.reservations().find_map(|reservation| {
            let Lease::For(lease) = reservation.lease else { return None };
            let id = reservation.id;
            let sign = self.signs.get(&id).copied().unwrap_or_default().max(reservation.created);
            let is_over = |from: Millis, now: Millis| from.after(lease.into()) <= now;
            match (&reservation.state, expired_at(reservation)) {
                // A start after the end gave this reservation nothing.
                (_, Some(at)) => {
                    let from = if self.started <= at { sign.max(self.started) } else { sign };
                    (!is_over(from, at))
                        .then(|| format!("the lease of {id} expired before its {lease} were over"))
                }
                (ReservationState::Ended { .. }, None) => None,
                // It is expired by a tick, and its lease starts again with the first one.
                _ => self
                    .ticks
                    .filter(|ticks| is_over(sign.max(ticks.first), ticks.last))
                    .map(|_| format!("{id} has outlived its lease of {lease} without a renewal")),
            }
        })
    }
}

fn expired_at(reservation: &Reservation) -> Option<Millis> {
    match reservation.state {
        ReservationState::Ended { ending: Ending::LeaseExpired { .. }, at } => Some(at),
        _ => None,
    }
}
