//! Requests to a server with a route of each kind.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::routing::{get, post, put};
use plimsoll_core::units::Bytes;
use plimsoll_slots::size::Size;
use serde_json::Value;
use tower::ServiceExt;

use super::*;
use crate::front::{self, Gate};
use crate::routes::Routes;

const OPERATOR: &str = "the-token-of-an-operator";
const READER: &str = "the-token-of-a-reader-xx";
const RUNNER: &str = "the-token-of-runner-gpu-1";

/// Tokens of all roles, in files of a directory that is gone once they are read.
fn tokens() -> Tokens {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, token) in [("operator", OPERATOR), ("reader", READER), ("runner", RUNNER)] {
        std::fs::write(dir.path().join(name), token).expect("a file");
    }
    let entries =
        "[{name: operator, role: operate, file: operator}, {name: reader, role: read, file: reader},
        {name: gpu-1, role: runner, file: runner, runner: gpu-1}]";
    let entries: Vec<tokens::TokenEntry> = serde_saphyr::from_str(entries).expect("tokens");
    Tokens::load(&entries, dir.path(), None, &mut Vec::new()).expect("tokens")
}

/// Answers with the length of its body, after some time if the query says `slow`.
async fn answer(request: Request<Body>) -> Response {
    if request.uri().query().is_some_and(|query| query.contains("slow")) {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    match to_bytes(request.into_body(), usize::MAX).await {
        Ok(body) => format!("{} bytes", body.len()).into_response(),
        Err(_) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
    }
}

/// Returns a server with a route of each kind.
fn app_with(guard: &Arc<Guard>) -> Router {
    let routes = Routes::new(guard)
        .add_page(Rules::READ, "/read", get(answer))
        .add_page(Rules::OPERATE, "/operate", put(answer))
        .add_page(Rules::OPERATE.waiting_by_body(), "/wait", post(answer))
        .add_page(Rules::RUNNER, "/runners/{id}", put(answer));
    let gate = Gate::default();
    gate.open(crate::api::router(routes));
    front::router(gate, guard.clone())
}

fn app(tokens: Tokens, limits: Limits) -> (Router, Arc<Counted>) {
    let counted = Arc::new(Counted::default());
    let guard = Arc::new(Guard::new(tokens, limits, counted.clone()));
    (app_with(&guard), counted)
}

async fn ask(app: &Router, line: &str, token: Option<&str>, body: Body) -> (u16, Value, HeaderMap) {
    let (method, path) = line.split_once(' ').expect("a method and a path");
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response =
        app.clone().oneshot(request.body(body).expect("a request")).await.expect("an answer");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    if status >= 400 {
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json", "{line}");
    }
    (status, serde_json::from_slice(&text).unwrap_or_default(), headers)
}

async fn status(app: &Router, line: &str, token: Option<&str>) -> u16 {
    ask(app, line, token, Body::empty()).await.0
}

#[tokio::test]
async fn no_request_is_served_without_a_token_whether_or_not_the_resource_exists() {
    let (app, _) = app(tokens(), Limits::default());
    for line in ["GET /read", "GET /no/such/thing", "PUT /operate", "PUT /runners/r"] {
        for token in [None, Some("a-token-that-is-unknown"), Some("")] {
            let (status, problem, headers) = ask(&app, line, token, Body::empty()).await;
            assert_eq!(
                (status, &headers[header::WWW_AUTHENTICATE]),
                (401, &"Bearer".parse().expect("a header"))
            );
            assert_eq!(
                (&problem["status"], &problem["code"]),
                (&401.into(), &"unauthorized".into())
            );
        }
    }
    for line in ["GET /livez", "GET /readyz", "HEAD /readyz"] {
        assert_eq!(status(&app, line, None).await, 200, "{line}");
    }
}

#[tokio::test]
async fn a_token_does_what_its_role_says_and_a_runner_speaks_for_itself_alone() {
    let (app, _) = app(tokens(), Limits::default());
    for (line, reader, operator, runner) in [
        ("GET /read", 200, 200, 403),
        ("HEAD /read", 200, 200, 403),
        ("PUT /operate", 403, 200, 403),
        ("PUT /runners/gpu-1", 403, 403, 200),
        ("PUT /runners/gpu%2D1", 403, 403, 200),
        ("PUT /runners/gpu-2", 403, 403, 403),
        ("PUT /runners/gpu-10", 403, 403, 403),
        ("PUT /runners/gpu-1%2F..%2Fgpu-2", 403, 403, 403),
        // A path or method that no route declares does nothing, whatever the role.
        ("GET /no/such/thing", 404, 404, 404),
        ("PUT //operate", 404, 404, 404),
        ("PUT /operate/", 404, 404, 404),
        ("PUT /%6Fperate", 404, 404, 404),
        ("DELETE /operate", 405, 405, 405),
    ] {
        for (token, expected) in [(READER, reader), (OPERATOR, operator), (RUNNER, runner)] {
            assert_eq!(status(&app, line, Some(token)).await, expected, "{line} with {token}");
        }
    }
}

#[tokio::test]
async fn other_tokens_can_be_put_in_their_place() {
    let guard = Arc::new(Guard::new(tokens(), Limits::default(), Arc::default()));
    let app = app_with(&guard);
    assert_eq!(status(&app, "GET /read", Some(READER)).await, 200);
    guard.replace_tokens(Tokens::default());
    assert_eq!(status(&app, "GET /read", None).await, 200);
    guard.replace_tokens(tokens());
    assert_eq!(status(&app, "GET /read", None).await, 401);
}

#[tokio::test]
async fn without_tokens_all_of_this_machine_is_let_in_and_no_page_of_another_site() {
    let (app, _) = app(Tokens::default(), Limits::default());
    assert_eq!(status(&app, "PUT /operate", None).await, 200);
    assert_eq!(status(&app, "PUT /runners/r", None).await, 200);
    for (name, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
        let request = Request::builder().method("POST").uri("/wait").header(name, value);
        let response = app.clone().oneshot(request.body(Body::empty()).expect("a request")).await;
        assert_eq!(response.expect("an answer").status(), 403, "{name}");
    }
}

#[tokio::test]
async fn a_body_is_bounded_whether_or_not_its_length_is_said() {
    let limits = Limits {
        body: Size(Bytes::new(100)),
        runner_body: Size(Bytes::new(1000)),
        ..Limits::default()
    };
    let (app, counted) = app(Tokens::default(), limits);
    for (line, length, expected) in [
        ("PUT /operate", 100, 200),
        ("PUT /operate", 110, 413),
        ("PUT /runners/r", 1000, 200),
        ("PUT /runners/r", 1010, 413),
    ] {
        let (method, path) = line.split_once(' ').expect("a method and a path");
        for said in [None, Some(length.to_string())] {
            let mut request =
                Request::builder().method(method).uri(path).header("host", "localhost");
            if let Some(length) = &said {
                request = request.header("content-length", length);
            }
            let request = request.body(Body::from(vec![b'x'; length])).expect("a request");
            let status = app.clone().oneshot(request).await.expect("an answer").status();
            assert_eq!(status, expected, "{line} {length}, said: {said:?}");
        }
    }
    assert_eq!(counted.rejections_of(Rejected::Body), 4);
}

#[tokio::test]
async fn what_takes_too_long_is_given_up_unless_it_asked_to_wait() {
    let limits = Limits { request_timeout: Span(100), ..Limits::default() };
    let (app, _) = app(Tokens::default(), limits);
    assert_eq!(status(&app, "GET /read?slow", None).await, 408);
    assert_eq!(status(&app, "GET /read?slow&wait=1s", None).await, 200);
    assert_eq!(status(&app, "POST /wait?slow", None).await, 200);
}

#[tokio::test]
async fn too_many_requests_get_a_retry_time_and_health_is_still_answered() {
    let limits = Limits { requests_per_second: 1, burst: 2, ..Limits::default() };
    let (app, _) = app(Tokens::default(), limits);
    assert_eq!(
        (status(&app, "GET /read", None).await, status(&app, "GET /read", None).await),
        (200, 200)
    );
    let (status_now, problem, headers) = ask(&app, "GET /read", None, Body::empty()).await;
    assert_eq!((status_now, &problem["code"]), (429, &"too_many_requests".into()));
    assert_eq!(headers[header::RETRY_AFTER], "1");
    assert_eq!(status(&app, "GET /livez", None).await, 200);
}

#[tokio::test]
async fn an_error_tells_a_missing_token_an_unknown_one_and_a_missing_role_apart() {
    let (app, _) = app(tokens(), Limits::default());
    for (line, token, status, detail) in [
        ("GET /read", None, 401, "no token was sent; send one as Authorization: Bearer TOKEN"),
        (
            "GET /read",
            Some("another-token-xx"),
            401,
            "the token is unknown; it may have been replaced or removed",
        ),
        (
            "PUT /runners/gpu-1",
            Some(OPERATOR),
            403,
            "token operator has role operate, and this needs role runner",
        ),
        (
            "PUT /operate",
            Some(READER),
            403,
            "token reader has role read, and this needs role operate",
        ),
        ("GET /read", Some(RUNNER), 403, "token gpu-1 has role runner, and this needs role read"),
        (
            "PUT /runners/gpu-2",
            Some(RUNNER),
            403,
            "token gpu-1 is for the runner gpu-1, and not for gpu-2",
        ),
    ] {
        let (found, problem, _) = ask(&app, line, token, Body::empty()).await;
        assert_eq!((found, &problem["detail"]), (status, &detail.into()), "{line}");
    }
    let request =
        Request::get("/read").header("host", "localhost").header("authorization", "Basic eA==");
    let response = app.oneshot(request.body(Body::empty()).expect("a request")).await;
    let body = to_bytes(response.expect("an answer").into_body(), 1 << 10).await.expect("a body");
    assert!(String::from_utf8_lossy(&body).contains("must be: Bearer TOKEN"));
}

#[tokio::test]
async fn the_page_about_the_api_needs_no_token_and_the_root_leads_to_it() {
    let (app, _) = app(tokens(), Limits::default());
    let (status, _, headers) = ask(&app, "GET /", None, Body::empty()).await;
    assert_eq!((status, &headers[header::LOCATION]), (307, &"/docs".parse().expect("a header")));
    let (status, _, headers) = ask(&app, "GET /docs", None, Body::empty()).await;
    assert_eq!(
        (status, &headers[header::CONTENT_TYPE]),
        (200, &"text/html; charset=utf-8".parse().expect("a header"))
    );
}

#[tokio::test]
async fn a_path_that_is_no_utf8_is_rejected_with_its_parameter() {
    let (app, _) = app(Tokens::default(), Limits::default());
    let (status, problem, _) = ask(&app, "PUT /runners/%ff", None, Body::empty()).await;
    assert_eq!(
        (status, &problem["code"], &problem["field"]),
        (400, &"invalid_request".into(), &"id".into())
    );
    assert_eq!(
        undecodable("/models/{*name}", "/models/a/b%ff").row().field.as_deref(),
        Some("name")
    );
    assert_eq!(undecodable("/n/{a}/p/{b}", "/n/%41/p/%c3%28").row().field.as_deref(), Some("b"));
}

#[tokio::test]
async fn heads_that_are_too_large_or_name_two_hosts_are_rejected_everywhere() {
    let (app, _) = app(Tokens::default(), Limits::default());
    for path in ["/livez", "/read", "/no/such/thing"] {
        let request = |name: &str, value: String| {
            let request = Request::get(path).header("host", "localhost").header(name, value);
            app.clone().oneshot(request.body(Body::empty()).expect("a request"))
        };
        let of = |response: Result<Response, _>| response.expect("an answer").status().as_u16();
        assert_eq!(of(request("host", "localhost".to_string()).await), 400, "{path}");
        assert_eq!(of(request("x", "x".repeat(head::HEAD)).await), 431, "{path}");
        assert_ne!(of(request("x", "x".repeat(head::HEAD - 1000)).await), 431, "{path}");
    }
}

#[tokio::test]
async fn an_answer_closes_the_connection_unless_the_body_was_read() {
    let limits = Limits { body: Size(Bytes::new(100)), ..Limits::default() };
    let (app, _) = app(tokens(), limits);
    for (line, token, length, closes) in [
        ("PUT /operate", Some(OPERATOR), 100, false),
        ("PUT /operate", Some(OPERATOR), 0, false),
        ("PUT /operate", None, 10, true),
        ("PUT /operate", Some(READER), 10, true),
        ("PUT /no/such/thing", Some(OPERATOR), 10, true),
        ("GET /read", None, 0, false),
    ] {
        let (status, _, headers) = ask(&app, line, token, Body::from(vec![b'x'; length])).await;
        let connection = headers.get(header::CONNECTION).map(HeaderValue::as_bytes);
        assert_eq!(connection, closes.then_some(&b"close"[..]), "{line} {length}: {status}");
    }
}
