//! `plimsoll serve`: runs the server.

use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cli::{LogFormat, ServeArgs};
use crate::logging;
use crate::output::{self, Outcome, Verbosity};
use plimsoll_server::application::{self, Fleet};
use plimsoll_server::config::http::{Callers, TlsFiles};
use plimsoll_server::config::{self, Loaded, Options};
use plimsoll_server::guard::tls;
use plimsoll_server::life::Reloaded;
use plimsoll_server::{demo, life};
use tracing_subscriber::filter::LevelFilter;

/// The time limit for remaining tasks after everything is durable.
const LEFTOVERS: Duration = Duration::from_millis(200);

/// Serves until a signal, or until a commit fails.
pub(super) fn run(args: &ServeArgs, verbosity: Verbosity) -> Result<Outcome> {
    let options = options(args);
    let Loaded { mut config, warnings } = config::load(&options)?;
    if args.check_config {
        config.http.tls.as_ref().map(tls::load).transpose()?;
        warnings.iter().for_each(|warning| output::note(&format!("warning: {warning}")));
        output::text("the configuration is valid\n")?;
        return Ok(Outcome::Fine);
    }
    logging::start(
        config.log.format,
        match verbosity {
            Verbosity::Quiet => LevelFilter::WARN,
            Verbosity::Normal => LevelFilter::INFO,
        },
    );
    avoid_huge_pages();
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let scratch = if args.demo { Some(demo::prepare(&mut config)?) } else { None };
    plimsoll_engine::store::check_unused(&config.data_dir()?)?;
    let lasts = args.lasts.map(|span| Duration::from_millis(span.0));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(workers()).enable_all().build();
    let runtime = runtime.context("could not start the threads of the server")?;
    let fleet = if args.demo { Fleet::Simulated } else { Fleet::Real };
    let service = application::service(&config, fleet)?;
    let lived =
        runtime.block_on(life::live(config.http, config.log, lasts, || reload(&options), service));
    runtime.shutdown_timeout(LEFTOVERS);
    drop(scratch);
    lived.map(|()| Outcome::Fine)
}

fn reload(options: &Options) -> Result<Reloaded> {
    let Loaded { config, warnings } = config::load(options)?;
    Ok(Reloaded { http: config.http, warnings })
}

fn options(args: &ServeArgs) -> Options {
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    Options {
        listen: args.listen.clone(),
        data: args.data.clone(),
        config: args.config.clone(),
        tls: tls.map(|(cert, key)| TlsFiles { cert, key }),
        token_file: args.token_file.clone(),
        callers: Callers::Tokens,
        log: args.log.map(LogFormat::into),
        log_decisions: args.log_decisions,
    }
}

/// Disables huge pages, if the system allows it: the kernel clears a huge page when it is first
/// touched, which was measured to stall a decision for ten milliseconds.
fn avoid_huge_pages() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Returns the number of HTTP threads. One core is left to the decision thread, which all requests
/// wait for.
fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
    cores.saturating_sub(1).max(1)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn the_server_disables_huge_pages() {
        super::avoid_huge_pages();
        // Not every sandbox supports the call.
        let are_off = rustix::thread::transparent_huge_pages_are_disabled();
        assert!(are_off.unwrap_or(true));
    }
}
