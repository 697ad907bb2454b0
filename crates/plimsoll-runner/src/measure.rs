//! The thread that measures the devices and assigns processes to slots.
//!
//! It is separate from the link to the server, so that a meter that hangs delays no heartbeat.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use procfs::ProcError;
use tracing::{info, warn};

use super::agent::Agent;
use super::error::with_causes;
use super::evidence::DRIVER_SLACK;
use super::meter::{Meter, MeterError};
use super::processes::ProcessTable;
use super::state_dir::Baselines;
use super::telemetry::Measurement;

/// Shortest pause between measurements.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// Difference below which baselines are not saved again: it does not change a judgement.
const SAVE_THRESHOLD: u64 = DRIVER_SLACK / 4;

#[derive(Debug, thiserror::Error)]
enum MeasureError {
    #[error(transparent)]
    Meter(#[from] MeterError),
    #[error("cannot list the processes of this machine")]
    Processes(#[from] ProcError),
}

/// Starts the thread.
pub(crate) fn spawn(agent: &Arc<Agent>, mut meter: Box<dyn Meter>) {
    let agent = Arc::clone(agent);
    thread::spawn(move || {
        let mut saved = Baselines::default();
        loop {
            measure(&agent, meter.as_mut());
            let learned = agent.shared.lock().telemetry.baselines.clone();
            if differs(&saved.unexplained, &learned.unexplained)
                || differs(&saved.idle, &learned.idle)
            {
                if let Err(error) = agent.state_dir.save_baselines(&learned) {
                    warn!(%error, "cannot write baselines");
                }
                saved = learned;
            }
            thread::sleep(SHORTEST_PAUSE);
            let pause = agent.shared.lock().measurement_interval();
            agent.shared.wait(pause, |state| state.measure_now);
        }
    });
}

fn differs(saved: &BTreeMap<u16, u64>, learned: &BTreeMap<u16, u64>) -> bool {
    learned.iter().any(|(index, bytes)| {
        saved.get(index).is_none_or(|saved| saved.abs_diff(*bytes) > SAVE_THRESHOLD)
    })
}

/// Measures once.
pub(crate) fn measure(agent: &Agent, meter: &mut dyn Meter) {
    agent.shared.lock().measure_now = false;
    let result = read(agent, meter);
    agent.shared.update(|state| match result {
        Ok(measurement) => {
            if state.telemetry.failure.is_some() {
                info!("measurements work again");
            }
            state.update_members(&measurement.processes);
            state.telemetry.record(&measurement, &mut state.slots, &state.devices);
            if state.devices.update_health(&measurement.readings) {
                warn!("device health changed; registering again");
                state.is_registered = false;
                state.changes += 1;
            }
        }
        Err(error) => {
            let error = with_causes(&error);
            if state.telemetry.failure.as_ref() != Some(&error) {
                warn!(error, "measurement failed; keeping the last values");
            }
            state.telemetry.failure = Some(error);
        }
    });
}

/// Reads the processes before and after the meter: a process that exits while the meter reads still
/// belongs to its slot.
fn read(agent: &Agent, meter: &mut dyn Meter) -> Result<Measurement, MeasureError> {
    if let Ok(processes) = ProcessTable::read(&agent.owner) {
        agent.shared.lock().update_members(&processes);
    }
    let began = Instant::now();
    let readings = meter.read()?;
    let processes = ProcessTable::read(&agent.owner)?;
    Ok(Measurement { began, readings, processes })
}
