//! A cheap client, because it shares the machine with the server that it measures: one kept
//! connection, and answers with a length.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    host: String,
    request: String,
    /// Bytes that were read and not used yet.
    buffer: Vec<u8>,
}

/// An answer of the server.
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: u16,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Connects.
    pub(crate) fn new(server: SocketAddr) -> Client {
        let stream = TcpStream::connect(server).expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        Client { stream, host: server.to_string(), request: String::new(), buffer: Vec::new() }
    }

    /// Sends a request, and waits for the whole answer.
    pub(crate) fn send(&mut self, method: &str, path: &str, body: &str) -> Answer {
        self.request.clear();
        let (host, length) = (&self.host, body.len());
        write!(
            self.request,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .expect("text");
        self.stream.write_all(self.request.as_bytes()).expect("the server reads");
        let head = loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            self.read();
        };
        let (status, length) = read_head(&self.buffer[..head]);
        while self.buffer.len() < head + length {
            self.read();
        }
        let body = self.buffer[head..head + length].to_vec();
        self.buffer.drain(..head + length);
        Answer { status, body }
    }

    fn read(&mut self) {
        let mut part = [0; 16 << 10];
        let read = self.stream.read(&mut part).expect("the server answers");
        assert!(read > 0, "the server closed the connection");
        self.buffer.extend_from_slice(&part[..read]);
    }
}

impl Answer {
    /// The body, where the status is one of success.
    pub(crate) fn good(self, what: &str) -> Vec<u8> {
        let Answer { status, body } = self;
        assert!(status < 300, "{what}: {status} {}", String::from_utf8_lossy(&body));
        body
    }
}

fn read_head(head: &[u8]) -> (u16, usize) {
    let head = std::str::from_utf8(head).expect("a head is text");
    let status = head.get(9..12).and_then(|status| status.parse().ok()).expect("a status");
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().expect("a length"))
    });
    (status, length.unwrap_or(0))
}
