//! The recent past of each GPU, for sparklines.

use std::collections::{BTreeMap, VecDeque};

use plimsoll_api::rows::{GpuRow, RunnerStatus};

/// The samples that are kept for each GPU.
const SAMPLES: usize = 240;

/// The heights of a sparkline, from 0 to 100 percent.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A GPU at one time, in percent; `None` where it is not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    busy: Option<u8>,
    memory: Option<u8>,
}

/// The recent past of all GPUs.
#[derive(Debug, Default)]
pub(crate) struct History(BTreeMap<(String, u16), VecDeque<Sample>>);

impl History {
    /// Adds a sample of each GPU that was requested, and forgets removed runners.
    pub(crate) fn add(&mut self, runners: &[RunnerStatus]) {
        self.0.retain(|(name, _), _| runners.iter().any(|row| row.runner.runner_id == *name));
        for row in runners {
            for gpu in &row.gpus {
                let samples = self.0.entry((row.runner.runner_id.clone(), gpu.index)).or_default();
                samples.push_back(Sample { busy: gpu.utilisation, memory: memory(gpu) });
                let excess = samples.len().saturating_sub(SAMPLES);
                samples.drain(..excess);
            }
        }
    }

    /// Returns the sparklines of utilisation and memory, the newest sample at the right; `None`
    /// without samples.
    pub(crate) fn sparklines(
        &self,
        runner: &str,
        index: u16,
        width: usize,
    ) -> Option<(String, String)> {
        let samples = self.0.get(&(runner.to_string(), index))?;
        let skipped = samples.len().saturating_sub(width);
        let line = |value: fn(&Sample) -> Option<u8>| {
            samples.iter().skip(skipped).map(|sample| level(value(sample))).collect()
        };
        Some((line(|sample| sample.busy), line(|sample| sample.memory)))
    }
}

/// Returns the charged memory in percent.
fn memory(gpu: &GpuRow) -> Option<u8> {
    let (usable, free) = (gpu.device.usable?.get(), gpu.device.free.unwrap_or_default().get());
    let held = u128::from(usable.saturating_sub(free)) * 100 / u128::from(usable.max(1));
    u8::try_from(held.min(100)).ok()
}

fn level(percent: Option<u8>) -> char {
    match percent {
        None => ' ',
        Some(percent) => LEVELS[usize::from(percent.min(100)) * (LEVELS.len() - 1) / 100],
    }
}
