//! Arguments of `plimsoll kube`.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueHint};

use super::{LogFormat, Plain};

pub(super) const EXAMPLES: &str = "Examples:\n  plimsoll kube --kubeconfig ~/.kube/config\n  \
plimsoll kube --listen 0.0.0.0:8443 --token-file token --tls-cert cert.pem --tls-key key.pem\n\n\
It only reads: nothing is written to the cluster. Without --kubeconfig the rules of kubectl apply; in a pod, its\n\
service account is used. Options override the configuration file.\n\n\
Exit codes: 0 shut down on request; 2 error.";

#[derive(Args, Debug)]
pub(crate) struct KubeArgs {
    /// The kubeconfig [default: as kubectl]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Cluster")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub(crate) context: Option<String>,
    /// The address to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
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
}
