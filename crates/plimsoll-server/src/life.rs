//! The server's life: it answers at once, is ready when its ledger is, and ends when everything is durable.
//!
//! ```text
//!  bind ──▶ answer "not ready" ──▶ open the store, recover ──▶ settings and models ──▶ engine ──▶ ready ──▶ ... ──▶ drain ──▶ stop
//! ```

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use axum::Router;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use plimsoll_core::front::{Core, Host};
use plimsoll_slots::desk::Desk;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::Instant;

use super::api;
use super::config::{Config, Loaded};
use super::front::{self, Gate, Socket};
use super::guard::{Guard, tls};
use super::log;
use super::metrics::{self, Counted};
use super::routes::Routes;
use crate::SlotEngine as Engine;
use plimsoll_engine::clock::Clock;
use plimsoll_engine::engine::Observer;
use plimsoll_engine::recovery;
use plimsoll_engine::store::Store;

/// What is served once the ledger is rebuilt.
pub struct Application {
    /// Those who watch what becomes durable.
    pub observers: Vec<Box<dyn Observer<Desk>>>,
    /// The routes, made around the engine.
    pub(crate) routes: Box<dyn FnOnce(Engine, &Arc<Guard>) -> Result<Routes> + Send>,
}

/// When the engine fails, those who wait for it get so long to be told.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Lives until it is asked to end, or as long as it is to last. `reload` reads the configuration again; `application` says what is served.
pub async fn live(
    config: Config,
    lasts: Option<Duration>,
    reload: impl Fn() -> Result<Loaded>,
    application: impl FnOnce(&Config) -> Result<Application>,
) -> Result<()> {
    let mut signals = Signals::new(lasts)?;
    let mut config = config;
    let counted = Arc::new(Counted::default());
    let tokens = std::mem::take(&mut config.tokens);
    let guard = Arc::new(Guard::new(tokens, config.limits.clone(), counted.clone()));
    let (gate, handle) = (Gate::default(), Handle::new());
    let socket = Socket::bind(&config)?;
    let (url, shown) = (
        socket.url.clone(),
        Shown { is_exposed: !config.listen.ip().is_loopback(), tls: socket.tls() },
    );
    let routes = front::router(gate.clone(), guard.clone());
    let mut serving =
        tokio::spawn(socket.serve(routes, &config.limits, counted.clone(), handle.clone())?);
    tracing::info!("listening on {url}, data in {}", config.data.display());
    let drain = Duration::from_millis(config.limits.drain.0);
    let application = application(&config)?;
    let (engine, thread, router) = tokio::select! {
        started = start(config, application, &guard, counted) => started?,
        () = signals.end() => return Ok(()),
    };
    let mut thread = spawn_blocking(move || thread.join());
    // What was declared at the start is durable before anybody can ask about it.
    if engine.write(|_, _| ()).await.is_ok() {
        gate.open(router);
        tracing::info!("ready");
    }
    loop {
        tokio::select! {
            ended = &mut thread => {
                handle.graceful_shutdown(Some(LAST_WORDS));
                let _ = serving.await;
                return outcome(ended);
            }
            served = &mut serving => bail!("the socket cannot be listened to any more: {served:?}"),
            said = signals.next() => match said {
                Said::End => break,
                Said::Reload => take_over(reload(), &guard, &shown),
            },
        }
    }
    tracing::info!("ending: no new requests, {} being served", handle.connection_count());
    engine.end_waits();
    handle.graceful_shutdown(Some(drain));
    tokio::select! {
        _ = &mut serving => {}
        () = signals.end() => bail!("ended at once, by a second signal; whatever was answered is durable"),
    }
    spawn_blocking(move || engine.stop()).await.context("while stopping")?;
    outcome(thread.await)?;
    tracing::info!("ended; everything is durable");
    Ok(())
}

