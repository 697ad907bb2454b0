//! The way to an API server: kubeconfig, context and namespace, by the rules of kubectl.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::error::ClusterError;

/// The time to connect to the API server.
const CONNECT: Duration = Duration::from_secs(10);

/// The time without a byte after which a connection counts as lost. The API server sends a bookmark
/// about every minute on a quiet watch.
const READ: Duration = Duration::from_secs(150);

/// The cluster to use, as far as the user named it.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The only file to read; else the files of `$KUBECONFIG`, else `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// Else the current context.
    pub context: Option<String>,
}

/// A client of one API server.
#[derive(Clone)]
pub struct Connection {
    pub(crate) client: Client,
    pub(crate) server: String,
    namespace: String,
    place: Place,
}

/// The place of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Outside the cluster, with a kubeconfig.
    Outside,
    /// In a pod of the cluster, with its service account.
    Pod,
}

impl Connection {
    /// Prepares a client. Nothing is sent yet.
    pub async fn open(access: &Access) -> Result<Connection, ClusterError> {
        // A second installation fails, and the first one is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (mut config, place) = config(access).await?;
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(READ);
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let namespace = config.default_namespace.clone();
        let client = Client::try_from(config)
            .map_err(|error| ClusterError::Config { why: error.to_string() })?;
        Ok(Connection { client, server, namespace, place })
    }

    /// Returns the address of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the namespace of the context; `default` if it has none.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns where this process runs.
    pub fn place(&self) -> Place {
        self.place
    }
}

async fn config(access: &Access) -> Result<(Config, Place), ClusterError> {
    let files = match &access.kubeconfig {
        Some(file) => Files { paths: vec![file.clone()], missing: Missing::Error },
        None => Files::from_environment(),
    };
    let Some(kubeconfig) = files.read()? else {
        return Ok((in_cluster(&files)?, Place::Pod));
    };
    let known: Vec<String> = kubeconfig.contexts.iter().map(|one| one.name.clone()).collect();
    let options = KubeConfigOptions { context: access.context.clone(), ..Default::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.map(|config| (config, Place::Outside)).map_err(|error| match error {
        KubeconfigError::CurrentContextNotSet => ClusterError::NoContext { known },
        KubeconfigError::LoadContext(wanted) => ClusterError::UnknownContext { wanted, known },
        other => ClusterError::Config { why: other.to_string() },
    })
}

fn in_cluster(files: &Files) -> Result<Config, ClusterError> {
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        let looked_for: Vec<String> =
            files.paths.iter().map(|path| path.display().to_string()).collect();
        return Err(ClusterError::NoKubeconfig { looked_for: looked_for.join(", ") });
    }
    Config::incluster().map_err(|error| ClusterError::InCluster { why: error.to_string() })
}

/// The files of a kubeconfig, the first of which wins.
struct Files {
    paths: Vec<PathBuf>,
    missing: Missing,
}

/// The meaning of a file that does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Error,
    Skip,
}

impl Files {
    fn from_environment() -> Files {
        let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
        let mut paths: Vec<PathBuf> =
            std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
        if paths.is_empty() {
            let home = std::env::var_os("HOME").unwrap_or_default();
            paths.push(Path::new(&home).join(".kube/config"));
        }
        Files { paths, missing: Missing::Skip }
    }

    /// Reads and merges the files; `None` if none of them exists.
    fn read(&self) -> Result<Option<Kubeconfig>, ClusterError> {
        let mut merged: Option<Kubeconfig> = None;
        for path in &self.paths {
            if self.missing == Missing::Skip && !path.exists() {
                continue;
            }
            let failed = |error: KubeconfigError| ClusterError::Kubeconfig {
                path: path.clone(),
                why: match error {
                    KubeconfigError::ReadConfig(error, _) => error.to_string(),
                    other => other.to_string(),
                },
            };
            let next = Kubeconfig::read_from(path).map_err(failed)?;
            merged = Some(match merged {
                Some(first) => first.merge(next).map_err(failed)?,
                None => next,
            });
        }
        Ok(merged)
    }
}
