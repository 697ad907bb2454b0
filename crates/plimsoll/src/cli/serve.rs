//! Arguments of `plimsoll serve`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use plimsoll_slots::size::Span;

use super::LogFormat;

pub(super) const EXAMPLES: &str = "Examples:\n  plimsoll serve --demo\n  plimsoll serve --config plimsoll.yaml\n  \
plimsoll serve --listen 0.0.0.0:8443 --token-file token --tls-cert cert.pem --tls-key key.pem\n\n\
Options override the configuration file. Listening on other than loopback addresses requires a token.\n\
SIGTERM or Ctrl-C shuts down gracefully, a second one immediately; SIGHUP reloads tokens and certificate.\n\n\
Exit codes: 0 shut down on request; 2 error.";

#[derive(Args, Debug, Default)]
pub(crate) struct ServeArgs {
    /// The address to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// The data directory [default: $XDG_STATE_HOME/plimsoll, or ~/.local/state/plimsoll]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: Option<PathBuf>,
    /// The configuration file (YAML)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Check the configuration and all files that it names, and exit
    #[arg(long)]
    pub(crate) check_config: bool,
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
    /// Serve simulated runners under a changing load and narrate; the data directory is temporary
    #[arg(long, conflicts_with = "data")]
    pub(crate) demo: bool,
    /// Shut down after this time, such as 20s
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) lasts: Option<Span>,
}
