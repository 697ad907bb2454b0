//! The input of a request: its body, its parameters, the part of a list. Unknown input is rejected
//! by name.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri, header, request};
use axum::response::{IntoResponse, Response};
use plimsoll_slots::size::Span;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::IntoParams;

use super::problem::{Answer, Problem};

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Answer<Self> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        if kind != "application/json" {
            let detail = "the body must be JSON; send Content-Type: application/json";
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                detail,
            ));
        }
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            Problem::new(rejection.status(), "unreadable_body", rejection.body_text())
        })?;
        read_json(&bytes).map(Body)
    }
}

/// A value from JSON, or a problem with the field that is wrong.
pub(crate) fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Answer<T> {
    // A list of values in the right order would be taken for an object.
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(Problem::bad(
            "",
            "invalid request body: expected an object, found a list".to_string(),
        ));
    }
    // Nearly all bodies are valid, so the field of an error is tracked only in a second pass.
    if let Ok(value) = serde_json::from_slice(bytes) {
        return Ok(value);
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(unread)?;
    reader.end().map_err(|error| not_json(&error))?;
    Ok(value)
}

/// The same from what was read already.
pub(crate) fn read_value<T: DeserializeOwned>(value: Value) -> Answer<T> {
    serde_path_to_error::deserialize(value).map_err(unread)
}

fn unread(error: serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let path = error.path().to_string();
    let inner = error.into_inner();
    if !inner.is_data() {
        return not_json(&inner);
    }
    Problem::bad(&field(&path, &inner.to_string()), format!("invalid request body: {inner}"))
}

fn not_json(error: &serde_json::Error) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        "invalid_json",
        format!("invalid request body: not JSON: {error}"),
    )
}

/// Returns the field of an error: its path, with the name of a missing or duplicate field.
fn field(path: &str, message: &str) -> String {
    let path = if path == "." { "" } else { path };
    let named =
        ["missing field `", "duplicate field `"].iter().find_map(|words| message.split_once(words));
    match named.and_then(|(_, rest)| rest.split_once('`')) {
        Some((named, _)) if path.is_empty() || path == named => named.to_string(),
        Some((named, _)) => format!("{path}.{named}"),
        None => path.trim_end_matches(".?").to_string(),
    }
}

/// The parameters of the address.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut request::Parts, _state: &S) -> Answer<Self> {
        let read = Query::<T>::try_from_uri(&parts.uri);
        let wrong = |error: axum::extract::rejection::QueryRejection| {
            let text = error.body_text();
            let text = text
                .strip_prefix("Failed to deserialize query string: ")
                .unwrap_or(&text)
                .to_string();
            let (named, _) = text.split_once(": ").unwrap_or(("", ""));
            let quoted = text.split('`').nth(1).filter(|_| text.contains("unknown field"));
            Problem::bad(quoted.unwrap_or(named), format!("invalid parameter: {text}"))
        };
        read.map(|Query(params)| Params(params)).map_err(wrong)
    }
}

/// The default number of rows of a list, and the limit.
const ROWS: usize = 500;
const ROWS_MOST: usize = 5000;

/// The query parameters of a list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// The most rows: 500 by default, at most 5000.
    pub(crate) limit: Option<String>,
    /// Only rows after this one; the `Link: rel="next"` header has it.
    pub(crate) after: Option<String>,
}

/// Parses the number of rows.
pub(crate) fn rows_wanted(limit: Option<&str>) -> Answer<usize> {
    let Some(text) = limit else { return Ok(ROWS) };
    let number = text.parse().ok().filter(|number| (1..=ROWS_MOST).contains(number));
    number.ok_or_else(|| {
        Problem::bad("limit", format!("limit must be 1 to {ROWS_MOST}, not {text:?}"))
    })
}

/// Answers with one page of rows. `rows` has one more than the page if there is a next page, which
/// starts after the last row of this one.
pub(crate) fn page<T: Serialize>(
    uri: &Uri,
    mut rows: Vec<T>,
    limit: usize,
    id: impl FnOnce(&T) -> &str,
) -> Response {
    let has_next = rows.len() > limit;
    rows.truncate(limit);
    list(uri, &rows, rows.last().filter(|_| has_next).map(id))
}

/// Answers with a list, and links to the next page if there is one.
pub(crate) fn list<T: Serialize>(uri: &Uri, rows: &[T], next: Option<&str>) -> Response {
    let body = serde_json::to_string(rows).expect("rows are plain data");
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let mut response = ([kind], body).into_response();
    if let Some(link) = next.and_then(|after| link(uri, after)) {
        response.headers_mut().insert(header::LINK, link);
    }
    response
}

/// The same address with another `after`.
fn link(uri: &Uri, after: &str) -> Option<HeaderValue> {
    let kept = uri.query().into_iter().flat_map(|query| query.split('&'));
    let mut query: Vec<String> = kept
        .filter(|pair| !pair.is_empty() && !pair.starts_with("after="))
        .map(String::from)
        .collect();
    query.push(format!("after={}", encoded(after)));
    let link = format!("<{}?{}>; rel=\"next\"", uri.path(), query.join("&"));
    HeaderValue::from_str(&link).ok()
}

/// Encodes a text for a query string.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let part =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(part).collect()
}

/// The most that an answer may be waited for.
const WAIT_MOST: Span = Span::seconds(3600);

/// Checks the time that an answer may wait, from a parameter or a field.
pub(crate) fn waiting(wait: Option<Span>) -> Answer<Option<Span>> {
    match wait {
        Some(wait) if wait > WAIT_MOST => {
            Err(Problem::bad("wait", format!("wait must be at most {WAIT_MOST}, not {wait}")))
        }
        wait => Ok(wait),
    }
}

/// A header as text, where it is there.
pub(crate) fn header_text<'a>(
    headers: &'a axum::http::HeaderMap,
    name: &HeaderName,
) -> Answer<Option<&'a str>> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().map_err(|_| {
        Problem::bad(name.as_str(), format!("the header {name} must be visible ASCII"))
    });
    text.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_api::rows::ReserveBody;

    #[test]
    fn what_is_wrong_in_a_body_is_named() {
        for (body, status, field) in [
            (r#"{"model":"m","modle":1}"#, 400, Some("modle")),
            (r#"{"model":1}"#, 400, Some("model")),
            (r#"{"model":"m","deadline":"5"}"#, 400, Some("deadline")),
            ("{}", 400, Some("model")),
            (r#"{"model":"m","model":"n"}"#, 400, Some("model")),
            (r#"["m"]"#, 400, None),
            ("{", 400, None),
            (r#"{"model":"m"} x"#, 400, None),
        ] {
            let problem = read_json::<ReserveBody>(body.as_bytes()).expect_err(body);
            assert_eq!(
                (problem.row().status, problem.row().field.as_deref()),
                (status, field),
                "{body}"
            );
        }
    }

    #[test]
    fn the_next_part_keeps_the_other_parameters() {
        let uri: Uri = "/api/v1/models?limit=2&after=a".parse().expect("an address");
        let link = link(&uri, "org/b:c").expect("a header");
        assert_eq!(link, "</api/v1/models?limit=2&after=org%2Fb%3Ac>; rel=\"next\"");
    }
}
