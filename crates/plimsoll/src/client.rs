//! Speaks to a Plimsoll server: one request, one answer, and an error that says what to do about it.

mod error;
pub(crate) mod models;
mod path;
pub(crate) mod pretty;
pub(crate) mod rows;
mod token;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{Response, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use crate::cli::ServerArgs;
pub(crate) use error::ClientError;
use error::{Problem, Refusal};
pub(crate) use path::segment;
use token::Token;

/// Where a server is looked for when nobody says.
pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";

/// The variable that names the server.
pub(crate) const SERVER_VARIABLE: &str = "PLIMSOLL_SERVER";

/// How long an answer may take when the server is not asked to wait.
const ANSWER: Duration = Duration::from_secs(30);

/// How long it may take until somebody answers at all.
const CONNECT: Duration = Duration::from_secs(5);

/// More than this is no answer to anything that is asked here.
const LARGEST_ANSWER: u64 = 1 << 30;

/// More pages than this are a server that goes round in circles.
const MOST_PAGES: usize = 100_000;

/// How often a list is begun again that changed while it was read.
const TRIES: usize = 3;

/// A server, and the way to it.
pub(crate) struct Client {
    agent: Agent,
    server: String,
    token: Option<Token>,
}

/// What the server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The text.
    pub(crate) text: String,
    url: String,
    next: Option<String>,
}

impl Answer {
    /// The answer as a value.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_str(&self.text)
            .map_err(|source| ClientError::NotUnderstood { url: self.url.clone(), source })
    }

    /// The answer as the only row of a list.
    pub(crate) fn alone(self) -> Listed {
        Listed { url: self.url, rows: vec![self.text], alone: true }
    }
}

impl Client {
    /// Checks what can be checked without a request. A token does not go unencrypted to another machine unless that is wanted.
    pub(crate) fn new(args: &ServerArgs) -> Result<Client> {
        let server = address(args);
        let server = server.trim_end_matches('/').to_string();
        let uri: Uri =
            server.parse().with_context(|| format!("the server {server} is no address"))?;
        let encrypted = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => bail!("the server {server} must begin with http:// or https://"),
        };
        let host = uri.host().with_context(|| format!("the server {server} names no host"))?;
        ensure!(
            uri.authority().is_none_or(|authority| !authority.as_str().contains('@')),
            "the server's address carries a password; give the token with --token-file or PLIMSOLL_TOKEN"
        );
        let token = Token::find(args.token_file.as_deref())?;
        let near = encrypted || is_loopback(host);
        if token.is_some() && !near && !args.insecure {
            bail!(
                "the token would go unencrypted to {host}; use https, or --insecure if the network is trusted"
            );
        }
        Ok(Client { agent: agent(args.ca_file.as_deref(), encrypted)?, server, token })
    }

    /// The server's address.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Asks for something.
    pub(crate) fn get(&self, path: &str) -> Result<Answer, ClientError> {
        let url = format!("{}{path}", self.server);
        let request =
            self.authorised(self.agent.get(&url)).config().timeout_global(Some(ANSWER)).build();
        answer(url, request.call())
    }

    /// Asks for a list, page after page, until it ends or has so many rows.
    pub(crate) fn list(&self, path: &str, most: Option<usize>) -> Result<Listed, ClientError> {
        // The one to go on after may go while the pages are read; then the list is read from its beginning.
        for _ in 0..TRIES {
            match self.pages(path, most) {
                Err(error) if error.status() == Some(410) => {}
                other => return other,
            }
        }
        self.pages(path, most)
    }

    fn pages(&self, path: &str, most: Option<usize>) -> Result<Listed, ClientError> {
        let mut listed =
            Listed { url: format!("{}{path}", self.server), rows: Vec::new(), alone: false };
        let mut path = path.to_string();
        for _ in 0..MOST_PAGES {
            let page = self.get(&path)?;
            page.read::<Vec<serde::de::IgnoredAny>>()?;
            listed.rows.extend(pretty::elements(&page.text).into_iter().map(str::to_string));
            match page
                .next
                .filter(|next| *next != path && most.is_none_or(|most| listed.rows.len() < most))
            {
                Some(next) => path = next,
                None => break,
            }
        }
        listed.rows.truncate(most.unwrap_or(usize::MAX));
        Ok(listed)
    }

    /// Puts something where it belongs.
    pub(crate) fn put(&self, path: &str, body: &impl Serialize) -> Result<Answer, ClientError> {
        let url = format!("{}{path}", self.server);
        let request =
            self.authorised(self.agent.put(&url)).config().timeout_global(Some(ANSWER)).build();
        answer(url, request.send_json(body))
    }

    /// Hands something in. The server may take so long, besides the time that an answer takes.
    pub(crate) fn post(
        &self,
        path: &str,
        body: &impl Serialize,
        wait: Duration,
    ) -> Result<Answer, ClientError> {
        let url = format!("{}{path}", self.server);
        let patience = Some(ANSWER.saturating_add(wait));
        let request =
            self.authorised(self.agent.post(&url)).config().timeout_global(patience).build();
        answer(url, request.send_json(body))
    }

    /// Takes something away.
    pub(crate) fn delete(&self, path: &str) -> Result<Answer, ClientError> {
        let url = format!("{}{path}", self.server);
        let request =
            self.authorised(self.agent.delete(&url)).config().timeout_global(Some(ANSWER)).build();
        answer(url, request.call())
    }

    fn authorised<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.token {
            Some(token) => request.header("Authorization", token.header()),
            None => request,
        }
    }
}

