//! Detects a model server that became ready on the CPU although it has GPUs.
//!
//! llama.cpp and Ollama only warn if they find no GPU, load the model into the host's memory and
//! become ready. The slot would serve slowly for ever, its GPUs would stay charged, and a
//! measurement of it would be too low.

use std::time::{Duration, Instant};

use super::agent::Agent;
use super::gpu_use::GpuUse;
use super::state::RunnerState;

/// The reason for the end of such a slot.
pub(crate) const REASON: &str = "the model server became ready without memory on its GPUs, \
    so it runs on the CPU; check that the driver works and that the runtime is built for this GPU";

/// Longest wait for a measurement after a model server became ready.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Measures a slot that just became ready, if its runtime loads the model before that. A `command`
/// may load its model later.
pub(crate) fn measure_gpu_use(agent: &Agent, slot: &str) -> GpuUse {
    let began = Instant::now();
    let loads_before_ready = |state: &RunnerState| {
        let launch = state.slots.get(slot).and_then(|slot| slot.record.launch.as_ref());
        launch.is_some_and(|launch| launch.runtime.is_some() && !launch.devices.is_empty())
    };
    let latest = |state: &RunnerState| {
        let slot = state.slots.get(slot).filter(|slot| slot.phase.is_live())?;
        slot.gpu_use.filter(|measured| measured.began >= began)
    };
    let can_measure = agent.shared.update(|state| {
        let can_measure = loads_before_ready(state) && state.telemetry.works();
        state.measure_now |= can_measure;
        can_measure
    });
    if !can_measure {
        return GpuUse::Unknown;
    }
    agent.shared.wait(MEASUREMENT_TIMEOUT, |state| {
        let is_live = state.slots.get(slot).is_some_and(|slot| slot.phase.is_live());
        !is_live || latest(state).is_some() || !state.telemetry.works()
    });
    latest(&agent.shared.lock()).map_or(GpuUse::Unknown, |measured| measured.gpu_use)
}
