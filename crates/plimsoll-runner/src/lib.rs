//! The agent on a GPU machine: it reports devices, runs the model servers that the server orders,
//! and proves that memory is released.
//!
//! Orders and reports describe a state and never a change (`plimsoll_slots::wire`), in both
//! directions. The agent compares the orders with its slots (`plimsoll_slots::reconcile`), corrects
//! the difference (`orders`), and follows each slot in a thread of its own (`watch`).
//!
//! The modules are in reading order: each uses only modules above it.

// Configuration.
mod config;

mod error;

mod duration;

mod listen;

// Facts about the machine, and the files that survive the agent.
mod processes;

mod meter;

mod devices;

mod state_dir;

mod attribution;

mod gpu_use;

// The state of the agent in memory.
mod slot;

mod evidence;

mod telemetry;

mod state;

// Life of one slot.
mod launch;

mod slot_log;

mod model_server;

mod agent;

mod cpu_fallback;

mod watch;

// Threads of the agent.
mod files;

mod orders;

mod adopt;

mod measure;

mod client;

mod link;

mod log_link;

mod signals;

// Start of the agent.
mod setup;

use std::io;
use std::sync::Arc;

use tracing::info;

pub use adopt::AdoptError;
pub use client::{ClientConfigError, TokenError};
pub use config::{DeviceSource, OnExit, PlaintextToken, ProbeConfig, RunnerConfig, TokenSource};
pub use devices::{DeclarationError, DevicesError};
pub use link::LinkError;
pub use meter::{MeterError, ProbeError};
pub use setup::SetupError;
pub use state_dir::StateDirError;

use agent::Agent;
use client::Client;
use link::Link;
use processes::Owner;
use state::{RunnerState, SharedState};
use state_dir::StateDir;

/// Reason for the agent to exit. The model servers keep running in any case.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Client(#[from] ClientConfigError),
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    #[error("cannot handle signals")]
    Signals(#[source] io::Error),
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// Runs the agent. It returns after a shutdown that stopped all slots, or with an error; SIGINT and
/// SIGTERM otherwise exit the process.
pub fn run(config: &RunnerConfig) -> Result<(), RunnerError> {
    let name = setup::runner_name(config)?;
    let client = Arc::new(Client::new(config, &name)?);
    let listen = setup::listen_config(config)?;
    let (devices, mut meter) = setup::devices(config)?;
    let state_dir = StateDir::open(&setup::state_dir(config, &name)?)?;
    let owner = Owner { runner: name, state_dir: state_dir.path().display().to_string() };
    let count = devices.facts.len();
    info!(runner = owner.runner, devices = count, state_dir = owner.state_dir, "runner started");
    let baselines = state_dir.load_baselines(&processes::boot_id());
    let shared = SharedState::new(RunnerState::new(devices, baselines));
    let agent = Arc::new(Agent::new(owner, state_dir, listen, shared)?);
    signals::handle_signals(&agent, config.on_exit).map_err(RunnerError::Signals)?;
    adopt::adopt_slots(&agent)?;
    // Measured before the first heartbeat, so that it contains values.
    measure::measure(&agent, meter.as_mut());
    measure::spawn(&agent, meter);
    link::spawn_poll(&agent, &client);
    log_link::spawn(&agent, &client);
    Link::new(&agent, &client, config.labels.clone()).run()?;
    Ok(())
}
