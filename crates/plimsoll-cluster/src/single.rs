//! Single objects: read, written and deleted by path, each within a time limit.

use std::time::Duration;

use http::{Method, Request};
use serde_json::Value;

use crate::access::Connection;
use crate::error::ClusterError;

/// The time for one request. Shorter than a lease, so that a stuck request is noticed in time.
const LIMIT: Duration = Duration::from_secs(5);

/// The media type of a JSON merge patch.
const MERGE_PATCH: &str = "application/merge-patch+json";

/// A request for a single object that was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SingleError {
    #[error("there is no such object")]
    NotFound,
    /// The object has another version or another uid, or exists already.
    #[error("the object was changed meanwhile")]
    Conflict,
    #[error(transparent)]
    Other(#[from] ClusterError),
}

impl Connection {
    /// Reads an object from the API server's store.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, SingleError> {
        self.ask(Method::GET, path, None, "application/json").await
    }

    /// Creates an object in a collection.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value, SingleError> {
        self.ask(Method::POST, path, Some(object), "application/json").await
    }

    /// Replaces an object; its `resourceVersion` must be the current one.
    pub(crate) async fn replace(&self, path: &str, object: &Value) -> Result<Value, SingleError> {
        self.ask(Method::PUT, path, Some(object), "application/json").await
    }

    /// Merges fields into an object. With `uid` and `resourceVersion` in its metadata, only into
    /// that version of that object.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Result<Value, SingleError> {
        self.ask(Method::PATCH, path, Some(patch), MERGE_PATCH).await
    }

    /// Deletes an object. One that does not exist is deleted.
    pub(crate) async fn delete(&self, path: &str) -> Result<(), SingleError> {
        match self.ask(Method::DELETE, path, None, "application/json").await {
            Ok(_) | Err(SingleError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        media: &str,
    ) -> Result<Value, SingleError> {
        let what = format!("{} {path}", verb(&method));
        let request = Request::builder().method(method).uri(path).header("Content-Type", media);
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let answer = self.client.request::<Value>(request.body(body).map_err(|error| {
            let (server, why) = (self.server.clone(), error.to_string());
            ClusterError::Answer { server, what: what.clone(), why }
        })?);
        let Ok(answer) = tokio::time::timeout(LIMIT, answer).await else {
            let why = format!("no answer to {what} within {}s", LIMIT.as_secs());
            return Err(ClusterError::Unreachable { server: self.server.clone(), why }.into());
        };
        answer.map_err(|error| match &error {
            kube::Error::Api(status) if status.code == 404 => SingleError::NotFound,
            kube::Error::Api(status) if status.code == 409 => SingleError::Conflict,
            other => ClusterError::from_request(&self.server, &what, other).into(),
        })
    }
}

/// Returns the verb as in a role.
fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "get",
    }
}
