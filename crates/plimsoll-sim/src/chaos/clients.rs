//! The clients, and the confirmations they received, which must hold after every crash.

use std::collections::BTreeMap;

use plimsoll_slots::desk::{DeskView, ReservationId, ReservationState};

use super::random::Random;

/// More than the reservations of any day.
const MAX_RESERVATIONS: usize = 100_000;

/// The last confirmation that a client received for a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    /// The server confirmed the reservation.
    Confirmed,
    /// The server confirmed its release.
    Released,
}

/// The reservations that were confirmed to clients.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    known: BTreeMap<ReservationId, Knowledge>,
    open: Vec<ReservationId>,
}

impl Clients {
    /// Takes the confirmation of a reservation; a repeated request confirms it again.
    pub(crate) fn confirm(&mut self, id: ReservationId) {
        if self.known.insert(id, Knowledge::Confirmed).is_none() {
            self.open.push(id);
        }
    }

    /// Takes the confirmation of a release.
    pub(crate) fn confirm_release(&mut self, id: ReservationId) {
        self.known.insert(id, Knowledge::Released);
        self.open.retain(|open| *open != id);
    }

    /// Returns a reservation to release.
    pub(crate) fn draw_open(&self, random: &mut Random) -> Option<ReservationId> {
        (!self.open.is_empty()).then(|| *random.pick(&self.open))
    }

    /// Describes a reservation whose state contradicts the confirmation that its client received.
    pub(crate) fn contradicted(&self, view: DeskView<'_>) -> Option<String> {
        let forgets_ended = view.config().ended_kept < MAX_RESERVATIONS;
        self.known.iter().find_map(|(id, known)| {
            let Some(reservation) = view.reservation(*id) else {
                return (!forgets_ended)
                    .then(|| format!("{id} was confirmed to its client and does not exist"));
            };
            let has_ended = matches!(reservation.state, ReservationState::Ended { .. });
            (*known == Knowledge::Released && !has_ended)
                .then(|| format!("{id} was released and has not ended"))
        })
    }
}
