//! `plimsoll runner`: the agent on a machine with devices.

use std::io::{self, IsTerminal};

use anyhow::Result;
use tracing_subscriber::EnvFilter;

use crate::cli::{LogFormat, RunnerArgs};
use crate::output::Outcome;
use crate::runner;

pub(super) fn run(args: &RunnerArgs) -> Result<Outcome> {
    log_to_stderr(args.log);
    runner::run(args)?;
    Ok(Outcome::Fine)
}

fn log_to_stderr(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_target(false);
    match format {
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
