//! Authentication, roles and limits: requests that are rejected here reach no handler.
//!
//! ```text
//!  connection limit, TLS ──▶ authenticate ──▶ router ──▶ enforce the route's rules ──▶ handler
//!                            429, 401, 503               403, 413, 408, 503
//! ```
//!
//! A caller is known by a token of the configuration, which has a role, or by one of the cluster
//! that is watched, which the cluster is asked about.
//!
//! `authenticate` runs before the router and knows no routes. `enforce` runs before each
//! handler, with the `Rules` that its route declares.

#![expect(clippy::result_large_err, reason = "a rejection is the response, made once per request")]

pub mod reviews;

pub(crate) mod access;
mod connections;
pub(crate) mod head;
mod local;
mod rate;
pub mod tls;
pub(crate) mod tokens;
pub(crate) mod unread;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::RequestExt;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{ConnectInfo, DefaultBodyLimit, MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use plimsoll_slots::size::Span;

pub(crate) use connections::Connections;

use super::api::Problem;
use super::config::http::Limits;
use super::metrics::{Counted, Rejected};
use access::{Access, ChangeLog, Role, Rules, WaitSource};
use rate::Rate;
use reviews::{Reviewer, Reviews, Unanswered, User};
use tokens::Tokens;

/// The longest wait that a request may ask for; its handler rejects a longer one.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The checks before every handler.
#[derive(Debug)]
pub(crate) struct Guard {
    tokens: RwLock<Arc<Tokens>>,
    /// `None` where callers are known by tokens of the configuration only.
    reviews: Option<Reviews>,
    rate: Mutex<Rate>,
    limits: Limits,
    counted: Arc<Counted>,
}

/// The authenticated caller of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The name of its token or of its user; `None` on a server without tokens.
    pub(crate) name: Option<String>,
    standing: Standing,
}

/// The source of a caller's rights.
#[derive(Clone, Debug)]
enum Standing {
    Role(Role),
    /// The cluster, for each right.
    User(Arc<User>),
}

impl Caller {
    /// Returns the name for the log.
    pub(crate) fn logged(&self) -> &str {
        self.name.as_deref().unwrap_or("local")
    }

    /// Returns whether the caller may make changes.
    pub(crate) fn may_operate(&self) -> bool {
        matches!(&self.standing, Standing::Role(role) if role.allows(Access::Operate, None))
    }
}

impl Guard {
    pub(crate) fn new(tokens: Tokens, limits: Limits, counted: Arc<Counted>) -> Self {
        let rate = Mutex::new(Rate::new(limits.requests_per_second, limits.burst));
        Guard { tokens: RwLock::new(Arc::new(tokens)), reviews: None, rate, limits, counted }
    }

    /// Also accepts callers with a token of a cluster.
    pub(crate) fn with_reviewer(self, reviewer: Arc<dyn Reviewer>) -> Self {
        Guard { reviews: Some(Reviews::new(reviewer)), ..self }
    }

    pub(crate) fn replace_tokens(&self, tokens: Tokens) {
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
    }

