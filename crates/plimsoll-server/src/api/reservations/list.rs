//! The list of reservations.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use plimsoll_api::rows::{ProblemRow, ReservationRow, StatusFilter};
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::{DeskView, Reservation, ReservationId};
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::input::{self, Params};
use super::super::problem::{Answer, Problem};
use super::super::state::AppState;
use super::row;

/// The query parameters of a list of reservations.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Only those of this model.
    model: Option<String>,
    /// Only those of clients in this namespace.
    namespace: Option<String>,
    /// Only those with this status, or `open` (the default), `ended` or `all`.
    status: Option<String>,
    /// The most rows: 500 by default, at most 5000.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 5000)]
    limit: Option<String>,
    /// Only rows after this one; the `Link: rel="next"` header has it.
    after: Option<String>,
}

/// Lists reservations
#[utoipa::path(get, path = "/api/v1/scheduler/reservations", operation_id = "list_reservations", tag = "scheduler", params(Wanted), responses(
    (status = 200, description = "Reservations by age, the oldest first", body = Vec<ReservationRow>),
    (status = 400, description = "Invalid parameter", body = ProblemRow),
))]
pub(crate) async fn list(
    State(app): State<AppState>,
    uri: Uri,
    Params(wanted): Params<Wanted>,
) -> Answer<Response> {
    let limit = input::rows_wanted(wanted.limit.as_deref())?;
    let selection = Selection::read(wanted)?;
    let rows = app
        .engine()?
        .read(move |desk, core| selection.rows(desk.view(core.scheduler()), core.now(), limit + 1))
        .await?;
    Ok(input::page(&uri, &rows, limit, |row| Some(&row.id)))
}

fn parsed<T: FromStr<Err: Display>>(field: &str, text: Option<&str>) -> Answer<Option<T>> {
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|error: T::Err| Problem::bad(field, error.to_string()))
}

/// The reservations that a request asks for.
struct Selection {
    model: Option<String>,
    namespace: Option<String>,
    status: StatusFilter,
    after: Option<ReservationId>,
}

impl Selection {
    fn read(wanted: Wanted) -> Answer<Selection> {
        let Wanted { model, namespace, status, after, .. } = wanted;
        let status = parsed("status", status.as_deref())?.unwrap_or_default();
        let after = parsed("after", after.as_deref())?;
        Ok(Selection { model, namespace, status, after })
    }

    fn rows(&self, desk: DeskView<'_>, now: Millis, most: usize) -> Vec<ReservationRow> {
        let mut forecasts = desk.scheduler().forecasts(now);
        let selected = desk.reservations_after(self.after).filter(|one| self.selects(desk, one));
        selected.take(most).map(|reservation| row::row(desk, reservation, &mut forecasts)).collect()
    }

    fn selects(&self, desk: DeskView<'_>, reservation: &Reservation) -> bool {
        let namespace = reservation.client.as_ref().map(|client| &client.namespace);
        self.model.as_ref().is_none_or(|model| *model == reservation.model)
            && self.namespace.as_ref().is_none_or(|wanted| namespace == Some(wanted))
            && self.status.selects(row::status(desk, reservation.id))
    }
}
