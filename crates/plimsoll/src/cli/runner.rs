//! Arguments of `plimsoll runner`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use serde::Deserialize;

pub(super) const EXAMPLES: &str = "Examples:
  plimsoll runner --server https://plimsoll.example:8443 --token-file token
  plimsoll runner --server http://127.0.0.1:8080 --devices devices.json --label zone=a
  plimsoll runner --server http://127.0.0.1:8080 --devices devices.json --probe './probe --json'

Model servers keep running when the agent exits; the next agent with the same name and state
directory adopts them.

Exit codes: 0 shut down by a signal; 2 error, or a later agent has taken the name.";

#[derive(Args, Debug)]
pub(crate) struct RunnerArgs {
    /// URL of the server [default: $PLIMSOLL_SERVER, or http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) server: Option<String>,
    /// Name of the runner; defaults to the host name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Label for the runner selectors of models; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(crate) labels: Vec<(String, String)>,
    /// Declare the devices in a JSON file, in the format of the annotation plimsoll.dev/devices;
    /// defaults to the devices of the NVIDIA driver
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) devices: Option<PathBuf>,
    /// Run this program at each heartbeat to measure the devices; split at spaces, no shell
    #[arg(long, value_name = "COMMAND")]
    pub(crate) probe: Option<String>,
    /// Time limit of the probe in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5000, requires = "probe")]
    pub(crate) probe_timeout: u64,
    /// Read the token from this file; defaults to the environment variable PLIMSOLL_TOKEN
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Allow sending the token unencrypted to another machine
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Trust only the certificates in this file
    #[arg(long, value_name = "PEM", value_hint = ValueHint::FilePath)]
    pub(crate) ca_file: Option<PathBuf>,
    /// Keep slot records and logs of the model servers in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) state: Option<PathBuf>,
    /// Host under which clients reach the model servers; defaults to 127.0.0.1 if the server is on
    /// this machine, and to the host name otherwise
    #[arg(long, value_name = "HOST")]
    pub(crate) advertise: Option<String>,
    /// Address that model servers listen on, passed to them as {host}; defaults to 127.0.0.1 if
    /// that is advertised, and to 0.0.0.0 otherwise
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<std::net::IpAddr>,
    /// Ports for model servers, passed to them as {port}
    #[arg(long, value_name = "FROM-TO", default_value = "20000-29999", value_parser = parse_ports)]
    pub(crate) ports: RangeInclusive<u16>,
    /// Stop the model servers before the agent exits, instead of leaving them to the next agent
    #[arg(long)]
    pub(crate) stop_slots_on_exit: bool,
    /// Format of the log on standard error; RUST_LOG selects its content
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log: LogFormat,
}

/// Format of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// One readable line per entry
    #[default]
    Text,
    /// One JSON object per line
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

fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    match (parse_port(from), parse_port(to)) {
        (Some(from), Some(to)) if from <= to => Ok(from..=to),
        _ => Err("expected FROM-TO, such as 20000-29999".to_owned()),
    }
}

fn parse_port(text: &str) -> Option<u16> {
    text.trim().parse().ok().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_parsed() {
        assert_eq!(parse_label("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(parse_label("a").is_err() && parse_label("=b").is_err());
    }

    #[test]
    fn ports_are_parsed() {
        assert_eq!(parse_ports("1-2"), Ok(1..=2));
        assert_eq!(parse_ports("7"), Ok(7..=7));
        let invalid = ["2-1", "0-1", "a-b", "1-70000", ""];
        assert!(invalid.iter().all(|text| parse_ports(text).is_err()));
    }
}
