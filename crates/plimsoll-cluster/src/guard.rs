//! The guard of a live cluster: certificates, webhooks, lease and errands around an engine.
//!
//! ```text
//!  lease ──mandate──▶ leader ──term, errands──▶ engine ◀──reviews── webhooks ◀── API server
//!                       └──deciding──▶ registrar ──▶ webhook configuration, role of the pod
//!  certificates ──▶ webhooks, registrar
//! ```
//!
//! At shutdown the webhooks end first, then the term, then the lease is handed over: no other
//! replica decides before the last answer of this one has left.

mod leader;
mod registrar;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_engine::engine::Engine;
use plimsoll_kube::live::Watch;
use plimsoll_server::pods::{GuardCounters, WebhookCertificate, WebhookServer};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::access::Connection;
use crate::holders::HoldersStore;
use crate::lease::{LeaseKeeper, TIMING};
use crate::manifests::GUARD;
use crate::registration::{Endpoint, Registration};
use crate::secret::current_certificates;
use crate::watch::Sight;

use leader::Leader;
use registrar::Registrar;

/// The interval at which certificates are looked at.
const CERTIFICATES: Duration = Duration::from_secs(60);

/// The settings of the guard.
#[derive(Clone, Debug)]
pub struct GuardConfig {
    /// Plimsoll's own namespace, with the lease, the certificates and the record of holders.
    pub namespace: String,
    pub listen: SocketAddr,
    pub endpoint: Endpoint,
    pub certificates: CertificateSource,
}

/// The source of the certificate of the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// Made and rotated here, in a Secret.
    Own,
    /// Files that another program rotates, such as those of cert-manager: certificate, key, and
    /// the authority to trust.
    Files { cert: PathBuf, key: PathBuf, authority: PathBuf },
}

/// A guard whose certificate and socket are ready.
pub struct Guard {
    connection: Connection,
    config: GuardConfig,
    counters: GuardCounters,
    server: WebhookServer,
    trusted: String,
}

impl Guard {
    /// Reads or makes the certificates, and binds the socket. Nothing is answered yet.
    ///
    /// # Errors
    ///
    /// A message that names the missing right, the file or the address.
    pub async fn prepare(
        connection: Connection,
        config: GuardConfig,
        counters: GuardCounters,
    ) -> Result<Guard> {
        Registration::ensure_own(&connection, &config.namespace).await?;
        let served = served(&connection, &config).await?;
        let server = WebhookServer::bind(config.listen, &served.certificate, &served.key)?;
        Ok(Guard { connection, config, counters, server, trusted: served.trusted })
    }

    /// Starts to contend for the lease, and to answer. The task ends once the engine ends,
    /// after the lease was handed over.
    pub fn start(
        self,
        engine: Engine<Watch>,
        sight: Sight,
        holders: Arc<HoldersStore>,
    ) -> JoinHandle<()> {
        tokio::spawn(self.run(engine, sight, holders))
    }

    async fn run(self, engine: Engine<Watch>, sight: Sight, holders: Arc<HoldersStore>) {
        let Guard { connection, config, counters, server, trusted } = self;
        let (mandate, mandates) = watch::channel(None);
        let (deciding, decides) = watch::channel(None);
        let (trust, trusts) = watch::channel(trusted);
        let (end_lease, lease_ended) = oneshot::channel::<()>();
        let keeper =
            LeaseKeeper::new(connection.clone(), &config.namespace, GUARD, identity(), TIMING);
        let lease = tokio::spawn(keeper.run(mandate, async move { drop(lease_ended.await) }));
        let (certificate, stop) = (server.certificate(), server.stop());
        let registrar = Registrar {
            connection: connection.clone(),
            namespace: config.namespace.clone(),
            endpoint: config.endpoint.clone(),
            counters: counters.clone(),
        };
        let background = [
            tokio::spawn(registrar.run(decides, trusts)),
            tokio::spawn(follow_certificates(connection.clone(), config, certificate, trust)),
        ];
        let leader =
            Leader::new(connection, holders, engine.clone(), counters.clone(), sight, deciding);
        let leading = tokio::spawn(leader.run(mandates));
        let mut serving = tokio::spawn(server.serve(engine.clone(), counters));
        tokio::select! {
            served = &mut serving => tracing::error!(?served, "the webhooks ended; this replica no longer decides"),
            () = engine.ending() => {
                stop.stop();
                let _ = serving.await;
            }
        }
        leading.abort();
        let _ = leading.await;
        let _ = engine.write(|watch, _| watch.end_term()).await;
        drop(end_lease);
        let _ = lease.await;
        background.iter().for_each(JoinHandle::abort);
    }
}

/// A certificate to serve, and what clients trust.
struct Served {
    certificate: String,
    key: String,
    trusted: String,
}

async fn served(connection: &Connection, config: &GuardConfig) -> Result<Served> {
    match &config.certificates {
        CertificateSource::Own => {
            let names = names(&config.endpoint);
            let own = current_certificates(connection, &config.namespace, GUARD, &names).await?;
            let trusted = own.trusted();
            Ok(Served { certificate: own.server.certificate, key: own.server.key, trusted })
        }
        CertificateSource::Files { cert, key, authority } => {
            Ok(Served { certificate: read(cert)?, key: read(key)?, trusted: read(authority)? })
        }
    }
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Returns the names under which API servers call.
fn names(endpoint: &Endpoint) -> Vec<String> {
    match endpoint {
        Endpoint::Service { namespace, name } => vec![format!("{name}.{namespace}.svc")],
        Endpoint::Url(url) => {
            let host = url.parse::<http::Uri>().ok();
            let host = host.as_ref().and_then(http::Uri::host);
            host.map(|host| host.trim_matches(['[', ']']).to_owned()).into_iter().collect()
        }
    }
}

/// Serves and publishes what is current. A failure keeps what is served.
async fn follow_certificates(
    connection: Connection,
    config: GuardConfig,
    certificate: WebhookCertificate,
    trust: watch::Sender<String>,
) {
    let mut known = String::new();
    loop {
        tokio::time::sleep(CERTIFICATES).await;
        let served = match served(&connection, &config).await {
            Ok(served) => served,
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(error, "the certificate of the webhooks cannot be followed");
                continue;
            }
        };
        if known != served.certificate {
            match certificate.replace(&served.certificate, &served.key) {
                Ok(()) => known = served.certificate,
                Err(error) => tracing::error!(%error, "the previous certificate stays in use"),
            }
        }
        trust.send_if_modified(|trusted| {
            let is_new = *trusted != served.trusted;
            *trusted = served.trusted;
            is_new
        });
    }
}

/// Returns a name that no other process has, of this machine or another, now or before.
fn identity() -> String {
    let started = jiff::Timestamp::now().as_nanosecond();
    format!("{}_{}_{started}", pod_name().unwrap_or_else(|| "local".into()), std::process::id())
}

/// Returns the name of the pod of this process: the host name, except with the host's network.
fn pod_name() -> Option<Arc<str>> {
    ["POD_NAME", "HOSTNAME"].iter().find_map(|name| std::env::var(name).ok()).map(Arc::from)
}
