//! How the server is to behave: what the file says, what was typed over it, and what holds where neither says anything.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use plimsoll_core::event::Settings;
use plimsoll_core::policy::Policy;
use plimsoll_slots::desk::DeskConfig;
use plimsoll_slots::model::Model;
use plimsoll_slots::size::{Size, Span};
use serde::Deserialize;

use super::guard::tokens::{Entry, Tokens};
use super::schedulerlog;
use crate::log::LogFormat;

/// Options from the command line. They override the configuration file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub listen: Option<String>,
    pub data: Option<PathBuf>,
    pub config: Option<PathBuf>,
    pub tls: Option<TlsFiles>,
    /// A file with a token that grants every right.
    pub token_file: Option<PathBuf>,
    pub log: Option<LogFormat>,
    pub log_decisions: bool,
}

/// A configuration that can be used.
#[derive(Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The data directory.
    pub data: PathBuf,
    /// How the core behaves.
    pub settings: Settings,
    /// How the desk behaves.
    pub desk: DeskConfig,
    /// Models to declare at the start; `None` where the configuration does not speak of models.
    pub models: Option<Vec<Model>>,
    /// How much of the scheduler's log is kept for the API.
    pub(crate) schedulerlog: schedulerlog::Settings,
    /// Who may do what.
    pub(crate) tokens: Tokens,
    /// How much may be asked at once.
    pub limits: Limits,
    /// The certificate to show, and its key.
    pub tls: Option<TlsFiles>,
    /// How to log.
    pub log: LogFormat,
    /// Whether to log the steps of every decision.
    pub log_decisions: bool,
}

/// A configuration, and what should be said about it once there is a log.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What its operator should know.
    pub warnings: Vec<String>,
}

/// How much may be asked at once.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The largest body of a request.
    pub body: Size,
    /// The largest body of what a runner says.
    pub runner_body: Size,
    /// How long a client may take to send the head of a request, and how long an idle connection is kept.
    pub header_timeout: Span,
    /// How long a request may take, besides the time that it asks to wait.
    pub request_timeout: Span,
    /// Requests a second from one address, in the long run.
    pub requests_per_second: u32,
    /// Requests at once from one address.
    pub burst: u32,
    /// Connections at once.
    pub connections: usize,
    /// How long requests that are being served may take to end when the server is asked to end.
    pub drain: Span,
}

impl Default for Limits {
    fn default() -> Self {
        let mib = |mib: u64| Size(plimsoll_core::units::Bytes::new(mib << 20));
        Limits {
            body: mib(1),
            runner_body: mib(8),
            header_timeout: Span::seconds(10),
            request_timeout: Span::seconds(30),
            requests_per_second: 1000,
            burst: 2000,
            connections: 4096,
            drain: Span::seconds(10),
        }
    }
}

/// A certificate and its key, in files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The certificate, with its chain.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// What can stand in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    listen: Option<String>,
    data: Option<PathBuf>,
    policy: Option<String>,
    heartbeat: Option<Span>,
    lease: Option<Span>,
    residency: Option<Span>,
    models: Option<Vec<Model>>,
    schedulerlog: schedulerlog::Settings,
    tokens: Vec<Entry>,
    limits: Limits,
    tls: Option<TlsFiles>,
    log: Option<LogFormat>,
    log_decisions: bool,
}

/// Reads the configuration and everything that it names.
pub fn load(options: &Options) -> Result<Loaded> {
    let (file, at) = match &options.config {
        Some(path) => (read(path)?, path.parent().unwrap_or(Path::new(""))),
        None => (File::default(), Path::new("")),
    };
    let mut warnings = Vec::new();
    let tokens = Tokens::load(&file.tokens, at, options.token_file.as_deref(), &mut warnings)?;
    let listen = address(options.listen.as_deref().or(file.listen.as_deref()))?;
    let beside = |files: TlsFiles| TlsFiles { cert: at.join(files.cert), key: at.join(files.key) };
    let config = Config {
        listen,
        data: data(options.data.clone().or(file.data.map(|data| at.join(data))))?,
        settings: settings(file.policy.as_deref(), file.residency)?,
        desk: desk_config(file.heartbeat, file.lease)?,
        models: distinct(file.models)?,
        schedulerlog: file.schedulerlog,
        tokens,
        limits: sensible(file.limits)?,
        tls: options.tls.clone().or(file.tls.map(beside)),
        log: options.log.or(file.log).unwrap_or_default(),
        log_decisions: options.log_decisions || file.log_decisions,
    };
    warnings.extend(exposed(&config)?);
    Ok(Loaded { config, warnings })
}

