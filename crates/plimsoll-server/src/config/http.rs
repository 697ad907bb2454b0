//! HTTP settings that every server has: address, TLS, tokens and limits.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use plimsoll_slots::size::{Size, Span};
use serde::Deserialize;

use crate::guard::tokens::{TokenEntry, Tokens};

/// The HTTP settings of a server, ready to use.
#[derive(Debug)]
pub struct HttpConfig {
    pub listen: SocketAddr,
    pub tls: Option<Certificate>,
    pub limits: Limits,
    pub(crate) tokens: Tokens,
    pub(crate) authentication: Authentication,
}

/// The tokens by which callers are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// By tokens of the configuration. Without any, local processes may do everything.
    #[default]
    Tokens,
    /// By tokens of the configuration and of the cluster that is watched.
    Cluster,
}

/// The callers that a server expects, before its address is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Callers {
    /// Holders of tokens of the configuration; without any, processes of this machine.
    #[default]
    Tokens,
    /// Also users of the cluster, if other machines can connect.
    ClusterUsersIfExposed,
    /// Always also users of the cluster.
    ClusterUsers,
    /// The same in a pod. Its loopback interface is no place of one user: `kubectl port-forward`
    /// ends there.
    ClusterUsersOfPod,
}

/// The certificate of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    Files(TlsFiles),
    /// Made at the start, and signed by itself: it encrypts, and proves nothing.
    SelfSigned,
}

/// The HTTP settings as the configuration file and the command line state them.
#[derive(Debug, Default)]
pub(crate) struct HttpSettings {
    pub(crate) listen: Option<String>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) limits: Limits,
    pub(crate) tokens: Vec<TokenEntry>,
    /// A file with a token of the role `all`, from the command line.
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) callers: Callers,
}

/// Limits for connections and requests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub body: Size,
    /// The body size limit for reports of runners.
    pub runner_body: Size,
    /// The timeout for the headers of a request, and for idle connections.
    pub header_timeout: Span,
    /// The timeout for a request, not counting the time that it asks to wait.
    pub request_timeout: Span,
    /// The sustained rate for one client address.
    pub requests_per_second: u32,
    /// The burst size of the rate limit, for one client address.
    pub burst: u32,
    pub connections: usize,
    /// The timeout for requests in flight at shutdown.
    pub drain: Span,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: mebibytes(1),
            runner_body: mebibytes(8),
            header_timeout: Span::seconds(10),
            request_timeout: Span::seconds(30),
            requests_per_second: 1000,
            burst: 2000,
            connections: 4096,
            drain: Span::seconds(10),
        }
    }
}

fn mebibytes(mib: u64) -> Size {
    Size(plimsoll_core::units::Bytes::new(mib << 20))
}

/// The PEM files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The certificate, with its chain.
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl TlsFiles {
    /// Resolves relative paths against a directory.
    pub(crate) fn resolved(self, dir: &Path) -> TlsFiles {
        TlsFiles { cert: dir.join(self.cert), key: dir.join(self.key) }
    }
}

impl HttpConfig {
    /// Checks the settings and reads the tokens; `dir` is where relative token files are.
    pub(crate) fn load(
        settings: HttpSettings,
        dir: &Path,
        warnings: &mut Vec<String>,
    ) -> Result<HttpConfig> {
        let HttpSettings { listen, tls, limits, tokens, token_file, callers } = settings;
        let listen = resolve_address(listen.as_deref())?;
        let config = HttpConfig {
            listen,
            tls: certificate(tls, callers, listen),
            limits: check_limits(limits)?,
            tokens: Tokens::load(&tokens, dir, token_file.as_deref(), warnings)?,
            authentication: callers.authentication(listen),
        };
        config.check_exposure(warnings)?;
        Ok(config)
    }

    /// Returns whether other machines can connect.
    pub(crate) fn is_exposed(&self) -> bool {
        !self.listen.ip().is_loopback()
    }

    /// Returns whether callers who have no token are taken for local processes.
    pub(crate) fn accepts_any_caller(&self) -> bool {
        self.tokens.is_empty() && self.authentication == Authentication::Tokens
    }

    /// Requires tokens if other machines can connect.
    fn check_exposure(&self, warnings: &mut Vec<String>) -> Result<()> {
        if self.tls == Some(Certificate::SelfSigned) {
            warnings.push(
                "the certificate is made at the start, and clients cannot verify it; set --tls-cert and --tls-key"
                    .to_string(),
            );
        }
        if !self.is_exposed() {
            return Ok(());
        }
        if self.accepts_any_caller() {
            bail!(
                "other machines can connect to {}, and there is no token; set one with --token-file \
                 or with tokens in the configuration, or listen on 127.0.0.1",
                self.listen
            );
        }
        if self.tls.is_none() {
            warnings.push(
                "tokens are sent over the network unencrypted; set --tls-cert and --tls-key, or put \
                 a proxy with TLS in front"
                    .to_string(),
            );
        }
        Ok(())
    }
}

impl Callers {
    fn authentication(self, listen: SocketAddr) -> Authentication {
        match self {
            Callers::ClusterUsersIfExposed if listen.ip().is_loopback() => Authentication::Tokens,
            Callers::Tokens => Authentication::Tokens,
            Callers::ClusterUsersIfExposed | Callers::ClusterUsers | Callers::ClusterUsersOfPod => {
                Authentication::Cluster
            }
        }
    }
}

/// Returns the certificate to use. Tokens of a cluster never cross a network unencrypted.
fn certificate(
    files: Option<TlsFiles>,
    callers: Callers,
    listen: SocketAddr,
) -> Option<Certificate> {
    let own_machine = listen.ip().is_loopback() && callers != Callers::ClusterUsersOfPod;
    match files {
        Some(files) => Some(Certificate::Files(files)),
        None if own_machine || callers == Callers::Tokens => None,
        None => Some(Certificate::SelfSigned),
    }
}

fn resolve_address(address: Option<&str>) -> Result<SocketAddr> {
    let Some(address) = address else { return Ok((Ipv4Addr::LOCALHOST, 8080).into()) };
    let found = address.to_socket_addrs().map(|mut addresses| addresses.next());
    let found = found.with_context(|| {
        format!(
            "cannot resolve the listen address {address}; write HOST:PORT, such as 127.0.0.1:8080"
        )
    })?;
    found.ok_or_else(|| anyhow!("the listen address {address} resolves to nothing"))
}

fn check_limits(limits: Limits) -> Result<Limits> {
    let numbers = [
        ("body", limits.body.0.get()),
        ("runner_body", limits.runner_body.0.get()),
        ("header_timeout", limits.header_timeout.0),
        ("request_timeout", limits.request_timeout.0),
        ("requests_per_second", u64::from(limits.requests_per_second)),
        ("burst", u64::from(limits.burst)),
        ("connections", limits.connections as u64),
    ];
    match numbers.iter().find(|(_, number)| *number == 0) {
        Some((name, _)) => bail!("limits.{name} must be at least 1"),
        None => Ok(limits),
    }
}
