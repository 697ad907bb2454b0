//! A server that speaks the runner protocol. The test sets the orders and reads the requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{Heartbeat, Order, Orders, Registration, Welcome};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Requests that the server received, and its answers.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) registrations: Vec<Registration>,
    pub(crate) heartbeats: Vec<Heartbeat>,
    /// The `Authorization` header of each request.
    pub(crate) tokens: Vec<Option<String>>,
    /// The session of each poll for orders.
    pub(crate) polls: Vec<u64>,
    orders: Orders,
    heartbeat_ms: u64,
    /// Status that answers every request.
    rejection: Option<u16>,
    /// Status and body that answer the next heartbeat.
    reject_one_heartbeat: Option<(u16, &'static str)>,
}

/// A running server.
#[derive(Clone)]
pub(crate) struct Server {
    received: Arc<(Mutex<Received>, Condvar)>,
    pub(crate) address: String,
}

impl Server {
    /// Starts a server.
    pub(crate) fn start() -> Server {
        Server::listen("http", Server::answer)
    }

    /// Starts a server with TLS.
    pub(crate) fn start_tls(
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Server {
        let config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .and_then(|config| {
                    config.with_no_client_auth().with_single_cert(vec![certificate], key)
                })
                .expect("certificate and key match");
        let config = Arc::new(config);
        Server::listen("https", move |server, stream| {
            let connection =
                ServerConnection::new(Arc::clone(&config)).expect("a valid configuration");
            server.answer(StreamOwned::new(connection, stream));
        })
    }

    fn listen(scheme: &str, answer: impl Fn(&Server, TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address =
            format!("{scheme}://{}", listener.local_addr().expect("the listener has an address"));
        let answer = Arc::new(answer);
        let received = Received { heartbeat_ms: 100, ..Received::default() };
        let server = Server { received: Arc::new((Mutex::new(received), Condvar::new())), address };
        let answering = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (server, answer) = (answering.clone(), Arc::clone(&answer));
                thread::spawn(move || answer(&server, stream));
            }
        });
        server
    }

    /// Sets the orders, with the next revision.
    pub(crate) fn order(&self, orders: Vec<Order>) {
        self.change(|received| {
            received.orders =
                Orders { revision: received.orders.revision + 1, orders, ..Orders::default() }
        });
    }

    /// Sets the orders, with this revision.
    pub(crate) fn order_as(&self, revision: u64, orders: Vec<Order>) {
        self.change(|received| received.orders = Orders { revision, orders, ..Orders::default() });
    }

    /// Sets the heartbeat interval of the next registration.
    pub(crate) fn set_heartbeat(&self, time: Duration) {
        self.change(|received| {
            received.heartbeat_ms = u64::try_from(time.as_millis()).expect("a short time");
        });
    }

    /// Answers every request with this status; `None` ends that.
    pub(crate) fn reject(&self, status: Option<u16>) {
        self.change(|received| received.rejection = status);
    }

    /// Answers the next heartbeat with this status and body.
    pub(crate) fn reject_one_heartbeat(&self, status: u16, body: &'static str) {
        self.change(|received| received.reject_one_heartbeat = Some((status, body)));
    }

    pub(crate) fn received<T>(&self, read: impl FnOnce(&Received) -> T) -> T {
        read(&self.received.0.lock().expect("no thread panics while it holds the lock"))
    }

    /// Waits until the requests match. Returns `None` after the timeout.
    pub(crate) fn wait<T>(
        &self,
        time: Duration,
        matches: impl Fn(&Received) -> Option<T>,
    ) -> Option<T> {
        let until = Instant::now() + time;
        let mut received =
            self.received.0.lock().expect("no thread panics while it holds the lock");
        loop {
            if let Some(found) = matches(&received) {
                return Some(found);
            }
            let left = until.checked_duration_since(Instant::now())?;
            received = self
                .received
                .1
                .wait_timeout(received, left)
                .expect("no thread panics while it holds the lock")
                .0;
        }
    }

    fn change(&self, change: impl FnOnce(&mut Received)) {
        change(&mut self.received.0.lock().expect("no thread panics while it holds the lock"));
        self.received.1.notify_all();
    }

    fn answer(&self, mut stream: impl Read + Write) {
        let Some((line, token, body)) = read(&mut stream) else { return };
        let (status, text) = self.reply(&line, token, &body);
        let length = text.len();
        let _ = write!(
            stream,
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
        );
    }

    fn reply(&self, line: &str, token: Option<String>, body: &[u8]) -> (u16, String) {
        self.change(|received| received.tokens.push(token));
        if let Some(status) = self.received(|received| received.rejection) {
            return (status, r#"{"error":"rejected by the test"}"#.to_owned());
        }
        if line.starts_with("PUT ") {
            let registration = serde_json::from_slice(body).expect("a registration");
            self.change(|received| received.registrations.push(registration));
            let welcome = self.received(|received| Welcome {
                heartbeat_ms: received.heartbeat_ms,
                lease_ms: 5000,
                orders: received.orders.clone(),
            });
            return (200, serde_json::to_string(&welcome).expect("JSON"));
        }
        if line.starts_with("POST ") {
            let mut rejection = None;
            self.change(|received| rejection = received.reject_one_heartbeat.take());
            if let Some((status, body)) = rejection {
                return (status, body.to_owned());
            }
            let heartbeat = serde_json::from_slice(body).expect("a heartbeat");
            self.change(|received| received.heartbeats.push(heartbeat));
            return (
                200,
                self.received(|received| serde_json::to_string(&received.orders).expect("JSON")),
            );
        }
        let parameter = |name: &str| {
            let mut pairs = line.split(['?', '&', ' ']).filter_map(|part| part.split_once('='));
            let text =
                pairs.find(|(key, _)| *key == name).map(|(_, text)| text.trim_end_matches('s'));
            text.and_then(|text| text.parse::<u64>().ok())
        };
        let (session, after, wait) = (parameter("session"), parameter("after"), parameter("wait"));
        // The agent also asks for which slots output is wanted: for none here.
        if !line.contains("/work") {
            thread::sleep(Duration::from_millis(200));
            return (204, String::new());
        }
        self.change(|received| received.polls.push(session.expect("the poll has a session")));
        let other = |received: &Received| {
            (Some(received.orders.revision) != after).then(|| received.orders.clone())
        };
        match self.wait(Duration::from_secs(wait.unwrap_or(0)), other) {
            Some(orders) => (200, serde_json::to_string(&orders).expect("JSON")),
            None => (204, String::new()),
        }
    }
}

/// Reads the request line, the token and the body.
fn read(stream: &mut impl Read) -> Option<(String, Option<String>, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let (mut length, mut token) = (0, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => token = Some(value.trim().to_owned()),
            "transfer-encoding" => panic!("the agent sends a length"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first.trim_end().to_owned(), token, body))
}