/// Beyond this machine, nobody is let in without a token.
fn exposed(config: &Config) -> Result<Option<String>> {
    if config.listen.ip().is_loopback() {
        return Ok(None);
    }
    if config.tokens.is_empty() {
        bail!(
            "{} can be reached from other machines, and there is no token; give one with --token-file or \
             with tokens in the configuration, or listen on 127.0.0.1",
            config.listen
        );
    }
    let unencrypted = "tokens go unencrypted over the network; give --tls-cert and --tls-key, or put a proxy with TLS in front";
    Ok(config.tls.is_none().then(|| unencrypted.to_string()))
}

fn read(path: &Path) -> Result<File> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .with_context(|| format!("could not read the configuration {shown}"))?;
    if text.trim().is_empty() {
        return Ok(File::default());
    }
    // A snippet of the file is left out of the message: it could show a token that was written in the wrong place.
    let options = serde_saphyr::options! { with_snippet: false };
    let wrong =
        |error: serde_saphyr::Error| anyhow!("{shown}: {}", in_our_words(&error.to_string()));
    serde_saphyr::from_str_with_options(&text, options).map_err(wrong)
}

/// What the reader says to programmers, in words for people.
fn in_our_words(said: &str) -> String {
    said.replace("duplicate mapping key: ", "it has twice the key ")
        .replace(", set DuplicateKeyPolicy in Options if acceptable", "")
}

fn address(wanted: Option<&str>) -> Result<SocketAddr> {
    let Some(wanted) = wanted else { return Ok((Ipv4Addr::LOCALHOST, 8080).into()) };
    let found = wanted.to_socket_addrs().map(|mut addresses| addresses.next());
    let found =
        found.with_context(|| format!("could not find the address {wanted} to listen on"))?;
    found.ok_or_else(|| anyhow!("{wanted} has no address to listen on"))
}

fn data(wanted: Option<PathBuf>) -> Result<PathBuf> {
    let absolute =
        |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state =
        || absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    wanted
        .or_else(|| Some(state()?.join("plimsoll")))
        .context("neither XDG_STATE_HOME nor HOME is set; give a data directory with --data")
}

fn settings(policy: Option<&str>, residency: Option<Span>) -> Result<Settings> {
    let policy = policy.unwrap_or("spread");
    let names = || Policy::all().map(|policy| policy.name.to_string()).join(", ");
    let found = Policy::called(policy);
    Ok(Settings {
        policy: found
            .with_context(|| format!("policy: there is no policy {policy:?}, but {}", names()))?,
        residency: residency.unwrap_or(Span::seconds(30)).into(),
        serial_starts: true,
        // A runner that says nothing is noticed by its lease, whatever it measures.
        telemetry_for: None,
        ..Settings::default()
    })
}

fn desk_config(heartbeat: Option<Span>, lease: Option<Span>) -> Result<DeskConfig> {
    let usual = DeskConfig::default();
    let heartbeat = heartbeat.unwrap_or(usual.heartbeat);
    let lease = lease.unwrap_or(usual.lease);
    if heartbeat < Span(100) {
        bail!("heartbeat must be at least 100ms, not {heartbeat}");
    }
    if lease.0 < heartbeat.0.saturating_mul(2) {
        bail!(
            "lease: {lease} is less than two heartbeats of {heartbeat}; one late heartbeat would close a runner"
        );
    }
    Ok(DeskConfig { heartbeat, lease, ..usual })
}

fn distinct(models: Option<Vec<Model>>) -> Result<Option<Vec<Model>>> {
    let mut names = BTreeSet::new();
    match models.iter().flatten().find(|model| !names.insert(model.name())) {
        Some(model) => bail!("models: {:?} is declared twice", model.name()),
        None => Ok(models),
    }
}

