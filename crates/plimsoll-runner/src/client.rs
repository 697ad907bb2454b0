//! Speaks to the server over HTTP, and says in a few words what went wrong.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use plimsoll_slots::wire::{Heartbeat, Orders, Registration, Welcome};
use serde::de::DeserializeOwned;
use ureq::http::{Response, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use super::config::{PlaintextToken, TokenSource};

/// How long an ordinary answer may take.
const ANSWER: Duration = Duration::from_secs(15);

/// How long the server holds the question for new orders back before the agent asks again.
const WORK: Duration = Duration::from_secs(60);

fn read_token(source: &TokenSource) -> Result<Option<String>> {
    match source {
        TokenSource::None => Ok(None),
        TokenSource::Text(text) => Ok(Some(text.clone())),
        TokenSource::File(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("could not read the token in {}", path.display()))?;
            let token = text.trim();
            let is_plain = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_plain {
                bail!("{} holds no token", path.display());
            }
            Ok(Some(token.to_owned()))
        }
    }
}

/// Why a call brought nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There was no answer, or none that can be understood.
    Unreachable(String),
    /// The server said no.
    Refused { status: u16, code: Option<String>, message: String },
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Unreachable(why) => write!(f, "the server does not answer: {why}"),
            Failure::Refused { status, message, .. } => {
                write!(f, "the server answers {status}: {message}")
            }
        }
    }
}

/// The server, as one runner sees it.
pub(crate) struct Client {
    agent: Agent,
    runner: String,
    token: TokenSource,
}

impl Client {
    /// Checks what can be checked without a call. A token does not go unencrypted to another machine, unless that is wanted.
    pub(crate) fn new(
        server: &str,
        name: &str,
        token: TokenSource,
        authorities: Option<&[u8]>,
        plaintext_token: PlaintextToken,
    ) -> Result<Client> {
        let server = server.trim_end_matches('/');
        let uri: Uri =
            server.parse().with_context(|| format!("--server {server} is no address"))?;
        let is_encrypted = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => bail!("--server {server} must begin with http:// or https://"),
        };
        let host = uri.host().with_context(|| format!("--server {server} names no host"))?;
        let has_token = read_token(&token)?.is_some();
        if has_token
            && !is_encrypted
            && !is_loopback(host)
            && plaintext_token == PlaintextToken::LoopbackOnly
        {
            bail!(
                "the token would go unencrypted to {host}; use https, or --insecure if the network is trusted"
            );
        }
        let mut tls = TlsConfig::builder();
        if let Some(pem) = authorities {
            tls = tls.root_certs(certificates(pem)?);
        }
        let mut config = Agent::config_builder()
            .tls_config(tls.build())
            .http_status_as_error(false)
            // A redirection would carry the token to somebody else.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(Duration::from_secs(5)))
            .user_agent(concat!("plimsoll-runner/", env!("CARGO_PKG_VERSION")));
        if is_loopback(host) {
            config = config.proxy(None);
        }
        Ok(Client {
            agent: config.build().new_agent(),
            runner: format!("{server}/api/v1/runners/{name}"),
            token,
        })
    }

    /// Says what this runner is.
    pub(crate) fn register(&self, registration: &Registration) -> Result<Welcome, Failure> {
        let request = self.agent.put(&self.runner).config().timeout_global(Some(ANSWER)).build();
        answer(self.authorised(request)?.send_json(registration))?.ok_or_else(empty)
    }

    /// Says what is so now.
    pub(crate) fn beat(&self, heartbeat: &Heartbeat) -> Result<Orders, Failure> {
        let request = self.agent.post(format!("{}/heartbeat", self.runner));
        let request = request.config().timeout_global(Some(ANSWER)).build();
        answer(self.authorised(request)?.send_json(heartbeat))?.ok_or_else(empty)
    }

    /// Waits for orders other than these; nothing when none came in time.
    pub(crate) fn work(&self, session: u64, after: u64) -> Result<Option<Orders>, Failure> {
        let (runner, wait) = (&self.runner, WORK.as_secs());
        let request =
            self.agent.get(format!("{runner}/work?session={session}&after={after}&wait={wait}s"));
        let request = request.config().timeout_global(Some(WORK + ANSWER)).build();
        match self.authorised(request)?.call() {
            Err(ureq::Error::Timeout(ureq::Timeout::Global)) => Ok(None),
            answered => answer(answered),
        }
    }

    fn authorised<B>(
        &self,
        request: ureq::RequestBuilder<B>,
    ) -> Result<ureq::RequestBuilder<B>, Failure> {
        match read_token(&self.token) {
            Ok(Some(token)) => Ok(request.header("Authorization", format!("Bearer {token}"))),
            Ok(None) => Ok(request),
            Err(error) => Err(Failure::Unreachable(format!("{error:#}"))),
        }
    }
}

