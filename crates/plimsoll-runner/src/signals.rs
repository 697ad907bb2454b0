//! What the agent does when it is asked to end by the terminal or the service manager.

use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::info;

use super::agent::Agent;
use super::books::Phase;
use super::config::OnExit;

/// Listens from now on. The first signal ends the agent; with `StopSlots` it ends the slots first, and the second ends the agent at once.
///
/// Everything that the next agent needs is on disk at every moment, so that nothing has to be finished before.
pub(crate) fn listen(agent: &Arc<Agent>, on_exit: OnExit) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.context("could not listen for signals")?;
    let of =
        |kind| runtime.block_on(async { signal(kind) }).context("could not listen for signals");
    let mut signals = [of(SignalKind::interrupt())?, of(SignalKind::terminate())?];
    let agent = Arc::clone(agent);
    thread::spawn(move || {
        if on_exit == OnExit::StopSlots {
            runtime.block_on(either(&mut signals));
            info!(
                "asked to end: every slot is asked to go first; a second signal ends the agent at once"
            );
            agent.shared.change(|books| books.is_ending = true);
            agent.stop_all();
        }
        runtime.block_on(either(&mut signals));
        say_what_goes_on(&agent);
        std::process::exit(0);
    });
    Ok(())
}

fn say_what_goes_on(agent: &Agent) {
    let slots = agent
        .shared
        .open()
        .slots
        .values()
        .filter(|slot| !matches!(slot.phase, Phase::Over(_)))
        .count();
    info!(
        slots,
        "asked to end: the model servers go on, and the next agent with this name and state adopts them"
    );
}

async fn either([first, second]: &mut [Signal; 2]) {
    tokio::select! {
        _ = first.recv() => {}
        _ = second.recv() => {}
    }
}
