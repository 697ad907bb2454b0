//! The API about itself: its OpenAPI document, and a page that shows it without help from elsewhere.

use std::sync::Arc;

use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse};
use axum::routing::{MethodRouter, get};
use utoipa::openapi::{Info, License, OpenApi, OpenApiBuilder, PathItem, RefOr, Tag};

use super::parts::Parts;

/// What the document says before any route is added.
pub(crate) fn about() -> OpenApi {
    let mut info = Info::new("Plimsoll", env!("CARGO_PKG_VERSION"));
    info.description = Some(
        "A scheduler for GPU memory that never lets a device hold more than it has, and can always say why. Sizes are bytes, times \
         are RFC 3339 with milliseconds, and what is not known is null. Refusals are application/problem+json."
            .to_string(),
    );
    let mut license = License::new("Apache-2.0");
    license.identifier = Some("Apache-2.0".to_string());
    info.license = Some(license);
    let tags = [
        ("scheduler", "Slots, places, the queue and decisions"),
        ("runners", "Runners and their GPUs"),
        ("models", "Declared models"),
        ("events", "What happens, as it happens"),
        ("agents", "What a runner's agent says and asks"),
    ];
    let tag = |(name, description): (&str, &str)| {
        let mut tag = Tag::new(name);
        tag.description = Some(description.to_string());
        tag
    };
    OpenApiBuilder::new().info(info).tags(Some(tags.map(tag))).build()
}

/// The document as it is served. Where the router takes the rest of the address, the document has an ordinary parameter.
pub(crate) fn document(mut api: OpenApi) -> String {
    let paths = std::mem::take(&mut api.paths.paths);
    api.paths.paths =
        paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    api.paths.paths.values_mut().for_each(name_problems);
    api.to_pretty_json().expect("the document is plain data")
}

/// What is no success has a media type of its own.
fn name_problems(item: &mut PathItem) {
    let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
    for operation in operations.into_iter().flatten() {
        for (status, response) in &mut operation.responses.responses {
            if let (Some('4' | '5'), RefOr::T(response)) = (status.chars().next(), response)
                && let Some(content) = response.content.shift_remove("application/json")
            {
                response.content.insert("application/problem+json".to_string(), content);
            }
        }
    }
}

/// Serves the document.
pub(crate) fn openapi(document: String) -> MethodRouter<Parts> {
    let document: Arc<str> = document.into();
    let kind = HeaderValue::from_static("application/json");
    get(
        move || async move { ([(header::CONTENT_TYPE, kind)], document.to_string()).into_response() },
    )
}

/// Serves the page.
pub(crate) fn docs() -> MethodRouter<Parts> {
    get(|| async { Html(include_str!("docs.html")) })
}
