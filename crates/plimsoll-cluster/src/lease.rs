//! The lease of the deciding replica: read, renewed and handed over.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::Connection;
use crate::election::{Candidate, Lease, Observed, Term, Timing, Write};
use crate::single::SingleError;

/// The durations of the guard's lease: after a crash another replica decides within the first of
/// them, plus the time that it takes to begin.
pub(crate) const TIMING: Timing = Timing {
    lasts: Duration::from_secs(12),
    decides_for: Duration::from_secs(9),
    interval: Duration::from_secs(1),
};

/// The right to decide, as it is known now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mandate {
    pub(crate) term: Term,
    /// The time after which this process must not decide without another renewal.
    pub(crate) until: Instant,
}

/// The lease of one installation, contended for by this process.
pub(crate) struct LeaseKeeper {
    connection: Connection,
    path: String,
    collection: String,
    name: String,
    namespace: String,
    candidate: Candidate,
    timing: Timing,
    started: Instant,
    /// The last lease as an object, whose fields that are not ours are kept.
    object: Option<Value>,
}

impl LeaseKeeper {
    /// Creates a candidate for the lease `name` in a namespace. `identity` differs from that of
    /// every other process.
    pub(crate) fn new(
        connection: Connection,
        namespace: &str,
        name: &str,
        identity: String,
        timing: Timing,
    ) -> LeaseKeeper {
        let collection = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        LeaseKeeper {
            connection,
            path: format!("{collection}/{name}"),
            collection,
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            candidate: Candidate::new(identity, timing, first_term()),
            timing,
            started: Instant::now(),
            object: None,
        }
    }

    /// Contends for the lease, and publishes the mandate, until `stop` resolves. Then hands the
    /// lease over.
    pub(crate) async fn run(
        mut self,
        mandate: watch::Sender<Option<Mandate>>,
        stop: impl Future<Output = ()>,
    ) {
        let mut stop = std::pin::pin!(stop);
        let mut holder = None;
        loop {
            let turn = async {
                if let Err(error) = self.turn().await {
                    tracing::warn!(%error, "the lease cannot be renewed");
                }
            };
            tokio::select! {
                () = turn => {}
                () = &mut stop => break,
            }
            let now = self.mandate();
            mandate.send_if_modified(|known| std::mem::replace(known, now) != now);
            if self.candidate.holder() != holder.as_deref() {
                holder = self.candidate.holder().map(str::to_owned);
                tracing::info!(holder = holder.as_deref().unwrap_or("none"), "lease");
            }
            tokio::select! {
                () = tokio::time::sleep(self.timing.interval) => {}
                () = &mut stop => break,
            }
        }
        mandate.send_replace(None);
        self.hand_over().await;
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn mandate(&self) -> Option<Mandate> {
        let term = self.candidate.term(self.now())?;
        let until = self.started + self.candidate.decides_until()?;
        Some(Mandate { term, until })
    }

    async fn turn(&mut self) -> Result<(), SingleError> {
        let found = match self.connection.get(&self.path).await {
            Ok(object) => Some(object),
            Err(SingleError::NotFound) => None,
            Err(error) => return Err(error),
        };
        let observed = found.as_ref().map(observed);
        self.object = found;
        let Some(write) = self.candidate.observe(self.now(), observed) else { return Ok(()) };
        self.write(write).await
    }

    async fn write(&mut self, write: Write) -> Result<(), SingleError> {
        let sent = self.now();
        let written = match &write {
            Write::Create(lease) => {
                let object = self.object_of(lease, None);
                self.connection.create(&self.collection, &object).await
            }
            Write::Replace { version, lease } => {
                let object = self.object_of(lease, Some(version));
                self.connection.replace(&self.path, &object).await
            }
        };
        match written {
            Ok(object) => {
                let (written, now) = (observed(&object), self.now());
                if written.lease.holder.is_some() {
                    self.candidate.accepted(sent, now, written);
                }
                Ok(())
            }
            // Another candidate was faster. The next turn reads what it wrote.
            Err(SingleError::Conflict | SingleError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn hand_over(&mut self) {
        // A renewal may have been on its way when the loop ended: the version to replace is read.
        if self.candidate.decides_until().is_none() {
            return;
        }
        if let Ok(object) = self.connection.get(&self.path).await {
            self.candidate.observe(self.now(), Some(observed(&object)));
            self.object = Some(object);
        }
        let Some(write) = self.candidate.resign() else { return };
        match self.write(write).await {
            Ok(()) => tracing::info!("lease handed over"),
            Err(error) => tracing::warn!(%error, "the lease is not handed over; it expires"),
        }
    }

    fn object_of(&self, lease: &Lease, version: Option<&str>) -> Value {
        let mut object = self.object.clone().filter(|_| version.is_some()).unwrap_or_else(|| {
            json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self.name, "namespace": self.namespace},
            })
        });
        if let Some(version) = version {
            object["metadata"]["resourceVersion"] = json!(version);
        }
        let now = format!("{:.6}", Timestamp::now());
        let is_same_term = object["spec"]["leaseTransitions"] == json!(lease.transitions);
        let spec = &mut object["spec"];
        spec["holderIdentity"] = json!(lease.holder.as_deref().unwrap_or_default());
        spec["leaseDurationSeconds"] = json!(lease.lasts.as_secs());
        spec["leaseTransitions"] = json!(lease.transitions);
        // For people; no candidate compares these times with its own clock.
        if !is_same_term {
            spec["acquireTime"] = json!(now);
        }
        spec["renewTime"] = json!(now);
        object
    }
}

/// Returns the number of the first term where there is no lease: the minutes since 1970. Terms only
/// count up; one that began after the lease was deleted must not look older than those before.
fn first_term() -> u32 {
    u32::try_from(Timestamp::now().as_second() / 60).unwrap_or(1)
}

/// Reads a lease. A field that is missing or invalid is as in an empty lease, which is free.
fn observed(object: &Value) -> Observed {
    let spec = &object["spec"];
    let holder = spec["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
    let transitions = spec["leaseTransitions"].as_u64().unwrap_or_default();
    Observed {
        version: object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned(),
        lease: Lease {
            holder: holder.map(str::to_owned),
            lasts: Duration::from_secs(spec["leaseDurationSeconds"].as_u64().unwrap_or_default()),
            transitions: u32::try_from(transitions).unwrap_or(u32::MAX),
        },
    }
}