fn sensible(limits: Limits) -> Result<Limits> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(text: &str) -> Result<Loaded, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("plimsoll.yaml");
        fs::write(&path, text).expect("a file");
        let options = Options { config: Some(path), data: Some("d".into()), ..Options::default() };
        load(&options).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn an_empty_file_is_safe_and_spreads() {
        for text in ["", "\n", "# nothing\n"] {
            let Loaded { config, warnings } = loaded(text).expect("it can be used");
            assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
            assert_eq!(&*config.settings.policy.name, "spread");
            assert!(
                config.settings.serial_starts && config.tokens.is_empty() && warnings.is_empty()
            );
            assert_eq!(
                (config.settings.residency, config.settings.telemetry_for),
                (plimsoll_core::units::Timespan::seconds(30), None)
            );
            assert_eq!(
                (config.schedulerlog.enabled, config.schedulerlog.max_pods.get()),
                (true, 1000)
            );
        }
    }

    #[test]
    fn every_key_is_understood() {
        let text = "listen: 127.0.0.1:9\ndata: d\npolicy: pack\nheartbeat: 1s\nlease: 5s\nresidency: 1m\n\
models: [{name: m, memory: 1GiB, runtime: {command: {argv: [serve]}}}]\n\
schedulerlog: {enabled: false, max_pods: 5}\n\
tokens: [{name: a, role: read, sha256: 0000000000000000000000000000000000000000000000000000000000000000}]\n\
limits: {body: 2MiB, runner_body: 16MiB, header_timeout: 5s, request_timeout: 20s, requests_per_second: 10, burst: 20, connections: 30, drain: 1s}\n\
tls: {cert: c.pem, key: k.pem}\nlog: json\nlog_decisions: true\n";
        let Loaded { config, .. } = loaded(text).expect("it can be used");
        assert_eq!(
            config.desk,
            DeskConfig {
                heartbeat: Span::seconds(1),
                lease: Span::seconds(5),
                ..DeskConfig::default()
            }
        );
        assert_eq!(config.limits.body.0.get(), 2 << 20);
        assert!(
            config.tls.is_some_and(|tls| tls.cert.is_absolute() && tls.cert.ends_with("c.pem"))
        );
        assert_eq!(config.models.map(|models| models.len()), Some(1));
        assert_eq!((config.log, config.log_decisions), (LogFormat::Json, true));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, parts) in [
            ("listen: 127.0.0.1:9\npolcy: pack", &["polcy", "line 2"][..]),
            ("policy: best", &["policy", "best", "pack-nodes"]),
            ("limits: {bdy: 1}", &["bdy", "line 1"]),
            ("limits: {body: 0}", &["limits.body"]),
            ("limits: {body: 1GB}", &["1GB", "line 1"]),
            ("schedulerlog: {max: 1}", &["max", "line 1"]),
            ("schedulerlog: {max_pods: 0}", &["max_pods is 0", "at least 1"]),
            ("policy: pack\npolicy: spread", &["twice the key policy"]),
            ("\ntls: {cert: a}", &["key", "line 2"]),
            ("heartbeat: 2", &["2", "line 1"]),
            ("heartbeat: 1ms", &["heartbeat", "100ms"]),
            ("lease: 3s", &["lease: 3s", "two heartbeats of 2s"]),
            ("models:\n- name: m\n  memroy: 1\n", &["memroy", "line 3"]),
            (
                "models:\n- {name: m, concurrency: 0, runtime: {command: {argv: [x]}}}\n",
                &["concurrency"],
            ),
            (
                "models:\n- &m {name: m, runtime: {command: {argv: [x]}}}\n- *m\n",
                &["\"m\" is declared twice"],
            ),
            ("listen: nowhere", &["nowhere"]),
            ("listen: 0.0.0.0:80", &["0.0.0.0:80", "--token-file", "127.0.0.1"]),
        ] {
            let error = loaded(text).map(|_| ()).expect_err(text);
            for part in parts {
                assert!(error.contains(part), "{text}: {part} is not in: {error}");
            }
        }
    }

    #[test]
    fn a_token_in_the_wrong_place_is_not_repeated() {
        for text in [
            "token: s3cret-s3cret-s3cret",
            "tokens: [{name: a, role: read, token: s3cret-s3cret-s3cret}]",
        ] {
            let error = loaded(text).map(|_| ()).expect_err(text);
            assert!(error.contains("token") && !error.contains("s3cret"), "{error}");
        }
    }
}
