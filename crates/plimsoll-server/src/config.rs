//! The configuration of the standalone server: the file, overridden by command-line options.
//!
//! [`http`] has the part that every server shares.

mod accounts;
pub mod http;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use plimsoll_core::event::Settings;
use plimsoll_core::policy::Policy;
use plimsoll_slots::desk::{DeskConfig, EndedSlotLimits, PendingLimits};
use plimsoll_slots::lease::Lease;
use plimsoll_slots::model::Model;
use plimsoll_slots::size::Span;
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer};

use super::guard::tokens::TokenEntry;
use super::schedulerlog;
use crate::log::LogFormat;
use accounts::ShareEntry;
pub use accounts::read_accounts;
use http::{Callers, HttpConfig, HttpSettings, Limits, TlsFiles};

/// Options from the command line. They override the configuration file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub listen: Option<String>,
    pub data: Option<PathBuf>,
    pub config: Option<PathBuf>,
    pub tls: Option<TlsFiles>,
    /// A file with a token of the role `all`.
    pub token_file: Option<PathBuf>,
    pub callers: Callers,
    pub log: Option<LogFormat>,
    pub log_decisions: bool,
}

/// The configuration of the standalone server, ready to use.
#[derive(Debug)]
pub struct Config {
    pub http: HttpConfig,
    pub log: LogConfig,
    /// The data directory that was chosen; `None` for the default one.
    pub data: Option<PathBuf>,
    /// The settings of the scheduler.
    pub settings: Settings,
    pub desk: DeskConfig,
    /// Models to declare at startup; `None` if the configuration does not mention models.
    pub models: Option<Vec<Model>>,
    pub(crate) schedulerlog: schedulerlog::Settings,
}

/// The log settings of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogConfig {
    pub format: LogFormat,
    pub decisions: DecisionLogging,
}

/// Selects whether the steps of every decision are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecisionLogging {
    #[default]
    Off,
    On,
}

/// A configuration, and warnings about it to log once there is a log.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    pub warnings: Vec<String>,
}

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    listen: Option<String>,
    data: Option<PathBuf>,
    policy: Option<PolicyName>,
    heartbeat: Option<Span>,
    lease: Option<Span>,
    residency: Option<Span>,
    reservation_lease: Option<Lease>,
    pending: PendingFile,
    ended_slots: EndedSlotsEntry,
    accounts: BTreeMap<String, ShareEntry>,
    max_models: Option<usize>,
    models: Option<Vec<Model>>,
    schedulerlog: schedulerlog::Settings,
    tokens: Vec<TokenEntry>,
    limits: Limits,
    tls: Option<TlsFiles>,
    log: Option<LogFormat>,
    log_decisions: bool,
}

/// The name of a policy. An unknown one is an error of its line.
#[derive(Debug)]
struct PolicyName(Policy);

impl<'de> Deserialize<'de> for PolicyName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<PolicyName, D::Error> {
        let name = String::deserialize(from)?;
        Policy::called(&name).map(PolicyName).ok_or_else(|| {
            let names = Policy::all().map(|policy| policy.name.to_string()).join(", ");
            de::Error::custom(format!(
                "policy: there is no policy {name:?}; the policies are {names}"
            ))
        })
    }
}

/// The limits on the ended slots that are kept.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct EndedSlotsEntry {
    count: Option<usize>,
    keep: Option<Span>,
}

/// The limits on pending reservations.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PendingFile {
    total: Option<u32>,
    per_namespace: Option<u32>,
}

/// Reads the configuration and all files that it names.
pub fn load(options: &Options) -> Result<Loaded> {
    let (file, dir) = match &options.config {
        Some(path) => (read_yaml::<File>(path)?, path.parent().unwrap_or(Path::new(""))),
        None => (File::default(), Path::new("")),
    };
    let mut warnings = Vec::new();
    let http = HttpSettings {
        listen: options.listen.clone().or(file.listen),
        tls: options.tls.clone().or(file.tls.map(|files| files.resolved(dir))),
        limits: file.limits,
        tokens: file.tokens,
        token_file: options.token_file.clone(),
        callers: options.callers,
    };
    let decisions = match options.log_decisions || file.log_decisions {
        true => DecisionLogging::On,
        false => DecisionLogging::Off,
    };
    let config = Config {
        http: HttpConfig::load(http, dir, &mut warnings)?,
        log: LogConfig { format: options.log.or(file.log).unwrap_or_default(), decisions },
        data: options.data.clone().or(file.data.map(|data| dir.join(data))),
        settings: Settings {
            accounts: accounts::shares(file.accounts)?,
            ..settings(file.policy, file.residency)
        },
        desk: DeskConfig {
            reservation_lease: file.reservation_lease.unwrap_or(Lease::DEFAULT),
            pending: pending_limits(&file.pending)?,
            ended_slots: ended_slots(&file.ended_slots)?,
            max_models: max_models(file.max_models)?,
            ..desk_config(file.heartbeat, file.lease)?
        },
        models: distinct(file.models)?,
        schedulerlog: file.schedulerlog,
    };
    Ok(Loaded { config, warnings })
}

