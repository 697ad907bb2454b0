//! The Secret with the certificates of the webhooks, which all replicas share.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::access::Connection;
use crate::certificates::Certificates;
use crate::error::ClusterError;
use crate::single::SingleError;

/// The key of the Secret with the state of the rotation.
const STATE: &str = "state.json";

/// The attempts to write before the next interval: each conflict means that another replica wrote.
const ATTEMPTS: usize = 5;

/// Returns the certificates to serve and to trust: those in the Secret, after what is due was
/// renewed there.
///
/// # Errors
///
/// [`ClusterError`] if the Secret cannot be read or written.
pub(crate) async fn current_certificates(
    connection: &Connection,
    namespace: &str,
    name: &str,
    names: &[String],
) -> Result<Certificates, ClusterError> {
    let collection = format!("/api/v1/namespaces/{namespace}/secrets");
    let path = format!("{collection}/{name}");
    for _ in 0..ATTEMPTS {
        let found = match connection.get(&path).await {
            Ok(object) => Some(object),
            Err(SingleError::NotFound) => None,
            Err(error) => return Err(failed(connection, error)),
        };
        let now = Timestamp::now();
        let stored = found.as_ref().and_then(stored);
        let made = match &stored {
            Some(stored) => stored.renewed(names, now),
            None => Certificates::new(names, now).map(Some),
        };
        let made = made.map_err(|error| {
            let what = "make a certificate for its webhooks".to_owned();
            ClusterError::Answer { server: connection.server.clone(), what, why: error.to_string() }
        })?;
        let Some(next) = made else {
            return Ok(stored.expect("what is made first is not nothing"));
        };
        let written = match found {
            Some(object) => connection.replace(&path, &with_state(object, &next)).await,
            None => {
                let object = with_state(empty(namespace, name), &next);
                connection.create(&collection, &object).await
            }
        };
        match written {
            Ok(_) => {
                tracing::info!(secret = path, "certificates of the webhooks renewed");
                return Ok(next);
            }
            Err(SingleError::Conflict) => {}
            Err(error) => return Err(failed(connection, error)),
        }
    }
    Err(failed(connection, SingleError::Conflict))
}

fn failed(connection: &Connection, error: SingleError) -> ClusterError {
    match error {
        SingleError::Other(error) => error,
        other => ClusterError::Answer {
            server: connection.server.clone(),
            what: "store the certificates of the webhooks".to_owned(),
            why: other.to_string(),
        },
    }
}

fn empty(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": name, "namespace": namespace},
    })
}

/// Reads the state. One that cannot be read is made again: nothing else depends on its content.
fn stored(object: &Value) -> Option<Certificates> {
    let text = object["data"][STATE].as_str()?;
    serde_json::from_slice(&STANDARD.decode(text).ok()?).ok()
}

/// Writes the state, and the parts that people look for under their usual names.
fn with_state(mut object: Value, certificates: &Certificates) -> Value {
    let state = serde_json::to_vec(certificates).expect("strings are valid JSON");
    object["data"] = json!({
        STATE: STANDARD.encode(state),
        "ca.crt": STANDARD.encode(certificates.trusted()),
        "tls.crt": STANDARD.encode(&certificates.server.certificate),
    });
    object
}
