//! `plimsoll runner`: the agent on a machine with devices.

use anyhow::Result;
use tracing_subscriber::filter::LevelFilter;

use crate::cli::RunnerArgs;
use crate::logging;
use crate::output::Outcome;
use crate::runner;

pub(super) fn run(args: &RunnerArgs) -> Result<Outcome> {
    logging::start(args.log, LevelFilter::INFO);
    runner::run(args)?;
    Ok(Outcome::Fine)
}
