//! When requests are sent, and how long they took.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::http::Client;

/// Connections that offer load at once.
pub(crate) const CONNECTIONS: usize = 64;

/// Measured times.
#[derive(Default)]
pub(crate) struct Times {
    each: Vec<Duration>,
    /// The time of the whole run.
    took: Duration,
}

impl Times {
    /// One more.
    pub(crate) fn add(&mut self, time: Duration) {
        self.each.push(time);
    }

    /// Sets the time of the whole run.
    pub(crate) fn ended(&mut self, took: Duration) {
        self.took = took;
        self.each.sort_unstable();
    }

    /// Returns a quantile in thousandths, in milliseconds.
    pub(crate) fn at(&self, permille: usize) -> f64 {
        let index = (self.each.len() * permille / 1000).min(self.each.len().saturating_sub(1));
        self.each.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
    }

    /// Returns the rate per second.
    pub(crate) fn rate(&self) -> f64 {
        self.count() / self.took.as_secs_f64()
    }

    /// Returns the number of times.
    pub(crate) fn count(&self) -> f64 {
        f64::from(u32::try_from(self.each.len()).expect("fewer than that"))
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p50, p99, p999) = (self.at(500), self.at(990), self.at(999));
        write!(f, "{:.0}/s, p50 {p50:.2} ms, p99 {p99:.2} ms, p99.9 {p999:.2} ms", self.rate())
    }
}

/// Sends `count` requests, each at its own time, `rate` a second, however long the others take. A
/// time counts from when the request was due, so that a stalled server is charged for the requests
/// it delayed.
pub(crate) fn offer(
    server: SocketAddr,
    rate: u32,
    count: u32,
    send: impl Fn(&mut Client, u32) + Sync,
) -> Times {
    let (next, all) = (AtomicU32::new(0), Mutex::new(Times::default()));
    let started = Instant::now();
    let work = || {
        let (mut client, mut own) = (Client::new(server), Vec::new());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            let due = started + Duration::from_secs_f64(f64::from(number) / f64::from(rate));
            thread::sleep(due.saturating_duration_since(Instant::now()));
            send(&mut client, number);
            own.push(due.elapsed());
        }
        all.lock().expect("no thread panics").each.append(&mut own);
    };
    thread::scope(|scope| (0..CONNECTIONS).for_each(|_| drop(scope.spawn(work))));
    let mut times = all.into_inner().expect("no thread panics");
    times.ended(started.elapsed());
    times
}

/// Sends one request after the other on every connection for this many seconds: the highest rate.
pub(crate) fn press(server: SocketAddr, seconds: u64, send: impl Fn(&mut Client) + Sync) -> Times {
    let all = Mutex::new(Times::default());
    let started = Instant::now();
    let work = || {
        let (mut client, mut own) = (Client::new(server), Vec::new());
        while started.elapsed() < Duration::from_secs(seconds) {
            let sent = Instant::now();
            send(&mut client);
            own.push(sent.elapsed());
        }
        all.lock().expect("no thread panics").each.append(&mut own);
    };
    thread::scope(|scope| (0..CONNECTIONS).for_each(|_| drop(scope.spawn(work))));
    let mut times = all.into_inner().expect("no thread panics");
    times.ended(started.elapsed());
    times
}
