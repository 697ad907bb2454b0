//! The HTTP API: every route once, with its rules, its input and its answers.

mod accounts;
mod activity;
mod agents;
mod decisions;
mod document;
mod events;
mod input;
mod logs;
mod memory;
mod models;
mod problem;
mod queue;
mod reservations;
mod runners;
mod schedulerlog;
mod slots;
mod state;
#[cfg(test)]
mod tests;
mod whatif;

pub(crate) use document::with_document;
pub(crate) use events::event as sse_event;
pub(crate) use input::Body;
pub(crate) use problem::{Answer, Problem};
pub(crate) use reservations::ended_row;
pub(crate) use schedulerlog::{found_row, row as schedulerlog_row};
pub(crate) use state::AppState;

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use utoipa_axum::routes;

use crate::guard::Guard;
use crate::guard::access::Rules;
use crate::routes::Routes;

/// Returns the handlers of a set of routes, and what describes them.
pub(crate) fn router(routes: Routes) -> Router {
    routes.into_router().fallback(no_such_route).method_not_allowed_fallback(no_such_method)
}

/// Returns the routes of the standalone server, with its OpenAPI document.
pub(crate) fn routes(app: AppState, guard: &Arc<Guard>) -> Routes {
    let routes = Routes::new(guard)
        .add(Rules::READ, routes!(runners::list))
        .add(Rules::RUNNER, routes!(agents::register))
        .add(Rules::OPERATE, routes!(runners::remove))
        .add(Rules::READ, routes!(runners::status))
        .add(Rules::OPERATE, routes!(runners::cordon))
        .add(Rules::OPERATE, routes!(runners::uncordon))
        .add(Rules::OPERATE, routes!(runners::drain))
        .add(Rules::READ, routes!(activity::list))
        // Output of models may contain what clients sent to them.
        .add(Rules::OPERATE.routine(), routes!(logs::show))
        .add(Rules::RUNNER, routes!(logs::requests))
        .add(Rules::RUNNER, routes!(logs::answer))
        .add(Rules::RUNNER, routes!(agents::beat))
        .add(Rules::RUNNER, routes!(agents::work))
        .add(Rules::READ, routes!(models::list))
        .add(Rules::READ, routes!(models::show))
        .add(Rules::OPERATE, routes!(models::declare, models::forget))
        .add(Rules::READ, routes!(slots::list))
        .add(Rules::OPERATE.waiting_by_body().routine(), routes!(reservations::reserve))
        .add(Rules::READ, routes!(reservations::show))
        .add(Rules::OPERATE.routine(), routes!(reservations::release))
        .add(Rules::READ, routes!(reservations::list::list))
        .add(Rules::OPERATE.routine(), routes!(reservations::renewal::renew))
        .add(Rules::READ, routes!(queue::list))
        .add(Rules::READ, routes!(accounts::list))
        .add(Rules::READ, routes!(decisions::list))
        .add(Rules::READ, routes!(decisions::show))
        // A POST for its body; it changes nothing.
        .add(Rules::READ, routes!(whatif::what_if))
        .add(Rules::READ, routes!(events::stream))
        .add(Rules::READ, routes!(schedulerlog::show))
        .with_state(app);
    with_document(routes)
}

async fn no_such_route(uri: Uri) -> Problem {
    Problem::not_found("not_found", format!("no such path: {}; /docs lists all routes", uri.path()))
}

async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{method} is not allowed for {}; /docs lists all routes", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}