/// Reads a YAML file; an empty one has all defaults. Errors name the line.
pub(crate) fn read_yaml<T: DeserializeOwned + Default>(path: &Path) -> Result<T> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration {shown}"))?;
    if text.trim().is_empty() {
        return Ok(T::default());
    }
    // Messages must not quote the file: a token in the wrong place would be in the log.
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(&text, options)
        .map_err(|error| anyhow!("{shown}: {}", yaml_message(&error)))
}

/// Rewrites messages that the YAML parser addresses to programmers.
fn yaml_message(error: &serde_saphyr::Error) -> String {
    error
        .to_string()
        .replace("duplicate mapping key: ", "duplicate key ")
        .replace("unknown variant ", "unknown value ")
        .replace(", set DuplicateKeyPolicy in Options if acceptable", "")
}

fn ended_slots(entry: &EndedSlotsEntry) -> Result<EndedSlotLimits> {
    let default = EndedSlotLimits::DEFAULT;
    let count = entry.count.unwrap_or(default.count);
    if count > 100_000 {
        bail!("ended_slots.count must be at most 100000, not {count}");
    }
    Ok(EndedSlotLimits { count, keep: entry.keep.unwrap_or(default.keep) })
}

fn max_models(configured: Option<usize>) -> Result<usize> {
    match configured {
        Some(0) => bail!("max_models is 0, and must be at least 1"),
        Some(models) => Ok(models),
        None => Ok(DeskConfig::default().max_models),
    }
}

impl Config {
    /// Returns the data directory of a standalone server.
    ///
    /// # Errors
    ///
    /// None was chosen, and the environment does not say where the default one is.
    pub fn data_dir(&self) -> Result<PathBuf> {
        let chosen = self.data.clone();
        chosen
            .or_else(|| Some(state_home()?.join("plimsoll")))
            .context("neither XDG_STATE_HOME nor HOME is set; set a data directory with --data")
    }
}

fn state_home() -> Option<PathBuf> {
    absolute_path_in("XDG_STATE_HOME")
        .or_else(|| Some(absolute_path_in("HOME")?.join(".local/state")))
}

