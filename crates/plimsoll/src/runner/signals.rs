//! What the agent does when it is asked to end by the terminal or the service manager.

use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::info;

use super::agent::Agent;

/// Notes in the books how often the agent was asked to end, from now on.
pub(crate) fn listen(agent: &Arc<Agent>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.context("could not listen for signals")?;
    let of = |kind| runtime.block_on(async { signal(kind) }).context("could not listen for signals");
    let mut signals = [of(SignalKind::interrupt())?, of(SignalKind::terminate())?];
    let agent = Arc::clone(agent);
    thread::spawn(move || {
        loop {
            runtime.block_on(either(&mut signals));
            info!("asked to end");
            agent.shared.change(|books| books.asked_to_end += 1);
        }
    });
    Ok(())
}

async fn either([first, second]: &mut [Signal; 2]) {
    tokio::select! {
        _ = first.recv() => {}
        _ = second.recv() => {}
    }
}
