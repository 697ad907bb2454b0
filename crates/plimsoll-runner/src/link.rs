//! Keeps in touch with the server: registers, reports, and fetches orders, for as long as it takes.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use plimsoll_slots::wire::{Heartbeat, Orders, Registration};
use tracing::{info, warn};

use super::agent::Agent;
use super::books::{Books, Phase};
use super::client::{Client, Failure};

/// What the runner says of itself beside its devices.
pub(crate) struct Identity {
    pub(crate) labels: std::collections::BTreeMap<String, String>,
}

/// The first pause after a failure, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// A server cannot make the agent report more often than this.
const SHORTEST_BEAT: Duration = Duration::from_millis(20);

/// The link of one session.
pub(crate) struct Link<'a> {
    agent: &'a Arc<Agent>,
    client: &'a Arc<Client>,
    identity: Identity,
    sequence: u64,
    /// How many changes the server has heard of.
    told: u64,
    failures: u32,
    /// What was logged last about the server, so that each change is said once.
    last_words: Option<String>,
    was_welcome: bool,
    /// Whether the server did not know this runner when it was last spoken to.
    was_forgotten: bool,
    /// How long the server lets a runner be silent.
    lease: Duration,
}

impl<'a> Link<'a> {
    pub(crate) fn new(
        agent: &'a Arc<Agent>,
        client: &'a Arc<Client>,
        identity: Identity,
    ) -> Link<'a> {
        let (told, last_words) = (0, None);
        let (was_welcome, was_forgotten, lease) = (false, false, LONGEST_PAUSE);
        Link {
            agent,
            client,
            identity,
            sequence: 0,
            told,
            failures: 0,
            last_words,
            was_welcome,
            was_forgotten,
            lease,
        }
    }

    /// Stays in touch until the agent is to end and the server has heard that nothing is left of any slot.
    pub(crate) fn run(&mut self) -> Result<()> {
        loop {
            let is_end = self.agent.shared.open().is_done();
            self.speak()?;
            if is_end {
                info!("nothing is left of any slot; the agent ends");
                return Ok(());
            }
            self.rest();
        }
    }

    /// One exchange.
    fn speak(&mut self) -> Result<()> {
        let is_registered = self.agent.shared.open().is_registered;
        let spoken = if is_registered { self.beat() } else { self.register() };
        match spoken {
            Ok(()) => {
                if self.last_words.take().is_some() {
                    info!("the server answers again");
                }
                self.failures = 0;
            }
            Err(failure) => self.failed(&failure)?,
        }
        Ok(())
    }

    fn register(&mut self) -> Result<(), Failure> {
        let (devices, asked_with) = {
            let books = self.agent.shared.open();
            (books.devices.facts.clone(), books.revision)
        };
        let registration = Registration {
            session: self.agent.session,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            labels: self.identity.labels.clone(),
            devices,
        };
        let sent = registration.devices.clone();
        let welcome = self.client.register(&registration)?;
        info!(
            heartbeat_ms = welcome.heartbeat_ms,
            lease_ms = welcome.lease_ms,
            "registered with the server"
        );
        self.was_welcome = true;
        self.lease = Duration::from_millis(welcome.lease_ms);
        self.agent.shared.change(|books| {
            books.heartbeat = Duration::from_millis(welcome.heartbeat_ms).max(SHORTEST_BEAT);
            // A device whose health changed meanwhile is registered once more.
            books.is_registered = books.devices.facts == sent;
            books.news += 1;
        });
        self.agent.take_orders(welcome.orders, asked_with);
        Ok(())
    }

    fn beat(&mut self) -> Result<(), Failure> {
        self.sequence += 1;
        let (heartbeat, news, asked_with) = {
            let books = self.agent.shared.open();
            let places = &self.agent.places;
            let heartbeat =
                books.heartbeat(self.agent.session, self.sequence, places, Instant::now());
            (heartbeat, books.news, books.revision)
        };
        let orders = self.client.beat(&heartbeat)?;
        (self.told, self.was_forgotten) = (news, false);
        self.note_told(&heartbeat);
        self.agent.take_orders(orders, asked_with);
        Ok(())
    }

    /// A report that a slot is over can be dropped once it was heard and nobody asks for it any more.
    fn note_told(&self, heartbeat: &Heartbeat) {
        let mut books = self.agent.shared.open();
        for report in heartbeat.slots.iter().filter(|report| report.state.is_over()) {
            if let Some(slot) = books.slots.get_mut(&report.slot) {
                let is_the_same = slot.record.generation == report.generation;
                slot.is_told |= is_the_same && matches!(slot.phase, Phase::Over(_));
            }
        }
    }

    fn failed(&mut self, failure: &Failure) -> Result<()> {
        self.failures = self.failures.saturating_add(1);
        if let Failure::Refused { status, code, message } = failure {
            match status {
                409 if code.as_deref() == Some("device_taken") => bail!(
                    "another runner has one of these devices: {message}; this agent ends, and the model servers go on"
                ),
                409 => bail!(
                    "a later agent has registered under this name: {message}; this one ends, and the model servers go on"
                ),
                401 | 403 if !self.was_welcome => {
                    bail!(
                        "the server refuses this runner's token ({status}): {message}; see --token-file"
                    )
                }
                400 | 413 | 415 | 422 if !self.was_welcome => {
                    bail!("the server refuses the registration ({status}): {message}")
                }
                404 if self.was_welcome => {
                    info!("the server does not know this runner any more; it registers again");
                    self.agent.shared.change(|books| books.is_registered = false);
                    // The server is there, so that whatever kept it away is over. One that forgets all the time is not asked without end.
                    self.failures = u32::from(std::mem::replace(&mut self.was_forgotten, true));
                    return Ok(());
                }
                _ => {}
            }
        }
        let words = failure.to_string();
        if self.last_words.as_ref() != Some(&words) {
            warn!(why = words, "trying again; the model servers go on");
            self.last_words = Some(words);
        }
        Ok(())
    }

    /// Waits until the next exchange is due. News shortens the wait, unless the server does not answer anyway.
    fn rest(&self) {
        let shared = &self.agent.shared;
        let told = self.told;
        if self.failures > 0 {
            // A server that is back hears of everybody before it takes them for lost.
            let pause = pause(self.failures, u64::from(std::process::id())).min(self.lease / 3);
            shared.wait(pause.max(SHORTEST_BEAT), Books::is_done);
            return;
        }
        let heartbeat = shared.open().heartbeat;
        shared.wait(heartbeat, |books| !books.is_registered || books.news != told);
    }
}

