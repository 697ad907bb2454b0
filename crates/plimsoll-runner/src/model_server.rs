//! HTTP requests to the model server of a slot: the readiness check, and the request that loads the
//! model.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ureq::Agent;
use ureq::http::StatusCode;

/// Time limit of one readiness check.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// Shortest time limit of a preload, so that a slot whose time is almost up gets a meaningful error
/// instead of a timeout of 0.
const SHORTEST_PRELOAD: Duration = Duration::from_secs(1);

/// Bytes of a response body that are read. Error messages of model servers are shorter.
const BODY_LIMIT: u64 = 1 << 10;

/// Returns true if the model server answers the path with 200.
pub(crate) fn answers_200(address: SocketAddr, path: &str) -> bool {
    let response = agent(Some(CHECK_TIMEOUT)).get(url(address, path)).call();
    response.is_ok_and(|response| response.status() == StatusCode::OK)
}

/// Failure of the request that loads a model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PreloadError {
    #[error("loading the model failed")]
    Request(#[from] ureq::Error),
    #[error("loading the model failed: cannot read the response")]
    Response(#[from] io::Error),
    #[error("loading the model failed: the model server answered {status}: {body}")]
    Status { status: StatusCode, body: String },
    #[error("loading the model failed for an unknown reason")]
    Panicked,
}

/// A request that makes the model server load its model. It runs in a thread, so that the slot can
/// be stopped meanwhile.
pub(crate) struct Preload(JoinHandle<Result<(), PreloadError>>);

impl Preload {
    /// Sends the request, with a JSON body.
    pub(crate) fn start(
        address: SocketAddr,
        path: &str,
        body: String,
        timeout: Option<Duration>,
    ) -> Preload {
        let url = url(address, path);
        let timeout = timeout.map(|timeout| timeout.max(SHORTEST_PRELOAD));
        Preload(thread::spawn(move || post(&url, &body, timeout)))
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits for the response.
    pub(crate) fn join(self) -> Result<(), PreloadError> {
        self.0.join().unwrap_or(Err(PreloadError::Panicked))
    }
}

fn post(url: &str, body: &str, timeout: Option<Duration>) -> Result<(), PreloadError> {
    let request = agent(timeout).post(url).content_type("application/json");
    let response = request.send(body)?;
    let status = response.status();
    // The body of a success is read too: the model is loaded when the response ends, not when it
    // begins.
    let mut text = Vec::new();
    response.into_body().into_reader().take(BODY_LIMIT).read_to_end(&mut text)?;
    if status == StatusCode::OK {
        return Ok(());
    }
    let body = String::from_utf8_lossy(&text).trim().to_owned();
    Err(PreloadError::Status { status, body })
}

/// Returns a client for one request. It uses no proxy, because the model server runs on this
/// machine. It keeps no connection open: the next request to the port can be for another model
/// server.
fn agent(timeout: Option<Duration>) -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .max_idle_connections(0)
        .timeout_global(timeout)
        .build()
        .new_agent()
}

fn url(address: SocketAddr, path: &str) -> String {
    format!("http://{address}/{}", path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// Serves one request with this response. The thread returns the request's head and the first
    /// bytes of its body.
    fn serve(response: &'static str, body_length: usize) -> (SocketAddr, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("the listener has an address");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client connects");
            let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).expect("a line");
            }
            let mut body = vec![0; body_length];
            reader.read_exact(&mut body).expect("the body");
            stream.write_all(response.as_bytes()).expect("the client reads");
            head + &String::from_utf8_lossy(&body)
        });
        (address, server)
    }

    fn preload(response: &'static str) -> (Result<(), String>, String) {
        let body = r#"{"a":1}"#;
        let (address, server) = serve(response, body.len());
        let preload =
            Preload::start(address, "/api/generate", body.to_owned(), Some(Duration::from_secs(5)));
        let result = preload.join().map_err(|error| error.to_string());
        (result, server.join().expect("the server returns"))
    }

    #[test]
    fn only_200_is_ready() {
        for (response, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", true),
            ("HTTP/1.0 200 OK\r\n\r\n", true),
            ("HTTP/1.1 204 No Content\r\n\r\n", false),
            ("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", false),
            ("hello\r\n\r\n", false),
        ] {
            let (address, server) = serve(response, 0);
            assert_eq!(answers_200(address, "health"), expected, "{response}");
            let request = server.join().expect("the server returns");
            assert!(request.starts_with("GET /health HTTP/1.1\r\n"), "{request}");
        }
    }

    #[test]
    fn preload_succeeds_on_200() {
        let (result, request) = preload("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        assert_eq!(result, Ok(()));
        assert!(request.starts_with("POST /api/generate HTTP/1.1\r\n"), "{request}");
        let head = request.to_ascii_lowercase();
        assert!(head.contains("content-length: 7\r\n"), "{request}");
        assert!(head.contains("content-type: application/json\r\n"), "{request}");
        assert!(request.ends_with(r#"{"a":1}"#), "{request}");
    }

    #[test]
    fn preload_error_names_status_and_body() {
        let (result, _) =
            preload("HTTP/1.1 404 Not Found\r\n\r\n{\"error\":\"model 'q' not found\"}");
        let expected = "loading the model failed: the model server answered 404 Not Found: \
                        {\"error\":\"model 'q' not found\"}";
        assert_eq!(result, Err(expected.to_owned()));
    }

    #[test]
    fn preload_error_body_is_bounded() {
        let long: &'static str =
            format!("HTTP/1.1 500 Internal Server Error\r\n\r\n{}", "x".repeat(100_000)).leak();
        let (result, _) = preload(long);
        let message = result.expect_err("500 is an error");
        assert!(message.len() < 2 * usize::try_from(BODY_LIMIT).expect("small"), "{message}");
    }
}
