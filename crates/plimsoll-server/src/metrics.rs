//! What is measured, for Prometheus. What a device holds is read off the ledger's own account when somebody looks; what happens
//! is counted as it becomes durable. `docs/metrics.md` has every name.

mod scraped;
mod watcher;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

pub(crate) use watcher::Watcher;

use super::api::Problem;
use super::guard::Guard;
use super::guard::access::Rules;
use super::routes::Routes;
use crate::SlotEngine as Engine;
use plimsoll_engine::engine::NoAnswer;
use plimsoll_slots::desk::Ending;

/// The media type of the text.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What every name begins with.
const PREFIX: &str = "plimsoll";

/// Why a request or a connection got no further than the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// It has no token that is known.
    Unauthorized,
    /// Its token has too few rights.
    Forbidden,
    /// Its address asked too often.
    Rate,
    /// Its body is too large.
    Body,
    /// It took too long.
    Time,
    /// There are too many connections.
    Connections,
}

impl Rejected {
    /// All of them.
    const ALL: [Rejected; 6] = [
        Rejected::Unauthorized,
        Rejected::Forbidden,
        Rejected::Rate,
        Rejected::Body,
        Rejected::Time,
        Rejected::Connections,
    ];

    /// The status that it is answered with.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Rejected::Unauthorized => StatusCode::UNAUTHORIZED,
            Rejected::Forbidden => StatusCode::FORBIDDEN,
            Rejected::Rate => StatusCode::TOO_MANY_REQUESTS,
            Rejected::Body => StatusCode::PAYLOAD_TOO_LARGE,
            Rejected::Time => StatusCode::REQUEST_TIMEOUT,
            Rejected::Connections => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Its name in front of clients, and in the metrics.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Rejected::Unauthorized => "unauthorized",
            Rejected::Forbidden => "forbidden",
            Rejected::Rate => "too_many_requests",
            Rejected::Body => "body_too_large",
            Rejected::Time => "request_timeout",
            Rejected::Connections => "too_many_connections",
        }
    }
}

/// One label, out of a fixed set of words.
type Word = [(&'static str, &'static str); 1];
type Labels = [(&'static str, String); 3];

/// What is counted while the server lives.
#[derive(Debug)]
pub(crate) struct Counted {
    registry: Registry,
    decisions: Family<Word, Counter>,
    rejections: Family<Word, Counter>,
    effects: Family<Word, Counter>,
    evictions: Counter,
    start_failures: Counter,
    reservations_ended: Family<Word, Counter>,
    breaches_found: Family<Word, Counter>,
    breaches: Family<Word, Gauge>,
    deciding: Histogram,
    committing: Histogram,
    batch: Histogram,
    http: Family<Labels, Histogram, fn() -> Histogram>,
    http_rejected: Family<Word, Counter>,
}

impl Counted {
    /// Every label that is known beforehand stands at 0 from the start: an alert on growth would miss the first of a series that
    /// begins at 1.
    fn begin(self) -> Self {
        let words =
            |family: &Family<Word, Counter>, label: &'static str, words: &[&'static str]| {
                words.iter().for_each(|word| drop(family.get_or_create(&[(label, *word)])));
            };
        words(&self.decisions, "outcome", &["placed", "rejected"]);
        words(&self.effects, "effect", &["start", "stop"]);
        words(&self.reservations_ended, "ending", &Ending::NAMES);
        words(&self.breaches_found, "kind", &super::breaches::KINDS);
        words(&self.http_rejected, "reason", &Rejected::ALL.map(Rejected::code));
        self
    }
}

impl Default for Counted {
    fn default() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let to = &mut registry;
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        to.register("build", "The version that runs", version);
        Counted {
            decisions: named(to, "decisions", "Decisions, by outcome", Family::default()),
            rejections: named(
                to,
                "rejections",
                "Rejected decisions, by the codes of their reasons",
                Family::default(),
            ),
            effects: named(to, "effects", "Orders that left for runners", Family::default()),
            evictions: named(
                to,
                "evictions",
                "Slots evicted to make room for others",
                Counter::default(),
            ),
            start_failures: named(
                to,
                "start_failures",
                "Starts that failed on a runner",
                Counter::default(),
            ),
            reservations_ended: named(
                to,
                "reservations_ended",
                "Reservations that ended, by ending",
                Family::default(),
            ),
            breaches_found: named(
                to,
                "breaches_found",
                "Breaches that came, by kind",
                Family::default(),
            ),
            breaches: named(to, "breaches", "Breaches there are now, by kind", Family::default()),
            deciding: named(to, "decide_seconds", "How long a batch took to decide", short()),
            committing: named(
                to,
                "commit_seconds",
                "How long a batch took to become durable",
                short(),
            ),
            batch: named(
                to,
                "commit_rows",
                "Records and change sets made durable in one commit",
                Histogram::new(BATCHES),
            ),
            http: named(
                to,
                "http_request_seconds",
                "How long requests took",
                Family::new_with_constructor(long),
            ),
            http_rejected: named(
                to,
                "http_rejected",
                "Requests and connections rejected before a handler ran",
                Family::default(),
            ),
            registry,
        }
        .begin()
    }
}