    /// Returns whether requests need a token.
    pub(crate) fn requires_token(&self) -> bool {
        self.reviews.is_some() || !self.tokens().is_empty()
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

    async fn find_caller(&self, headers: &HeaderMap, uri: &Uri) -> Result<Caller, Response> {
        let tokens = self.tokens();
        if tokens.is_empty() && self.reviews.is_none() {
            return match local::rejection(headers, uri) {
                None => Ok(Caller { name: None, standing: Standing::Role(Role::All) }),
                Some(why) => Err(self.reject(Rejected::Forbidden, why)),
            };
        }
        let token = bearer(headers).map_err(|detail| self.unknown_caller(detail))?;
        if let Some((name, role)) = tokens.find(token) {
            let standing = Standing::Role(role.clone());
            return Ok(Caller { name: Some(name.to_string()), standing });
        }
        let unknown = "the token is unknown; it may have been replaced or removed";
        let Some(reviews) = &self.reviews else { return Err(self.unknown_caller(unknown)) };
        match reviews.user(token).await {
            Ok(Some(user)) => {
                Ok(Caller { name: Some(user.name.clone()), standing: Standing::User(user) })
            }
            Ok(None) => Err(self.unknown_caller(unknown)),
            Err(why) => Err(self.unanswered(&why)),
        }
    }

    fn unknown_caller(&self, detail: &str) -> Response {
        let mut response = self.reject(Rejected::Unauthorized, detail);
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        response
    }

    /// Rejects a request about whose caller the cluster could not be asked.
    fn unanswered(&self, Unanswered(why): &Unanswered) -> Response {
        tracing::error!(why, "the cluster cannot be asked about a caller");
        self.reject(Rejected::Review, &format!("the cluster cannot be asked about callers: {why}"))
    }

    /// Returns the caller, if its role or its rights in the cluster are sufficient for the route.
    async fn authorize(
        &self,
        rules: Rules,
        params: Option<&RawPathParams>,
        caller: Caller,
    ) -> Result<Caller, Response> {
        let params = || params.into_iter().flat_map(|params| params.iter());
        let parameter =
            |wanted: &str| params().find(|(name, _)| *name == wanted).map(|(_, value)| value);
        let missing = match &caller.standing {
            Standing::Role(role) if role.allows(rules.access, parameter(RUNNER_PARAMETER)) => None,
            Standing::User(user) => self.missing_right(user, rules, parameter).await?,
            Standing::Role(role) => {
                let name = caller.logged();
                Some(insufficient(name, role, rules.access, parameter(RUNNER_PARAMETER)))
            }
        };
        match missing {
            None => Ok(caller),
            Some(missing) => Err(self.reject(Rejected::Forbidden, &missing)),
        }
    }

    /// Returns what to tell a user of the cluster that may not use a route.
    async fn missing_right<'a>(
        &self,
        user: &Arc<User>,
        rules: Rules,
        parameter: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Option<String>, Response> {
        let needed = rules.cluster.needed(parameter);
        let (Some(reviews), Some(needed)) = (&self.reviews, needed) else {
            return Ok(Some("no user of the cluster may use this route".to_owned()));
        };
        let missing = reviews.missing(user, needed).await.map_err(|why| self.unanswered(&why))?;
        let name = &user.name;
        Ok(missing.map(|right| format!("missing right: {name} may not {right}")))
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
    request: Request,
    next: Next,
) -> Response {
    if let Err(response) = guard.check_rate(&request) {
        return response;
    }
    // A body cannot be shared between threads, and an answer of the cluster is awaited.
    let (head, body) = request.into_parts();
    let caller = guard.find_caller(&head.headers, &head.uri).await;
    let mut request = Request::from_parts(head, body);
    match caller {
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
    pattern: MatchedPath,
    params: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let timeout = guard.timeout(&request, rules.wait);
    let caller = request.extensions().get::<Caller>().cloned();
    let caller = caller.expect("`authenticate` runs before the router");
    let checked = guard
        .authorize(rules, params.as_ref().ok(), caller)
        .await
        .and_then(|caller| Ok((caller, guard.limit_body(request, rules.access)?)));
    let (caller, request) = match checked {
        Ok(checked) => checked,
        Err(response) => return response,
    };
    if params.is_err() {
        return undecodable(pattern.as_str(), uri.path()).into_response();
    }
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
        tracing::info!(caller = caller.logged(), %method, path = uri.path(), status, "change requested");
    }
    response
}

/// The path parameter that names the runner on routes with [`Access::Runner`].
pub(crate) const RUNNER_PARAMETER: &str = "id";

/// Returns the token of a request, or why there is none.
fn bearer(headers: &HeaderMap) -> Result<&[u8], &'static str> {
    let missing = "no token was sent; send one as Authorization: Bearer TOKEN";
    let value = headers.get(header::AUTHORIZATION).ok_or(missing)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7).unwrap_or_default();
    match scheme.eq_ignore_ascii_case(b"bearer ") {
        true => Ok(token.trim_ascii()),
        false => Err("the header Authorization must be: Bearer TOKEN"),
    }
}

/// Returns why a role does not allow a route.
fn insufficient(name: &str, role: &Role, access: Access, runner: Option<&str>) -> String {
    match (role, access, runner) {
        (Role::Runner(names), Access::Runner, Some(runner)) => {
            format!("token {name} is for the runner {names}, and not for {runner}")
        }
        _ => format!("token {name} has role {role}, and this needs role {access}"),
    }
}

/// Returns the problem of a path with a parameter that is no UTF-8. The pattern names the
/// parameter.
fn undecodable(pattern: &str, path: &str) -> Problem {
    let segments = pattern.split('/').zip(path.split('/'));
    let mut named = segments.filter(|(_, value)| percent_decode_str(value).decode_utf8().is_err());
    // A wildcard has several segments, of which only the first has a counterpart in the pattern.
    let field =
        named.next().map_or_else(|| pattern.rsplit('/').next().unwrap_or(""), |(name, _)| name);
    let field = field.trim_matches(['{', '}', '*']);
    Problem::bad(field, format!("{field} in the path is not percent-encoded UTF-8"))
}

/// Returns the time that a query asks to wait, as in `wait=20s`.
fn wait_in(query: &str) -> Option<Duration> {
    let wait = query.split('&').find_map(|pair| pair.strip_prefix("wait="))?;
    wait.parse::<Span>().ok().map(|span| Duration::from_millis(span.0))
}

#[cfg(test)]
mod tests;
