//! Metrics for Prometheus. Gauges of devices are read from the ledger's accounts at the scrape;
//! counters count results once they are durable. `docs/metrics.md` lists every name.

mod format;
mod scraped;
pub(crate) mod slots;
pub(crate) mod waits;
mod watcher;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use plimsoll_core::front::Front;
use plimsoll_engine::engine::{Engine, NoAnswer, Observer};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use super::api::Problem;
use super::guard::Guard;
use super::guard::access::{ClusterRights, Rules};
use super::routes::Routes;
use super::served::ServedFront;
use format::Format;
use scraped::{Files, Sheet};
pub(crate) use scraped::{Number, seconds};
use watcher::Watcher;

/// The prefix of every name.
const PREFIX: &str = "plimsoll";

/// The reason why a request or a connection was rejected before a handler ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// No valid token.
    Unauthorized,
    /// The role of the token is not sufficient.
    Forbidden,
    /// The cluster could not be asked about the caller.
    Review,
    Rate,
    Body,
    Time,
    Connections,
}

impl Rejected {
    const ALL: [Rejected; 7] = [
        Rejected::Unauthorized,
        Rejected::Forbidden,
        Rejected::Review,
        Rejected::Rate,
        Rejected::Body,
        Rejected::Time,
        Rejected::Connections,
    ];

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Rejected::Unauthorized => StatusCode::UNAUTHORIZED,
            Rejected::Forbidden => StatusCode::FORBIDDEN,
            Rejected::Rate => StatusCode::TOO_MANY_REQUESTS,
            Rejected::Body => StatusCode::PAYLOAD_TOO_LARGE,
            Rejected::Time => StatusCode::REQUEST_TIMEOUT,
            Rejected::Review | Rejected::Connections => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the problem code, which is also the label of the metric.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Rejected::Unauthorized => "unauthorized",
            Rejected::Forbidden => "forbidden",
            Rejected::Review => "caller_not_reviewed",
            Rejected::Rate => "too_many_requests",
            Rejected::Body => "body_too_large",
            Rejected::Time => "request_timeout",
            Rejected::Connections => "too_many_connections",
        }
    }
}

/// One label with a value from a fixed set.
pub(crate) type Word = [(&'static str, &'static str); 1];
type HttpLabels = [(&'static str, String); 3];

/// Counters since the start of the server.
#[derive(Debug)]
pub(crate) struct Counted {
    registry: Registry,
    decisions: Family<Word, Counter>,
    rejections: Family<Word, Counter>,
    effects: Family<Word, Counter>,
    evictions: Counter,
    start_failures: Counter,
    breaches_found: Family<Word, Counter>,
    breaches: Family<Word, Gauge>,
    deciding: Histogram,
    committing: Histogram,
    batch: Histogram,
    http: Family<HttpLabels, Histogram, fn() -> Histogram>,
    http_rejected: Family<Word, Counter>,
}

impl Default for Counted {
    fn default() -> Self {
        Counted::new(|_| ())
    }
}

impl Counted {
    /// Creates the counters, and lets the front end register its own.
    pub(crate) fn new(register: impl FnOnce(&mut Registry)) -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let to = &mut registry;
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        to.register("build", "Version of the server", version);
        register(to);
        Counted {
            decisions: named(to, "decisions", "Decisions, by outcome"),
            rejections: named(to, "rejections", "Rejected decisions, by reason code"),
            effects: named(to, "effects", "Start and stop orders"),
            evictions: named(to, "evictions", "Holders evicted to make room for others"),
            start_failures: named(to, "start_failures", "Starts that failed on their node"),
            breaches_found: named(to, "breaches_found", "Breaches that began, by kind"),
            breaches: named(to, "breaches", "Current breaches, by kind"),
            deciding: histogram(to, "decide_seconds", "Time to decide a batch", short()),
            committing: histogram(to, "commit_seconds", "Time to make a batch durable", short()),
            batch: histogram(
                to,
                "commit_rows",
                "Records and change sets made durable in one commit",
                Histogram::new(BATCHES),
            ),
            http: {
                let http = Family::new_with_constructor(long as fn() -> Histogram);
                to.register("http_request_seconds", "Duration of HTTP requests", http.clone());
                http
            },
            http_rejected: named(
                to,
                "http_rejected",
                "Requests and connections rejected before a handler ran",
            ),
            registry,
        }
        .with_zeros()
    }

    /// Creates every label that is known in advance with 0: an alert on growth would miss the first
    /// count of a series that starts at 1.
    fn with_zeros(self) -> Self {
        create(&self.decisions, "outcome", &["placed", "rejected"]);
        create(&self.effects, "effect", &["start", "stop"]);
        create(&self.breaches_found, "kind", &super::breaches::KINDS);
        create(&self.http_rejected, "reason", &Rejected::ALL.map(Rejected::code));
        self
    }
}

fn create(family: &Family<Word, Counter>, label: &'static str, values: &[&'static str]) {
    values.iter().for_each(|value| drop(family.get_or_create(&[(label, *value)])));
}

