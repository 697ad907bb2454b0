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

    /// Deletes this version of an object.
    pub(crate) async fn delete_version(
        &self,
        path: &str,
        version: &str,
    ) -> Result<(), SingleError> {
        let options = serde_json::json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"resourceVersion": version},
        });
        self.ask(Method::DELETE, path, Some(&options), "application/json").await.map(drop)
    }

    /// Lists objects.
    pub(crate) async fn list_objects(&self, path: &str) -> Result<Value, SingleError> {
        self.ask_as("list", Method::GET, path, None, "application/json").await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        media: &str,
    ) -> Result<Value, SingleError> {
        self.ask_as(verb(&method), method, path, body, media).await
    }

    /// Asks; `verb` is the one in a role.
    async fn ask_as(
        &self,
        verb: &'static str,
        method: Method,
        path: &str,
        body: Option<&Value>,
        media: &str,
    ) -> Result<Value, SingleError> {
        let what = format!("{verb} {}", named(path));
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

/// Names the resource of a path as in a role: `secrets/plimsoll-guard in the namespace plimsoll`.
fn named(path: &str) -> String {
    let path = path.split('?').next().unwrap_or(path);
    let (group, rest) = match path.trim_start_matches('/').split('/').collect::<Vec<_>>()[..] {
        ["api", _, ref rest @ ..] => (None, rest.to_vec()),
        ["apis", group, _, ref rest @ ..] => (Some(group), rest.to_vec()),
        _ => return path.to_owned(),
    };
    let resource = |plural: &str, name: &[&str]| {
        let group = group.map_or(String::new(), |group| format!(".{group}"));
        let name = name.first().map_or(String::new(), |name| format!("/{name}"));
        format!("{plural}{group}{name}")
    };
    match rest[..] {
        ["namespaces", namespace, plural, ref name @ ..] => {
            format!("{} in the namespace {namespace}", resource(plural, name))
        }
        [plural, ref name @ ..] => resource(plural, name),
        [] => path.to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_is_named_as_in_a_role() {
        for (path, expected) in [
            ("/api/v1/nodes/n", "nodes/n"),
            ("/api/v1/namespaces/p/secrets/s", "secrets/s in the namespace p"),
            (
                "/api/v1/namespaces/p/configmaps?labelSelector=a%3Db",
                "configmaps in the namespace p",
            ),
            (
                "/apis/coordination.k8s.io/v1/namespaces/p/leases/l",
                "leases.coordination.k8s.io/l in the namespace p",
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/r",
                "clusterroles.rbac.authorization.k8s.io/r",
            ),
        ] {
            assert_eq!(named(path), expected);
        }
    }
}
