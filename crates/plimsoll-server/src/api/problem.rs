//! Errors of the API as RFC 9457 problems: one shape for every rejected request.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use plimsoll_api::rows::ProblemRow;
use plimsoll_engine::engine::NoAnswer;

/// An answer that is no success.
#[derive(Clone, Debug)]
pub(crate) struct Problem(Box<ProblemRow>);

/// The result of a handler.
pub(crate) type Answer<T> = Result<T, Problem>;

impl Problem {
    /// A problem of a kind that has a stable code.
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        let words = code.replace('_', " ");
        let title = words[..1].to_uppercase() + &words[1..];
        Problem(Box::new(ProblemRow {
            kind: format!("urn:plimsoll:problem:{code}"),
            title,
            status: status.as_u16(),
            detail: detail.into(),
            code: code.to_string(),
            ..ProblemRow::default()
        }))
    }

    /// A missing resource.
    pub(crate) fn not_found(code: &str, detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// A parameter or a field that cannot be read.
    pub(crate) fn bad(field: &str, detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, "invalid_request", detail).about(field)
    }

    /// A field that can be read and makes no sense.
    pub(crate) fn invalid_model(field: &str, detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_model", detail).about(field)
    }

    /// The same, and the field or parameter that is wrong.
    pub(crate) fn about(mut self, field: &str) -> Self {
        self.0.field = (!field.is_empty()).then(|| field.to_string());
        self
    }

    /// Adds the reservation that the problem is about, and the reason for its status.
    pub(crate) fn of_reservation(mut self, reservation: &str, reason: &str) -> Self {
        self.0.reservation = Some(reservation.to_string());
        self.0.reason = Some(reason.to_string());
        self
    }

    /// The body.
    #[cfg(test)]
    pub(crate) fn row(&self) -> &ProblemRow {
        &self.0
    }
}

impl From<NoAnswer> for Problem {
    fn from(why: NoAnswer) -> Self {
        let code = match why {
            NoAnswer::Busy => "overloaded",
            NoAnswer::Stopped => "stopping",
        };
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, why.to_string())
    }
}

/// Returns the seconds after which a rejected request can be repeated, unless the cause is known to
/// last longer.
fn retry_after(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::SERVICE_UNAVAILABLE => Some("1"),
        StatusCode::TOO_MANY_REQUESTS => Some("5"),
        _ => None,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_string(&self.0).expect("a problem is plain data");
        let kind = HeaderValue::from_static("application/problem+json");
        let mut response = (status, [(header::CONTENT_TYPE, kind)], body).into_response();
        if let Some(seconds) = retry_after(status) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        response
    }
}
