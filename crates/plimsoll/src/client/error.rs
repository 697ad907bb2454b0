//! Why a request brought nothing, and what to do about it.

use std::io;

use serde::Deserialize;

use super::path::clean;

/// Why a request brought nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Nobody answers there.
    #[error(
        "no server answers at {url}; start one with `plimsoll serve`, or name another with --server or PLIMSOLL_SERVER"
    )]
    Unreachable {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    /// Somebody answers, and cannot prove to be the one who is meant.
    #[error(
        "the server at {url} cannot be trusted; if it has a certificate of your own, name its authority with --ca-file \
         (one that is its own authority must not be marked CA:TRUE; `docs/server.md` shows how to make one)"
    )]
    Untrusted {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    /// Somebody answers, and not in HTTP.
    #[error(
        "what answers at {url} does not speak plain HTTP; if the server uses TLS, write https://"
    )]
    OtherProtocol {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    /// Somebody was there and went away.
    #[error("the server at {url} went away before it answered")]
    Lost {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    /// Somebody is there and says nothing.
    #[error("the server did not answer in time at {url}")]
    Late { url: String },
    /// The answer broke off.
    #[error("the answer of {url} could not be read to its end")]
    Broken {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    /// The server points elsewhere.
    #[error(
        "{url} points to {to}, and that is not followed, since the token would go there too; \
         if that is the server, give its address with --server"
    )]
    Redirected { url: String, to: String },
    /// The server says no.
    #[error("{}", .0.words())]
    Refused(Box<Refusal>),
    /// What came is no answer of a server of this kind.
    #[error(
        "the answer of {url} is not understood; is that a Plimsoll server, and of this version?"
    )]
    NotUnderstood {
        url: String,
        #[source]
        source: serde_json::Error,
    },
}

impl ClientError {
    /// There was no answer.
    pub(super) fn unanswered(url: String, source: ureq::Error) -> ClientError {
        let of_tls = |error: &std::io::Error| {
            error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>)
        };
        let untrusted = match &source {
            ureq::Error::Timeout(_) => return ClientError::Late { url },
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) => true,
            ureq::Error::Io(error) => of_tls(error),
            _ => false,
        };
        let plain_to_tls =
            matches!(&source, ureq::Error::Protocol(_)) && url.starts_with("http://");
        let is_lost = matches!(&source, ureq::Error::Io(error) if broke_off(error.kind()));
        let source = Box::new(source);
        if plain_to_tls {
            return ClientError::OtherProtocol { url, source };
        }
        if is_lost {
            return ClientError::Lost { url, source };
        }
        match untrusted {
            true => ClientError::Untrusted { url, source },
            false => ClientError::Unreachable { url, source },
        }
    }

    /// Whether the server may have done what it was asked without saying so.
    pub(crate) fn may_be_done(&self) -> bool {
        matches!(
            self,
            ClientError::Lost { .. } | ClientError::Late { .. } | ClientError::Broken { .. }
        )
    }

    /// The status of a refusal.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            ClientError::Refused(refusal) => Some(refusal.status),
            _ => None,
        }
    }
}

/// Whether a connection that stood is gone; one that never stood is refused or cannot be made.
fn broke_off(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// An answer that is no success.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// What was asked.
    pub(crate) url: String,
    /// The status.
    pub(crate) status: u16,
    /// What the server says about it.
    pub(crate) problem: Problem,
    /// The same, word for word.
    pub(crate) text: String,
}

impl Refusal {
    fn words(&self) -> String {
        let said = self.problem.words();
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        match self.status {
            401 => format!(
                "the server at {} wants a token that it knows (401){said}; give it with --token-file or PLIMSOLL_TOKEN",
                self.url
            ),
            403 => format!("the token is not good for this (403){said}"),
            404 => format!("the server has no such thing (404){said}"),
            status => format!("the server says no ({status}){said}"),
        }
    }
}

/// A refusal as the server words it (RFC 9457).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Problem {
    /// What kind of problem it is.
    pub(crate) title: Option<String>,
    /// What is the matter this time.
    pub(crate) detail: Option<String>,
    /// The kind of problem, as programs know it.
    pub(crate) code: Option<String>,
    /// The reservation that the problem is about.
    pub(crate) reservation: Option<String>,
}

impl Problem {
    /// Reads a body; of one that is no problem document the first line is what was said.
    pub(crate) fn read(text: &str) -> Problem {
        serde_json::from_str(text).unwrap_or_else(|_| {
            let line = text.lines().map(str::trim).find(|line| !line.is_empty());
            Problem {
                detail: line.map(|line| line.chars().take(300).collect()),
                ..Problem::default()
            }
        })
    }

    /// Returns whether this is the outcome of a reservation rather than an error.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(
            self.code.as_deref(),
            Some(
                "insufficient_capacity"
                    | "model_removed"
                    | "deadline_exceeded"
                    | "reservation_lost"
                    | "reservation_released"
            )
        )
    }

    /// Returns the outcome of a reservation in a line.
    pub(crate) fn answer(&self) -> String {
        let reservation = self.reservation.as_ref();
        let reservation = reservation.map_or(String::new(), |id| clean(&format!("{id}: ")));
        let title = self
            .title
            .as_ref()
            .map_or(String::new(), |title| clean(&format!("{}, ", title.to_lowercase())));
        format!("{reservation}{title}{}", self.words())
    }

    /// What it says, in a line.
    pub(crate) fn words(&self) -> String {
        let said =
            self.detail.as_ref().or(self.title.as_ref()).map(String::as_str).unwrap_or_default();
        clean(said.trim().trim_end_matches('.'))
    }
}
