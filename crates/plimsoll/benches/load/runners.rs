//! Runners that do at once what they are told, and say so with their next heartbeat.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{DeviceFacts, Heartbeat, Orders, Registration, SlotReport, Welcome};

use crate::http::Client;

const GPUS: usize = 8;

/// So many threads speak for all runners.
pub(crate) const VOICES: usize = 4;

/// A runner, what it was told last, and what it said before.
pub(crate) struct Runner {
    name: String,
    sequence: u64,
    orders: Orders,
    said: Vec<SlotReport>,
}

/// Registers every runner that this voice speaks for.
pub(crate) fn register(server: SocketAddr, voice: usize, runners: usize) -> Vec<Runner> {
    let mut client = Client::new(server);
    let register = |number: usize| {
        let name = format!("runner-{number:04}");
        let body = serde_json::to_string(&registration(number)).expect("plain data");
        let answer =
            client.send("PUT", &format!("/api/v1/runners/{name}"), &body).good("a registration");
        let welcome: Welcome = serde_json::from_slice(&answer).expect("a welcome");
        Runner { name, sequence: 0, orders: welcome.orders, said: Vec::new() }
    };
    (voice..runners).step_by(VOICES).map(register).collect()
}

/// Lets every runner beat once in `interval` until all is done, and counts the beats.
pub(crate) fn beat(
    server: SocketAddr,
    mut runners: Vec<Runner>,
    interval: Duration,
    done: &AtomicBool,
    beats: &AtomicU64,
) {
    let mut client = Client::new(server);
    let each = interval / u32::try_from(runners.len().max(1)).expect("few");
    let mut due = Instant::now();
    while !done.load(Ordering::Relaxed) {
        for runner in &mut runners {
            // Where the server cannot keep up the beats come later, and never all at once after that.
            due = (due + each).max(Instant::now());
            sleep(due.saturating_duration_since(Instant::now()));
            runner.beat(&mut client);
            beats.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Runner {
    fn beat(&mut self, client: &mut Client) {
        self.sequence += 1;
        let orders = std::mem::take(&mut self.orders.orders).into_iter();
        let slots = orders.map(|order| order.done(&self.said)).collect();
        let beat = Heartbeat::of(1, self.sequence, slots);
        let body = serde_json::to_string(&beat).expect("plain data");
        self.said = beat.slots;
        let path = format!("/api/v1/runners/{}/heartbeat", self.name);
        let answer = client.send("POST", &path, &body).good("a heartbeat");
        self.orders = serde_json::from_slice(&answer).expect("orders");
    }
}

fn registration(runner: usize) -> Registration {
    let facts = |gpu: usize| DeviceFacts::new(format!("GPU-{runner}-{gpu}"), 80 << 30);
    let devices = (0..GPUS).map(facts).collect();
    Registration { session: 1, version: String::new(), labels: BTreeMap::new(), devices }
}
