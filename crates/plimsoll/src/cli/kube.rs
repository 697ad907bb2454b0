//! Arguments of `plimsoll kube`.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand, ValueHint};
use plimsoll_cluster::manifests;

use super::{LogFormat, Plain};

pub(super) const EXAMPLES: &str = "Examples:\n  plimsoll kube --kubeconfig ~/.kube/config\n  \
plimsoll kube manifests | kubectl apply -f -\n  \
plimsoll kube --guard --webhook-url https://192.0.2.7:9443\n  \
plimsoll kube --listen 0.0.0.0:8443 --token-file token --tls-cert cert.pem --tls-key key.pem\n\n\
Without --guard it only reads: nothing is written to the cluster. Without --kubeconfig the rules of kubectl apply; in a pod, its\n\
service account is used. Options override the configuration file.\n\n\
Exit codes: 0 shut down on request; 2 error.";

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct KubeArgs {
    #[command(subcommand)]
    pub(crate) command: Option<KubeCommand>,
    /// The kubeconfig [default: as kubectl]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Cluster")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub(crate) context: Option<String>,
    /// The address to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// A directory for the history of decisions, which `plimsoll replay` reads, and without --guard
    /// for the record of holders [default: neither is kept]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: Option<PathBuf>,
    /// The configuration file (YAML): tokens, TLS, limits, policy and log, as for `plimsoll serve`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// The server certificate with its chain; requires --tls-key
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath, requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A file with a token that grants every right; restricted tokens go into the configuration
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Accept only callers with a token: of the cluster, or a configured one; the default wherever
    /// others can connect
    #[arg(long)]
    pub(crate) cluster_users: bool,
    /// The log format on standard error; RUST_LOG filters it [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) log: Option<LogFormat>,
    /// Log the steps of every decision
    #[arg(long)]
    pub(crate) log_decisions: bool,
    /// Count a device request without declared memory on a shared card as
    #[arg(long, value_name = "RULE", value_enum, default_value_t = Plain::Whole)]
    pub(crate) plain: Plain,
    /// The node label of KAI's node pools
    #[arg(long, value_name = "KEY", default_value = "kai.scheduler/node-pool")]
    pub(crate) node_pool_key: String,
    /// Judge without regard to how much nodes advertise of this resource
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    pub(crate) ignore_resource: Vec<String>,
    #[command(flatten)]
    pub(crate) guard: GuardArgs,
}

/// The guard.
#[derive(Args, Debug)]
#[command(next_help_heading = "Guard")]
pub(crate) struct GuardArgs {
    /// Check every binding in namespaces with the label plimsoll.dev/line=enforce or warn
    #[arg(long)]
    pub(crate) guard: bool,
    /// Plimsoll's own namespace, for the lease and the certificates [default: that of the pod, else
    /// plimsoll]
    #[arg(short, long, value_name = "NAME", requires = "guard", value_parser = namespace)]
    pub(crate) namespace: Option<String>,
    /// The address to listen on for the API server
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9443")]
    pub(crate) webhook_listen: String,
    /// The URL at which the API server reaches this process, outside the cluster [default: the
    /// service plimsoll-guard]
    #[arg(long, value_name = "URL", requires = "guard", value_parser = webhook_url)]
    pub(crate) webhook_url: Option<String>,
    /// A certificate for the webhooks, rotated by others [default: made and rotated here]
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath, requires_all = ["guard", "webhook_key", "webhook_ca"])]
    pub(crate) webhook_cert: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath, requires = "webhook_cert")]
    pub(crate) webhook_key: Option<PathBuf>,
    /// The authority that signed it, which the API server is to trust
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath, requires = "webhook_cert")]
    pub(crate) webhook_ca: Option<PathBuf>,
}

/// Parses a URL without path: API servers call webhooks by HTTPS only.
fn webhook_url(text: &str) -> Result<String, String> {
    let host = text.trim_end_matches('/').strip_prefix("https://");
    match host.filter(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@', ' '])) {
        Some(_) => Ok(text.to_owned()),
        None => Err("the URL is https://HOST:PORT, without a path".to_owned()),
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum KubeCommand {
    /// Print the objects that install `plimsoll kube` in a cluster
    #[command(after_help = MANIFESTS)]
    Manifests(ManifestsArgs),
    /// Remove the webhooks and the policy of the guard: no binding is checked afterwards
    #[command(after_help = UNINSTALL)]
    UninstallGuard(UninstallGuardArgs),
}

const UNINSTALL: &str = "Examples:\n  plimsoll kube uninstall-guard\n  \
plimsoll kube uninstall-guard --kubeconfig ~/.kube/config\n\n\
Pods run on, and labels of namespaces stay. A replica that runs registers them again when it begins to lead: stop the\n\
replicas too.\n\n\
Exit codes: 0 removed, or not there; 2 error.";

#[derive(Args, Debug)]
pub(crate) struct UninstallGuardArgs {
    /// The kubeconfig [default: as kubectl]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

const MANIFESTS: &str = "Examples:\n  plimsoll kube manifests --image registry.example/plimsoll:0.1.0 | kubectl apply -f -\n  \
plimsoll kube manifests --guard --namespace gpu-system > plimsoll.yaml\n\n\
Exit codes: 0 printed; 2 error.";

#[derive(Args, Debug)]
pub(crate) struct ManifestsArgs {
    /// Install the guard too: two replicas, webhooks, and the policy for annotations
    #[arg(long)]
    pub(crate) guard: bool,
    /// The namespace to install in
    #[arg(short, long, value_name = "NAME", default_value = manifests::NAME, value_parser = namespace)]
    pub(crate) namespace: String,
    /// The image of the program
    #[arg(long, value_name = "IMAGE", default_value = concat!("plimsoll:", env!("CARGO_PKG_VERSION")), value_parser = image)]
    pub(crate) image: String,
}

/// Parses the name of a namespace: a DNS label.
fn namespace(text: &str) -> Result<String, String> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
    let bytes = text.as_bytes();
    let is_label = bytes.iter().all(|byte| is_inner(*byte))
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.len() <= 63;
    match text {
        "kube-system" => {
            Err("the guard must be able to start without itself, and kube-system has \
                              everything that the cluster needs; choose another namespace"
                .to_owned())
        }
        _ if is_label => Ok(text.to_owned()),
        _ => Err("a namespace has at most 63 lower-case letters, digits and '-', and begins and \
                  ends with a letter or digit"
            .to_owned()),
    }
}

fn image(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_name.then(|| text.to_owned()).ok_or_else(|| "an image has a name without spaces".to_owned())
}
