//! Errors of requests to a server, each with what to do about it.

use std::io;

use plimsoll_api::rows::ProblemRow;
use rustls::InvalidMessage;

use super::path::clean;

/// An error of a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(
        "no server answers at {url}; start one with `plimsoll serve`, or give its address with --server or PLIMSOLL_SERVER"
    )]
    Unreachable {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    /// The certificate is not trusted.
    #[error(
        "the certificate of the server at {url} is not trusted; if it is your own, give its authority with --ca-file \
         (a self-signed certificate must not be marked CA:TRUE; `docs/server.md` shows how to make one)"
    )]
    Untrusted {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    #[error("the server at {url} does not speak plain HTTP; if it uses TLS, write https://")]
    NotHttp {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    #[error("the server at {url} does not speak TLS; if it uses plain HTTP, write http://")]
    NotTls {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    #[error("the connection to {url} was closed before the answer")]
    Lost {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    #[error("the server at {url} did not answer in time")]
    Late { url: String },
    #[error("the answer of {url} ended early")]
    Broken {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    #[error(
        "{url} redirects to {to}; redirections are not followed, because the token would be sent there. \
         If that is the server, give its address with --server"
    )]
    Redirected { url: String, to: String },
    #[error("{0}")]
    Rejected(Box<Rejection>),
    #[error(
        "the answer of {url} is not understood; is that a Plimsoll server of version {version}?",
        version = env!("CARGO_PKG_VERSION")
    )]
    NotUnderstood {
        url: String,
        #[source]
        source: serde_json::Error,
    },
}

impl ClientError {
    /// Classifies a request without an answer.
    pub(super) fn unanswered(url: String, source: ureq::Error) -> ClientError {
        let tls = tls_error(&source);
        let speaks_no_tls =
            matches!(tls, Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)));
        let is_tls = tls.is_some() || matches!(&source, ureq::Error::Tls(_));
        let is_protocol = matches!(&source, ureq::Error::Protocol(_));
        let is_lost = matches!(&source, ureq::Error::Io(error) if was_connected(error.kind()));
        if matches!(&source, ureq::Error::Timeout(_)) {
            return ClientError::Late { url };
        }
        let source = Box::new(source);
        match () {
            () if is_protocol && url.starts_with("http://") => ClientError::NotHttp { url, source },
            () if speaks_no_tls => ClientError::NotTls { url, source },
            () if is_tls => ClientError::Untrusted { url, source },
            () if is_lost => ClientError::Lost { url, source },
            () => ClientError::Unreachable { url, source },
        }
    }

    /// Returns whether the server may have carried out the request.
    pub(crate) fn may_be_done(&self) -> bool {
        matches!(
            self,
            ClientError::Lost { .. } | ClientError::Late { .. } | ClientError::Broken { .. }
        )
    }

    /// Returns the stable code of a rejection.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            ClientError::Rejected(rejection) => Some(&rejection.problem.as_ref()?.code),
            _ => None,
        }
    }

    /// Returns what a rejection says, without its status.
    pub(crate) fn detail(&self) -> String {
        match self {
            ClientError::Rejected(rejection) => {
                let problem = rejection.problem.as_ref();
                clean(problem.map_or("", |problem| problem.detail.trim_end_matches('.')))
            }
            other => other.to_string(),
        }
    }

    /// Returns the HTTP status of a rejection.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            ClientError::Rejected(rejection) => Some(rejection.status),
            _ => None,
        }
    }

    /// Returns the outcome of a reservation that ended, which is an answer and not an error. A
    /// problem that names a field of the request is an error.
    pub(crate) fn reservation_outcome(&self) -> Option<&ProblemRow> {
        let ClientError::Rejected(rejection) = self else { return None };
        let problem = rejection.problem.as_ref()?;
        (problem.reservation.is_some() && problem.field.is_none()).then_some(problem)
    }
}

fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

/// Returns whether an I/O error ended an existing connection.
fn was_connected(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// An answer with an error status.
#[derive(Debug)]
pub(crate) struct Rejection {
    pub(super) url: String,
    pub(super) status: u16,
    /// `None` if the body is not a problem document.
    pub(super) problem: Option<ProblemRow>,
    pub(super) sent_token: bool,
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Rejection { url, status, .. } = self;
        let Some(problem) = &self.problem else {
            return write!(f, "{url} answers with status {status}; is that a Plimsoll server?");
        };
        let detail = clean(problem.detail.trim().trim_end_matches('.'));
        match status {
            401 if self.sent_token => write!(f, "authentication failed (401): {detail}"),
            401 => f.write_str(
                "authentication failed (401): no token was sent; give one with --token-file or PLIMSOLL_TOKEN",
            ),
            403 => write!(f, "permission denied (403): {detail}"),
            404 => write!(f, "not found (404): {detail}"),
            status => write!(f, "the server rejects the request ({status}): {detail}"),
        }
    }
}
