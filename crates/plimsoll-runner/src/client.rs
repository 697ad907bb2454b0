//! HTTP client for the runner's part of the server's API.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_slots::wire::{Heartbeat, LogAnswer, LogRequest, Orders, Registration, Welcome};
use rustls::InvalidMessage;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use ureq::http::uri::InvalidUri;
use ureq::http::{Response, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use super::config::{PlaintextToken, RunnerConfig, TokenSource};

/// Time limit of a request that the server answers at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for which the server holds back a request for new orders.
const POLL_WAIT: Duration = Duration::from_secs(60);

/// Bytes of an error response that are read.
const PROBLEM_LIMIT: u64 = 64 << 10;

/// Characters of an error message that are logged.
const MESSAGE_LENGTH: usize = 300;

/// Invalid configuration of the client.
#[derive(Debug, thiserror::Error)]
pub enum ClientConfigError {
    #[error("--server {server} is not a URL")]
    Url { server: String, source: InvalidUri },
    #[error("--server {server} must start with http:// or https://")]
    Scheme { server: String },
    #[error("--server {server} names no host")]
    NoHost { server: String },
    #[error(
        "the token would be sent unencrypted to {host}; \
         use https, or --insecure if the network is trusted"
    )]
    PlaintextToken { host: String },
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("cannot read {}", path.display())]
    CaFile { path: PathBuf, source: io::Error },
    #[error("{} is not valid PEM", path.display())]
    CaPem { path: PathBuf, source: ureq::Error },
    #[error("{} contains no certificate", path.display())]
    NoCertificate { path: PathBuf },
}

/// Failure to read the token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot read the token file {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the file {} contains no token", path.display())]
    Invalid { path: PathBuf },
}

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("cannot reach the server at {server}")]
    Unreachable { server: String, source: ureq::Error },
    #[error("the server at {server} does not speak plain HTTP; if it uses TLS, write https://")]
    NotHttp { server: String, source: ureq::Error },
    #[error("the server at {server} does not speak TLS; if it uses plain HTTP, write http://")]
    NotTls { server: String, source: ureq::Error },
    #[error(
        "the certificate of the server at {server} is not trusted; if it is your own, give its \
         authority with --ca-file"
    )]
    Untrusted { server: String, source: ureq::Error },
    #[error("{server} answers with status {status}; is that a Plimsoll server?")]
    Foreign { server: String, status: u16 },
    #[error("cannot understand the server's response")]
    InvalidResponse(#[source] ureq::Error),
    #[error("the server's response is empty")]
    EmptyResponse,
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("the server answered {status}: {message}")]
    Rejected { status: u16, code: Option<String>, message: String },
}

impl RequestError {
    /// Classifies a request without an answer.
    fn unanswered(server: String, source: ureq::Error) -> RequestError {
        let tls = tls_error(&source);
        let speaks_no_tls =
            matches!(tls, Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)));
        let is_tls = tls.is_some() || matches!(source, ureq::Error::Tls(_));
        let is_plain = server.starts_with("http://");
        match source {
            ureq::Error::Protocol(_) if is_plain => RequestError::NotHttp { server, source },
            _ if speaks_no_tls => RequestError::NotTls { server, source },
            _ if is_tls => RequestError::Untrusted { server, source },
            _ => RequestError::Unreachable { server, source },
        }
    }
}

/// Finds the error of TLS in a failed request. A failed handshake arrives as an error of the
/// socket.
fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

/// A client for one runner.
pub(crate) struct Client {
    agent: Agent,
    /// Address of the server.
    server: String,
    /// URL of the runner's resource.
    runner: String,
    token: TokenSource,
}

