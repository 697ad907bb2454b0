//! Requests to a Plimsoll server, with errors that say what to do.

mod error;
pub(crate) mod models;
mod path;
mod token;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use plimsoll_api::rows::ProblemRow;
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{Response, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use crate::cli::ServerArgs;
use crate::contexts;
use crate::near;
pub(crate) use error::ClientError;
use error::Rejection;
pub(crate) use path::segment;
use token::Token;

/// The default address of the server.
pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";

/// The environment variable with the address of the server.
pub(crate) const SERVER_VARIABLE: &str = "PLIMSOLL_SERVER";

/// The time limit of an answer, in addition to the time that the server is asked to wait.
const ANSWER: Duration = Duration::from_secs(30);

/// The time limit of a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// The largest answer that is read.
const LARGEST_ANSWER: u64 = 1 << 30;

/// The most pages of a list that are read, in case a server links pages in a circle.
const MOST_PAGES: usize = 100_000;

/// The number of times that a list is read from its start because it changed meanwhile.
const TRIES: usize = 3;

/// The kind of a named thing on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Model,
    Runner,
    Slot,
}

impl Kind {
    fn noun(self) -> &'static str {
        match self {
            Kind::Model => "model",
            Kind::Runner => "runner",
            Kind::Slot => "slot",
        }
    }

    fn field(self) -> &'static str {
        match self {
            Kind::Model => "name",
            Kind::Runner => "runner_id",
            Kind::Slot => "id",
        }
    }

    pub(crate) fn list_path(self) -> &'static str {
        match self {
            Kind::Model => "/api/v1/models",
            Kind::Runner => "/api/v1/runners",
            Kind::Slot => "/api/v1/scheduler/slots",
        }
    }

    fn path(self, name: &str) -> String {
        let name = segment(name);
        match self {
            Kind::Model => format!("/api/v1/models/{name}"),
            Kind::Runner => format!("/api/v1/runners/{name}/status"),
            Kind::Slot => format!("/api/v1/scheduler/slots/{name}"),
        }
    }
}

/// A connection to a server.
pub(crate) struct Client {
    agent: Agent,
    server: String,
    token: Option<Token>,
}

/// An answer of the server.
struct Answer {
    url: String,
    text: String,
    /// The path of the next page of a list.
    next: Option<String>,
}

impl Answer {
    fn read<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_str(&self.text)
            .map_err(|source| ClientError::NotUnderstood { url: self.url.clone(), source })
    }
}

impl Client {
    /// Checks address, token and certificates without sending a request. A token is sent
    /// unencrypted to another machine only if that is allowed.
    pub(crate) fn new(args: &ServerArgs) -> Result<Client> {
        let args = &contexts::applied(args)?;
        let server = address(args.server.as_deref());
        let server = server.trim_end_matches('/').to_string();
        let uri: Uri = server.parse().with_context(|| format!("--server {server} is not a URL"))?;
        let transport = match uri.scheme_str() {
            Some("https") => Transport::Tls,
            Some("http") => Transport::Plain,
            _ => bail!("--server {server} is not a URL; write http://{server} or https://{server}"),
        };
        let host = uri.host().with_context(|| format!("--server {server} has no host"))?;
        ensure!(
            uri.authority().is_none_or(|authority| !authority.as_str().contains('@')),
            "--server contains a password; give the token with --token-file or PLIMSOLL_TOKEN"
        );
        let token = Token::find(args.token_file.as_deref())?;
        if token.is_some() && transport == Transport::Plain && !is_loopback(host) && !args.insecure
        {
            bail!(
                "the token would be sent unencrypted to {host}; use https, or --insecure if the network is trusted"
            );
        }
        Ok(Client { agent: agent(args.ca_file.as_deref(), transport)?, server, token })
    }

