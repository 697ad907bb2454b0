//! A server that speaks the runner's protocol, and lets a test decide what it orders and hear what it is told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{Heartbeat, Order, Orders, Registration, Welcome};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What the server has and was told.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) registrations: Vec<Registration>,
    pub(crate) beats: Vec<Heartbeat>,
    /// What was sent as authorisation, call by call.
    pub(crate) tokens: Vec<Option<String>>,
    /// The sessions of those who asked for orders, call by call.
    pub(crate) questions: Vec<u64>,
    orders: Orders,
    heartbeat_ms: u64,
    /// Answered to everything instead of the right answer.
    refusal: Option<u16>,
    /// Answered to the next heartbeat alone.
    refuse_one_beat: Option<u16>,
}

/// The server.
#[derive(Clone)]
pub(crate) struct Server {
    said: Arc<(Mutex<Said>, Condvar)>,
    pub(crate) address: String,
}

impl Server {
    /// A server on this machine.
    pub(crate) fn start() -> Server {
        Server::listen("http", Server::answer)
    }

    /// The same behind TLS, with this certificate and its key.
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
                .expect("the certificate and the key are a pair");
        let config = Arc::new(config);
        Server::listen("https", move |server, stream| {
            let connection =
                ServerConnection::new(Arc::clone(&config)).expect("the configuration is right");
            server.answer(StreamOwned::new(connection, stream));
        })
    }

    fn listen(scheme: &str, answer: impl Fn(&Server, TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("{scheme}://{}", listener.local_addr().expect("it has one"));
        let answer = Arc::new(answer);
        let said = Said { heartbeat_ms: 100, ..Said::default() };
        let server = Server { said: Arc::new((Mutex::new(said), Condvar::new())), address };
        let answering = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (server, answer) = (answering.clone(), Arc::clone(&answer));
                thread::spawn(move || answer(&server, stream));
            }
        });
        server
    }

    /// Gives these orders from now on.
    pub(crate) fn order(&self, orders: Vec<Order>) {
        self.change(|said| {
            said.orders = Orders { revision: said.orders.revision + 1, orders, files: Vec::new() }
        });
    }

    /// Gives these orders under a number that it chooses.
    pub(crate) fn order_as(&self, revision: u64, orders: Vec<Order>) {
        self.change(|said| said.orders = Orders { revision, orders, files: Vec::new() });
    }

    /// Wants to be told so often.
    pub(crate) fn beat_every(&self, time: Duration) {
        self.change(|said| {
            said.heartbeat_ms = u64::try_from(time.as_millis()).expect("not so long")
        });
    }

    /// Answers everything with this status, or rightly again.
    pub(crate) fn refuse(&self, status: Option<u16>) {
        self.change(|said| said.refusal = status);
    }

    /// Answers the next heartbeat with this status.
    pub(crate) fn refuse_one_beat(&self, status: u16) {
        self.change(|said| said.refuse_one_beat = Some(status));
    }

    pub(crate) fn heard<T>(&self, look: impl FnOnce(&Said) -> T) -> T {
        look(&self.said.0.lock().expect("no test panics while it looks"))
    }

    /// Waits until what was said is as wanted; nothing if that does not happen in time.
    pub(crate) fn wait<T>(&self, time: Duration, wanted: impl Fn(&Said) -> Option<T>) -> Option<T> {
        let until = Instant::now() + time;
        let mut said = self.said.0.lock().expect("no test panics while it looks");
        loop {
            if let Some(found) = wanted(&said) {
                return Some(found);
            }
            let left = until.checked_duration_since(Instant::now())?;
            said = self.said.1.wait_timeout(said, left).expect("no test panics while it looks").0;
        }
    }

    fn change(&self, change: impl FnOnce(&mut Said)) {
        change(&mut self.said.0.lock().expect("no test panics while it looks"));
        self.said.1.notify_all();
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
        self.change(|said| said.tokens.push(token));
        if let Some(status) = self.heard(|said| said.refusal) {
            return (status, r#"{"error":"because the test wants it"}"#.to_owned());
        }
        if line.starts_with("PUT ") {
            let registration = serde_json::from_slice(body).expect("a registration");
            self.change(|said| said.registrations.push(registration));
            let welcome = self.heard(|said| Welcome {
                heartbeat_ms: said.heartbeat_ms,
                lease_ms: 5000,
                orders: said.orders.clone(),
            });
            return (200, serde_json::to_string(&welcome).expect("JSON"));
        }
        if line.starts_with("POST ") {
            let mut refused = None;
            self.change(|said| refused = said.refuse_one_beat.take());
            if let Some(status) = refused {
                return (status, "{}".to_owned());
            }
            let beat = serde_json::from_slice(body).expect("a heartbeat");
            self.change(|said| said.beats.push(beat));
            return (200, self.heard(|said| serde_json::to_string(&said.orders).expect("JSON")));
        }
        let parameter = |name: &str| {
            let mut pairs = line.split(['?', '&', ' ']).filter_map(|part| part.split_once('='));
            let text =
                pairs.find(|(key, _)| *key == name).map(|(_, text)| text.trim_end_matches('s'));
            text.and_then(|text| text.parse::<u64>().ok())
        };
        let (session, after, wait) = (parameter("session"), parameter("after"), parameter("wait"));
        self.change(|said| said.questions.push(session.expect("it says who it is")));
        let other =
            |said: &Said| (Some(said.orders.revision) != after).then(|| said.orders.clone());
        match self.wait(Duration::from_secs(wait.unwrap_or(0)), other) {
            Some(orders) => (200, serde_json::to_string(&orders).expect("JSON")),
            None => (204, String::new()),
        }
    }
}

/// The request line, the token and the body.
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
            "transfer-encoding" => panic!("the agent says how long its messages are"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first.trim_end().to_owned(), token, body))
}
