//! Handling of SIGINT and SIGTERM.

use std::io;
use std::sync::Arc;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing::info;

use super::agent::Agent;
use super::config::OnExit;

/// Handles signals in a thread. The first signal exits the process; with `OnExit::StopSlots` it
/// stops the slots first, and a second signal exits immediately.
///
/// The process can exit at any moment, because everything that the next agent needs is written
/// before it takes effect.
pub(crate) fn handle_signals(agent: &Arc<Agent>, on_exit: OnExit) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let agent = Arc::clone(agent);
    thread::spawn(move || {
        let mut received = signals.forever();
        if on_exit == OnExit::StopSlots {
            received.next();
            info!("shutdown requested; stopping all slots (a second signal exits immediately)");
            agent.shared.update(|state| state.is_ending = true);
            agent.stop_all_slots();
        }
        received.next();
        let slots = running_slots(&agent);
        info!(slots, "exiting; model servers keep running until the next agent adopts them");
        std::process::exit(0);
    });
    Ok(())
}

fn running_slots(agent: &Agent) -> usize {
    agent.shared.lock().slots.values().filter(|slot| !slot.phase.is_ended()).count()
}