    /// Returns the address of the server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Reads one row.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.page(path)?.read()
    }

    /// Reads one row; `None` if it does not exist.
    pub(crate) fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, ClientError> {
        match self.get(path) {
            Ok(row) => Ok(Some(row)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a list page by page, up to a number of rows.
    pub(crate) fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        most: Option<usize>,
    ) -> Result<Vec<T>, ClientError> {
        // The cursor may be removed between two pages; the list is read from its start then.
        for _ in 0..TRIES {
            match self.pages(path, most) {
                Err(error) if error.status() == Some(410) => {}
                other => return other,
            }
        }
        self.pages(path, most)
    }

    fn pages<T: DeserializeOwned>(
        &self,
        path: &str,
        most: Option<usize>,
    ) -> Result<Vec<T>, ClientError> {
        let mut rows: Vec<T> = Vec::new();
        let mut path = path.to_string();
        for _ in 0..MOST_PAGES {
            let page = self.page(&path)?;
            rows.extend(page.read::<Vec<T>>()?);
            match page
                .next
                .filter(|next| *next != path && most.is_none_or(|most| rows.len() < most))
            {
                Some(next) => path = next,
                None => break,
            }
        }
        if let Some(most) = most {
            rows.truncate(most);
        }
        Ok(rows)
    }

    fn page(&self, path: &str) -> Result<Answer, ClientError> {
        let url = format!("{}{path}", self.server);
        let request = self.authorised(self.agent.get(&url));
        self.answer(url, request.config().timeout_global(Some(ANSWER)).build().call())
    }

    /// Creates or replaces a resource.
    pub(crate) fn put(&self, path: &str, body: &impl Serialize) -> Result<(), ClientError> {
        let url = format!("{}{path}", self.server);
        let request = self.authorised(self.agent.put(&url));
        let request = request.config().timeout_global(Some(ANSWER)).build();
        self.answer(url, request.send_json(body)).map(|_| ())
    }

    /// Sends a request that the server may take up to `wait` to answer.
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        wait: Duration,
    ) -> Result<T, ClientError> {
        let url = format!("{}{path}", self.server);
        let request = self.authorised(self.agent.post(&url));
        let limit = ANSWER.saturating_add(wait);
        let request = request.config().timeout_global(Some(limit)).build();
        self.answer(url, request.send_json(body))?.read()
    }

    /// Deletes a resource.
    pub(crate) fn delete(&self, path: &str) -> Result<(), ClientError> {
        let url = format!("{}{path}", self.server);
        let request = self.authorised(self.agent.delete(&url));
        let request = request.config().timeout_global(Some(ANSWER)).build();
        self.answer(url, request.call()).map(|_| ())
    }

    /// Reads a thing by its name. If there is none, the error suggests similar names.
    pub(crate) fn named<T: DeserializeOwned>(&self, kind: Kind, name: &str) -> Result<T> {
        self.get(&kind.path(name)).map_err(|error| self.with_suggestion(error, kind, name))
    }

    /// Rejects a name that a filter gives and that does not exist.
    pub(crate) fn check_named(&self, kind: Kind, name: Option<&str>) -> Result<()> {
        let Some(name) = name else { return Ok(()) };
        let found: Option<serde_json::Value> = self.find(&kind.path(name))?;
        match found {
            Some(_) => Ok(()),
            None => bail!(self.not_found(kind, name)),
        }
    }

    /// Returns the error about a thing that does not exist, with similar names or with how to list
    /// those that exist.
    pub(crate) fn not_found(&self, kind: Kind, name: &str) -> String {
        let noun = kind.noun();
        match self.suggestion(kind, name) {
            none if none.is_empty() => {
                format!("there is no {noun} {name}; `plimsoll {noun}s` lists those that exist")
            }
            suggestion => format!("there is no {noun} {name}{suggestion}"),
        }
    }

    /// Adds similar names to the error of a thing that does not exist.
    pub(crate) fn with_suggestion(
        &self,
        error: ClientError,
        kind: Kind,
        name: &str,
    ) -> anyhow::Error {
        let suggestion = match error.status() {
            Some(404) => self.suggestion(kind, name),
            _ => String::new(),
        };
        match suggestion.is_empty() {
            true => error.into(),
            false => anyhow::anyhow!("{error}{suggestion}"),
        }
    }

    fn suggestion(&self, kind: Kind, name: &str) -> String {
        let rows: Vec<serde_json::Value> = self.list(kind.list_path(), None).unwrap_or_default();
        let names = rows.iter().filter_map(|row| row.get(kind.field())?.as_str());
        near::suggestion(&near::similar_names(name, names))
    }

    fn authorised<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.token {
            Some(token) => request.header("Authorization", token.header()),
            None => request,
        }
    }

    fn answer(
        &self,
        url: String,
        answered: Result<Response<Body>, ureq::Error>,
    ) -> Result<Answer, ClientError> {
        let mut response =
            answered.map_err(|source| ClientError::unanswered(url.clone(), source))?;
        let status = response.status();
        let (location, link) = (header(&response, "location"), header(&response, "link"));
        let read = response.body_mut().with_config().limit(LARGEST_ANSWER).read_to_string();
        if status.is_redirection() {
            let to = path::clean(&location.unwrap_or_default());
            return Err(ClientError::Redirected { url, to });
        }
        if !status.is_success() {
            let problem = serde_json::from_str::<ProblemRow>(&read.unwrap_or_default()).ok();
            let (status, sent_token) = (status.as_u16(), self.token.is_some());
            let rejection = Rejection { url, status, problem, sent_token };
            return Err(ClientError::Rejected(Box::new(rejection)));
        }
        let next = link.and_then(|link| path::next(&link));
        match read {
            Ok(text) => Ok(Answer { url, text, next }),
            Err(source) => Err(ClientError::Broken { url, source: Box::new(source) }),
        }
    }
}

fn header(response: &Response<Body>, name: &str) -> Option<String> {
    Some(response.headers().get(name)?.to_str().ok()?.to_string())
}

/// Returns the address from the command line, the environment, or the default.
pub(crate) fn address(server: Option<&str>) -> String {
    let given = server.map(String::from).or_else(|| std::env::var(SERVER_VARIABLE).ok());
    given.filter(|server| !server.is_empty()).unwrap_or_else(|| DEFAULT_SERVER.to_string())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tls,
    Plain,
}

fn agent(ca_file: Option<&Path>, transport: Transport) -> Result<Agent> {
    let mut tls = TlsConfig::builder();
    if let Some(file) = ca_file {
        tls = tls.root_certs(authorities(file)?);
    }
    let mut config = Agent::config_builder()
        .tls_config(tls.build())
        .http_status_as_error(false)
        // A redirection could send the token to another server.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(CONNECT))
        .user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")));
    if transport == Transport::Plain {
        // A proxy could read the token, even on the way to a loopback address.
        config = config.proxy(None);
    }
    Ok(config.build().new_agent())
}

fn authorities(file: &Path) -> Result<RootCerts> {
    let name = file.display();
    let pem = std::fs::read(file).with_context(|| format!("could not read {name}"))?;
    let mut found = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) =
            item.with_context(|| format!("{name} is not valid PEM"))?
        {
            found.push(certificate);
        }
    }
    ensure!(!found.is_empty(), "{name} contains no certificate");
    Ok(RootCerts::new_with_certs(&found))
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
