//! Checks of a request's line and headers, before anything else looks at them.

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::Problem;

/// The limit for the request line and the headers, in bytes. hyper's own limit is that of its
/// buffer, which a head that arrives in one piece exceeds.
pub(crate) const HEAD: usize = 64 << 10;

/// Middleware: rejects requests that another program in their path may read differently.
pub(crate) async fn check(request: Request, next: Next) -> Response {
    match rejection(&request) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    }
}

fn rejection(request: &Request) -> Option<Problem> {
    if length(request) > HEAD {
        let detail = format!("the request line and the headers have more than {HEAD} bytes");
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Some(Problem::new(status, "headers_too_large", detail));
    }
    // The check of `Host` would see the first one only, and a proxy may route by the second.
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        return Some(Problem::bad("host", "the request has more than one Host header"));
    }
    None
}

fn length(request: &Request) -> usize {
    // The separators of a line: `: ` and the line end, or two blanks and the version.
    const SEPARATORS: usize = 4;
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + SEPARATORS);
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    request.method().as_str().len() + target + headers.sum::<usize>()
}
