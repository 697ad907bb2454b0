//! The registration of the guard at the API server: webhooks, and the policy that applies where
//! they do not answer.
//!
//! A Binding says nothing about its pod, so that a webhook that fails closed would hold back every
//! pod of a guarded namespace while Plimsoll is down. Therefore the webhook fails open, and marks
//! each Binding that it decided; an admission policy, which the API server evaluates itself, looks
//! the pod up and rejects the Binding of a pod with devices that has no mark. The mark is a
//! finalizer of the Binding, which is never stored.
//!
//! The policy knows a pod some milliseconds after its creation. Therefore the webhook for the
//! creation of pods with devices fails closed: none is created while Plimsoll is down. What is left
//! is a pod that is created and bound within those milliseconds, with a crash in between.

mod devices;
mod objects;

use plimsoll_kube::booking::TERM;
use serde_json::{Value, json};

use crate::access::Connection;
use crate::error::ClusterError;
use crate::single::SingleError;

use objects::INSTALLED_IN;
pub(crate) use objects::REGISTRATION;
pub use objects::{Endpoint, Registration};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// The presence of the registration at the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// As it should be.
    Current,
    /// An administrator removed a part of it: no binding is held back. It is not added again
    /// before the next term, so that removing it frees a cluster at once.
    Removed,
    /// A leader of a later term has registered itself: this process leads no longer, and will know
    /// soon.
    Superseded,
}

impl Registration {
    /// Creates or updates the registration: the webhooks first.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if an object cannot be written; a missing right is named.
    pub async fn apply(&self, connection: &Connection) -> Result<Registered, ClusterError> {
        Registration::ensure_own(connection, &self.namespace).await?;
        for (collection, object) in self.objects() {
            if self.write(connection, collection, object).await? == Registered::Superseded {
                return Ok(Registered::Superseded);
            }
        }
        Ok(Registered::Current)
    }

    /// Fails if the guard of another namespace is registered: two of them would each decide by a
    /// ledger without the answers of the other.
    ///
    /// # Errors
    ///
    /// [`ClusterError::OtherInstallation`], or the webhooks cannot be read.
    pub async fn ensure_own(connection: &Connection, namespace: &str) -> Result<(), ClusterError> {
        for (collection, name) in REGISTRATION {
            match connection.get(&format!("{ADMISSION}/{collection}/{name}")).await {
                Ok(found) => check_own(connection, &found, namespace)?,
                Err(SingleError::NotFound) => {}
                Err(error) => return Err(failed(connection, error)),
            }
        }
        Ok(())
    }

    /// Updates the certificates that are trusted, where the webhooks are registered.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if an object cannot be read or written.
    pub async fn refresh(&self, connection: &Connection) -> Result<Registered, ClusterError> {
        let mut registered = Registered::Current;
        for (collection, object) in self.objects() {
            let path = path(collection, &object);
            match connection.get(&path).await {
                Ok(found) if is_as(&found, &object) => {}
                Ok(found) => {
                    check_own(connection, &found, &self.namespace)?;
                    if self.write(connection, collection, object).await? == Registered::Superseded {
                        return Ok(Registered::Superseded);
                    }
                }
                Err(SingleError::NotFound) => registered = Registered::Removed,
                Err(error) => return Err(failed(connection, error)),
            }
        }
        Ok(registered)
    }

    /// Writes an object over another of its name, unless that is of a later term: a leader can have
    /// been stopped, and continue here long after another one took over.
    async fn write(
        &self,
        connection: &Connection,
        collection: &str,
        mut object: Value,
    ) -> Result<Registered, ClusterError> {
        let at = path(collection, &object);
        let mut outcome = Err(SingleError::Conflict);
        for _ in 0..3 {
            outcome = match connection.get(&at).await {
                Ok(found) if term_of(&found) > Some(self.term) => {
                    return Ok(Registered::Superseded);
                }
                Ok(found) if is_as(&found, &object) => return Ok(Registered::Current),
                Ok(found) => {
                    object["metadata"]["resourceVersion"] =
                        found["metadata"]["resourceVersion"].clone();
                    connection.replace(&at, &object).await
                }
                Err(SingleError::NotFound) => {
                    object["metadata"]["resourceVersion"] = json!(null);
                    connection.create(&format!("{ADMISSION}/{collection}"), &object).await
                }
                Err(error) => Err(error),
            };
            if !matches!(outcome, Err(SingleError::Conflict)) {
                break;
            }
        }
        outcome.map(|_| Registered::Current).map_err(|error| failed(connection, error))
    }

    /// Removes the registration. No binding is checked afterwards, in any namespace.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if an object cannot be deleted.
    pub async fn remove(connection: &Connection) -> Result<(), ClusterError> {
        for (collection, name) in REGISTRATION.iter().rev() {
            let path = format!("{ADMISSION}/{collection}/{name}");
            connection.delete(&path).await.map_err(|error| failed(connection, error))?;
        }
        Ok(())
    }
}

/// Fails if an object belongs to the guard of another namespace.
fn check_own(connection: &Connection, found: &Value, own: &str) -> Result<(), ClusterError> {
    match found["metadata"]["annotations"][INSTALLED_IN].as_str() {
        Some(namespace) if namespace != own => Err(ClusterError::OtherInstallation {
            server: connection.server.clone(),
            namespace: namespace.to_owned(),
            own: own.to_owned(),
        }),
        _ => Ok(()),
    }
}

fn path(collection: &str, object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    format!("{ADMISSION}/{collection}/{name}")
}

/// Returns the term of the leader that wrote an object.
fn term_of(object: &Value) -> Option<u64> {
    object["metadata"]["annotations"][TERM].as_str()?.parse().ok()
}

/// Returns whether an object has everything that is wanted. What the API server adds as defaults
/// is no difference.
fn is_as(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| found.get(key).map_or(value.is_null(), |have| is_as(have, value))),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(found, wanted)| is_as(found, wanted))
        }
        _ => found == wanted,
    }
}

fn failed(connection: &Connection, error: SingleError) -> ClusterError {
    match error {
        SingleError::Other(error) => error,
        other => ClusterError::Answer {
            server: connection.server.clone(),
            what: "register the guard".to_owned(),
            why: other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests;