fn named<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn histogram(registry: &mut Registry, name: &str, help: &str, empty: Histogram) -> Histogram {
    registry.register(name, help, empty.clone());
    empty
}

/// Buckets for the rows of a batch.
const BATCHES: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// Returns buckets for work that should take milliseconds.
fn short() -> Histogram {
    Histogram::new([
        0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    ])
}

/// Returns buckets for requests that may wait.
fn long() -> Histogram {
    Histogram::new([
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    ])
}

impl Counted {
    /// Counts a request or a connection that was rejected before a handler ran.
    pub(crate) fn rejected(&self, why: Rejected) {
        self.http_rejected.get_or_create(&[("reason", why.code())]).inc();
    }

    #[cfg(test)]
    pub(crate) fn rejections_of(&self, why: Rejected) -> u64 {
        self.http_rejected.get_or_create(&[("reason", why.code())]).get()
    }

    /// Returns the observer that counts the results of durable batches.
    pub(crate) fn observer<F: Front>(self: &Arc<Self>) -> Box<dyn Observer<F>> {
        Box::new(Watcher::new(self.clone()))
    }
}

struct Scrape<F: ServedFront> {
    engine: Engine<F>,
    counted: Arc<Counted>,
    data: Option<PathBuf>,
}

impl<F: ServedFront> Clone for Scrape<F> {
    fn clone(&self) -> Self {
        let (engine, counted) = (self.engine.clone(), self.counted.clone());
        Scrape { engine, counted, data: self.data.clone() }
    }
}

/// Returns the route for scrapes.
pub(crate) fn routes<F: ServedFront>(
    engine: Engine<F>,
    counted: Arc<Counted>,
    data: Option<PathBuf>,
    guard: &Arc<Guard>,
) -> Routes {
    Routes::new(guard)
        .add_page(Rules::READ.in_cluster(ClusterRights::Metrics), "/metrics", get(show::<F>))
        .with_state(Scrape { engine, counted, data })
}

async fn show<F: ServedFront>(State(scrape): State<Scrape<F>>, headers: HeaderMap) -> Response {
    let format = Format::accepted(&headers);
    match text(&scrape, format).await {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(no_answer) => Problem::from(no_answer).into_response(),
    }
}

async fn text<F: ServedFront>(scrape: &Scrape<F>, format: Format) -> Result<String, NoAnswer> {
    let sheet = scrape.engine.read(|front, core| Sheet::copy(front, core)).await?;
    let (counted, data) = (scrape.counted.clone(), scrape.data.clone());
    // A large fleet has a hundred thousand rows: rendering them must not block other requests.
    let rendered =
        move || format.convert(render(&counted, &sheet, data.as_deref().map(Files::read).as_ref()));
    tokio::task::spawn_blocking(rendered).await.map_err(|_| NoAnswer::Stopped)
}

fn render(counted: &Counted, sheet: &Sheet, files: Option<&Files>) -> String {
    let mut text = String::new();
    encode_registry(&mut text, &counted.registry)
        .and_then(|()| encode_registry(&mut text, &scraped::registry(sheet, files)))
        .and_then(|()| encode_eof(&mut text))
        .expect("writing to a string does not fail");
    text
}

/// Adds a layer that measures the duration of requests.
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

/// Returns the label of a method. Clients can invent methods, which must not create labels.
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
