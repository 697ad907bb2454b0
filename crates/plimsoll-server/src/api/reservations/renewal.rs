//! Renewals of leases: by request, and while a client waits.

use axum::Json;
use axum::extract::{Path, State};
use plimsoll_api::rows::{ProblemRow, ReservationRow};
use plimsoll_slots::desk::ReservationId;
use plimsoll_slots::lease::Lease;
use tokio::time::{Duration, Instant};

use super::super::problem::{Answer, Problem};
use super::super::state::AppState;
use super::{ended, row};

/// Renews the lease of a reservation
#[utoipa::path(post, path = "/api/v1/scheduler/reservations/{id}/renew", operation_id = "renew_reservation", tag = "scheduler",
params(("id" = String, Path, description = "A reservation (`reservation-12`)")), responses(
    (status = 200, description = "The reservation with its new expiry", body = ReservationRow),
    (status = 404, description = "No such reservation", body = ProblemRow),
    (status = 409, description = "The reservation has ended", body = ProblemRow),
))]
pub(crate) async fn renew(
    State(app): State<AppState>,
    Path(id): Path<String>,
) -> Answer<Json<ReservationRow>> {
    let reservation: ReservationId = id.parse().map_err(|_| not_found(&id))?;
    let renewed = app.engine()?.write(move |desk, core| {
        // The row of one that has ended says how.
        let _ = desk.renew(core, reservation);
        let view = desk.view(core.scheduler());
        view.reservation(reservation).map(|reservation| {
            row::row(view, reservation, &mut core.scheduler().forecasts(core.now()))
        })
    });
    let row = renewed.await?.ok_or_else(|| not_found(&id))?;
    match ended(&row) {
        Some(problem) => Err(problem),
        None => Ok(Json(row)),
    }
}

fn not_found(id: &str) -> Problem {
    let detail = format!("no such reservation: {id} (ended ones are kept for a limited time)");
    Problem::not_found("reservation_not_found", detail)
}

/// Selects whether waiting for a reservation is a sign of life of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    /// The lease is renewed for as long as the wait lasts.
    WhileWaiting,
    /// The caller only looks.
    None,
}

/// The renewals in the time of one lease, while a client waits: enough that a late one ends none.
const RENEWALS_PER_LEASE: u64 = 3;

/// Returns the time of the next renewal; `None` if the lease is off.
pub(super) fn next_renewal(row: &ReservationRow) -> Option<Instant> {
    match row.lease {
        Lease::Off => None,
        Lease::For(span) => {
            Some(Instant::now() + Duration::from_millis(span.0 / RENEWALS_PER_LEASE))
        }
    }
}
