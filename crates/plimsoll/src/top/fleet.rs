//! The state of a server at one time.

use plimsoll_api::rows::{
    DecisionRow, GpuRow, QueueRow, RunnerRow, RunnerState, RunnerStatus, SlotRow, Time,
};

/// The state of a server.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    /// The runners. The GPUs of a runner are empty until they are requested.
    pub(crate) runners: Vec<RunnerStatus>,
    pub(crate) queue: Vec<QueueRow>,
    /// The latest decisions, the newest first.
    pub(crate) decisions: Vec<DecisionRow>,
    /// The slots, if they were requested.
    pub(crate) asked_slots: Option<Vec<SlotRow>>,
    pub(crate) at: Time,
}

/// A line of the GPU view, by the positions of runner and GPU. A runner without GPUs has one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) runner: usize,
    pub(crate) gpu: usize,
}

impl Fleet {
    /// Returns the slots; none if they were not requested.
    pub(crate) fn slots(&self) -> &[SlotRow] {
        self.asked_slots.as_deref().unwrap_or_default()
    }

    /// Returns every line of the GPU view, including GPUs that were not requested yet.
    pub(crate) fn spots(&self) -> Vec<Spot> {
        let mut spots = Vec::new();
        for (runner, row) in self.runners.iter().enumerate() {
            spots.extend((0..gpu_count(row).max(1)).map(|gpu| Spot { runner, gpu }));
        }
        spots
    }

    /// Returns the runner of a line, and its GPU if it is known.
    pub(crate) fn at_spot(&self, spot: Spot) -> Option<(&RunnerRow, Option<&GpuRow>)> {
        let row = self.runners.get(spot.runner)?;
        Some((&row.runner, row.gpus.get(spot.gpu)))
    }

    /// Returns the number of GPUs.
    pub(crate) fn gpu_count(&self) -> usize {
        self.runners.iter().map(gpu_count).sum()
    }

    /// Returns the number of GPUs that are known to be overcommitted.
    pub(crate) fn overcommitted(&self) -> usize {
        let gpus = self.runners.iter().flat_map(|row| &row.gpus);
        gpus.filter(|gpu| gpu.device.is_over()).count()
    }

    /// Returns the number of runners that are not online.
    pub(crate) fn offline(&self) -> usize {
        let runners = self.runners.iter();
        runners.filter(|row| row.runner.status != RunnerState::Online).count()
    }
}

fn gpu_count(row: &RunnerStatus) -> usize {
    row.runner.gpu_count.max(row.gpus.len())
}
