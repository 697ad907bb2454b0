//! The OpenAPI document, and a self-contained page that renders it.

use std::sync::Arc;

use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse};
use axum::routing::{MethodRouter, get};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Components, Info, License, OpenApi, OpenApiBuilder, PathItem, RefOr, Tag};

use crate::guard::access::{ClusterRights, Rules};
use crate::routes::{self, Routes, SECURITY_SCHEME};

/// Adds the OpenAPI document of a set of routes, and the page that renders it.
pub(crate) fn with_pages(routes: Routes) -> Routes {
    let mut document = about();
    document.merge(routes.openapi().clone());
    let rules = Rules::READ.in_cluster(ClusterRights::Known);
    routes.add_page(rules, "/openapi.json", openapi(render(document))).add_page(
        rules,
        "/docs",
        get(|| async { Html(include_str!("docs.html")) }),
    )
}

/// Returns the document without routes.
fn about() -> OpenApi {
    let mut info = Info::new("Plimsoll", env!("CARGO_PKG_VERSION"));
    info.description = Some(
        "Schedules work onto GPUs by memory, never overcommits a device, and explains every decision. Sizes are bytes, times are \
         RFC 3339 with milliseconds, and unknown values are null. Errors are application/problem+json. The security requirement \
         of an operation names the role that the token must have; the role `all` includes every other."
            .to_string(),
    );
    let mut license = License::new("Apache-2.0");
    license.identifier = Some("Apache-2.0".to_string());
    info.license = Some(license);
    let mut components = Components::new();
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme(SECURITY_SCHEME, scheme);
    OpenApiBuilder::new()
        .info(info)
        .tags(Some(TAGS.map(|(name, description)| {
            let mut tag = Tag::new(name);
            tag.description = Some(description.to_string());
            tag
        })))
        .components(Some(components))
        .build()
}

const TAGS: [(&str, &str); 6] = [
    ("cluster", "The devices and findings of a live cluster"),
    ("scheduler", "Slots, reservations, the queue and decisions"),
    ("runners", "Runners and their GPUs"),
    ("models", "Declared models"),
    ("events", "Decisions and changes as they happen"),
    ("agents", "The protocol of runner agents"),
];

/// Returns the document as JSON. A wildcard of the router is an ordinary parameter in the document.
fn render(mut api: OpenApi) -> String {
    let paths = std::mem::take(&mut api.paths.paths);
    api.paths.paths =
        paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    api.paths.paths.values_mut().for_each(name_problems);
    api.to_pretty_json().expect("the document is plain data")
}

/// Gives responses that are problems the media type of problems.
fn name_problems(item: &mut PathItem) {
    for (_, operation) in routes::operations(item) {
        for (status, response) in &mut operation.responses.responses {
            if let (Some('4' | '5'), RefOr::T(response)) = (status.chars().next(), response)
                && let Some(content) = response.content.shift_remove("application/json")
            {
                response.content.insert("application/problem+json".to_string(), content);
            }
        }
    }
}

fn openapi(document: String) -> MethodRouter {
    let document: Arc<str> = document.into();
    let kind = HeaderValue::from_static("application/json");
    get(
        move || async move { ([(header::CONTENT_TYPE, kind)], document.to_string()).into_response() },
    )
}
