//! The life of a server: it answers at once, is ready when its ledger is rebuilt, and ends when
//! everything is durable.
//!
//! ```text
//!  bind ─▶ answer "not ready" ─▶ rebuild the ledger ─▶ engine ─▶ ready ─▶ … ─▶ drain ─▶ stop
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use axum::Router;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use plimsoll_core::front::Host;
use plimsoll_engine::clock::Clock;
use plimsoll_engine::engine::{Engine, Observer};
use plimsoll_engine::journal::Journal;
use prometheus_client::registry::Registry;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::Instant;

use super::api;
use super::config::http::{Authentication, HttpConfig};
use super::config::{DecisionLogging, LogConfig};
use super::front::{self, Gate, Socket};
use super::guard::reviews::Reviewer;
use super::guard::{Guard, tls};
use super::log;
use super::metrics::{self, Counted};
use super::routes::Routes;
use crate::served::ServedFront;

/// A front end to serve, with its routes.
pub struct Service<F: ServedFront, J> {
    /// Rebuilds the ledger. Runs on a blocking thread while the server answers "not ready".
    pub(crate) rebuild: Box<dyn FnOnce() -> Result<Rebuilt<F, J>> + Send>,
    pub(crate) observers: Vec<Box<dyn Observer<F>>>,
    pub(crate) routes: CreateRoutes<F>,
    /// Registers the counters of the front end.
    pub(crate) counters: Box<dyn FnOnce(&mut Registry) + Send>,
    /// Called with the server's address once it is ready.
    pub(crate) announce: fn(&str),
    /// The data directory, whose size is a metric; `None` without one.
    pub(crate) data: Option<PathBuf>,
    /// Whom to ask about callers with tokens of a cluster; `None` without a cluster.
    pub(crate) reviewer: Option<Arc<dyn Reviewer>>,
}

/// Creates the routes of a running engine, behind a guard.
type CreateRoutes<F> = Box<dyn FnOnce(Engine<F>, &Arc<Guard>) -> Result<Routes> + Send>;

/// A rebuilt ledger, and the journal and clock that continue it.
pub struct Rebuilt<F: ServedFront, J> {
    pub(crate) host: Host<F>,
    pub(crate) clock: Clock,
    pub(crate) journal: J,
}

/// HTTP settings that were read again, and warnings about them.
pub struct Reloaded {
    pub http: HttpConfig,
    pub warnings: Vec<String>,
}

/// The time for waiting clients to receive their answers after the engine has failed.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Serves until a signal ends it, or until `lasts` has passed. `reload` reads the HTTP settings
/// again.
pub async fn live<F: ServedFront, J: Journal>(
    mut http: HttpConfig,
    log: LogConfig,
    lasts: Option<Duration>,
    reload: impl Fn() -> Result<Reloaded>,
    mut service: Service<F, J>,
) -> Result<()> {
    let mut signals = Signals::new(lasts)?;
    let register = std::mem::replace(&mut service.counters, Box::new(|_| ()));
    let counted = Arc::new(Counted::new(register));
    let tokens = std::mem::take(&mut http.tokens);
    let guard = Guard::new(tokens, http.limits.clone(), counted.clone());
    let guard = Arc::new(match service.reviewer.take() {
        Some(reviewer) if http.authentication == Authentication::Cluster => {
            guard.with_reviewer(reviewer)
        }
        _ => guard,
    });
    let (gate, handle) = (Gate::default(), Handle::new());
    let socket = Socket::bind(&http)?;
    let (url, bound) = (socket.url.clone(), Bound::new(&http, &socket));
    let routes = front::router(gate.clone(), guard.clone());
    let mut serving =
        tokio::spawn(socket.serve(routes, &http.limits, counted.clone(), handle.clone())?);
    let data = service.data.as_deref().map(|data| data.display().to_string());
    tracing::info!(%url, data, "listening");
    let announce = service.announce;
    let (engine, thread, router) = tokio::select! {
        started = start(service, log, &guard, counted) => started?,
        () = signals.end() => return Ok(()),
    };
    let mut thread = spawn_blocking(move || thread.join());
    // The changes made at startup are durable before a client can ask about them.
    if engine.write(|_, _| ()).await.is_ok() {
        gate.open(router);
        tracing::info!("ready");
        announce(&url);
    }
    loop {
        tokio::select! {
            ended = &mut thread => {
                handle.graceful_shutdown(Some(LAST_ANSWERS));
                let _ = serving.await;
                return outcome(ended);
            }
            served = &mut serving => bail!("the listener failed: {served:?}"),
            signal = signals.next() => match signal {
                Request::End => break,
                Request::Reload => bound.reload(reload(), &guard),
            },
        }
    }
    tracing::info!(connections = handle.connection_count(), "shutting down");
    engine.end_waits();
    handle.graceful_shutdown(Some(Duration::from_millis(http.limits.drain.0)));
    tokio::select! {
        _ = &mut serving => {}
        () = signals.end() => bail!("terminated by a second signal; everything that was answered is durable"),
    }
    spawn_blocking(move || engine.stop()).await.context("cannot stop the engine")?;
    outcome(thread.await)?;
    tracing::info!("shut down; everything is durable");
    Ok(())
}

