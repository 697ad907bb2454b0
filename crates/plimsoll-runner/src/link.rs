//! The link to the server: registration, heartbeats and orders, retried for as long as it takes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{Heartbeat, Registration};
use tracing::{info, warn};

use super::agent::Agent;
use super::client::{Client, RequestError};
use super::error::with_causes;
use super::orders;
use super::state::RunnerState;
use super::state_dir::StateDirError;

/// Pause after the first failure.
const FIRST_BACKOFF: Duration = Duration::from_millis(250);

const LONGEST_BACKOFF: Duration = Duration::from_secs(15);

/// Lower limit of the heartbeat interval that a server can choose.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(20);

/// Pause before the next poll, if the server answered a poll at once without new orders.
const POLL_PAUSE: Duration = Duration::from_millis(500);

/// Reason for the agent to exit. The model servers keep running.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error(
        "another runner has one of these devices: {message}; \
         this agent exits, and its model servers keep running"
    )]
    DeviceTaken { message: String },
    #[error(
        "a later agent has registered under this name: {message}; \
         this agent exits, and its model servers keep running"
    )]
    Superseded { message: String },
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    #[error("the server rejects the token of this runner ({status}): {message}; see --token-file")]
    TokenRejected { status: u16, message: String },
    #[error("the server rejects the registration ({status}): {message}")]
    RegistrationRejected { status: u16, message: String },
}

/// The link of one session.
pub(crate) struct Link<'a> {
    agent: &'a Arc<Agent>,
    client: &'a Client,
    labels: BTreeMap<String, String>,
    /// The number of the last registration or heartbeat.
    sequence: u64,
    /// The value of `RunnerState::changes` that the server has heard about.
    reported_changes: u64,
    /// Consecutive failures.
    failures: u32,
    /// The last error that was logged, so that a lasting error is logged once.
    last_error: Option<String>,
    has_registered: bool,
    /// True if the server answered the previous request with 404.
    was_unknown: bool,
    /// Time without a heartbeat after which the server gives the runner no new work.
    lease: Duration,
}

impl<'a> Link<'a> {
    pub(crate) fn new(
        agent: &'a Arc<Agent>,
        client: &'a Client,
        labels: BTreeMap<String, String>,
    ) -> Link<'a> {
        Link {
            agent,
            client,
            labels,
            sequence: 0,
            reported_changes: 0,
            failures: 0,
            last_error: None,
            has_registered: false,
            was_unknown: false,
            lease: LONGEST_BACKOFF,
        }
    }

    /// Runs until the agent is to exit and the server has heard that all slots ended.
    pub(crate) fn run(&mut self) -> Result<(), LinkError> {
        loop {
            let is_done = self.agent.shared.lock().is_done();
            self.exchange()?;
            if is_done {
                info!("all slots ended; exiting");
                return Ok(());
            }
            self.wait_for_next_exchange();
        }
    }

    /// Registers, or sends a heartbeat.
    fn exchange(&mut self) -> Result<(), LinkError> {
        let is_registered = self.agent.shared.lock().is_registered;
        let result = if is_registered { self.send_heartbeat() } else { self.register() };
        match result {
            Ok(()) => {
                if self.last_error.take().is_some() {
                    info!("server is reachable again");
                }
                self.failures = 0;
                Ok(())
            }
            Err(error) => self.handle_error(&error),
        }
    }

    fn register(&mut self) -> Result<(), RequestError> {
        let (devices, asked_with) = {
            let state = self.agent.shared.lock();
            (state.devices.facts.clone(), state.revision)
        };
        self.sequence += 1;
        let registration = Registration {
            session: self.agent.session(),
            sequence: self.sequence,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            labels: self.labels.clone(),
            devices,
        };
        let welcome = self.client.register(&registration)?;
        let (heartbeat_ms, lease_ms) = (welcome.heartbeat_ms, welcome.lease_ms);
        info!(heartbeat_ms, lease_ms, "registered with the server");
        self.has_registered = true;
        self.lease = Duration::from_millis(lease_ms);
        self.agent.shared.update(|state| {
            state.heartbeat = Duration::from_millis(heartbeat_ms).max(SHORTEST_HEARTBEAT);
            // If the health of a device changed meanwhile, the runner registers once more.
            state.is_registered = state.devices.facts == registration.devices;
            state.changes += 1;
        });
        orders::apply_orders(self.agent, welcome.orders, asked_with);
        Ok(())
    }

    fn send_heartbeat(&mut self) -> Result<(), RequestError> {
        self.sequence += 1;
        let (heartbeat, changes, asked_with) = {
            let state = self.agent.shared.lock();
            let agent = self.agent;
            let heartbeat =
                state.heartbeat(agent.session(), self.sequence, &agent.listen, Instant::now());
            (heartbeat, state.changes, state.revision)
        };
        let orders = self.client.send_heartbeat(&heartbeat)?;
        (self.reported_changes, self.was_unknown) = (changes, false);
        self.acknowledge_ends(&heartbeat);
        orders::apply_orders(self.agent, orders, asked_with);
        Ok(())
    }

    /// Marks the ends that the heartbeat reported. Such a slot is forgotten once no order mentions
    /// it.
    fn acknowledge_ends(&self, heartbeat: &Heartbeat) {
        let mut state = self.agent.shared.lock();
        for report in heartbeat.slots.iter().filter(|report| report.state.is_over()) {
            if let Some(slot) = state.slots.get_mut(&report.slot) {
                let is_same = slot.record.generation == report.generation;
                slot.is_end_acknowledged |= is_same && slot.phase.is_ended();
            }
        }
    }

    /// Decides whether the agent exits. Before the first registration an error is one of the
    /// configuration; after it, only a later agent or another runner with the same devices ends
    /// this one.
    fn handle_error(&mut self, error: &RequestError) -> Result<(), LinkError> {
        self.failures = self.failures.saturating_add(1);
        if let RequestError::Rejected { status, code, message } = error {
            let (status, message) = (*status, message.clone());
            match status {
                409 if code.as_deref() == Some("device_taken") => {
                    return Err(LinkError::DeviceTaken { message });
                }
                409 if code.as_deref() == Some("runner_removed") => return self.renew_session(),
                409 => return Err(LinkError::Superseded { message }),
                401 | 403 if !self.has_registered => {
                    return Err(LinkError::TokenRejected { status, message });
                }
                400 | 413 | 415 | 422 if !self.has_registered => {
                    return Err(LinkError::RegistrationRejected { status, message });
                }
                404 if self.has_registered => {
                    info!("server does not know this runner; registering again");
                    self.agent.shared.update(|state| state.is_registered = false);
                    // The server answers, so that the backoff restarts. It does not for a server
                    // that answers 404 every time.
                    self.failures = u32::from(std::mem::replace(&mut self.was_unknown, true));
                    return Ok(());
                }
                _ => {}
            }
        }
        let error = with_causes(error);
        if self.last_error.as_ref() != Some(&error) {
            warn!(error, "request to the server failed; retrying (model servers keep running)");
            self.last_error = Some(error);
        }
        Ok(())
    }

    /// Registers again in a new session. Messages of the removed one may still be under way, so the
    /// server accepts no more of them.
    fn renew_session(&mut self) -> Result<(), LinkError> {
        info!("an operator removed this runner from the server; registering again");
        self.agent.renew_session()?;
        self.agent.shared.update(|state| state.is_registered = false);
        Ok(())
    }

    /// Waits until the next exchange is due. A change shortens the wait, unless the server does not
    /// answer anyway.
    fn wait_for_next_exchange(&self) {
        let shared = &self.agent.shared;
        if self.failures > 0 {
            // A server that was restarted must hear from its runners before their leases expire.
            let pause = backoff(self.failures, u64::from(std::process::id())).min(self.lease / 3);
            shared.wait(pause.max(SHORTEST_HEARTBEAT), RunnerState::is_done);
            return;
        }
        let heartbeat = shared.lock().heartbeat;
        shared.wait(heartbeat, |state| {
            !state.is_registered || state.changes != self.reported_changes
        });
    }
}

