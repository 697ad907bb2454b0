//! Who is let in, how often, and with how much. What is refused here reaches no handler.
//!
//! ```text
//!  connection (so many at once, TLS) ──▶ rate ──▶ token and rights ──▶ body and time limits ──▶ router
//!                                         429         401, 403               413, 408
//! ```

#![expect(
    clippy::result_large_err,
    reason = "a refusal is the answer itself, made at most once a request"
)]

mod connections;
mod local;
mod rate;
pub(crate) mod rights;
pub mod tls;
pub(crate) mod tokens;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::RequestExt;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use plimsoll_slots::size::Span;

pub(crate) use connections::Connections;

use super::api::Problem;
use super::config::Limits;
use super::metrics::{Counted, Refused};
use rate::Rate;
use rights::Wanted;
use tokens::Tokens;

/// The longest that a request may ask to wait; one that asks for more is refused by its handler.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Who asks for a place says in the body how long to wait.
const ASKING: &str = "/api/v1/scheduler/slots";

/// What stands before every handler.
#[derive(Debug)]
pub(crate) struct Guard {
    tokens: RwLock<Arc<Tokens>>,
    rate: Mutex<Rate>,
    limits: Limits,
    counted: Arc<Counted>,
}

impl Guard {
    /// One that knows these tokens and holds these limits.
    pub(crate) fn new(tokens: Tokens, limits: Limits, counted: Arc<Counted>) -> Self {
        let rate = Mutex::new(Rate::new(limits.requests_per_second, limits.burst));
        Guard { tokens: RwLock::new(Arc::new(tokens)), rate, limits, counted }
    }

    /// Knows other tokens from here on.
    pub(crate) fn replace_tokens(&self, tokens: Tokens) {
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
    }

    fn tokens(&self) -> Arc<Tokens> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn refuse(&self, why: Refused, detail: &str) -> Response {
        self.counted.refused(why);
        Problem::new(why.status(), why.code(), detail).into_response()
    }

    fn in_turn(&self, request: &Request) -> Result<(), Response> {
        let from = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let address = from.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |from| from.0.ip());
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.take(address, Instant::now()).map_err(|wait| {
            let mut response = self.refuse(Refused::Rate, "too many requests from this address");
            let seconds = HeaderValue::from(wait.as_secs().saturating_add(1));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
            response
        })
    }

    /// Who asks, where they may.
    fn let_in(&self, request: &Request, wanted: &Wanted<'_>) -> Result<Option<String>, Response> {
        let tokens = self.tokens();
        if tokens.is_empty() {
            let refusal = local::refusal(request.headers(), request.uri());
            return refusal.map_or(Ok(None), |why| Err(self.refuse(Refused::Forbidden, why)));
        }
        let known = bearer(request.headers()).and_then(|token| tokens.find(token));
        let Some((name, rights)) = known else {
            let detail = "a token that the server knows is needed, as Authorization: Bearer TOKEN";
            let mut response = self.refuse(Refused::Unauthorised, detail);
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return Err(response);
        };
        if !rights.suffice(wanted) {
            return Err(self.refuse(Refused::Forbidden, "the token has too few rights for this"));
        }
        Ok(Some(name.to_string()))
    }

    /// The request with its body bounded.
    fn bounded(&self, mut request: Request, wanted: &Wanted<'_>) -> Result<Request, Response> {
        let most = match wanted {
            Wanted::Runner(_) => self.limits.runner_body,
            _ => self.limits.body,
        };
        let most = usize::try_from(most.0.get()).unwrap_or(usize::MAX);
        let length =
            request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if length.is_some_and(|length| length.parse::<usize>().is_ok_and(|length| length > most)) {
            return Err(self.too_large(most));
        }
        DefaultBodyLimit::max(most).apply(&mut request);
        Ok(request.with_limited_body())
    }

    fn too_large(&self, most: usize) -> Response {
        self.refuse(Refused::Body, &format!("the body of the request is larger than {most} bytes"))
    }

    /// How long a request may take: what it may ask to wait, and the usual time besides.
    fn patience(&self, request: &Request) -> Duration {
        let usual = Duration::from_millis(self.limits.request_timeout.0);
        let asks = request.method() == Method::POST && request.uri().path() == ASKING;
        let asked = if asks { Some(LONGEST_WAIT) } else { request.uri().query().and_then(wait) };
        usual.saturating_add(asked.unwrap_or_default().min(LONGEST_WAIT))
    }
}

/// Lets a request through to its handler, or answers it.
pub(crate) async fn guard(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let wanted = rights::wanted(&method, uri.path());
    if wanted == Wanted::Nothing {
        return next.run(request).await;
    }
    let patience = guard.patience(&request);
    let checked = guard.in_turn(&request).and_then(|()| guard.let_in(&request, &wanted));
    let bounded = checked.and_then(|who| Ok((who, guard.bounded(request, &wanted)?)));
    let (who, request) = match bounded {
        Ok(let_in) => let_in,
        Err(response) => return response,
    };
    let response = match tokio::time::timeout(patience, next.run(request)).await {
        Ok(response) if response.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            guard.refuse(Refused::Body, "the body of the request is too large")
        }
        Ok(response) => response,
        Err(_) => guard.refuse(
            Refused::Time,
            "the request took too long; what it asked for may have happened",
        ),
    };
    if wanted == Wanted::Operate && !is_routine(uri.path()) {
        let status = response.status().as_u16();
        tracing::info!(who = who.as_deref().unwrap_or("local"), %method, path = uri.path(), status, "changed");
    }
    response
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Places come and go with every request that a model serves: nobody could read a log of them.
fn is_routine(path: &str) -> bool {
    path == ASKING
        || path == "/api/v1/scheduler/whatif"
        || path.starts_with("/api/v1/scheduler/slots/reservation-")
}

/// What a query asks to wait, as in `wait=20s`.
fn wait(query: &str) -> Option<Duration> {
    let asked = query.split('&').find_map(|pair| pair.strip_prefix("wait="))?;
    asked.parse::<Span>().ok().map(|span| Duration::from_millis(span.0))
}

#[cfg(test)]
mod tests;