impl Client {
    /// Checks the configuration, without sending a request.
    pub(crate) fn new(config: &RunnerConfig, name: &str) -> Result<Client, ClientConfigError> {
        let server = config.server.trim_end_matches('/').to_owned();
        let uri: Uri = match server.parse() {
            Ok(uri) => uri,
            Err(source) => return Err(ClientConfigError::Url { server, source }),
        };
        let is_encrypted = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(ClientConfigError::Scheme { server }),
        };
        let Some(host) = uri.host() else { return Err(ClientConfigError::NoHost { server }) };
        let is_private = is_encrypted || is_loopback(host);
        if read_token(&config.token)?.is_some()
            && !is_private
            && config.plaintext_token == PlaintextToken::LoopbackOnly
        {
            return Err(ClientConfigError::PlaintextToken { host: host.to_owned() });
        }
        let mut tls = TlsConfig::builder();
        if let Some(file) = &config.ca_file {
            tls = tls.root_certs(load_certificates(file)?);
        }
        let mut agent = Agent::config_builder()
            .tls_config(tls.build())
            .http_status_as_error(false)
            // A redirect would send the token to another server.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("plimsoll-runner/", env!("CARGO_PKG_VERSION")));
        if is_loopback(host) {
            agent = agent.proxy(None);
        }
        let agent = agent.build().new_agent();
        let runner = format!("{server}/api/v1/runners/{name}");
        Ok(Client { agent, server, runner, token: config.token.clone() })
    }

    /// Registers the runner.
    pub(crate) fn register(&self, registration: &Registration) -> Result<Welcome, RequestError> {
        let request = self.agent.put(&self.runner);
        let request = request.config().timeout_global(Some(REQUEST_TIMEOUT)).build();
        let response = self.authorize(request)?.send_json(registration);
        self.read_response(response)?.ok_or(RequestError::EmptyResponse)
    }

    /// Sends a heartbeat.
    pub(crate) fn send_heartbeat(&self, heartbeat: &Heartbeat) -> Result<Orders, RequestError> {
        let request = self.agent.post(format!("{}/heartbeat", self.runner));
        let request = request.config().timeout_global(Some(REQUEST_TIMEOUT)).build();
        let response = self.authorize(request)?.send_json(heartbeat);
        self.read_response(response)?.ok_or(RequestError::EmptyResponse)
    }

    /// Waits for orders with another revision. Returns `None` if there were none in time.
    pub(crate) fn poll_orders(
        &self,
        session: u64,
        after: u64,
    ) -> Result<Option<Orders>, RequestError> {
        let (runner, wait) = (&self.runner, POLL_WAIT.as_secs());
        let url = format!("{runner}/work?session={session}&after={after}&wait={wait}s");
        let timeout = POLL_WAIT + REQUEST_TIMEOUT;
        let request = self.agent.get(url).config().timeout_global(Some(timeout)).build();
        match self.authorize(request)?.call() {
            Err(ureq::Error::Timeout(ureq::Timeout::Global)) => Ok(None),
            response => self.read_response(response),
        }
    }

    /// Waits for requests for the output of slots.
    pub(crate) fn poll_log_requests(&self) -> Result<Vec<LogRequest>, RequestError> {
        let url = format!("{}/log-requests?wait={}s", self.runner, POLL_WAIT.as_secs());
        let timeout = POLL_WAIT + REQUEST_TIMEOUT;
        let request = self.agent.get(url).config().timeout_global(Some(timeout)).build();
        match self.authorize(request)?.call() {
            Err(ureq::Error::Timeout(ureq::Timeout::Global)) => Ok(Vec::new()),
            response => Ok(self.read_response(response)?.unwrap_or_default()),
        }
    }

    /// Sends the output of a slot.
    pub(crate) fn send_log(&self, request: u64, answer: &LogAnswer) -> Result<(), RequestError> {
        let post = self.agent.post(format!("{}/log-requests/{request}", self.runner));
        let post = post.config().timeout_global(Some(REQUEST_TIMEOUT)).build();
        let response = self.authorize(post)?.send_json(answer);
        self.read_response::<serde_json::Value>(response).map(|_| ())
    }

    fn read_response<T: DeserializeOwned>(
        &self,
        response: Result<Response<Body>, ureq::Error>,
    ) -> Result<Option<T>, RequestError> {
        let mut response =
            response.map_err(|error| RequestError::unanswered(self.server.clone(), error))?;
        let status = response.status();
        if matches!(status.as_u16(), 204 | 304) {
            return Ok(None);
        }
        if status.is_success() {
            return response
                .body_mut()
                .read_json()
                .map(Some)
                .map_err(RequestError::InvalidResponse);
        }
        let body = response.body_mut().with_config().limit(PROBLEM_LIMIT);
        let problem = Problem::parse(&body.read_to_string().unwrap_or_default());
        let (server, status) = (self.server.clone(), status.as_u16());
        Err(match problem {
            Some(Problem { code, message }) => RequestError::Rejected { status, code, message },
            None => RequestError::Foreign { server, status },
        })
    }

    fn authorize<B>(
        &self,
        request: ureq::RequestBuilder<B>,
    ) -> Result<ureq::RequestBuilder<B>, TokenError> {
        Ok(match read_token(&self.token)? {
            Some(token) => request.header("Authorization", format!("Bearer {token}")),
            None => request,
        })
    }
}

fn read_token(source: &TokenSource) -> Result<Option<String>, TokenError> {
    let path = match source {
        TokenSource::None => return Ok(None),
        TokenSource::Text(text) => return Ok(Some(text.clone())),
        TokenSource::File(path) => path,
    };
    let text = std::fs::read_to_string(path)
        .map_err(|source| TokenError::Read { path: path.clone(), source })?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(TokenError::Invalid { path: path.clone() });
    }
    Ok(Some(token.to_owned()))
}