/// Starts a thread that polls for orders, so that they arrive before the next heartbeat.
pub(crate) fn spawn_poll(agent: &Arc<Agent>, client: &Arc<Client>) {
    let (agent, client) = (Arc::clone(agent), Arc::clone(client));
    thread::spawn(move || {
        let mut failures = 0_u32;
        loop {
            agent.shared.wait(Duration::from_secs(3600), |state| state.is_registered);
            let after = agent.shared.lock().revision;
            let began = Instant::now();
            match client.poll_orders(agent.session(), after) {
                Ok(orders) => {
                    failures = 0;
                    let is_new = orders.as_ref().is_some_and(|orders| orders.revision != after);
                    if let Some(orders) = orders {
                        orders::apply_orders(&agent, orders, after);
                    }
                    // Protects a server that does not hold the request back.
                    if !is_new && began.elapsed() < Duration::from_secs(1) {
                        thread::sleep(POLL_PAUSE);
                    }
                }
                // The heartbeats meet the same error and log it.
                Err(_) => {
                    failures = failures.saturating_add(1);
                    let salt = u64::from(std::process::id()).rotate_left(7);
                    thread::sleep(backoff(failures, salt));
                }
            }
        }
    });
}

/// Returns the pause after a number of consecutive failures. It doubles up to a limit. Up to half
/// of it is taken off depending on the salt, so that runners do not return all at once when a
/// server restarts.
fn backoff(failures: u32, salt: u64) -> Duration {
    let doubled =
        FIRST_BACKOFF.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_BACKOFF);
    let mixed = (salt ^ u64::from(failures)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let percent = u32::try_from(mixed % 50).expect("less than 50");
    doubled * (100 - percent) / 100
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn backoff_grows_to_a_limit_and_differs_between_runners() {
        for salt in 0..100 {
            for failures in [1, 2, 5, 20, u32::MAX] {
                let pause = backoff(failures, salt);
                assert!(pause >= FIRST_BACKOFF / 2 && pause <= LONGEST_BACKOFF, "{pause:?}");
            }
            assert!(backoff(1, salt) <= FIRST_BACKOFF);
            assert!(backoff(20, salt) >= LONGEST_BACKOFF / 2);
        }
        let different: BTreeSet<Duration> = (0..20).map(|salt| backoff(3, salt)).collect();
        assert!(different.len() > 10);
    }
}
