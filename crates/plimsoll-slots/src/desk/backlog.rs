//! The backlog: the number of pending reservations, in total and by namespace, and its limits.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use plimsoll_core::units::Name;

use super::reservation::{NewReservation, Reservation, ReservationState, ReserveError};
use super::slots::SlotStage;

/// The limits on pending reservations: those that no slot with GPUs has room for yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingLimits {
    pub total: NonZeroU32,
    /// The limit of each namespace. Clients that name none share one.
    pub per_namespace: NonZeroU32,
}

impl PendingLimits {
    /// The limits of a server that configures none.
    pub const DEFAULT: PendingLimits = PendingLimits {
        total: NonZeroU32::new(10_000).expect("more than none"),
        per_namespace: NonZeroU32::new(2_000).expect("more than none"),
    };
}

/// The limit that a request would exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingLimit {
    Total,
    /// That of one namespace; `None` for the clients that name none.
    Namespace(Option<String>),
}

impl PendingLimit {
    /// All names that `name` returns.
    pub const NAMES: [&str; 2] = ["total", "namespace"];

    /// Returns its name in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            PendingLimit::Total => "total",
            PendingLimit::Namespace(_) => "namespace",
        }
    }
}

/// The pending reservations, counted as they change: at every request the limits are checked, and
/// the queue may have thousands of entries. None of it is journalled.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog {
    total: u32,
    by_namespace: BTreeMap<Option<String>, u32>,
    /// The slots that are pending in the core. A reservation in one of them is pending too.
    pending_slots: BTreeSet<Name>,
}

impl Backlog {
    /// Checks that one more reservation may become pending.
    pub(super) fn check(
        &self,
        new: &NewReservation,
        limits: PendingLimits,
    ) -> Result<(), ReserveError> {
        let namespace = new.client.as_ref().map(|client| client.namespace.clone());
        let limits = [
            (
                self.of_namespace(&namespace),
                limits.per_namespace,
                PendingLimit::Namespace(namespace),
            ),
            (self.total, limits.total, PendingLimit::Total),
        ];
        for (pending, most, limit) in limits {
            if pending >= most.get() {
                return Err(ReserveError::TooManyPending { limit, most });
            }
        }
        Ok(())
    }

    pub(super) fn of_namespace(&self, namespace: &Option<String>) -> u32 {
        self.by_namespace.get(namespace).copied().unwrap_or(0)
    }

    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// Counts a reservation, if it is pending.
    pub(super) fn add(&mut self, reservation: &Reservation) {
        if self.is_pending(reservation) {
            self.total += 1;
            *self.by_namespace.entry(namespace(reservation)).or_default() += 1;
        }
    }

    /// Counts a reservation no longer, if it was pending.
    pub(super) fn remove(&mut self, reservation: &Reservation) {
        if !self.is_pending(reservation) {
            return;
        }
        self.total -= 1;
        let namespace = namespace(reservation);
        if let Some(count) = self.by_namespace.get_mut(&namespace) {
            *count -= 1;
            if *count == 0 {
                self.by_namespace.remove(&namespace);
            }
        }
    }

    /// Notes the stage of a slot, in which these reservations are; `None` if it is gone.
    pub(super) fn note_stage<'a>(
        &mut self,
        slot: &Name,
        stage: Option<SlotStage>,
        inside: impl Iterator<Item = &'a Reservation> + Clone,
    ) {
        let is_pending = stage == Some(SlotStage::Pending);
        if is_pending == self.pending_slots.contains(slot) {
            return;
        }
        inside.clone().for_each(|reservation| self.remove(reservation));
        match is_pending {
            true => self.pending_slots.insert(slot.clone()),
            false => self.pending_slots.remove(slot),
        };
        inside.for_each(|reservation| self.add(reservation));
    }

    fn is_pending(&self, reservation: &Reservation) -> bool {
        match &reservation.state {
            ReservationState::Pending => true,
            ReservationState::Seated { slot, .. } => self.pending_slots.contains(slot),
            ReservationState::Ended { .. } => false,
        }
    }
}

fn namespace(reservation: &Reservation) -> Option<String> {
    reservation.client.as_ref().map(|client| client.namespace.clone())
}
