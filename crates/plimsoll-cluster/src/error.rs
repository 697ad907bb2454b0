//! Errors of access to a cluster, with the value at fault and what to do.

use std::path::PathBuf;

use plimsoll_kube::read::ReadError;

/// An error of access to a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "could not read the kubeconfig {}: {why}; give another one with --kubeconfig FILE",
        .path.display()
    )]
    Kubeconfig { path: PathBuf, why: String },
    #[error(
        "no cluster to read: there is no kubeconfig ({looked_for}) and this is not a pod; \
         give one with --kubeconfig FILE"
    )]
    NoKubeconfig { looked_for: String },
    #[error("the service account of this pod cannot be used: {why}")]
    InCluster { why: String },
    #[error(
        "the kubeconfig has no current context; choose one with --context, of {}",
        listed(.known)
    )]
    NoContext { known: Vec<String> },
    #[error("the kubeconfig has no context {wanted:?}; it has {}", listed(.known))]
    UnknownContext { wanted: String, known: Vec<String> },
    #[error("the kubeconfig cannot be used: {why}")]
    Config { why: String },
    #[error(
        "cannot reach the API server {server}: {why}; see whether it runs, and whether this is its \
         address and authority in the kubeconfig"
    )]
    Unreachable { server: String, why: String },
    #[error(
        "the API server {server} does not accept the credentials: {why}; they may have expired: log \
         in again, or choose another user with --context or --kubeconfig"
    )]
    Unauthorized { server: String, why: String },
    #[error(
        "missing rights on {server}: {}; grant them to this account, for the whole cluster where no \
         namespace is named (`plimsoll kube manifests` prints them)",
        .rights.join(", ")
    )]
    MissingRights { server: String, rights: Vec<String> },
    #[error("the API server {server} does not serve what is needed to {what}")]
    NotServed { server: String, what: String },
    #[error("the API server {server} could not {what}: {why}")]
    Answer { server: String, what: String, why: String },
    #[error(
        "the guard of {server} is installed in the namespace {namespace} already, and this one is of \
         {own}; remove the first with `plimsoll kube uninstall-guard`, or stop this one"
    )]
    OtherInstallation { server: String, namespace: String, own: String },
    #[error("cannot use the record of holders {}: {why}", .path.display())]
    HoldersFile { path: PathBuf, why: String },
    #[error("an object of the cluster cannot be read")]
    Read(#[from] ReadError),
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "no context at all".to_owned() } else { names.join(", ") }
}

impl ClusterError {
    /// Converts an error of a request; `what` completes "could not".
    pub(crate) fn from_request(server: &str, what: &str, error: &kube::Error) -> ClusterError {
        let server = server.to_owned();
        match error {
            kube::Error::Api(status) if status.code == 401 => {
                ClusterError::Unauthorized { server, why: status.message.clone() }
            }
            kube::Error::Api(status) if status.code == 403 => {
                ClusterError::MissingRights { server, rights: vec![what.to_owned()] }
            }
            kube::Error::Api(status) if status.code == 404 => {
                ClusterError::NotServed { server, what: what.to_owned() }
            }
            kube::Error::Api(status) => ClusterError::Answer {
                server,
                what: what.to_owned(),
                why: format!("{} ({})", status.message, status.code),
            },
            kube::Error::Auth(why) => ClusterError::Unauthorized { server, why: innermost(why) },
            other => ClusterError::Unreachable { server, why: innermost(other) },
        }
    }

    /// Returns true if trying again later can help.
    pub fn is_temporary(&self) -> bool {
        // What is not served now was served when it was looked for.
        matches!(
            self,
            ClusterError::Unreachable { .. }
                | ClusterError::Answer { .. }
                | ClusterError::NotServed { .. }
        )
    }
}

/// Returns the text of the innermost cause: the outer ones say only which layer failed.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}