fn empty() -> Failure {
    Failure::Unreachable("the answer is empty".to_owned())
}

fn answer<T: DeserializeOwned>(
    answered: Result<Response<Body>, ureq::Error>,
) -> Result<Option<T>, Failure> {
    let mut response = answered.map_err(|error| Failure::Unreachable(error.to_string()))?;
    let status = response.status();
    if status.as_u16() == 204 || status.as_u16() == 304 {
        return Ok(None);
    }
    if !status.is_success() {
        let text = response.body_mut().read_to_string().unwrap_or_default();
        let problem: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        let code =
            problem.as_ref().and_then(|problem| Some(problem.get("code")?.as_str()?.to_owned()));
        let message = message(&text, problem.as_ref());
        return Err(Failure::Refused { status: status.as_u16(), code, message });
    }
    let read = response.body_mut().read_json();
    read.map(Some)
        .map_err(|error| Failure::Unreachable(format!("its answer cannot be read: {error}")))
}

/// The server's words, however it wraps them.
fn message(text: &str, problem: Option<&serde_json::Value>) -> String {
    let field = |name: &str| Some(problem?.get(name)?.as_str()?.to_owned());
    let message = ["message", "detail", "error", "title"].into_iter().find_map(field);
    message.unwrap_or_else(|| text.trim().to_owned()).chars().take(300).collect()
}

/// Whether a host is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost"
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The host in an address.
pub(crate) fn host_of(server: &str) -> Option<String> {
    server.parse::<Uri>().ok()?.host().map(str::to_owned)
}

fn certificates(pem: &[u8]) -> Result<RootCerts> {
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) =
            item.context("--ca-file holds something that is no PEM")?
        {
            found.push(certificate);
        }
    }
    if found.is_empty() {
        bail!("--ca-file holds no certificate");
    }
    Ok(RootCerts::new_with_certs(&found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(server: &str, token: TokenSource, plaintext: PlaintextToken) -> Result<(), String> {
        Client::new(server, "r", token, None, plaintext)
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    fn secret() -> TokenSource {
        TokenSource::Text("secret".to_owned())
    }

    #[test]
    fn a_token_goes_unencrypted_only_to_this_machine() {
        for server in
            ["https://far.example", "http://127.0.0.1:1", "http://localhost:1/", "http://[::1]:1"]
        {
            assert_eq!(client(server, secret(), PlaintextToken::LoopbackOnly), Ok(()), "{server}");
        }
        let refused = client("http://far.example:80", secret(), PlaintextToken::LoopbackOnly)
            .expect_err("it is far");
        assert!(
            refused.contains("unencrypted to far.example") && !refused.contains("secret"),
            "{refused}"
        );
        assert_eq!(client("http://far.example", secret(), PlaintextToken::Anywhere), Ok(()));
        assert_eq!(
            client("http://far.example", TokenSource::None, PlaintextToken::LoopbackOnly),
            Ok(())
        );
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for server in ["far.example", "ftp://far.example", "http://", "", "/x"] {
            assert!(
                client(server, TokenSource::None, PlaintextToken::LoopbackOnly).is_err(),
                "{server}"
            );
        }
    }

    #[test]
    fn the_servers_words_are_found_however_they_are_wrapped() {
        let message = |text: &str| message(text, serde_json::from_str(text).ok().as_ref());
        assert_eq!(message(r#"{"error":"no such runner"}"#), "no such runner");
        assert_eq!(message(r#"{"title":"t","detail":"d"}"#), "d");
        assert_eq!(message(" plain "), "plain");
        assert_eq!(message(&"x".repeat(1000)).len(), 300);
    }

    #[test]
    fn only_certificates_are_trusted() {
        let refused =
            |pem: &[u8]| certificates(pem).map(|_| ()).expect_err("no certificate").to_string();
        assert!(refused(b"").contains("holds no certificate"));
        assert!(refused(b"hello").contains("holds no certificate"));
    }
}
