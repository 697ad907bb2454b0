//! An error in front of a client, as RFC 9457 has it.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// The media type of a problem.
pub(crate) const PROBLEM: &str = "application/problem+json";

/// An answer that says what is wrong, and what to do about it where that can be said.
pub(crate) fn problem(status: StatusCode, detail: &str) -> Response {
    let title = status.canonical_reason().unwrap_or("Error");
    let body = serde_json::json!({
        "type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail,
    });
    let media_type = HeaderValue::from_static(PROBLEM);
    (status, [(header::CONTENT_TYPE, media_type)], body.to_string()).into_response()
}

/// Whether an answer is a problem already.
pub(crate) fn is_problem(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes() == PROBLEM.as_bytes())
}