fn load_certificates(path: &Path) -> Result<RootCerts, ClientConfigError> {
    let pem = std::fs::read(path)
        .map_err(|source| ClientConfigError::CaFile { path: path.to_owned(), source })?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        let item =
            item.map_err(|source| ClientConfigError::CaPem { path: path.to_owned(), source })?;
        if let PemItem::Certificate(certificate) = item {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(ClientConfigError::NoCertificate { path: path.to_owned() });
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

/// The error response of a server, or of a proxy in front of it.
struct Problem {
    code: Option<String>,
    message: String,
}

/// The fields in which servers and proxies put their message.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ProblemFields {
    code: Option<String>,
    message: Option<String>,
    detail: Option<String>,
    error: Option<String>,
    title: Option<String>,
}

impl Problem {
    /// Reads an error response; `None` if it has no message in a known field.
    fn parse(text: &str) -> Option<Problem> {
        let fields: ProblemFields = serde_json::from_str(text).ok()?;
        let message = fields.message.or(fields.detail).or(fields.error).or(fields.title)?;
        let message = message.chars().take(MESSAGE_LENGTH).collect();
        Some(Problem { code: fields.code, message })
    }
}

/// Returns true if the host is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the host of a URL.
pub(crate) fn host_of(url: &str) -> Option<String> {
    url.parse::<Uri>().ok()?.host().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{DeviceSource, OnExit};

    fn config(server: &str, token: TokenSource) -> RunnerConfig {
        RunnerConfig {
            server: server.to_owned(),
            name: None,
            labels: BTreeMap::new(),
            devices: DeviceSource::Driver,
            probe: None,
            token,
            plaintext_token: PlaintextToken::LoopbackOnly,
            ca_file: None,
            state_dir: None,
            advertise: None,
            listen: None,
            ports: 1..=2,
            on_exit: OnExit::KeepSlots,
        }
    }

    fn secret() -> TokenSource {
        TokenSource::Text("secret".to_owned())
    }

    fn check(config: &RunnerConfig) -> Result<(), String> {
        Client::new(config, "r").map(|_| ()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_token_is_sent_unencrypted_only_to_this_machine() {
        for server in
            ["https://far.example", "http://127.0.0.1:1", "http://LocalHost:1/", "http://[::1]:1"]
        {
            assert_eq!(check(&config(server, secret())), Ok(()), "{server}");
        }
        let far = config("http://far.example:80", secret());
        let error = check(&far).expect_err("the server is on another machine");
        assert!(error.contains("unencrypted to far.example") && !error.contains("secret"));
        let trusted = RunnerConfig { plaintext_token: PlaintextToken::Anywhere, ..far };
        assert_eq!(check(&trusted), Ok(()));
        assert_eq!(check(&config("http://far.example", TokenSource::None)), Ok(()));
    }

    #[test]
    fn an_invalid_url_is_rejected() {
        for server in ["far.example", "ftp://far.example", "http://", "", "/x"] {
            assert!(check(&config(server, TokenSource::None)).is_err(), "{server}");
        }
    }

    #[test]
    fn the_token_is_not_printed() {
        let text = format!("{:?}", config("http://127.0.0.1", secret()));
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn the_message_of_a_problem_is_found() {
        let message = |text: &str| Problem::parse(text).map(|problem| problem.message);
        assert_eq!(message(r#"{"error":"no such runner"}"#).as_deref(), Some("no such runner"));
        assert_eq!(message(r#"{"title":"t","detail":"d"}"#).as_deref(), Some("d"));
        let long = format!(r#"{{"detail":"{}"}}"#, "x".repeat(1000));
        assert_eq!(message(&long).map(|text| text.len()), Some(MESSAGE_LENGTH));
        let problem = Problem::parse(r#"{"code":"device_taken","detail":"d","status":409}"#);
        assert_eq!(problem.and_then(|problem| problem.code).as_deref(), Some("device_taken"));
    }

    /// Answers every connection with these bytes, and returns the address.
    fn answering(bytes: &'static [u8]) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = io::Read::read(&mut stream, &mut [0; 1024]);
                let _ = io::Write::write_all(&mut stream, bytes);
            }
        });
        address.to_string()
    }

    #[test]
    fn a_foreign_server_and_the_wrong_protocol_have_errors_of_their_own() {
        let page = b"HTTP/1.1 501 Unsupported\r\nContent-Length: 15\r\n\r\n<!DOCTYPE HTML>";
        let tls_alert = b"\x15\x03\x03\x00\x02\x02\x46";
        for (bytes, scheme, part) in [
            (&page[..], "http", "answers with status 501; is that a Plimsoll server?"),
            (&page[..], "https", "write http://"),
            (&tls_alert[..], "http", "write https://"),
        ] {
            let server = format!("{scheme}://{}", answering(bytes));
            let client = Client::new(&config(&server, TokenSource::None), "r").expect("a client");
            let error = client.poll_orders(1, 1).expect_err("no orders").to_string();
            assert!(error.contains(part) && error.contains(&server), "{error}");
        }
        let gone = config("http://127.0.0.1:1", TokenSource::None);
        let error = Client::new(&gone, "r").expect("a client").poll_orders(1, 1);
        let error = error.expect_err("no server").to_string();
        assert_eq!(error, "cannot reach the server at http://127.0.0.1:1");
    }

    #[test]
    fn a_ca_file_must_contain_a_certificate() {
        let dir = tempfile::tempdir().expect("a directory");
        for content in ["", "hello"] {
            let path = dir.path().join("ca.pem");
            std::fs::write(&path, content).expect("the file is written");
            let error = load_certificates(&path).map(|_| ()).expect_err("no certificate");
            assert!(matches!(error, ClientConfigError::NoCertificate { .. }), "{error}");
        }
    }
}