fn absolute_path_in(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn settings(policy: Option<PolicyName>, residency: Option<Span>) -> Settings {
    Settings {
        policy: policy.map_or_else(Policy::spread, |PolicyName(policy)| policy),
        residency: residency.unwrap_or(Span::seconds(30)).into(),
        serial_starts: true,
        // The lease of a runner detects its silence, whether or not it measures.
        telemetry_for: None,
        ..Settings::default()
    }
}

fn desk_config(heartbeat: Option<Span>, lease: Option<Span>) -> Result<DeskConfig> {
    let default = DeskConfig::default();
    let heartbeat = heartbeat.unwrap_or(default.heartbeat);
    let lease = lease.unwrap_or(default.lease);
    if heartbeat < Span(100) {
        bail!("heartbeat must be at least 100ms, not {heartbeat}");
    }
    if lease.0 < heartbeat.0.saturating_mul(2) {
        bail!(
            "lease: {lease} is less than two heartbeats of {heartbeat}; one late heartbeat would \
             close a runner"
        );
    }
    Ok(DeskConfig { heartbeat, lease, ..default })
}

fn pending_limits(file: &PendingFile) -> Result<PendingLimits> {
    let at_least_one = |name: &str, configured: Option<u32>, default| match configured {
        None => Ok(default),
        Some(limit) => NonZeroU32::new(limit)
            .with_context(|| format!("pending.{name} is 0, and must be at least 1")),
    };
    let default = PendingLimits::DEFAULT;
    Ok(PendingLimits {
        total: at_least_one("total", file.total, default.total)?,
        per_namespace: at_least_one("per_namespace", file.per_namespace, default.per_namespace)?,
    })
}

fn distinct(models: Option<Vec<Model>>) -> Result<Option<Vec<Model>>> {
    let mut names = BTreeSet::new();
    match models.iter().flatten().find(|model| !names.insert(model.name())) {
        Some(model) => bail!("models: {:?} is declared twice", model.name()),
        None => Ok(models),
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
            let Loaded { config, warnings } = loaded(text).expect("a valid configuration");
            assert_eq!(config.http.listen.to_string(), "127.0.0.1:8080");
            assert_eq!(&*config.settings.policy.name, "spread");
            assert!(
                config.settings.serial_starts
                    && config.http.tokens.is_empty()
                    && warnings.is_empty()
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
        let text = "listen: 127.0.0.1:9\ndata: d\npolicy: pack\nheartbeat: 1s\nlease: 5s\nresidency: 1m\nreservation_lease: 5m\npending: {total: 50, per_namespace: 20}\nmax_models: 7\n\
accounts: {team: {members: [m], guaranteed: {memory: 40GiB}, maximum: {memory: 60GiB, devices: 2}, weight: 2}}\n\
models: [{name: m, memory: 1GiB, runtime: {command: {argv: [serve]}}}]\n\
schedulerlog: {enabled: false, max_pods: 5}\n\
tokens: [{name: a, role: read, sha256: 0000000000000000000000000000000000000000000000000000000000000000}]\n\
limits: {body: 2MiB, runner_body: 16MiB, header_timeout: 5s, request_timeout: 20s, requests_per_second: 10, burst: 20, connections: 30, drain: 1s}\n\
tls: {cert: c.pem, key: k.pem}\nlog: json\nlog_decisions: true\n";
        let Loaded { config, .. } = loaded(text).expect("a valid configuration");
        assert_eq!(
            config.desk,
            DeskConfig {
                heartbeat: Span::seconds(1),
                lease: Span::seconds(5),
                reservation_lease: Lease::For(Span::seconds(300)),
                pending: PendingLimits {
                    total: NonZeroU32::new(50).expect("more than none"),
                    per_namespace: NonZeroU32::new(20).expect("more than none"),
                },
                max_models: 7,
                ..DeskConfig::default()
            }
        );
        let team = config.settings.accounts.get("team").expect("a share");
        assert_eq!((team.maximum.devices, team.weight.get()), (Some(2), 2));
        assert_eq!(config.http.limits.body.0.get(), 2 << 20);
        assert!(config.http.tls.is_some_and(|tls| matches!(tls, http::Certificate::Files(tls)
                    if tls.cert.is_absolute() && tls.cert.ends_with("c.pem"))));
        assert_eq!(config.models.map(|models| models.len()), Some(1));
        assert_eq!(
            config.log,
            LogConfig { format: LogFormat::Json, decisions: DecisionLogging::On }
        );
    }

    #[test]
    fn an_error_names_the_key_and_its_line() {
        for (text, parts) in [
            ("listen: 127.0.0.1:9\npolcy: pack", &["polcy", "line 2"][..]),
            ("policy: best", &["policy", "best", "pack-nodes", "line 1"]),
            ("limits: {bdy: 1}", &["bdy", "line 1"]),
            ("limits: {body: 0}", &["limits.body"]),
            ("limits: {body: 1 gig}", &["1 gig", "line 1"]),
            ("schedulerlog: {max: 1}", &["max", "line 1"]),
            ("schedulerlog: {max_pods: 0}", &["max_pods is 0", "at least 1"]),
            ("policy: pack\npolicy: spread", &["duplicate key policy"]),
            ("\ntls: {cert: a}", &["key", "line 2"]),
            ("heartbeat: 2", &["2", "line 1"]),
            ("heartbeat: 1ms", &["heartbeat", "100ms"]),
            ("reservation_lease: 5ms", &["5ms", "at least 1s", "off", "line 1"]),
            ("reservation_lease: never", &["never", "10m", "line 1"]),
            ("max_models: 0", &["max_models is 0", "at least 1"]),
            ("pending: {total: 0}", &["pending.total is 0", "at least 1"]),
            ("pending: {per_namespace: 0}", &["pending.per_namespace is 0"]),
            ("pending: {total: -1}", &["line 1, column 18"]),
            ("pending: {all: 1}", &["all", "line 1"]),
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
            (
                "accounts: {a: {guaranteed: {memory: -1GiB}}}",
                &["accounts.a.guaranteed.memory", "-1GiB"],
            ),
            ("accounts: {a: {maximum: {memory: -5}}}", &["accounts.a.maximum.memory", "-5"]),
            ("accounts: {a: {maximum: {devices: -1}}}", &["accounts.a.maximum.devices is -1"]),
            ("accounts: {a: {maximum: {devices: two}}}", &["accounts.a.maximum.devices is two"]),
            ("accounts: {a: {weight: 0}}", &["accounts.a.weight is 0", "at least 1"]),
            ("accounts: {a: {parent: b}}", &["accounts.a.parent", "no account b"]),
            ("accounts: {a: {guarantee: {memory: 1GiB}}}", &["guarantee", "guaranteed", "line 1"]),
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
