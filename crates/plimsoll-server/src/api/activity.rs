//! The route of what happened to slots and runners.

use axum::Json;
use axum::extract::State;
use plimsoll_api::rows::ActivityRow;
use serde::Deserialize;
use utoipa::IntoParams;

use super::input::{self, Params};
use super::problem::{Answer, Problem};
use super::state::AppState;

/// The query parameters of the list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Only rows after the one with this id.
    after: Option<String>,
    /// The most rows: 500 by default, at most 5000. The latest ones are returned.
    limit: Option<String>,
}

/// Lists events of slots and runners, oldest first
///
/// The server keeps the latest 5000 rows since its start. Journal records are at `/api/v1/events`.
#[utoipa::path(get, path = "/api/v1/activity", operation_id = "list_activity", tag = "events", params(Wanted), responses(
    (status = 200, description = "Placements, starts, failures, evictions, and changes of runners", body = Vec<ActivityRow>),
    (status = 400, description = "Invalid parameter", body = plimsoll_api::rows::ProblemRow),
))]
pub(crate) async fn list(
    State(app): State<AppState>,
    Params(wanted): Params<Wanted>,
) -> Answer<Json<Vec<ActivityRow>>> {
    let most = input::rows_wanted(wanted.limit.as_deref())?;
    let after = wanted.after.as_deref().map(|text| {
        let wrong =
            |_| Problem::bad("after", format!("after must be the id of a row, not {text:?}"));
        text.parse().map_err(wrong)
    });
    let after = after.transpose()?;
    app.engine()?;
    Ok(Json(app.activity().after(after, most)))
}
