//! The webhooks of the guard: HTTPS for API servers, apart from the API for people.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use plimsoll_engine::engine::{Engine, NoAnswer};
use plimsoll_kube::live::{BindingVerdict, CreationVerdict, Run, Watch};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::TimeoutLayer;

use super::admission::{ReviewAnswer, binding_question, creation_question};
use super::guarding::GuardCounters;
use crate::front::tuned;
use crate::guard::{Connections, tls};
use crate::metrics::Counted;

/// The limit for a review. An object in etcd has at most 1.5 MiB.
const BODY: usize = 4 << 20;

/// The time for a request, with reading its body. API servers wait for 5 s.
const LIMIT: Duration = Duration::from_secs(4);

/// The time for headers, and for idle connections. API servers keep theirs open.
const HEADERS: Duration = Duration::from_secs(300);

const CONNECTIONS: usize = 1000;

/// The time that a review waits for what the watch has not delivered yet: the pod can be younger
/// than its binding by milliseconds.
const CATCH_UP: Duration = Duration::from_millis(400);

const CATCH_UP_STEP: Duration = Duration::from_millis(15);

/// The time for reviews in flight at shutdown.
const DRAIN: Duration = Duration::from_secs(4);

/// The paths of the webhooks.
pub const BINDINGS: &str = "/admission/bindings";
pub const PODS: &str = "/admission/pods";

/// A socket for API servers.
pub struct WebhookServer {
    listener: TcpListener,
    tls: RustlsConfig,
    handle: Handle<SocketAddr>,
}

/// The certificate of the webhooks, which is replaced while they are served.
#[derive(Clone)]
pub struct WebhookCertificate(RustlsConfig);

impl WebhookCertificate {
    /// Serves another certificate from the next connection on. Both are PEM.
    ///
    /// # Errors
    ///
    /// A message if the certificate or its key is invalid.
    pub fn replace(&self, certificate: &str, key: &str) -> Result<()> {
        self.0.reload_from_config(tls::from_pem(certificate, key)?);
        Ok(())
    }
}

/// Stops the webhooks.
#[derive(Clone)]
pub struct WebhookStop(Handle<SocketAddr>);

impl WebhookStop {
    /// Accepts no more reviews, and ends once those in flight are answered.
    pub fn stop(&self) {
        self.0.graceful_shutdown(Some(DRAIN));
    }
}

#[derive(Clone)]
struct Reviews {
    engine: Engine<Watch>,
    counters: GuardCounters,
}

impl WebhookServer {
    /// Binds an address. Certificate and key are PEM.
    ///
    /// # Errors
    ///
    /// A message if the address is in use, or the certificate or its key is invalid.
    pub fn bind(address: SocketAddr, certificate: &str, key: &str) -> Result<WebhookServer> {
        let tls = RustlsConfig::from_config(tls::from_pem(certificate, key)?);
        let listener = TcpListener::bind(address)
            .with_context(|| format!("cannot listen on {address} for webhooks"))?;
        listener.set_nonblocking(true).context("cannot prepare the socket of the webhooks")?;
        Ok(WebhookServer { listener, tls, handle: Handle::new() })
    }

    /// Returns the address, whose port was chosen by the system if it was 0.
    ///
    /// # Errors
    ///
    /// Any error of the socket.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().context("cannot read the address of the webhooks")
    }

    /// Returns what replaces the certificate.
    pub fn certificate(&self) -> WebhookCertificate {
        WebhookCertificate(self.tls.clone())
    }

    /// Returns what stops the webhooks.
    pub fn stop(&self) -> WebhookStop {
        WebhookStop(self.handle.clone())
    }

    /// Answers reviews until it is stopped.
    ///
    /// # Errors
    ///
    /// Any error of the listener.
    pub async fn serve(self, engine: Engine<Watch>, counters: GuardCounters) -> Result<()> {
        let connections = Connections::at_most(CONNECTIONS, Arc::new(Counted::default()));
        let server = axum_server::from_tcp(self.listener)
            .context("cannot listen for webhooks")?
            .handle(self.handle);
        let acceptor = RustlsAcceptor::new(self.tls).acceptor(connections);
        let routes = router(Reviews { engine, counters });
        tuned(server.acceptor(acceptor), HEADERS)
            .serve(routes.into_make_service())
            .await
            .context("the listener of the webhooks failed")
    }
}

fn router(reviews: Reviews) -> Router {
    Router::new()
        .route(BINDINGS, post(review_binding))
        .route(PODS, post(review_creation))
        .route("/livez", get(|| async { "ok\n" }))
        .with_state(reviews)
        .layer(DefaultBodyLimit::max(BODY))
        .layer(CatchPanicLayer::new())
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, LIMIT))
}

async fn review_binding(State(reviews): State<Reviews>, body: Bytes) -> Response {
    let started = Instant::now();
    let question = match binding_question(&body) {
        Ok(question) => question,
        Err(error) => return unreadable(&error),
    };
    let mut waited = Duration::ZERO;
    let verdict = loop {
        let review = question.review.clone();
        let asked =
            reviews.engine.write(move |watch, core| watch.review_binding(core, &review)).await;
        match asked {
            // Nothing was booked, so that asking again is asking once.
            Ok(BindingVerdict::Unavailable { .. }) if waited < CATCH_UP => {
                tokio::time::sleep(CATCH_UP_STEP).await;
                waited += CATCH_UP_STEP;
            }
            Ok(verdict) => break verdict,
            Err(error) => return unanswered(error),
        }
    };
    let outcome = match &verdict {
        BindingVerdict::Ignored => "ignored",
        BindingVerdict::Admitted(_) => "admitted",
        BindingVerdict::Warned { .. } => "warned",
        BindingVerdict::Rejected { .. } => "rejected",
        BindingVerdict::Unavailable { .. } => "unavailable",
    };
    if let BindingVerdict::Rejected { message } | BindingVerdict::Warned { message } = &verdict {
        let is_dry = question.review.run == Run::Dry;
        tracing::info!(outcome, message, is_dry, "binding");
    }
    let answer = question.answer(verdict);
    reviews.counters.reviewed("binding", outcome, started.elapsed());
    answered(&answer)
}

async fn review_creation(State(reviews): State<Reviews>, body: Bytes) -> Response {
    let started = Instant::now();
    let question = match creation_question(&body) {
        Ok(question) => question,
        Err(error) => return unreadable(&error),
    };
    let review = question.review.clone();
    let asked = reviews.engine.write(move |watch, core| watch.review_creation(core, &review)).await;
    let verdict = match asked {
        Ok(verdict) => verdict,
        Err(error) => return unanswered(error),
    };
    let outcome = match &verdict {
        CreationVerdict::Allowed { .. } => "admitted",
        CreationVerdict::Rejected { .. } => "rejected",
        CreationVerdict::Unavailable { .. } => "unavailable",
    };
    let answer = question.answer(verdict);
    reviews.counters.reviewed("creation", outcome, started.elapsed());
    answered(&answer)
}

fn answered(answer: &ReviewAnswer) -> Response {
    Json(answer).into_response()
}

fn unreadable(error: &serde_json::Error) -> Response {
    (StatusCode::BAD_REQUEST, format!("invalid AdmissionReview: {error}\n")).into_response()
}

/// The API server treats an error as no answer: what was not decided does not pass.
fn unanswered(error: NoAnswer) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("plimsoll cannot decide: {error}\n")).into_response()
}
