//! Answers to requests.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};

use super::path::{Path, RESOURCES};
use super::store::{Page, Run, Store};
use super::stream;
use super::write::{self, Refusal};

pub(super) fn answer(store: &Arc<Store>, method: &Method, uri: &Uri, body: &[u8]) -> Response {
    let query = Query(uri.query().unwrap_or_default());
    if let Some(found) = discovery(uri.path()) {
        return found;
    }
    let Some(path) = Path::parse(uri.path()) else {
        return status(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        );
    };
    let run = if query.get("dryRun").is_some() { Run::Dry } else { Run::Real };
    let body = || serde_json::from_slice::<Value>(body).unwrap_or_default();
    match (method.as_str(), &path.name) {
        ("GET", Some(_)) => found(&path, store.get(&path).map(|object| object.to_string())),
        ("GET", None) if query.get("watch").is_some() => watch(store, path, query),
        ("GET", None) => list(store, &path, query),
        ("POST", None) => {
            let object = body();
            let name = object["metadata"]["name"].as_str().map(str::to_owned);
            let outcome = store.create(&path, object, run);
            written(&Path { name, ..path }, StatusCode::CREATED, outcome)
        }
        ("POST", Some(_)) if path.subresource.as_deref() == Some("binding") => {
            bind(store, &path, run, &body())
        }
        ("PATCH", Some(_)) => {
            let patch = body();
            let outcome = store.change(&path, run, |known| write::patched(&path, known, &patch));
            written(&path, StatusCode::OK, outcome)
        }
        ("PUT", Some(_)) => {
            let object = body();
            let outcome = store.change(&path, run, |known| write::replaced(&path, known, object));
            written(&path, StatusCode::OK, outcome)
        }
        ("DELETE", Some(_)) => written(&path, StatusCode::OK, store.delete(&path, &body())),
        _ => status(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "not simulated"),
    }
}

/// The parameters of a request. None of those that are read is escaped.
#[derive(Clone, Copy)]
struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    fn get(self, name: &str) -> Option<&'a str> {
        let mut pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    fn number<T: std::str::FromStr>(self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }
}

fn discovery(path: &str) -> Option<Response> {
    if path == "/apis" {
        let versions = RESOURCES.iter().filter_map(|(version, ..)| version.split_once('/'));
        let groups: Vec<Value> = versions
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(|(group, version)| {
                let version =
                    json!({"groupVersion": format!("{group}/{version}"), "version": version});
                json!({"name": group, "versions": [version], "preferredVersion": version})
            })
            .collect();
        let list = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
        return Some(object(StatusCode::OK, &list));
    }
    let version = path.strip_prefix("/apis/").or_else(|| path.strip_prefix("/api/"))?;
    let served: Vec<Value> = RESOURCES
        .iter()
        .filter(|(known, ..)| *known == version)
        .map(|(_, plural, kind)| {
            let (namespaced, verbs) = (["pods", "secrets", "configmaps", "leases"].contains(plural), ["get", "list", "watch"]);
            json!({"name": plural, "singularName": "", "kind": kind, "namespaced": namespaced, "verbs": verbs})
        })
        .collect();
    let list = json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": served,
    });
    (!served.is_empty()).then(|| object(StatusCode::OK, &list))
}

fn list(store: &Store, path: &Path, query: Query<'_>) -> Response {
    let limit = query.number("limit").filter(|limit| *limit > 0);
    match store.list(path, limit, query.get("continue").filter(|rest| !rest.is_empty())) {
        Ok(page) => text(StatusCode::OK, render(path, &page)),
        Err(_) => expired(),
    }
}

/// Renders a list without parsing its items again.
fn render(path: &Path, page: &Page) -> String {
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    if let Some(rest) = &page.rest {
        metadata["continue"] = json!(rest);
        metadata["remainingItemCount"] = json!(page.remaining);
    }
    let (kind, version) = (path.kind(), path.api_version());
    let size: usize = page.items.iter().map(|item| item.len() + 1).sum();
    let mut list = String::with_capacity(size + 256);
    list.push_str(&format!(
        "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":["
    ));
    for (at, item) in page.items.iter().enumerate() {
        if at > 0 {
            list.push(',');
        }
        list.push_str(item);
    }
    list.push_str("]}");
    list
}

fn watch(store: &Arc<Store>, path: Path, query: Query<'_>) -> Response {
    let after = query.number("resourceVersion").unwrap_or_else(|| store.version());
    let seconds = query.number("timeoutSeconds").unwrap_or(300);
    if store.events_after(&path, after).is_err() {
        return expired();
    }
    let events = stream::events(store.clone(), path, after, seconds);
    let body = Body::from_stream(events);
    Response::builder()
        .header("Content-Type", "application/json")
        .body(body)
        .expect("a response of constants is valid")
}

/// Answers a write: the object as it is afterwards, or why there is none.
fn written(path: &Path, code: StatusCode, outcome: Result<Value, Refusal>) -> Response {
    let (plural, name) = (path.plural(), path.name.as_deref().unwrap_or_default());
    match outcome {
        Ok(stored) => object(code, &stored),
        Err(Refusal::NotFound) => found(path, None),
        Err(Refusal::AlreadyExists) => {
            let message = format!("{plural} \"{name}\" already exists");
            status(StatusCode::CONFLICT, "AlreadyExists", &message)
        }
        Err(Refusal::Conflict(message)) => status(StatusCode::CONFLICT, "Conflict", &message),
        Err(Refusal::Invalid(message)) => {
            status(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", &message)
        }
    }
}

/// Binds a pod. The answer is a `Status`, as from a real server.
fn bind(store: &Store, path: &Path, run: Run, binding: &Value) -> Response {
    match store.change(path, run, |pod| write::bound(pod, binding)) {
        Ok(_) => {
            let body = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
            });
            object(StatusCode::CREATED, &body)
        }
        refused => written(path, StatusCode::CREATED, refused),
    }
}

fn found(path: &Path, found: Option<String>) -> Response {
    match found {
        Some(object) => text(StatusCode::OK, object),
        None => {
            let name = path.name.as_deref().unwrap_or_default();
            let message = format!("{} \"{name}\" not found", path.plural());
            status(StatusCode::NOT_FOUND, "NotFound", &message)
        }
    }
}

fn expired() -> Response {
    status(StatusCode::GONE, "Expired", "too old resource version")
}

fn status(code: StatusCode, reason: &str, message: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    object(code, &body)
}

fn object(code: StatusCode, object: &Value) -> Response {
    text(code, object.to_string())
}

fn text(code: StatusCode, text: String) -> Response {
    Response::builder()
        .status(code)
        .header("Content-Type", "application/json")
        .body(Body::from(text))
        .expect("a response of constants is valid")
}
