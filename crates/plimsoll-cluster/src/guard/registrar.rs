//! The registration, kept while this replica decides, and the role of its pod.

use std::time::Duration;

use plimsoll_server::pods::{GuardCounters, Leads};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::access::{Connection, Place};
use crate::error::ClusterError;
use crate::manifests::LEADER;
use crate::registration::{Endpoint, Registered, Registration};
use crate::single::SingleError;

/// The interval at which the registration is looked at, and the role of the pod: a leader that was
/// stopped and continues can take it from the replica that decides.
const INTERVAL: Duration = Duration::from_secs(5);

/// The pause before a failed registration is repeated.
const AGAIN: Duration = Duration::from_secs(2);

/// The object that owns the registration.
const OWNER: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/plimsoll-guard";

/// Registers the webhooks of this replica while it decides.
pub(super) struct Registrar {
    pub(super) connection: Connection,
    pub(super) namespace: String,
    pub(super) endpoint: Endpoint,
    pub(super) counters: GuardCounters,
}

impl Registrar {
    /// Follows the terms in which this replica decides, and the certificates to trust.
    pub(super) async fn run(
        self,
        mut deciding: watch::Receiver<Option<u64>>,
        mut trusted: watch::Receiver<String>,
    ) {
        loop {
            let Ok(term) = deciding.wait_for(Option::is_some).await.map(|term| *term) else {
                return;
            };
            let Some(number) = term else { continue };
            self.begin(number, &mut deciding, &trusted).await;
            while *deciding.borrow_and_update() == term {
                tokio::select! {
                    changed = deciding.changed() => if changed.is_err() { return },
                    changed = trusted.changed() => {
                        if changed.is_err() { return }
                        self.refresh(number, &trusted).await;
                    }
                    () = tokio::time::sleep(INTERVAL) => self.refresh(number, &trusted).await,
                }
            }
        }
    }

    /// Registers, again until it succeeds or the term ends.
    async fn begin(
        &self,
        term: u64,
        deciding: &mut watch::Receiver<Option<u64>>,
        trusted: &watch::Receiver<String>,
    ) {
        while *deciding.borrow() == Some(term) {
            let trusted = trusted.borrow().clone();
            match self.register(term, trusted).await {
                Ok(Registered::Superseded) => superseded(term),
                Ok(Registered::Current | Registered::Removed) => {
                    tracing::info!("the webhooks are registered");
                    return self.counters.registered(Leads::Yes);
                }
                Err(error) => tracing::error!(%error, "the webhooks are not registered"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn register(&self, term: u64, trusted: String) -> Result<Registered, ClusterError> {
        // The registration first: it says whether this is still the latest term.
        let registered = self.registration(term, trusted).await?.apply(&self.connection).await?;
        if registered == Registered::Current {
            self.take_role().await?;
        }
        Ok(registered)
    }

    async fn refresh(&self, term: u64, trusted: &watch::Receiver<String>) {
        let trusted = trusted.borrow().clone();
        match self.refreshed(term, trusted).await {
            Ok(Registered::Current) => self.counters.registered(Leads::Yes),
            Ok(Registered::Superseded) => {
                self.counters.registered(Leads::No);
                superseded(term);
            }
            Ok(Registered::Removed) => {
                self.counters.registered(Leads::No);
                tracing::warn!("the webhooks were removed: no binding is checked until a restart");
            }
            Err(error) => tracing::warn!(%error, "the registration cannot be checked"),
        }
    }

    async fn refreshed(&self, term: u64, trusted: String) -> Result<Registered, ClusterError> {
        let registration = self.registration(term, trusted).await?;
        let registered = registration.refresh(&self.connection).await?;
        if registered == Registered::Current {
            self.take_role().await?;
        }
        Ok(registered)
    }

    async fn registration(&self, term: u64, trusted: String) -> Result<Registration, ClusterError> {
        let (endpoint, namespace) = (self.endpoint.clone(), self.namespace.clone());
        let owner = match self.connection.get(OWNER).await {
            Ok(role) => role["metadata"]["uid"].as_str().map(str::to_owned),
            Err(SingleError::NotFound) => None,
            Err(error) => return Err(self.failed(error)),
        };
        Ok(Registration { endpoint, trusted, namespace, owner, term })
    }

    /// Makes this pod the endpoint of the Service, and no other: the Service selects the label.
    async fn take_role(&self) -> Result<(), ClusterError> {
        if self.connection.place() != Place::Pod
            || !matches!(self.endpoint, Endpoint::Service { .. })
        {
            return Ok(());
        }
        let (key, value) = LEADER;
        let pods = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let own = super::pod_name().unwrap_or_default();
        let found = self.connection.get(&format!("{pods}?labelSelector={key}%3D{value}")).await;
        let found = found.map_err(|error| self.failed(error))?;
        let labelled = found["items"].as_array().into_iter().flatten();
        let labelled: Vec<&str> =
            labelled.filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
        if labelled == [&*own] {
            return Ok(());
        }
        for other in labelled.into_iter().filter(|name| *name != &*own) {
            self.label(&format!("{pods}/{other}"), &json!(null)).await?;
        }
        self.label(&format!("{pods}/{own}"), &json!(value)).await
    }

    async fn label(&self, pod: &str, value: &Value) -> Result<(), ClusterError> {
        let patch = json!({"metadata": {"labels": {LEADER.0: value}}});
        match self.connection.merge(pod, &patch).await {
            Ok(_) | Err(SingleError::NotFound) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: SingleError) -> ClusterError {
        match error {
            SingleError::Other(error) => error,
            other => ClusterError::Answer {
                server: self.connection.server().to_owned(),
                what: "label the pod of the leader".to_owned(),
                why: other.to_string(),
            },
        }
    }
}

fn superseded(term: u64) {
    tracing::warn!(term, "a later leader is registered; this replica registers nothing");
}
