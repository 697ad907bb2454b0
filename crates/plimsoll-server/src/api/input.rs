//! The input of a request: its body, its parameters, the part of a list. Unknown input is rejected
//! by name.

use std::ops::ControlFlow;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri, header, request};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use plimsoll_slots::size::Span;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::IntoParams;

use super::problem::{Answer, Problem};

/// The field of a problem with the whole body.
const BODY: &str = "body";

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
            Problem::new(rejection.status(), "unreadable_body", rejection.body_text()).about(BODY)
        })?;
        read_json(&bytes).map(Body)
    }
}

/// A value from JSON, or a problem with the field that is wrong.
pub(crate) fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Answer<T> {
    // serde takes a list of values in the right order for an object, and names types of the program
    // where it finds another value.
    if let Some(found) = not_an_object(bytes) {
        let detail = format!("invalid request body: expected a JSON object, found {found}");
        return Err(Problem::bad(BODY, detail));
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

/// Returns what a body is that does not begin as an object does.
fn not_an_object(bytes: &[u8]) -> Option<&'static str> {
    match bytes.trim_ascii_start().first() {
        Some(b'{') => None,
        None => Some("nothing"),
        Some(b'[') => Some("a list"),
        Some(b'"') => Some("a string"),
        Some(b'0'..=b'9' | b'-') => Some("a number"),
        Some(b't' | b'f' | b'n') => Some("true, false or null"),
        Some(_) => Some("no JSON"),
    }
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
    let detail = format!("invalid request body: not JSON: {error}");
    Problem::new(StatusCode::BAD_REQUEST, "invalid_json", detail).about(BODY)
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
        if let Some(pair) = undecodable(parts.uri.query()) {
            let name = pair.split('=').next().unwrap_or(pair);
            return Err(Problem::bad(name, "invalid parameter: not percent-encoded UTF-8"));
        }
        let read = Query::<T>::try_from_uri(&parts.uri);
        let wrong = |error: axum::extract::rejection::QueryRejection| {
            let text = error.body_text();
            let text = text
                .strip_prefix("Failed to deserialize query string: ")
                .unwrap_or(&text)
                .to_string();
            let (named, _) = text.split_once(": ").unwrap_or(("", ""));
            let is_about_name =
                ["unknown field", "duplicate field"].iter().any(|what| text.contains(what));
            let quoted = text.split('`').nth(1).filter(|_| is_about_name);
            Problem::bad(quoted.unwrap_or(named), format!("invalid parameter: {text}"))
        };
        read.map(|Query(params)| Params(params)).map_err(wrong)
    }
}

/// Returns the parameter of a query that is no UTF-8, which the reader would replace silently.
fn undecodable(query: Option<&str>) -> Option<&str> {
    let mut pairs = query?.split('&');
    pairs.find(|pair| percent_decode_str(pair).decode_utf8().is_err())
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
    #[param(value_type = Option<u16>, minimum = 1, maximum = 5000)]
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

/// The size of a page in bytes, from which on it takes no more rows. Rows can be large, and many
/// clients can read at once.
const PAGE_BYTES: usize = 2 << 20;

/// One page of a list: at most a number of rows, and at least one.
pub(crate) struct RowPage {
    limit: usize,
    rows: usize,
    text: String,
    /// The id of the last row.
    last: Option<String>,
    has_next: bool,
}

impl RowPage {
    pub(crate) fn new(limit: usize) -> Self {
        RowPage { limit, rows: 0, text: "[".to_string(), last: None, has_next: false }
    }

    /// Adds a row, or breaks if the page is full and the row begins the next one.
    pub(crate) fn push<T: Serialize>(&mut self, row: &T, id: Option<&str>) -> ControlFlow<()> {
        if self.rows == self.limit || self.text.len() >= PAGE_BYTES {
            self.has_next = true;
            return ControlFlow::Break(());
        }
        if self.rows > 0 {
            self.text.push(',');
        }
        self.text.push_str(&serde_json::to_string(row).expect("rows are plain data"));
        self.rows += 1;
        self.last = id.map(String::from);
        ControlFlow::Continue(())
    }

    /// Notes that there is a next page, although this one has room.
    pub(crate) fn continue_later(&mut self) {
        self.has_next = true;
    }

    /// Answers with the page, and links to the next one if there is one.
    pub(crate) fn answer(mut self, uri: &Uri) -> Response {
        self.text.push(']');
        let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut response = ([kind], self.text).into_response();
        let next = self.last.filter(|_| self.has_next);
        if let Some(link) = next.and_then(|after| link(uri, &after)) {
            response.headers_mut().insert(header::LINK, link);
        }
        response
    }
}

/// Answers with one page of rows. `rows` has one more than the page if there is a next page, which
/// starts after the last row of this one.
pub(crate) fn page<T: Serialize>(
    uri: &Uri,
    rows: &[T],
    limit: usize,
    id: impl Fn(&T) -> Option<&str>,
) -> Response {
    let mut page = RowPage::new(limit);
    // The rest begins the next page.
    let _ = rows.iter().try_for_each(|row| page.push(row, id(row)));
    page.answer(uri)
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
            (r#"["m"]"#, 400, Some("body")),
            ("null", 400, Some("body")),
            ("", 400, Some("body")),
            ("{", 400, Some("body")),
            (r#"{"model":"m"} x"#, 400, Some("body")),
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
    fn a_page_ends_before_it_is_too_large_and_has_at_least_one_row() {
        let ids = |rows: &[String]| {
            let mut page = RowPage::new(500);
            let mut taken = rows.iter().take_while(|row| page.push(row, Some(row)).is_continue());
            let count = taken.by_ref().count();
            (count, page.has_next, page.text.len())
        };
        let large = "x".repeat(PAGE_BYTES + 1);
        assert_eq!(ids(&[large.clone(), large.clone()]), (1, true, large.len() + 3));
        let half = "x".repeat(PAGE_BYTES / 2);
        let (count, has_next, bytes) = ids(&[half.clone(), half.clone(), half.clone(), half]);
        assert_eq!((count, has_next), (2, true));
        assert!(bytes < PAGE_BYTES * 2, "{bytes}");
        assert_eq!(ids(&["a".to_string(), "b".to_string()]), (2, false, 8));
    }

    #[test]
    fn the_next_part_keeps_the_other_parameters() {
        let uri: Uri = "/api/v1/models?limit=2&after=a".parse().expect("an address");
        let link = link(&uri, "org/b:c").expect("a header");
        assert_eq!(link, "</api/v1/models?limit=2&after=org%2Fb%3Ac>; rel=\"next\"");
    }
}
