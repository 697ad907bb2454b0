//! The agent on a machine with devices: it reports them, starts and stops what the server orders, and says what became of it.
//!
//! Orders and reports say what is, never what changed (`plimsoll_slots::wire`). The modules stand in reading order.

mod adopt;
mod agent;
mod attribution;
mod books;
mod client;
mod config;
mod devices;
mod evidence;
mod files;
mod launch;
mod link;
mod measure;
mod meter;
mod model_server;
mod processes;
mod reconcile;
mod record;
mod setup;
mod signals;
mod slot_log;
mod watch;

use std::sync::Arc;

use anyhow::{Context, Result};
use tracing::info;

use agent::Agent;
pub use config::{DeviceSource, OnExit, PlaintextToken, ProbeConfig, RunnerConfig, TokenSource};

use books::{Books, Shared};
use link::{Identity, Link};
use processes::Owner;
use record::StateDir;

/// Runs the agent until it is asked to end.
pub fn run(config: &RunnerConfig) -> Result<()> {
    let name = setup::name(config)?;
    let client = Arc::new(setup::client(config, &name)?);
    let places = setup::places(config)?;
    let (devices, mut meter) = setup::devices(config)?;
    let state = StateDir::take(&setup::state_dir(config, &name)?)?;
    let session = state.session(agent::now_ms())?;
    let owner = Owner { runner: name.clone(), state_dir: state.path().display().to_string() };
    info!(
        runner = name,
        devices = devices.facts.len(),
        state = owner.state_dir,
        "the agent begins"
    );
    let mut books = Books::new(devices);
    books.gauge.baselines = state.baselines(&processes::boot_id());
    let shared = Shared::new(books);
    let agent = Arc::new(Agent { owner, state, places, session, shared });
    signals::handle_signals(&agent, config.on_exit).context("could not listen for signals")?;
    adopt::adopt(&agent)?;
    // The first report already carries numbers.
    measure::once(&agent, meter.as_mut());
    measure::begin(&agent, meter);
    link::fetch_orders(&agent, &client);
    let identity = Identity { labels: config.labels.clone() };
    Link::new(&agent, &client, identity).run()
}
