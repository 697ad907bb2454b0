//! Reservations as rows.

use plimsoll_api::clause::WhyRow;
use plimsoll_api::rows::{ReservationEndedRow, ReservationRow, ReservationStatus, time};
use plimsoll_core::scheduler::Forecasts;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{self, DeskView, Ending, Reservation, ReservationId, ReservationState};

use super::super::{queue, slots};

/// Returns a reservation as a row.
pub(crate) fn row(
    desk: DeskView<'_>,
    reservation: &Reservation,
    forecasts: &mut Forecasts<'_>,
) -> ReservationRow {
    let now = forecasts.now();
    let slot = match &reservation.state {
        ReservationState::Seated { slot, .. } => desk.slot(slot),
        ReservationState::Pending | ReservationState::Ended { .. } => None,
    };
    let holding = slot.and_then(|slot| desk.holding(slot)).map(|(_, holding)| holding);
    let reason = desk.status_reason(reservation.id);
    ReservationRow {
        id: reservation.id.to_string(),
        model: reservation.model.clone(),
        status: status(desk, reservation.id),
        slot_id: slot.map(|slot| slot.id.to_string()),
        runner_id: holding.map(|holding| holding.node.to_string()),
        endpoint: slot.and_then(|slot| slot.life.endpoint.clone()),
        gpu_allocation: holding.and_then(|holding| slots::allocation_of(desk, holding)),
        reason: reason.as_ref().map(ToString::to_string).unwrap_or_default(),
        why: reason.map(|reason| WhyRow::new(&reason, now)).unwrap_or_default(),
        promised: slot.and_then(|slot| queue::promised(desk, &slot.request())),
        forecast: slot.and_then(|slot| queue::forecast(forecasts, &slot.request())),
        created: time(reservation.created),
        deadline: reservation.deadline.map(time),
        lease: reservation.lease,
        lease_expires: desk.lease_expiry(reservation.id).map(time),
        since: seated_at(&reservation.state).map(time),
        ended: ended_at(&reservation.state).map(time),
        namespace: reservation.client.as_ref().map(|client| client.namespace.clone()),
        name: reservation.client.as_ref().map(|client| client.name.clone()),
        key: reservation.key.as_ref().map(|key| key.text.clone()),
    }
}

/// Returns the status of a reservation.
pub(crate) fn status(desk: DeskView<'_>, id: ReservationId) -> ReservationStatus {
    match desk.reservation_status(id) {
        None | Some(desk::ReservationStatus::Pending) => ReservationStatus::Pending,
        Some(desk::ReservationStatus::Starting { .. }) => ReservationStatus::Starting,
        Some(desk::ReservationStatus::Ready { .. }) => ReservationStatus::Ready,
        Some(desk::ReservationStatus::Ended(ending)) => ended_status(&ending),
    }
}

/// Returns the status of a reservation that ended this way.
pub(crate) fn ended_status(ending: &Ending) -> ReservationStatus {
    match ending {
        Ending::Released => ReservationStatus::Released,
        Ending::Impossible { .. } | Ending::UnusableFile { .. } => ReservationStatus::Impossible,
        Ending::ModelRemoved => ReservationStatus::ModelRemoved,
        Ending::Expired { .. } => ReservationStatus::Expired,
        Ending::Lost(_) => ReservationStatus::Lost,
        Ending::LeaseExpired { .. } => ReservationStatus::LeaseExpired,
    }
}

/// Returns the event of a reservation that has ended; `None` before its end.
pub(crate) fn ended_row(reservation: &Reservation) -> Option<ReservationEndedRow> {
    let ReservationState::Ended { ending, at } = &reservation.state else { return None };
    Some(ReservationEndedRow {
        reservation_id: reservation.id.to_string(),
        model: reservation.model.clone(),
        namespace: reservation.client.as_ref().map(|client| client.namespace.clone()),
        name: reservation.client.as_ref().map(|client| client.name.clone()),
        created: time(reservation.created),
        ended: time(*at),
        status: ended_status(ending),
        reason: ending.to_string(),
    })
}

fn seated_at(state: &ReservationState) -> Option<Millis> {
    match state {
        ReservationState::Seated { since, .. } => Some(*since),
        ReservationState::Pending | ReservationState::Ended { .. } => None,
    }
}

fn ended_at(state: &ReservationState) -> Option<Millis> {
    match state {
        ReservationState::Ended { at, .. } => Some(*at),
        ReservationState::Pending | ReservationState::Seated { .. } => None,
    }
}
