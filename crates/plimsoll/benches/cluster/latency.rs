//! The time from a write to the API server until the event stream shows it in the ledger.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Seen {
    sent: HashMap<String, Instant>,
    times: Vec<Duration>,
}

pub(crate) struct Arrivals {
    seen: Arc<Mutex<Seen>>,
}

impl Arrivals {
    /// Reads the event stream of the program at this address.
    pub(crate) fn listen(address: &str) -> Arrivals {
        let mut stream = TcpStream::connect(address).expect("a connection");
        let request = format!("GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("a request");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = seen.clone();
        thread::spawn(move || read(stream, &shared));
        // A record before the subscription is not streamed.
        thread::sleep(Duration::from_millis(500));
        Arrivals { seen }
    }

    /// Notes that a pod was written just now.
    pub(crate) fn sent(&self, name: String) {
        self.seen.lock().expect("no panic").sent.insert(name, Instant::now());
    }

    pub(crate) fn times(&self) -> Times {
        let seen = self.seen.lock().expect("no panic");
        let mut sorted = seen.times.clone();
        sorted.sort_unstable();
        Times { sorted, missing: seen.sent.len() }
    }
}

fn read(stream: TcpStream, seen: &Mutex<Seen>) {
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let Some(data) = line.strip_prefix("data:") else { continue };
        let now = Instant::now();
        let mut seen = seen.lock().expect("no panic");
        for part in data.split('"').filter(|part| part.starts_with("holder-")) {
            if let Some(sent) = seen.sent.remove(part) {
                seen.times.push(now - sent);
            }
        }
    }
}

/// Times in order, and the number of writes that were not seen.
pub(crate) struct Times {
    sorted: Vec<Duration>,
    missing: usize,
}

impl fmt::Display for Times {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |percent: usize| {
            let position = self.sorted.len().saturating_sub(1) * percent / 100;
            self.sorted.get(position).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
        };
        write!(
            out,
            "{:>8.1} ms median, {:.1} ms p99, {:.1} ms at most; {} of {} seen",
            at(50),
            at(99),
            at(100),
            self.sorted.len(),
            self.sorted.len() + self.missing
        )
    }
}
