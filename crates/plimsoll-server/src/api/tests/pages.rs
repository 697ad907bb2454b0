//! The API about itself.

use super::*;
use crate::routes::DeclaredRoute;

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
    let declared = declared_routes().into_iter().filter(|(route, _)| route.contains("/api/"));
    let mut declared: Vec<String> = declared.map(|(route, _)| route.replace("{*", "{")).collect();
    declared.sort_unstable();
    assert_eq!(routes, declared);
    check_references(&document, &document);
}

/// Returns every route of the server with its role, as declared.
fn declared_routes() -> Vec<(String, &'static str)> {
    let guard = Arc::new(Guard::new(Tokens::default(), Limits::default(), Arc::default()));
    let app = AppState::new(schedulerlog::Settings::default());
    let routes = crate::api::routes(app, &guard);
    let row =
        |route: &DeclaredRoute| (format!("{} {}", route.method, route.path), route.access.role());
    routes.declared().iter().map(row).collect()
}

#[tokio::test]
async fn every_route_declares_its_role_and_the_document_shows_it() {
    let mut declared = declared_routes();
    declared.sort_unstable();
    let expected = [
        ("DELETE /api/v1/models/{*name}", "operate"),
        ("DELETE /api/v1/runners/{id}", "operate"),
        ("DELETE /api/v1/scheduler/slots/{id}", "operate"),
        ("GET /api/v1/activity", "read"),
        ("GET /api/v1/events", "read"),
        ("GET /api/v1/models", "read"),
        ("GET /api/v1/models/{*name}", "read"),
        ("GET /api/v1/namespaces/{namespace}/pods/{name}/schedulerlog", "read"),
        ("GET /api/v1/runners", "read"),
        ("GET /api/v1/runners/{id}/log-requests", "runner"),
        ("GET /api/v1/runners/{id}/status", "read"),
        ("GET /api/v1/runners/{id}/work", "runner"),
        ("GET /api/v1/scheduler/accounts", "read"),
        ("GET /api/v1/scheduler/decisions", "read"),
        ("GET /api/v1/scheduler/decisions/{id}", "read"),
        ("GET /api/v1/scheduler/queue", "read"),
        ("GET /api/v1/scheduler/reservations", "read"),
        ("GET /api/v1/scheduler/slots", "read"),
        ("GET /api/v1/scheduler/slots/{id}", "read"),
        ("GET /api/v1/scheduler/slots/{id}/log", "operate"),
        ("GET /openapi.json", "read"),
        ("POST /api/v1/runners/{id}/cordon", "operate"),
        ("POST /api/v1/runners/{id}/drain", "operate"),
        ("POST /api/v1/runners/{id}/heartbeat", "runner"),
        ("POST /api/v1/runners/{id}/log-requests/{request}", "runner"),
        ("POST /api/v1/runners/{id}/uncordon", "operate"),
        ("POST /api/v1/scheduler/reservations/{id}/renew", "operate"),
        ("POST /api/v1/scheduler/slots", "operate"),
        ("POST /api/v1/scheduler/whatif", "read"),
        ("PUT /api/v1/models/{*name}", "operate"),
        ("PUT /api/v1/runners/{id}", "runner"),
    ];
    assert_eq!(declared, expected.map(|(route, role)| (route.to_string(), role)));
    let document = World::new().get("/openapi.json").await;
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    for (route, role) in declared.iter().filter(|(route, _)| route.contains("/api/")) {
        let (method, path) = route.split_once(' ').expect("a method and a path");
        let operation = &document["paths"][path.replace("{*", "{")][method.to_lowercase()];
        assert_eq!(operation["security"], json!([{"token": [role]}]), "{route}");
    }
}

#[test]
fn the_documentation_lists_every_route_with_its_role() {
    const PAGE: &str = include_str!("../../../../../docs/api.md");
    let mut written: Vec<(String, String)> = PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter(|(route, _)| route.contains(" /api/"))
        .map(|(route, rest)| (route.to_string(), rest.split(' ').next().unwrap_or("").to_string()))
        .collect();
    let mut declared: Vec<(String, String)> = declared_routes()
        .into_iter()
        .filter(|(route, _)| route.contains(" /api/"))
        .map(|(route, role)| (route.replace("{*", "{"), role.to_string()))
        .collect();
    written.sort_unstable();
    declared.sort_unstable();
    assert_eq!(written, declared);
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
    let request =
        Request::get("/docs").header("host", "localhost").body(Body::empty()).expect("a request");
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
