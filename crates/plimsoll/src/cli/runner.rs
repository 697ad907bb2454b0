//! What can be typed after `plimsoll runner`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use serde::Deserialize;

pub(super) const EXAMPLES: &str = "Examples:\n  plimsoll runner --server https://plimsoll.example:8443 --token-file token\n  \
plimsoll runner --server http://127.0.0.1:8080 --devices devices.json --label zone=a\n  \
plimsoll runner --server http://127.0.0.1:8080 --devices devices.json --probe '/usr/local/bin/my-probe --json'\n\n\
The model servers go on when the agent ends; the next agent with the same name and state adopts them.\n\n\
Exit codes: 0 asked to end; 2 error, or a later agent has taken the name.";

#[derive(Args, Debug)]
pub(crate) struct RunnerArgs {
    /// The server's address, such as https://plimsoll.example:8443
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) server: String,
    /// The runner's name; the name of the machine if not given
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// A label that models select runners by; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    /// The devices, as JSON in the form of the annotation plimsoll.dev/devices; asked of the NVIDIA driver if not given
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) devices: Option<PathBuf>,
    /// A program that prints what the devices hold, run on every beat; split at spaces, no shell
    #[arg(long, value_name = "COMMAND")]
    pub(crate) probe: Option<String>,
    /// How long the probe may take, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5000, requires = "probe")]
    pub(crate) probe_timeout: u64,
    /// A file with the token; otherwise the variable PLIMSOLL_TOKEN is looked at
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Send the token even without encryption to another machine
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Trust the certificates in this file, and no others
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath)]
    pub(crate) ca_file: Option<PathBuf>,
    /// Where to keep what a later agent needs to know, and the logs of the model servers
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) state: Option<PathBuf>,
    /// The host by which others reach the model servers of this machine; 127.0.0.1 where the server is on this machine,
    /// else the name of the machine
    #[arg(long, value_name = "HOST")]
    pub(crate) advertise: Option<String>,
    /// The address that model servers are told to listen on, as {host}; 127.0.0.1 where that is advertised, else 0.0.0.0
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<std::net::IpAddr>,
    /// The ports that model servers may get, as {port}
    #[arg(long, value_name = "FROM-TO", default_value = "20000-29999", value_parser = ports)]
    pub(crate) ports: RangeInclusive<u16>,
    /// Stop the model servers when the agent ends, instead of leaving them to the next agent
    #[arg(long)]
    pub(crate) stop_slots_on_exit: bool,
    /// How to write the log to standard error; RUST_LOG chooses what is in it
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log: LogFormat,
}

/// How to write a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// A JSON object a line
    Json,
}

impl From<LogFormat> for plimsoll_server::log::LogFormat {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Text => plimsoll_server::log::LogFormat::Text,
            LogFormat::Json => plimsoll_server::log::LogFormat::Json,
        }
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is written KEY=VALUE".to_owned()),
    }
}

fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    match (port(from), port(to)) {
        (Some(from), Some(to)) if from <= to => Ok(from..=to),
        _ => Err("ports are written FROM-TO, such as 20000-29999".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_ports_are_read_or_refused() {
        assert_eq!(label("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(label("a").is_err() && label("=b").is_err());
        assert_eq!(ports("1-2"), Ok(1..=2));
        assert_eq!(ports("7"), Ok(7..=7));
        assert!(["2-1", "0-1", "a-b", "1-70000", ""].iter().all(|text| ports(text).is_err()));
    }
}
