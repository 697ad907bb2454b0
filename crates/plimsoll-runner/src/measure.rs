//! Measures the devices and counts the processes, again and again, in a thread of its own: a meter that hangs delays no report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use tracing::{info, warn};

use super::agent::Agent;
use super::books::{Books, Phase};
use super::evidence::SLACK;
use super::meter::Meter;
use super::processes::ProcessTable;
use super::record::Baselines;

/// Measurements are at least so far apart.
const SOONEST: Duration = Duration::from_millis(50);

/// Begins to measure.
pub(crate) fn begin(agent: &Arc<Agent>, mut meter: Box<dyn Meter>) {
    let agent = Arc::clone(agent);
    thread::spawn(move || {
        let mut kept = Baselines::default();
        loop {
            once(&agent, meter.as_mut());
            let learnt = agent.shared.open().gauge.baselines.clone();
            if has_moved(&kept, &learnt) {
                if let Err(error) = agent.state.keep_baselines(&learnt) {
                    warn!(%error, "what the devices usually show cannot be written down");
                }
                kept = learnt;
            }
            thread::sleep(SOONEST);
            let pause = agent.shared.open().pause();
            agent.shared.wait(pause, |books| books.wants_measure);
        }
    });
}

/// Whether what was learnt is worth writing down again: small differences do not change a judgement.
fn has_moved(kept: &Baselines, learnt: &Baselines) -> bool {
    let differs = |before: &BTreeMap<u16, u64>, now: &BTreeMap<u16, u64>| {
        now.iter().any(|(index, bytes)| {
            before.get(index).is_none_or(|kept| kept.abs_diff(*bytes) > SLACK / 4)
        })
    };
    differs(&kept.unexplained, &learnt.unexplained) || differs(&kept.idle, &learnt.idle)
}

/// Measures once.
pub(crate) fn once(agent: &Agent, meter: &mut dyn Meter) {
    agent.shared.open().wants_measure = false;
    // Processes are counted before and after: one that ends while the meter reads still belongs to its slot.
    let before = ProcessTable::read(&agent.owner);
    if let Ok(census) = &before {
        agent.shared.open().counted(census);
    }
    let began = Instant::now();
    let readings = meter.read();
    let census = ProcessTable::read(&agent.owner).context("could not look at the processes");
    agent.shared.change(|books| match readings.and_then(|readings| Ok((readings, census?))) {
        Ok((readings, census)) => {
            if books.gauge.failure.is_some() {
                info!("measuring works again");
            }
            books.counted(&census);
            if books.measured(began, &readings, &census) {
                warn!("the health of a device has changed");
                books.is_registered = false;
                books.news += 1;
            }
        }
        Err(error) => {
            let why = format!("{error:#}");
            if books.gauge.failure.as_ref() != Some(&why) {
                warn!(why, "measuring fails; the last good numbers stand");
            }
            books.unmeasured(why);
        }
    });
}

impl Books {
    /// How long until the next measurement: as long as between reports, and shorter while somebody waits for memory to come back.
    fn pause(&self) -> Duration {
        let is_awaited = self.slots.values().any(|slot| matches!(slot.phase, Phase::Draining(_)));
        if is_awaited { self.heartbeat / 4 } else { self.heartbeat }
    }
}