/// Rebuilds the ledger, and starts to decide.
async fn start(
    config: Config,
    application: Application,
    guard: &Arc<Guard>,
    counted: Arc<Counted>,
) -> Result<(Engine, JoinHandle<Result<()>>, Router)> {
    let data = config.data.clone();
    let Application { mut observers, routes } = application;
    observers.push(Box::new(counted.observer()));
    observers.push(Box::new(log::BreachLog::default()));
    if config.log_decisions {
        observers.push(Box::new(log::DecisionLog::to_stderr(config.log)));
    }
    let (host, clock, store) =
        spawn_blocking(move || rebuild(&config)).await.context("while rebuilding the ledger")??;
    let (engine, thread) = Engine::start(host, clock, store, observers)?;
    let routes = routes(engine.clone(), guard)?.merge(metrics::routes(
        engine.clone(),
        counted.clone(),
        data,
        guard,
    ));
    Ok((engine, thread, metrics::timed(api::router(routes), counted)))
}

/// The desk as the last run left it, with the settings and models of the configuration.
fn rebuild(config: &Config) -> Result<(Host<Desk>, Clock, Store)> {
    let (mut host, mut clock, store) =
        recovery::open(&config.data, Desk::new(config.desk.clone()), &config.settings)?;
    let now = clock.now();
    host.configure(now, config.settings.clone());
    if let Some(models) = &config.models {
        host.with(now, |desk, core| declare(desk, core, models));
    }
    host.audit(now);
    Ok((host, clock, store))
}

fn declare(desk: &mut Desk, core: &mut Core<'_>, models: &[plimsoll_slots::model::Model]) {
    for model in models {
        desk.declare_model(core, model.clone());
    }
    let in_config = |name: &str| models.iter().any(|model| model.name() == name);
    let desk = desk.view(core.scheduler());
    let others: Vec<&str> =
        desk.models().map(|model| model.name()).filter(|name| !in_config(name)).collect();
    if !others.is_empty() {
        let names = others.join(", ");
        tracing::warn!(
            "declared, but not in the configuration, until deleted through the API: {names}"
        );
    }
}

/// How the thread that decides ended.
fn outcome(ended: Result<std::thread::Result<Result<()>>, JoinError>) -> Result<()> {
    match ended {
        Ok(Ok(ended)) => ended,
        Ok(Err(_)) | Err(_) => Err(anyhow!(
            "the thread that decides ended by a fault of the program; please report what it said before. \
             Whatever was answered is durable"
        )),
    }
}

/// What of the socket was decided at the start, whatever the configuration says by now.
struct Shown {
    is_exposed: bool,
    tls: Option<RustlsConfig>,
}

/// Uses the tokens and the certificate of a configuration that was read again. Where it cannot be used, all stays as it is.
fn take_over(loaded: Result<Loaded>, guard: &Guard, shown: &Shown) {
    let taken = loaded.and_then(|Loaded { config, warnings }| {
        let certificate = config.tls.as_ref().map(tls::load).transpose()?;
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        if shown.is_exposed && config.tokens.is_empty() {
            bail!(
                "it has no token, and the server can be reached from other machines since its start"
            );
        }
        match (&shown.tls, certificate) {
            (Some(shown), Some(certificate)) => shown.reload_from_config(certificate),
            (None, None) => {}
            _ => bail!("whether there is TLS is decided at the start; start the server again"),
        }
        guard.replace_tokens(config.tokens);
        Ok(())
    });
    match taken {
        Ok(()) => tracing::info!(
            "tokens and certificate were read again; everything else is as it was at the start"
        ),
        Err(error) => {
            tracing::error!("the configuration cannot be used, and stays as it was: {error:#}");
        }
    }
}

/// What the operator says by a signal.
enum Said {
    End,
    Reload,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    /// When it ends by itself.
    over: Option<Instant>,
}

impl Signals {
    fn new(lasts: Option<Duration>) -> Result<Signals> {
        let listen = |kind| signal(kind).context("while preparing to hear signals");
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
            over: lasts.map(|lasts| Instant::now() + lasts),
        })
    }

    async fn next(&mut self) -> Said {
        let at = self.over;
        let over = async move {
            match at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // It is over once; only somebody who says it again is in a hurry.
            () = over => {
                self.over = None;
                Said::End
            }
            _ = self.terminate.recv() => Said::End,
            _ = self.interrupt.recv() => Said::End,
            _ = self.hang_up.recv() => Said::Reload,
        }
    }

    async fn end(&mut self) {
        while !matches!(self.next().await, Said::End) {}
    }
}
