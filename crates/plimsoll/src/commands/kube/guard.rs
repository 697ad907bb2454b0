//! `plimsoll kube --guard`, and its removal.

use std::net::ToSocketAddrs;

use anyhow::{Context, Result, bail};
use plimsoll_cluster::guard::{CertificateSource, GuardConfig};
use plimsoll_cluster::manifests::{GUARD, NAME};
use plimsoll_cluster::registration::{Endpoint, Registration};
use plimsoll_cluster::{Access, Connection, Place};
use plimsoll_server::pods::{GuardCounters, Guarding};

use crate::cli::{KubeArgs, UninstallGuardArgs};
use crate::output::Outcome;

/// Returns the settings of the guard; `None` without `--guard`.
pub(super) fn settings(args: &KubeArgs, connection: &Connection) -> Result<Option<GuardConfig>> {
    let args = &args.guard;
    if !args.guard {
        return Ok(None);
    }
    let namespace = match (&args.namespace, connection.place()) {
        (Some(namespace), _) => namespace.clone(),
        (None, Place::Pod) => connection.namespace().to_owned(),
        (None, Place::Outside) => NAME.to_owned(),
    };
    let endpoint = match (&args.webhook_url, connection.place()) {
        (Some(url), _) => Endpoint::Url(url.clone()),
        (None, Place::Pod) => {
            Endpoint::Service { namespace: namespace.clone(), name: GUARD.to_owned() }
        }
        (None, Place::Outside) => bail!(
            "outside the cluster the API server cannot find the webhooks; give the address at which \
             it reaches this machine, such as --webhook-url https://192.0.2.7:9443"
        ),
    };
    let mut addresses = args
        .webhook_listen
        .to_socket_addrs()
        .with_context(|| format!("--webhook-listen {} is no address", args.webhook_listen))?;
    let listen = addresses
        .next()
        .with_context(|| format!("--webhook-listen {} has no address", args.webhook_listen))?;
    let files = args.webhook_cert.clone().zip(args.webhook_key.clone());
    let certificates = match files.zip(args.webhook_ca.clone()) {
        Some(((cert, key), authority)) => CertificateSource::Files { cert, key, authority },
        None => CertificateSource::Own,
    };
    Ok(Some(GuardConfig { namespace, listen, endpoint, certificates }))
}

/// Returns what the server must know of the guard.
pub(super) fn guarding(settings: &GuardConfig) -> Guarding {
    let namespace = settings.namespace.as_str().into();
    Guarding { namespace, counters: GuardCounters::default() }
}

/// Removes the webhooks and the policy.
pub(super) fn uninstall(args: &UninstallGuardArgs) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("could not start a thread")?;
    let access = Access { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() };
    runtime.block_on(async {
        let connection = Connection::open(&access).await?;
        Registration::remove(&connection).await?;
        anstream::println!(
            "the webhooks and the policy of the guard are removed from {}; no binding is checked",
            connection.server()
        );
        Ok(Outcome::Fine)
    })
}
