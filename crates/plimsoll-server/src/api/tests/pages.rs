//! The API about itself.

use super::*;

#[tokio::test]
async fn the_document_is_openapi_3_1_and_has_every_route() {
    let world = World::new();
    let document = world.get("/openapi.json").await;
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().expect("paths");
    let mut routes: Vec<String> = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().expect("operations") {
            routes.push(format!("{} {path}", method.to_uppercase()));
            assert!(operation["summary"].is_string(), "{method} {path}");
            assert!(
                ids.insert(operation["operationId"].as_str().expect("an id")),
                "{method} {path}: its id is taken"
            );
            for (status, response) in operation["responses"].as_object().expect("responses") {
                let refused = status.starts_with(['4', '5']);
                let kinds = response["content"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(kind, _)| kind.as_str());
                assert!(
                    kinds.clone().all(|kind| refused == (kind == "application/problem+json")),
                    "{method} {path}"
                );
            }
            assert!(
                operation["responses"].as_object().is_some_and(|all| !all.is_empty()),
                "{method} {path}"
            );
            for name in path.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
                let named = operation["parameters"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|p| p["name"] == name);
                assert_eq!(named.count(), 1, "{name} of {method} {path}");
            }
        }
    }
    routes.sort_unstable();
    let expected = [
        "DELETE /api/v1/models/{name}",
        "DELETE /api/v1/runners/{id}",
        "DELETE /api/v1/scheduler/slots/{id}",
        "GET /api/v1/events",
        "GET /api/v1/models",
        "GET /api/v1/models/{name}",
        "GET /api/v1/namespaces/{namespace}/pods/{name}/schedulerlog",
        "GET /api/v1/runners",
        "GET /api/v1/runners/{id}/status",
        "GET /api/v1/runners/{id}/work",
        "GET /api/v1/scheduler/decisions",
        "GET /api/v1/scheduler/decisions/{id}",
        "GET /api/v1/scheduler/queue",
        "GET /api/v1/scheduler/slots",
        "GET /api/v1/scheduler/slots/{id}",
        "POST /api/v1/runners/{id}/heartbeat",
        "POST /api/v1/scheduler/slots",
        "POST /api/v1/scheduler/whatif",
        "PUT /api/v1/models/{name}",
        "PUT /api/v1/runners/{id}",
    ];
    assert_eq!(routes, expected);
    check_references(&document, &document);
}

/// Every reference leads to something.
fn check_references(document: &Value, part: &Value) {
    match part {
        Value::Object(fields) => {
            if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                let pointer = reference.strip_prefix('#').expect("a reference within the document");
                assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
            }
            fields.values().for_each(|value| check_references(document, value));
        }
        Value::Array(values) => values.iter().for_each(|value| check_references(document, value)),
        _ => {}
    }
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let world = World::new();
    let request = Request::get("/docs").body(Body::empty()).expect("a request");
    let response = world.router.clone().oneshot(request).await.expect("an answer");
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
    let page = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
    let page = std::str::from_utf8(&page).expect("text");
    assert!(page.contains("openapi.json"));
    for elsewhere in ["http://", "https://", "//cdn", "@import"] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
}

#[tokio::test]
async fn every_field_of_a_declaration_is_written_about() {
    const PAGE: &str = include_str!("../../../../../docs/models.md");
    let world = World::new();
    let schemas = world.get("/openapi.json").await["components"]["schemas"].clone();
    for schema in ["Declaration", "Where", "Selector", "Command"] {
        let fields = schemas[schema]["properties"].as_object().expect("fields");
        for field in fields.keys() {
            let told = [format!("`{field}`"), format!("`where.{field}`")];
            assert!(
                told.iter().any(|name| PAGE.contains(name)) || field == "where",
                "{schema}.{field}"
            );
        }
    }
}
