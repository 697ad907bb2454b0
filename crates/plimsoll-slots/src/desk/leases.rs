//! The leases of reservations: a reservation belongs to a living client, which renews its lease.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::front::Core;
use plimsoll_core::units::Millis;

use super::Desk;
use super::reservation::{Ending, ReservationId, ReservationState};
use crate::lease::Lease;

/// An error of [`Desk::renew`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenewError {
    #[error("there is no such reservation")]
    Unknown,
    #[error("the reservation has ended")]
    Ended,
}

impl Desk {
    /// Renews the lease of a reservation: its client is alive now.
    ///
    /// A renewal is not journalled, because a client repeats it for as long as it lives and each
    /// would cost a write to the disk. In return, a restart gives every client one full lease.
    pub fn renew(&mut self, core: &Core<'_>, id: ReservationId) -> Result<(), RenewError> {
        let reservation = self.reservations.get(id).ok_or(RenewError::Unknown)?;
        match reservation.state {
            ReservationState::Ended { .. } => Err(RenewError::Ended),
            ReservationState::Pending | ReservationState::Seated { .. } => {
                self.reservations.renew(id, core.now());
                Ok(())
            }
        }
    }

    /// Ends the reservations whose clients have not renewed their lease in time.
    pub(super) fn expire_leases(&mut self, core: &mut Core<'_>) {
        self.reservations.start_missing_leases(core.now());
        for id in self.reservations.with_expired_lease(core.now()) {
            let lease = self.reservations.get(id).map(|reservation| reservation.lease);
            if let Some(Lease::For(lease)) = lease {
                self.end_reservation(core, id, Ending::LeaseExpired { lease });
            }
        }
    }
}

/// The expiry of every lease that runs. It is not journalled.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    by_id: BTreeMap<ReservationId, Millis>,
    by_time: BTreeSet<(Millis, ReservationId)>,
    /// True once the reservations that recovery restored have a running lease.
    has_started: bool,
}

impl Leases {
    /// Starts a lease, or starts it again.
    pub(super) fn start(&mut self, id: ReservationId, lease: Lease, now: Millis) {
        self.end(id);
        if let Lease::For(span) = lease {
            let expiry = now.after(span.into());
            self.by_id.insert(id, expiry);
            self.by_time.insert((expiry, id));
        }
    }

    pub(super) fn end(&mut self, id: ReservationId) {
        if let Some(expiry) = self.by_id.remove(&id) {
            self.by_time.remove(&(expiry, id));
        }
    }

    /// Starts the leases of reservations that recovery restored, at the first call after it: a
    /// restart gives every client one full lease. A server that was down must not punish clients
    /// that could not reach it.
    pub(super) fn start_missing(
        &mut self,
        open: impl Iterator<Item = (ReservationId, Lease)>,
        now: Millis,
    ) {
        if std::mem::replace(&mut self.has_started, true) {
            return;
        }
        for (id, lease) in open {
            if !self.by_id.contains_key(&id) {
                self.start(id, lease, now);
            }
        }
    }

    /// Returns the time at which a lease expires; `None` if it is off.
    pub(super) fn expiry(&self, id: ReservationId) -> Option<Millis> {
        self.by_id.get(&id).copied()
    }

    pub(super) fn expired(&self, now: Millis) -> Vec<ReservationId> {
        let expired = self.by_time.iter().take_while(|(expiry, _)| *expiry <= now);
        expired.map(|(_, id)| *id).collect()
    }
}
