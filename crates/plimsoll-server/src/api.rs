//! The HTTP API: every route once, with what it takes and what it answers.

mod agents;
mod decisions;
mod events;
mod input;
mod memory;
mod models;
mod pages;
mod parts;
mod problem;
mod queue;
mod reservations;
mod runners;
mod schedulerlog;
mod slots;
#[cfg(test)]
mod tests;
mod whatif;

pub(crate) use decisions::told_by;
pub(crate) use parts::Parts;
pub(crate) use problem::Problem;
pub(crate) use queue::promised;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// All of the API. Whoever serves it puts a guard around it.
pub(crate) fn router(parts: Parts) -> Router {
    let (router, api) = routes();
    router
        .route("/openapi.json", pages::openapi(pages::document(api)))
        .route("/docs", pages::docs())
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .with_state(parts)
}

fn routes() -> (Router<Parts>, OpenApi) {
    OpenApiRouter::with_openapi(pages::about())
        .routes(routes!(runners::list))
        .routes(routes!(agents::register, runners::remove))
        .routes(routes!(runners::status))
        .routes(routes!(agents::beat))
        .routes(routes!(agents::work))
        .routes(routes!(models::list))
        .routes(routes!(models::show, models::declare, models::forget))
        .routes(routes!(slots::list, reservations::reserve))
        .routes(routes!(reservations::show, reservations::release))
        .routes(routes!(queue::list))
        .routes(routes!(decisions::list))
        .routes(routes!(decisions::show))
        .routes(routes!(whatif::what_if))
        .routes(routes!(events::stream))
        .routes(routes!(schedulerlog::show))
        .split_for_parts()
}

async fn no_such_route(uri: Uri) -> Problem {
    Problem::not_found(
        "not_found",
        format!("there is nothing at {}; /docs lists what there is", uri.path()),
    )
}

async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{method} does not go with {}; /docs lists what does", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}
