//! The accounts with a share.

use axum::Json;
use axum::extract::State;

use super::problem::Answer;
use super::state::AppState;
use plimsoll_api::forecast::AccountRow;

/// Lists the accounts with a share, and what each holds
#[utoipa::path(get, path = "/api/v1/scheduler/accounts", operation_id = "list_accounts", tag = "scheduler", responses(
    (status = 200, description = "The accounts by name, parents included", body = Vec<AccountRow>),
))]
pub(crate) async fn list(State(app): State<AppState>) -> Answer<Json<Vec<AccountRow>>> {
    let rows = app.engine()?.read(|_, core| core.scheduler().account_rows()).await?;
    Ok(Json(rows.iter().map(AccountRow::from).collect()))
}
