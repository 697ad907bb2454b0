//! `plimsoll runner`: the agent on a GPU machine.

use std::time::Duration;

use anyhow::Result;
use plimsoll_runner::{
    DeviceSource, OnExit, PlaintextToken, ProbeConfig, RunnerConfig, TokenSource,
};
use tracing_subscriber::filter::LevelFilter;

use crate::cli::RunnerArgs;
use crate::client;
use crate::logging;
use crate::output::Outcome;

/// The environment variable that may hold the token.
const TOKEN_VARIABLE: &str = "PLIMSOLL_TOKEN";

pub(super) fn run(args: &RunnerArgs) -> Result<Outcome> {
    logging::start(args.log.into(), LevelFilter::INFO);
    plimsoll_runner::run(&config(args))?;
    Ok(Outcome::Fine)
}

fn config(args: &RunnerArgs) -> RunnerConfig {
    RunnerConfig {
        server: client::address(args.server.as_deref()),
        name: args.name.clone(),
        labels: args.labels.iter().cloned().collect(),
        devices: args.devices.clone().map_or(DeviceSource::Driver, DeviceSource::File),
        probe: args.probe.clone().map(|command| ProbeConfig {
            command,
            timeout: Duration::from_millis(args.probe_timeout),
        }),
        token: token(args),
        plaintext_token: match args.insecure {
            true => PlaintextToken::Anywhere,
            false => PlaintextToken::LoopbackOnly,
        },
        ca_file: args.ca_file.clone(),
        state_dir: args.state.clone(),
        advertise: args.advertise.clone(),
        listen: args.listen,
        ports: args.ports.clone(),
        on_exit: match args.stop_slots_on_exit {
            true => OnExit::StopSlots,
            false => OnExit::KeepSlots,
        },
    }
}

fn token(args: &RunnerArgs) -> TokenSource {
    match (&args.token_file, std::env::var(TOKEN_VARIABLE)) {
        (Some(file), _) => TokenSource::File(file.clone()),
        (None, Ok(text)) if !text.trim().is_empty() => TokenSource::Text(text.trim().to_owned()),
        (None, _) => TokenSource::None,
    }
}