type Started<F> = (Engine<F>, JoinHandle<Result<()>>, Router);

/// Rebuilds the ledger, and starts the engine.
async fn start<F: ServedFront, J: Journal>(
    service: Service<F, J>,
    log: LogConfig,
    guard: &Arc<Guard>,
    counted: Arc<Counted>,
) -> Result<Started<F>> {
    let Service { rebuild, mut observers, routes, data, .. } = service;
    observers.push(counted.observer());
    observers.push(Box::new(log::BreachLog::default()));
    if log.decisions == DecisionLogging::On {
        observers.push(Box::new(log::DecisionLog::to_stderr(log.format)));
    }
    let Rebuilt { host, clock, journal } =
        spawn_blocking(rebuild).await.context("rebuilding the ledger failed")??;
    let (engine, thread) = Engine::start(host, clock, journal, observers)?;
    let routes = routes(engine.clone(), guard)?.merge(metrics::routes(
        engine.clone(),
        counted.clone(),
        data,
        guard,
    ));
    Ok((engine, thread, metrics::timed(api::router(routes), counted)))
}

/// Returns how the decision thread ended.
fn outcome(ended: Result<std::thread::Result<Result<()>>, JoinError>) -> Result<()> {
    match ended {
        Ok(Ok(ended)) => ended,
        Ok(Err(_)) | Err(_) => Err(anyhow!(
            "internal error: the decision thread panicked; please report the log above. Everything \
             that was answered is durable"
        )),
    }
}

/// The properties of the socket that a reload cannot change.
struct Bound {
    is_exposed: bool,
    tls: Option<RustlsConfig>,
}

impl Bound {
    fn new(http: &HttpConfig, socket: &Socket) -> Bound {
        Bound { is_exposed: http.is_exposed(), tls: socket.tls() }
    }

    /// Replaces tokens and certificate. If the new ones are invalid, the old ones stay in use.
    fn reload(&self, reloaded: Result<Reloaded>, guard: &Guard) {
        match reloaded.and_then(|reloaded| self.replace(reloaded, guard)) {
            Ok(()) => {
                tracing::info!("tokens and certificate reloaded; other settings need a restart");
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(error, "invalid configuration; the previous one stays in use");
            }
        }
    }

    fn replace(&self, Reloaded { http, warnings }: Reloaded, guard: &Guard) -> Result<()> {
        let certificate = http.tls.as_ref().map(tls::load).transpose()?;
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        if self.is_exposed && http.accepts_any_caller() {
            bail!("it has no token, but other machines can connect to the server");
        }
        if http.accepts_any_caller() && guard.requires_token() {
            bail!(
                "it has no token, and would open the server to every local process; restart it without tokens if that is intended"
            );
        }
        match (&self.tls, certificate) {
            (Some(tls), Some(certificate)) => tls.reload_from_config(certificate),
            (None, None) => {}
            _ => bail!("TLS cannot be switched on or off while the server runs; restart it"),
        }
        guard.replace_tokens(http.tokens);
        Ok(())
    }
}

/// A request of the operator, by a signal.
enum Request {
    End,
    Reload,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    /// The time at which the server ends by itself.
    end_at: Option<Instant>,
}

impl Signals {
    fn new(lasts: Option<Duration>) -> Result<Signals> {
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
            end_at: lasts.map(|lasts| Instant::now() + lasts),
        })
    }

    async fn next(&mut self) -> Request {
        let end_at = self.end_at;
        let end = async move {
            match end_at {
                Some(end_at) => tokio::time::sleep_until(end_at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Only once: a second request to end terminates the server immediately.
            () = end => {
                self.end_at = None;
                Request::End
            }
            _ = self.terminate.recv() => Request::End,
            _ = self.interrupt.recv() => Request::End,
            _ = self.hang_up.recv() => Request::Reload,
        }
    }

    async fn end(&mut self) {
        while !matches!(self.next().await, Request::End) {}
    }
}

fn listen(kind: SignalKind) -> Result<Signal> {
    signal(kind).context("cannot listen for signals")
}
