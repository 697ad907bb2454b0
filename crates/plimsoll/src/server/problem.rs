//! An error in front of a client, as RFC 9457 has it.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// The media type of a problem.
const PROBLEM: &str = "application/problem+json";

/// An answer of a kind that has a stable code: what is wrong, and what to do about it where that can be said.
pub(crate) fn problem(status: StatusCode, code: &str, detail: &str) -> Response {
    let body = serde_json::json!({
        "type": format!("urn:plimsoll:problem:{code}"),
        "title": status.canonical_reason().unwrap_or("Error"),
        "status": status.as_u16(),
        "detail": detail,
        "code": code,
    });
    let media_type = HeaderValue::from_static(PROBLEM);
    let mut response = (status, [(header::CONTENT_TYPE, media_type)], body.to_string()).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Whether an answer is a problem already.
pub(crate) fn is_problem(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes() == PROBLEM.as_bytes())
}
