//! `plimsoll serve`: the server, until it is asked to end.

use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cli::ServeArgs;
use crate::output::{self, Outcome};
use crate::server::config::{self, Config, Loaded};
use crate::server::{application, demo, life, log};

/// What still runs when everything is durable gets so long to end.
const LEFTOVERS: Duration = Duration::from_millis(200);

/// Serves until it is asked to end, or until something cannot be made durable.
pub(super) fn run(args: &ServeArgs, quiet: bool) -> Result<Outcome> {
    let Loaded { mut config, warnings } = config::load(args)?;
    if args.check_config {
        warnings.iter().for_each(|warning| output::note(&format!("warning: {warning}")));
        output::text("the configuration can be used\n")?;
        return Ok(Outcome::Fine);
    }
    log::start(config.log, quiet);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let scratch = if args.demo { Some(demo::prepare(&mut config)?) } else { None };
    let lasts = args.lasts.map(|span| Duration::from_millis(span.0));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(workers()).enable_all().build();
    let runtime = runtime.context("while starting the threads of the server")?;
    let serves = |config: &Config| application::application(config, args.demo);
    let lived = runtime.block_on(life::live(config, lasts, || config::load(args), serves));
    runtime.shutdown_timeout(LEFTOVERS);
    drop(scratch);
    lived.map(|()| Outcome::Fine)
}

/// How many threads speak HTTP: one core is left to the thread that decides, which everybody waits for.
fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
    cores.saturating_sub(1).max(1)
}
