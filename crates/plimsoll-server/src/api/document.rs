//! The OpenAPI document.

use std::sync::Arc;

use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};
use serde_json::Value;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, Info, License, OpenApi, OpenApiBuilder, PathItem, Ref, RefOr,
    ResponseBuilder, Tag,
};

use crate::guard::access::{ClusterRights, Rules};
use crate::routes::{self, Routes, SECURITY_SCHEME};

/// Adds the OpenAPI document of a set of routes. `/docs` renders it.
pub(crate) fn with_document(routes: Routes) -> Routes {
    let mut document = about();
    document.merge(routes.openapi().clone());
    let rules = Rules::READ.in_cluster(ClusterRights::Known);
    routes.add_page(rules, "/openapi.json", openapi(render(document)))
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
    for item in api.paths.paths.values_mut() {
        add_shared_problems(item);
        name_problems(item);
    }
    let mut document = serde_json::to_value(&api).expect("the document is plain data");
    bound_integers(&mut document);
    open_flattened(&mut document);
    serde_json::to_string_pretty(&document).expect("a value is plain data")
}

/// Adds the problems that the guard and the readers of input answer with for every route.
fn add_shared_problems(item: &mut PathItem) {
    for (_, operation) in routes::operations(item) {
        let has_body = operation.request_body.is_some();
        let has_input =
            has_body || operation.parameters.as_ref().is_some_and(|all| !all.is_empty());
        let shared = [
            (has_input, "400", "Invalid parameter, header or request body; `field` names it"),
            (true, "401", "No token, or an unknown one"),
            (true, "403", "The role of the token is not sufficient"),
            (true, "408", "The request took too long"),
            (has_body, "413", "The request body is too large"),
            (has_body, "415", "The request body is not JSON"),
            (true, "429", "Too many requests; retry after `Retry-After`"),
            (true, "431", "The headers are too large"),
            (true, "503", "Starting, stopping or overloaded; retry after `Retry-After`"),
        ];
        for (_, status, description) in shared.into_iter().filter(|(is_possible, ..)| *is_possible)
        {
            let responses = &mut operation.responses.responses;
            responses.entry(status.to_string()).or_insert_with(|| {
                let problem = Ref::from_schema_name("ProblemRow");
                let content = ContentBuilder::new().schema(Some(problem)).build();
                let response = ResponseBuilder::new().description(description);
                RefOr::T(response.content("application/json", content).build())
            });
        }
    }
}

/// Adds the bounds of integers: the readers of input enforce those of the Rust type, and a format
/// alone does not tell clients. utoipa writes the formats as `u-int32`; the registry has `uint32`.
fn bound_integers(part: &mut Value) {
    match part {
        Value::Object(fields) => {
            let bounds = match fields.get("format").and_then(Value::as_str) {
                Some("u-int8") => Some(("uint8", 0, u64::from(u8::MAX))),
                Some("u-int16") => Some(("uint16", 0, u64::from(u16::MAX))),
                Some("u-int32") => Some(("uint32", 0, u64::from(u32::MAX))),
                Some("u-int64") => Some(("uint64", 0, u64::MAX)),
                Some("int32") => Some(("int32", i32::MIN, i32::MAX.unsigned_abs().into())),
                _ => None,
            };
            if let Some((format, least, most)) = bounds {
                fields.insert("format".to_string(), format.into());
                fields.entry("minimum").or_insert_with(|| least.into());
                fields.entry("maximum").or_insert_with(|| most.into());
            }
            fields.values_mut().for_each(bound_integers);
        }
        Value::Array(values) => values.iter_mut().for_each(bound_integers),
        _ => {}
    }
}

/// Corrects parts of objects that may be missing: a flattened `None` adds no fields, and utoipa
/// documents that the whole object would be null.
fn open_flattened(part: &mut Value) {
    let null = serde_json::json!({"type": "null"});
    let Some(parts) = part.get_mut("allOf").and_then(Value::as_array_mut) else {
        match part {
            Value::Object(fields) => fields.values_mut().for_each(open_flattened),
            Value::Array(values) => values.iter_mut().for_each(open_flattened),
            _ => {}
        }
        return;
    };
    for optional in parts.iter_mut().filter_map(Value::as_object_mut) {
        let is_optional = |list: &Value| list.as_array().is_some_and(|list| list.contains(&null));
        if optional.get("oneOf").is_some_and(is_optional)
            && let Some(Value::Array(mut variants)) = optional.remove("oneOf")
        {
            let nothing = serde_json::json!({"type": "object"});
            variants.iter_mut().filter(|one| **one == null).for_each(|one| *one = nothing.clone());
            optional.insert("anyOf".to_string(), variants.into());
        }
    }
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
