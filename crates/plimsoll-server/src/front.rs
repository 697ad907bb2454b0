//! The socket, and the routes that answer before the ledger is rebuilt: liveness and readiness.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use axum_server::{Handle, Server};
use hyper_util::rt::TokioTimer;
use tower::ServiceExt;

use super::api::Problem;
use super::config::http::{HttpConfig, Limits};
use super::guard::{self, Connections, Guard, head, tls, unread};
use super::metrics::Counted;

/// The entrance to the routes. It is closed until the ledger is rebuilt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    router: Arc<OnceLock<Router>>,
}

impl Gate {
    /// Serves these routes from now on.
    pub(crate) fn open(&self, router: Router) {
        assert!(self.router.set(router).is_ok(), "the ledger is rebuilt once");
    }
}

/// Returns the routes that answer before the ledger is rebuilt. Health checks and the page about
/// the API, which has no data, need no token and are not rate limited; everything else is
/// authenticated first.
pub(crate) fn router(gate: Gate, guard: Arc<Guard>) -> Router {
    let authenticated = Router::new()
        .fallback(behind)
        .with_state(gate.clone())
        .layer(from_fn_with_state(guard, guard::authenticate));
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/", get(|| async { Redirect::temporary("/docs") }))
        .route("/docs", get(|| async { Html(include_str!("api/docs.html")) }))
        .with_state(gate)
        .fallback_service(authenticated)
        .layer(from_fn(head::check))
        .layer(from_fn(unread::close))
}

async fn readyz(State(gate): State<Gate>) -> Response {
    match gate.router.get() {
        Some(_) => "ok\n".into_response(),
        None => not_yet(),
    }
}

async fn behind(State(gate): State<Gate>, request: Request) -> Response {
    match gate.router.get() {
        Some(router) => router.clone().oneshot(request).await.into_response(),
        None => not_yet(),
    }
}

fn not_yet() -> Response {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "starting", "the ledger is being rebuilt")
        .into_response()
}

/// A socket that is bound and does not listen yet.
#[derive(Debug)]
pub(crate) struct Socket {
    listener: TcpListener,
    tls: Option<RustlsConfig>,
    /// The address for clients.
    pub(crate) url: String,
}

fn not_listening(address: SocketAddr, error: io::Error) -> anyhow::Error {
    let port = address.port();
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "; another program uses port {port} (`ss -ltnp sport = :{port}` names it): choose another \
             port with --listen {}:0",
            address.ip()
        ),
        _ => String::new(),
    };
    anyhow::Error::new(error).context(format!("cannot listen on {address}{advice}"))
}

impl Socket {
    /// Binds the address, and reads the certificate.
    pub(crate) fn bind(config: &HttpConfig) -> Result<Socket> {
        let tls = config.tls.as_ref().map(tls::load).transpose()?.map(RustlsConfig::from_config);
        let listener = TcpListener::bind(config.listen)
            .map_err(|error| not_listening(config.listen, error))?;
        listener.set_nonblocking(true).context("cannot prepare the socket")?;
        let address = listener.local_addr().context("cannot read the address of the socket")?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        Ok(Socket { listener, tls, url: format!("{scheme}://{address}") })
    }

    /// Returns the TLS configuration, to reload it.
    pub(crate) fn tls(&self) -> Option<RustlsConfig> {
        self.tls.clone()
    }

    /// Serves until the handle shuts it down.
    pub(crate) fn serve(
        self,
        router: Router,
        limits: &Limits,
        counted: Arc<Counted>,
        handle: Handle<SocketAddr>,
    ) -> Result<impl Future<Output = io::Result<()>> + Send + 'static> {
        let connections = Connections::at_most(limits.connections, counted);
        let header_timeout = Duration::from_millis(limits.header_timeout.0);
        let server = axum_server::from_tcp(self.listener)
            .context("cannot listen on the socket")?
            .handle(handle);
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        Ok(async move {
            match self.tls {
                None => tuned(server.acceptor(connections), header_timeout).serve(service).await,
                Some(tls) => {
                    let acceptor = RustlsAcceptor::new(tls).acceptor(connections);
                    tuned(server.acceptor(acceptor), header_timeout).serve(service).await
                }
            }
        })
    }
}

/// Allows HTTP/1 only: HTTP/2 has no timeout for slow request headers.
pub(crate) fn tuned<A>(
    server: Server<SocketAddr, A>,
    header_timeout: Duration,
) -> Server<SocketAddr, A> {
    let mut server = server.http1_only();
    server
        .http_builder()
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(head::HEAD);
    server
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};

    use super::*;
    use crate::guard::tokens::Tokens;

    #[tokio::test]
    async fn until_the_ledger_is_rebuilt_the_server_is_alive_and_not_ready() {
        let counted = Arc::new(Counted::default());
        let guard = Arc::new(Guard::new(Tokens::default(), Limits::default(), counted));
        let gate = Gate::default();
        let front = router(gate.clone(), guard);
        let ask = |path: &'static str| {
            let request =
                Request::builder().uri(path).header("host", "localhost").body(Body::empty());
            let front = front.clone();
            async move {
                let response = front.oneshot(request.expect("a request")).await.expect("an answer");
                let status = response.status().as_u16();
                let body = to_bytes(response.into_body(), 1 << 10).await.expect("a body");
                (status, String::from_utf8(body.to_vec()).expect("a text"))
            }
        };
        assert_eq!(ask("/livez").await.0, 200);
        for path in ["/readyz", "/metrics", "/api/v1/models", "/no/such/thing"] {
            let (status, body) = ask(path).await;
            assert_eq!(status, 503, "{path}");
            assert!(
                body.contains("the ledger is being rebuilt") && body.contains("starting"),
                "{body}"
            );
        }
        gate.open(Router::new().route("/there", get(|| async { "it is" })));
        assert_eq!(ask("/readyz").await.0, 200);
        assert_eq!(ask("/there").await, (200, "it is".to_string()));
        assert_eq!(ask("/not/there").await.0, 404);
    }
}
