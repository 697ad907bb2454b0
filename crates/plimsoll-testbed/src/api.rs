//! The Kubernetes API as tests use it: one trait for a real and for a simulated API server.

use std::time::Duration;

use serde_json::{Value, json};

/// A request to an API server.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub verb: Verb,
    /// Path and query, such as `/api/v1/pods?limit=500`.
    pub path: String,
    pub body: Option<Value>,
}

/// The method of a request, with the kind of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Get,
    Create,
    Replace,
    /// A JSON merge patch (RFC 7386): `null` removes a field, lists are replaced.
    MergePatch,
    /// Server-side apply.
    Apply,
    Delete,
}

impl Verb {
    /// Returns the HTTP method.
    pub fn method(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Create => "POST",
            Verb::Replace => "PUT",
            Verb::MergePatch | Verb::Apply => "PATCH",
            Verb::Delete => "DELETE",
        }
    }

    /// Returns the media type of the body.
    pub fn content_type(self) -> &'static str {
        match self {
            Verb::MergePatch => "application/merge-patch+json",
            Verb::Apply => "application/apply-patch+yaml",
            Verb::Get | Verb::Create | Verb::Replace | Verb::Delete => "application/json",
        }
    }
}

/// The answer of an API server: an object, a list, or a `Status`.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    pub status: u16,
    pub body: Value,
}

/// A request without the wanted result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApiError {
    #[error("no answer to {request}: {cause}")]
    Unreachable { request: String, cause: String },
    #[error("{request} failed with {status} {reason}: {message}")]
    Rejected { request: String, status: u16, reason: String, message: String },
}

impl ApiError {
    /// Returns the HTTP status of a rejection.
    pub fn status(&self) -> Option<u16> {
        match self {
            ApiError::Rejected { status, .. } => Some(*status),
            ApiError::Unreachable { .. } => None,
        }
    }

    /// Returns the `reason` of the rejection's `Status` object, such as `Conflict`.
    pub fn reason(&self) -> Option<&str> {
        match self {
            ApiError::Rejected { reason, .. } => Some(reason),
            ApiError::Unreachable { .. } => None,
        }
    }
}

/// One line of a watch.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchEvent {
    pub kind: WatchEventKind,
    pub object: Value,
}

/// The change that a [`WatchEvent`] reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEventKind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    /// The object is a `Status`; code 410 means that the version is too old.
    Error,
}

impl WatchEventKind {
    /// Returns the kind with this name in the API.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "ADDED" => Some(WatchEventKind::Added),
            "MODIFIED" => Some(WatchEventKind::Modified),
            "DELETED" => Some(WatchEventKind::Deleted),
            "BOOKMARK" => Some(WatchEventKind::Bookmark),
            "ERROR" => Some(WatchEventKind::Error),
            _ => None,
        }
    }
}

/// An open watch.
pub trait Watch {
    /// Returns the next event, or nothing if none arrives in time or the watch has ended.
    fn next(&mut self, within: Duration) -> Option<WatchEvent>;
}

/// An API server, as one user sees it.
pub trait Api {
    /// Sends a request and returns the answer, whatever its status.
    ///
    /// # Errors
    ///
    /// [`ApiError::Unreachable`] if there is no answer.
    fn send(&self, request: &Request) -> Result<Response, ApiError>;

    /// Opens a watch with bookmarks on a collection, after the given version.
    ///
    /// # Errors
    ///
    /// [`ApiError`] if the watch cannot be opened. A version that is too old can also be reported
    /// as the first event.
    fn watch(&self, collection: &str, after: &str) -> Result<Box<dyn Watch>, ApiError>;

    /// Reads an object or a list.
    ///
    /// # Errors
    ///
    /// [`ApiError`], as for all verbs below.
    fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.call(Verb::Get, path, None)
    }

    /// Creates an object in a collection, or posts to a subresource.
    ///
    /// # Errors
    ///
    /// [`ApiError`]
    fn create(&self, path: &str, body: Value) -> Result<Value, ApiError> {
        self.call(Verb::Create, path, Some(body))
    }

    /// Replaces an object. Its `resourceVersion`, if present, must be the current one.
    ///
    /// # Errors
    ///
    /// [`ApiError`]
    fn replace(&self, path: &str, body: Value) -> Result<Value, ApiError> {
        self.call(Verb::Replace, path, Some(body))
    }

    /// Merges fields into an object.
    ///
    /// # Errors
    ///
    /// [`ApiError`]
    fn patch(&self, path: &str, body: Value) -> Result<Value, ApiError> {
        self.call(Verb::MergePatch, path, Some(body))
    }

    /// Deletes an object at once, without a grace period.
    ///
    /// # Errors
    ///
    /// [`ApiError`]
    fn delete(&self, path: &str) -> Result<Value, ApiError> {
        self.call(Verb::Delete, path, Some(json!({"gracePeriodSeconds": 0})))
    }

    /// Binds a pod to a node, under the preconditions in `metadata`: `uid`, `resourceVersion`.
    ///
    /// # Errors
    ///
    /// [`ApiError`], with status 409 if a precondition fails or the pod has a node.
    fn bind(&self, pod: &str, node: &str, metadata: &Value) -> Result<Value, ApiError> {
        let mut metadata = metadata.clone();
        metadata["name"] = json!(pod.rsplit('/').next());
        self.create(
            &format!("{pod}/binding"),
            json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": metadata,
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            }),
        )
    }

    /// Sends a request and turns an unsuccessful status into an error.
    ///
    /// # Errors
    ///
    /// [`ApiError`]
    fn call(&self, verb: Verb, path: &str, body: Option<Value>) -> Result<Value, ApiError> {
        let request = Request { verb, path: path.to_owned(), body };
        let response = self.send(&request)?;
        if (200..300).contains(&response.status) {
            return Ok(response.body);
        }
        let text = |field: &str| response.body[field].as_str().unwrap_or_default().to_owned();
        Err(ApiError::Rejected {
            request: format!("{} {path}", verb.method()),
            status: response.status,
            reason: text("reason"),
            message: text("message"),
        })
    }
}

/// Returns the path of a pod.
pub fn pod_path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

/// Returns the path of a node.
pub fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

/// Returns the path of the lease that the kubelet of a node renews.
pub fn node_lease_path(node: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}")
}

/// Returns `metadata.resourceVersion` of an object or a list.
pub fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}
