//! Handling of SIGINT and SIGTERM.

use std::io;
use std::sync::Arc;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing::info;

use super::agent::Agent;
use super::books::Phase;
use super::config::OnExit;

/// Handles signals in a thread of its own. The first signal exits the process; with `OnExit::StopSlots` it stops the slots first, and a
/// second signal exits at once.
///
/// The process can exit at any moment, because everything that the next agent needs is on disk before it takes effect.
pub(crate) fn handle_signals(agent: &Arc<Agent>, on_exit: OnExit) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let agent = Arc::clone(agent);
    thread::spawn(move || {
        let mut received = signals.forever();
        if on_exit == OnExit::StopSlots {
            received.next();
            info!("shutdown requested: stopping all slots; a second signal exits immediately");
            agent.shared.change(|books| books.is_ending = true);
            agent.stop_all();
        }
        received.next();
        log_running_slots(&agent);
        std::process::exit(0);
    });
    Ok(())
}

fn log_running_slots(agent: &Agent) {
    let books = agent.shared.open();
    let slots = books.slots.values().filter(|slot| !matches!(slot.phase, Phase::Over(_))).count();
    info!(slots, "exiting; model servers keep running until the next agent adopts them");
}
