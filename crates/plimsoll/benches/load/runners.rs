//! Runners that carry out orders at once, and report it with their next heartbeat.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use plimsoll_core::units::Millis;
use plimsoll_slots::simulated_runner::{MemoryUse, SimulatedRunner};
use plimsoll_slots::wire::Welcome;

use crate::http::Client;

const GPUS: usize = 8;

/// The number of threads that speak for all runners.
pub(crate) const VOICES: usize = 4;

/// Registers every runner that this voice speaks for.
pub(crate) fn register(server: SocketAddr, voice: usize, runners: usize) -> Vec<SimulatedRunner> {
    let mut client = Client::new(server);
    let register = |number: usize| {
        let name = format!("runner-{number:04}");
        let mut runner = SimulatedRunner::with_gpus(&name, "NVIDIA A100", &[80; GPUS]);
        runner.conduct.memory = MemoryUse::Unmeasured;
        let body = serde_json::to_string(&runner.registration()).expect("plain data");
        let answer =
            client.send("PUT", &format!("/api/v1/runners/{name}"), &body).good("a registration");
        let welcome: Welcome = serde_json::from_slice(&answer).expect("a welcome");
        runner.take_orders(welcome.orders);
        runner
    };
    (voice..runners).step_by(VOICES).map(register).collect()
}

/// Lets every runner beat once in `interval` until all is done, and counts the beats.
pub(crate) fn beat(
    server: SocketAddr,
    mut runners: Vec<SimulatedRunner>,
    interval: Duration,
    done: &AtomicBool,
    beats: &AtomicU64,
) {
    let mut client = Client::new(server);
    let each = interval / u32::try_from(runners.len().max(1)).expect("few");
    let mut due = Instant::now();
    while !done.load(Ordering::Relaxed) {
        for runner in &mut runners {
            // If the server cannot keep up, heartbeats are late, but never sent in a burst
            // afterwards.
            due = (due + each).max(Instant::now());
            sleep(due.saturating_duration_since(Instant::now()));
            exchange(runner, &mut client);
            beats.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Sends one heartbeat, and takes the orders that answer it.
fn exchange(runner: &mut SimulatedRunner, client: &mut Client) {
    let body = serde_json::to_string(&runner.heartbeat(Millis(0))).expect("plain data");
    let path = format!("/api/v1/runners/{}/heartbeat", runner.name());
    let answer = client.send("POST", &path, &body).good("a heartbeat");
    runner.take_orders(serde_json::from_slice(&answer).expect("orders"));
}