/// Fetches orders in a thread of its own, so that they arrive at once.
pub(crate) fn fetch_orders(agent: &Arc<Agent>, client: &Arc<Client>) {
    let (agent, client) = (Arc::clone(agent), Arc::clone(client));
    thread::spawn(move || {
        let mut failures = 0_u32;
        loop {
            agent.shared.wait(Duration::from_secs(3600), |books| books.is_registered);
            let after = agent.shared.open().revision;
            let began = Instant::now();
            let is_news = match client.work(agent.session, after) {
                Ok(orders) => {
                    failures = 0;
                    take(&agent, orders, after)
                }
                // The reports meet the same failure and say so.
                Err(_) => {
                    failures = failures.saturating_add(1);
                    thread::sleep(pause(failures, u64::from(std::process::id()).rotate_left(7)));
                    continue;
                }
            };
            // A server that does not hold the question back is not asked without end.
            if !is_news && began.elapsed() < Duration::from_secs(1) {
                thread::sleep(Duration::from_millis(500));
            }
        }
    });
}

fn take(agent: &Arc<Agent>, orders: Option<Orders>, after: u64) -> bool {
    let Some(orders) = orders else { return false };
    let is_news = orders.revision != after;
    agent.take_orders(orders, after);
    is_news
}

/// Doubles with every failure, up to a limit, and differs from runner to runner, so that they do not all come at once.
fn pause(failures: u32, salt: u64) -> Duration {
    let doubled =
        FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_PAUSE);
    let mixed = (salt ^ u64::from(failures)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let percent = u32::try_from(mixed % 50).expect("less than 50");
    doubled * (100 - percent) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_differ() {
        for salt in 0..100 {
            for failures in [1, 2, 5, 20, u32::MAX] {
                let pause = pause(failures, salt);
                assert!(
                    pause >= FIRST_PAUSE / 2 && pause <= LONGEST_PAUSE,
                    "{failures}: {pause:?}"
                );
            }
            assert!(pause(1, salt) <= FIRST_PAUSE && pause(20, salt) >= LONGEST_PAUSE / 2);
        }
        let different: std::collections::BTreeSet<_> = (0..20).map(|salt| pause(3, salt)).collect();
        assert!(different.len() > 10);
    }
}
