//! Authentication, roles and limits: requests that are rejected here reach no handler.
//!
//! ```text
//!  connection limit, TLS ──▶ authenticate ──▶ router ──▶ enforce the route's rules ──▶ handler
//!                            429, 401                    403, 413, 408
//! ```
//!
//! `authenticate` runs before the router and knows no routes. `enforce` runs before each
//! handler, with the `Rules` that its route declares.

#![expect(clippy::result_large_err, reason = "a rejection is the response, made once per request")]

pub(crate) mod access;
mod connections;
mod local;
mod rate;
pub mod tls;
pub(crate) mod tokens;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::RequestExt;
use axum::extract::{ConnectInfo, DefaultBodyLimit, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use plimsoll_slots::size::Span;

pub(crate) use connections::Connections;

use super::api::Problem;
use super::config::http::Limits;
use super::metrics::{Counted, Rejected};
use access::{Access, ChangeLog, Role, Rules, WaitSource};
use rate::Rate;
use tokens::Tokens;

/// The longest wait that a request may ask for; its handler rejects a longer one.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The checks before every handler.
#[derive(Debug)]
pub(crate) struct Guard {
    tokens: RwLock<Arc<Tokens>>,
    rate: Mutex<Rate>,
    limits: Limits,
    counted: Arc<Counted>,
}

/// The authenticated caller of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The name of its token; `local` on a server without tokens.
    pub(crate) name: String,
    role: Role,
}

impl Caller {
    /// Returns whether the caller may make changes.
    pub(crate) fn may_operate(&self) -> bool {
        self.role.allows(Access::Operate, None)
    }
}

impl Guard {
    pub(crate) fn new(tokens: Tokens, limits: Limits, counted: Arc<Counted>) -> Self {
        let rate = Mutex::new(Rate::new(limits.requests_per_second, limits.burst));
        Guard { tokens: RwLock::new(Arc::new(tokens)), rate, limits, counted }
    }

    pub(crate) fn replace_tokens(&self, tokens: Tokens) {
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
    }

    fn tokens(&self) -> Arc<Tokens> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn reject(&self, why: Rejected, detail: &str) -> Response {
        self.counted.rejected(why);
        Problem::new(why.status(), why.code(), detail).into_response()
    }

    fn check_rate(&self, request: &Request) -> Result<(), Response> {
        let from = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let address = from.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |from| from.0.ip());
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.take(address, Instant::now()).map_err(|wait| {
            let mut response = self.reject(Rejected::Rate, "too many requests from this address");
            let seconds = HeaderValue::from(wait.as_secs().saturating_add(1));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
            response
        })
    }

    fn find_caller(&self, request: &Request) -> Result<Caller, Response> {
        let tokens = self.tokens();
        if tokens.is_empty() {
            return match local::rejection(request.headers(), request.uri()) {
                None => Ok(Caller { name: "local".to_string(), role: Role::All }),
                Some(why) => Err(self.reject(Rejected::Forbidden, why)),
            };
        }
        let known = bearer(request.headers()).and_then(|token| tokens.find(token));
        let Some((name, role)) = known else {
            let detail = "a valid token is required: Authorization: Bearer TOKEN";
            let mut response = self.reject(Rejected::Unauthorized, detail);
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return Err(response);
        };
        Ok(Caller { name: name.to_string(), role: role.clone() })
    }

    /// Returns the caller, if its role is sufficient for the route.
    fn authorize(
        &self,
        access: Access,
        runner: Option<&str>,
        request: &Request,
    ) -> Result<Caller, Response> {
        let caller = request.extensions().get::<Caller>();
        match caller.filter(|caller| caller.role.allows(access, runner)) {
            Some(caller) => Ok(caller.clone()),
            None => {
                let detail = format!("the token's role is not sufficient: {access} is required");
                Err(self.reject(Rejected::Forbidden, &detail))
            }
        }
    }

    /// Returns the request with its body limited.
    fn limit_body(&self, mut request: Request, access: Access) -> Result<Request, Response> {
        let limit = match access {
            Access::Runner => self.limits.runner_body,
            Access::Read | Access::Operate => self.limits.body,
        };
        let limit = usize::try_from(limit.0.get()).unwrap_or(usize::MAX);
        let length =
            request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if length.is_some_and(|length| length.parse::<usize>().is_ok_and(|length| length > limit)) {
            let detail = format!("the request body is larger than {limit} bytes");
            return Err(self.reject(Rejected::Body, &detail));
        }
        DefaultBodyLimit::max(limit).apply(&mut request);
        Ok(request.with_limited_body())
    }

    /// Returns the time that a request may take: the usual time, and what it asks to wait.
    fn timeout(&self, request: &Request, wait: WaitSource) -> Duration {
        let usual = Duration::from_millis(self.limits.request_timeout.0);
        let wait = match wait {
            WaitSource::Query => request.uri().query().and_then(wait_in).unwrap_or_default(),
            // The body is read by the handler, after the clock has started.
            WaitSource::Body => LONGEST_WAIT,
        };
        usual.saturating_add(wait.min(LONGEST_WAIT))
    }
}

/// Middleware before the router: limits the rate, and finds the caller of a request.
pub(crate) async fn authenticate(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    match guard.check_rate(&request).and_then(|()| guard.find_caller(&request)) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(response) => response,
    }
}

/// Middleware before a handler: enforces the rules of its route.
pub(crate) async fn enforce(
    State((guard, rules)): State<(Arc<Guard>, Rules)>,
    params: RawPathParams,
    request: Request,
    next: Next,
) -> Response {
    let runner = params.iter().find(|(name, _)| *name == RUNNER_PARAMETER).map(|(_, id)| id);
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let timeout = guard.timeout(&request, rules.wait);
    let checked = guard
        .authorize(rules.access, runner, &request)
        .and_then(|caller| Ok((caller, guard.limit_body(request, rules.access)?)));
    let (caller, request) = match checked {
        Ok(checked) => checked,
        Err(response) => return response,
    };
    let response = match tokio::time::timeout(timeout, next.run(request)).await {
        Ok(response) if response.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            guard.reject(Rejected::Body, "the request body is too large")
        }
        Ok(response) => response,
        Err(_) => {
            let detail = "the request timed out; the change that it asked for may still happen";
            guard.reject(Rejected::Time, detail)
        }
    };
    if rules.access == Access::Operate && rules.log == ChangeLog::Each {
        let status = response.status().as_u16();
        tracing::info!(caller = caller.name, %method, path = uri.path(), status, "change requested");
    }
    response
}

/// The path parameter that names the runner on routes with [`Access::Runner`].
pub(crate) const RUNNER_PARAMETER: &str = "id";

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Returns the time that a query asks to wait, as in `wait=20s`.
fn wait_in(query: &str) -> Option<Duration> {
    let wait = query.split('&').find_map(|pair| pair.strip_prefix("wait="))?;
    wait.parse::<Span>().ok().map(|span| Duration::from_millis(span.0))
}

#[cfg(test)]
mod tests;