/// A metric under its name.
fn named<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Buckets for how many there are in a batch.
const BATCHES: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// Buckets for what should take milliseconds.
fn short() -> Histogram {
    Histogram::new([
        0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    ])
}

/// Buckets for what may wait for something.
fn long() -> Histogram {
    Histogram::new([
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    ])
}

impl Counted {
    /// Something was refused before a handler saw it.
    pub(crate) fn rejected(&self, why: Rejected) {
        self.http_rejected.get_or_create(&[("reason", why.code())]).inc();
    }

    /// How often something was refused so.
    #[cfg(test)]
    pub(crate) fn rejections_of(&self, why: Rejected) -> u64 {
        self.http_rejected.get_or_create(&[("reason", why.code())]).get()
    }

    /// Counts what becomes durable.
    pub(crate) fn observer(self: &Arc<Self>) -> Watcher {
        Watcher::new(self.clone())
    }
}

#[derive(Clone)]
struct Scrape {
    engine: Engine,
    counted: Arc<Counted>,
    data: PathBuf,
}

/// Returns the route for scrapes.
pub(crate) fn routes(
    engine: Engine,
    counted: Arc<Counted>,
    data: PathBuf,
    guard: &Arc<Guard>,
) -> Routes {
    Routes::new(guard).add_page(Rules::READ, "/metrics", get(show)).with_state(Scrape {
        engine,
        counted,
        data,
    })
}

async fn show(State(scrape): State<Scrape>) -> Response {
    match text(&scrape).await {
        Ok(text) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(no_answer) => Problem::from(no_answer).into_response(),
    }
}

async fn text(scrape: &Scrape) -> Result<String, NoAnswer> {
    let sheet = scrape
        .engine
        .read(|desk, core| {
            scraped::Sheet::of(desk.view(core.scheduler()), core.now(), core.next_seq())
        })
        .await?;
    let Scrape { counted, data, .. } = scrape.clone();
    // A large fleet has a hundred thousand rows: writing them down must not hold up those who serve others.
    let written = move || render(&counted, &sheet, &scraped::Files::of(&data));
    tokio::task::spawn_blocking(written).await.map_err(|_| NoAnswer::Stopped)
}

fn render(counted: &Counted, sheet: &scraped::Sheet, files: &scraped::Files) -> String {
    let mut text = String::new();
    let written = encode_registry(&mut text, &counted.registry)
        .and_then(|()| encode_registry(&mut text, &scraped::registry(sheet, files)))
        .and_then(|()| encode_eof(&mut text));
    written.expect("writing to a text does not fail");
    text
}

/// The same routes, with the time that each request takes measured.
pub(crate) fn timed(router: Router, counted: Arc<Counted>) -> Router {
    router.layer(from_fn_with_state(counted, time))
}

async fn time(State(counted): State<Arc<Counted>>, request: Request, next: Next) -> Response {
    let method = method(request.method());
    let route =
        request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_string();
    let started = Instant::now();
    let response = next.run(request).await;
    let status = class(response.status());
    let asked = [("method", method.to_string()), ("route", route), ("status", status.to_string())];
    counted.http.get_or_create(&asked).observe(started.elapsed().as_secs_f64());
    response
}

/// A client can invent methods; a label must not grow by that.
fn method(method: &Method) -> &'static str {
    let known =
        [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let names = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
    known.iter().position(|known| known == method).map_or("other", |index| names[index])
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

#[cfg(test)]
mod tests;
