//! What was seen of a server at one time.

use crate::client::rows::{DecisionRow, GpuRow, Moment, QueueRow, RunnerRow, SlotRow};

/// What was seen of a server.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    /// The runners, with the GPUs of those that were looked at.
    pub(crate) runners: Vec<RunnerRow>,
    /// Who waits, in turn.
    pub(crate) queue: Vec<QueueRow>,
    /// The last decisions, the newest first.
    pub(crate) decisions: Vec<DecisionRow>,
    /// The slots, where they were asked for.
    pub(crate) asked_slots: Option<Vec<SlotRow>>,
    /// When that was.
    pub(crate) at: Moment,
}

/// A line of the view of GPUs: a GPU of a runner, by their positions. A runner without GPUs has one line all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Which runner.
    pub(crate) runner: usize,
    /// Which GPU of it.
    pub(crate) gpu: usize,
}

impl Fleet {
    /// The slots that were seen.
    pub(crate) fn slots(&self) -> &[SlotRow] {
        self.asked_slots.as_deref().unwrap_or_default()
    }

    /// Every line of the view of GPUs. A runner that was not looked at yet has as many as it will have.
    pub(crate) fn spots(&self) -> Vec<Spot> {
        let lines = |row: &RunnerRow| row.gpu_count.max(row.gpus.len()).max(1);
        let runners = self.runners.iter().enumerate();
        runners
            .flat_map(|(runner, row)| (0..lines(row)).map(move |gpu| Spot { runner, gpu }))
            .collect()
    }

    /// The runner of a line, and its GPU where it is known.
    pub(crate) fn at_spot(&self, spot: Spot) -> Option<(&RunnerRow, Option<&GpuRow>)> {
        let runner = self.runners.get(spot.runner)?;
        Some((runner, runner.gpus.get(spot.gpu)))
    }

    /// How many GPUs there are.
    pub(crate) fn gpu_count(&self) -> usize {
        self.runners.iter().map(|row| row.gpu_count.max(row.gpus.len())).sum()
    }

    /// How many GPUs are known to hold more than they have.
    pub(crate) fn over(&self) -> usize {
        self.runners.iter().flat_map(|row| &row.gpus).filter(|gpu| gpu.is_over()).count()
    }

    /// How many runners are not heard.
    pub(crate) fn silent(&self) -> usize {
        self.runners
            .iter()
            .filter(|row| row.status.as_deref().is_some_and(|status| status != "online"))
            .count()
    }
}