/// A list, each row as the server wrote it.
#[derive(Debug)]
pub(crate) struct Listed {
    url: String,
    /// The rows.
    pub(crate) rows: Vec<String>,
    /// Whether one thing was asked for, and no list.
    alone: bool,
}

impl Listed {
    /// What the server said, set in lines.
    pub(crate) fn json(&self) -> String {
        match &self.rows[..] {
            [only] if self.alone => pretty::pretty(only),
            rows => pretty::pretty(&format!("[{}]", rows.join(","))),
        }
    }

    /// The rows as values.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<Vec<T>, ClientError> {
        let understood = |row: &String| {
            serde_json::from_str(row)
                .map_err(|source| ClientError::NotUnderstood { url: self.url.clone(), source })
        };
        self.rows.iter().map(understood).collect()
    }

    /// Those rows that are wanted, as they came and as values.
    pub(crate) fn keep<T: DeserializeOwned>(
        &mut self,
        wanted: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>, ClientError> {
        let values: Vec<T> = self.read()?;
        let (rows, kept) = std::mem::take(&mut self.rows)
            .into_iter()
            .zip(values)
            .filter(|(_, value)| wanted(value))
            .unzip();
        self.rows = rows;
        Ok(kept)
    }
}

/// What was typed, else what the environment says, else this machine.
fn address(args: &ServerArgs) -> String {
    let said = args.server.clone().or_else(|| std::env::var(SERVER_VARIABLE).ok());
    said.filter(|server| !server.is_empty()).unwrap_or_else(|| DEFAULT_SERVER.to_string())
}

fn agent(ca_file: Option<&Path>, encrypted: bool) -> Result<Agent> {
    let mut tls = TlsConfig::builder();
    if let Some(file) = ca_file {
        tls = tls.root_certs(authorities(file)?);
    }
    let mut config = Agent::config_builder()
        .tls_config(tls.build())
        .http_status_as_error(false)
        // A redirection could carry the token to somebody else.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(CONNECT))
        .user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")));
    if !encrypted {
        // A proxy would read the token, also on the way to this very machine.
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
            item.with_context(|| format!("{name} is no PEM"))?
        {
            found.push(certificate);
        }
    }
    ensure!(!found.is_empty(), "{name} holds no certificate");
    Ok(RootCerts::new_with_certs(&found))
}

/// Whether a host is this machine.
fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn answer(
    url: String,
    answered: Result<Response<Body>, ureq::Error>,
) -> Result<Answer, ClientError> {
    let mut response = match answered {
        Ok(response) => response,
        Err(source) => return Err(ClientError::unanswered(url, source)),
    };
    let status = response.status();
    let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_string());
    let (location, link) = (header("location"), header("link"));
    let read = response.body_mut().with_config().limit(LARGEST_ANSWER).read_to_string();
    if status.is_redirection() {
        return Err(ClientError::Redirected {
            url,
            to: path::clean(&location.unwrap_or_default()),
        });
    }
    let text =
        read.map_err(|source| ClientError::Broken { url: url.clone(), source: Box::new(source) });
    if !status.is_success() {
        let text = text.unwrap_or_default();
        let problem = Problem::read(&text);
        return Err(ClientError::Refused(Box::new(Refusal {
            url,
            status: status.as_u16(),
            problem,
            text,
        })));
    }
    Ok(Answer { text: text?, url, next: link.and_then(|link| path::next(&link)) })
}

#[cfg(test)]
mod tests;
