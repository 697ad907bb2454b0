//! A blocking client of a real API server.

use std::io::{BufRead, BufReader};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::http;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::api::{Api, ApiError, Request, Response, Watch, WatchEvent, WatchEventKind};

/// The longest wait for an answer. A control plane on a loaded machine can take seconds.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Ends a watch that its test no longer reads.
const WATCH_SECONDS: u32 = 120;

/// A client with the token of one user.
#[derive(Debug, Clone)]
pub struct Client {
    agent: Agent,
    url: String,
    token: String,
}

impl Client {
    /// Makes a client that trusts the authority of the given certificate.
    ///
    /// # Panics
    ///
    /// If `authority` is not a certificate in PEM.
    pub fn new(url: &str, authority: &str, token: &str) -> Self {
        let authority = Certificate::from_pem(authority.as_bytes()).expect("a certificate in PEM");
        let roots = RootCerts::new_with_certs(&[authority]);
        let config = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .http_status_as_error(false)
            .timeout_connect(Some(TIMEOUT))
            .timeout_recv_response(Some(TIMEOUT))
            .build();
        Client { agent: config.new_agent(), url: url.to_owned(), token: token.to_owned() }
    }

    /// Makes a client of a server without TLS and without users.
    pub fn plain(url: &str) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(TIMEOUT))
            .timeout_recv_response(Some(TIMEOUT))
            .build();
        Client { agent: config.new_agent(), url: url.to_owned(), token: String::new() }
    }

    fn exchange(&self, request: &Request) -> Result<http::Response<ureq::Body>, ureq::Error> {
        let builder = http::Request::builder()
            .method(request.verb.method())
            .uri(format!("{}{}", self.url, request.path))
            .header("Authorization", format!("Bearer {}", self.token))
            .header("Content-Type", request.verb.content_type());
        let body = request.body.as_ref().map(Value::to_string).unwrap_or_default();
        let sent = builder.body(body).map_err(ureq::Error::from)?;
        let config = self.agent.configure_request(sent).allow_non_standard_methods(true);
        self.agent.run(config.build())
    }
}

impl Api for Client {
    fn send(&self, request: &Request) -> Result<Response, ApiError> {
        let mut answer = self.exchange(request).map_err(|error| unreachable(request, &error))?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().with_config().limit(1 << 30).read_to_string();
        let text = text.map_err(|error| unreachable(request, &error))?;
        // Health checks answer in plain text.
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Response { status, body })
    }

    fn watch(&self, collection: &str, after: &str) -> Result<Box<dyn Watch>, ApiError> {
        let path = format!(
            "{collection}?watch=1&allowWatchBookmarks=true&resourceVersion={after}\
             &timeoutSeconds={WATCH_SECONDS}"
        );
        let request = Request { verb: crate::api::Verb::Get, path, body: None };
        let answer = self.exchange(&request).map_err(|error| unreachable(&request, &error))?;
        if !answer.status().is_success() {
            let status = answer.status().as_u16();
            let text = answer.into_body().read_to_string().unwrap_or_default();
            let body: Value = serde_json::from_str(&text).unwrap_or_default();
            return Err(ApiError::Rejected {
                request: format!("watch {}", request.path),
                status,
                reason: body["reason"].as_str().unwrap_or_default().to_owned(),
                message: body["message"].as_str().unwrap_or_default().to_owned(),
            });
        }
        let (sender, events) = mpsc::channel();
        thread::spawn(move || forward(answer.into_body(), &sender));
        Ok(Box::new(Stream { events }))
    }
}

/// Events that another thread reads from the connection.
struct Stream {
    events: mpsc::Receiver<WatchEvent>,
}

impl Watch for Stream {
    fn next(&mut self, within: Duration) -> Option<WatchEvent> {
        self.events.recv_timeout(within).ok()
    }
}

/// Reads events until the connection ends or the receiver is dropped.
fn forward(body: ureq::Body, events: &mpsc::Sender<WatchEvent>) {
    for line in BufReader::new(body.into_reader()).lines().map_while(Result::ok) {
        let Ok(mut event) = serde_json::from_str::<Value>(&line) else { return };
        let kind = event["type"].as_str().and_then(WatchEventKind::parse);
        let Some(kind) = kind else { return };
        if events.send(WatchEvent { kind, object: event["object"].take() }).is_err() {
            return;
        }
    }
}

fn unreachable(request: &Request, error: &ureq::Error) -> ApiError {
    ApiError::Unreachable {
        request: format!("{} {}", request.verb.method(), request.path),
        cause: error.to_string(),
    }
}
