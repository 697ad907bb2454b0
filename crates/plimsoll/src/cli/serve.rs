//! What can be typed after `plimsoll serve`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use plimsoll_slots::size::Span;

use super::LogFormat;

pub(super) const EXAMPLES: &str = "Examples:\n  plimsoll serve --demo\n  plimsoll serve --config plimsoll.yaml\n  \
plimsoll serve --listen 0.0.0.0:8443 --token-file token --tls-cert cert.pem --tls-key key.pem\n\n\
What is given here overrides the configuration file. Beyond this machine, a token is needed.\n\
SIGTERM or Ctrl-C ends it, a second one at once; SIGHUP reads tokens and certificate again.\n\n\
Exit codes: 0 asked to end; 2 error.";

#[derive(Args, Debug, Default)]
pub(crate) struct ServeArgs {
    /// Where to listen [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// The data directory [default: $XDG_STATE_HOME/plimsoll, or ~/.local/state/plimsoll]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: Option<PathBuf>,
    /// The configuration, as YAML
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Read the configuration and everything that it names, say whether it can be used, and end
    #[arg(long)]
    pub(crate) check_config: bool,
    /// The certificate to show, with its chain; it needs --tls-key
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath, requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A file with a token that may do everything; tokens with fewer rights stand in the configuration
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// How to write the log to standard error; RUST_LOG chooses what is in it [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) log: Option<LogFormat>,
    /// Log the steps of every decision
    #[arg(long)]
    pub(crate) log_decisions: bool,
    /// Serve simulated runners under a changing load, and tell what happens; its data directory goes when it ends
    #[arg(long, conflicts_with = "data")]
    pub(crate) demo: bool,
    /// End after so long, such as 20s
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) lasts: Option<Span>,
}
