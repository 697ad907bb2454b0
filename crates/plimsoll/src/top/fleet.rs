//! The state of a server at one time.

use std::cmp::Reverse;

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
    /// The output of a slot, if it was requested.
    pub(crate) log: Option<String>,
    pub(crate) at: Time,
}

/// The order of the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// As the server sends it.
    #[default]
    Usual,
    /// By model; runners with the least free memory first.
    Model,
    /// The newest first; the busiest runners first.
    Age,
}

impl Sort {
    pub(crate) fn next(self) -> Sort {
        match self {
            Sort::Usual => Sort::Model,
            Sort::Model => Sort::Age,
            Sort::Age => Sort::Usual,
        }
    }

    /// Returns its name for the lists, and for the GPUs.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Sort::Usual => ("usual order", "by name"),
            Sort::Model => ("by model", "least free first"),
            Sort::Age => ("newest first", "busiest first"),
        }
    }
}

/// A line of the GPU view, by the positions of runner and GPU. A runner without GPUs has one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) runner: usize,
    pub(crate) gpu: usize,
}

impl Fleet {
    /// Returns the rows with a text in their names, in an order.
    pub(crate) fn selected(&self, filter: &str, sort: Sort) -> Fleet {
        let wanted = filter.to_lowercase();
        let has = |names: &[Option<&str>]| {
            wanted.is_empty()
                || names.iter().flatten().any(|name| name.to_lowercase().contains(&wanted))
        };
        let mut fleet = self.clone();
        fleet.runners.retain(|row| has_text(row, &has));
        fleet.queue.retain(|row| has(&[Some(&row.id), Some(&row.model)]));
        fleet.decisions.retain(|row| {
            has(&[Some(&row.model), row.slot_id.as_deref(), row.runner_id.as_deref()])
        });
        if let Some(slots) = &mut fleet.asked_slots {
            slots.retain(|row| has(&[Some(&row.id), Some(&row.model), row.runner_id.as_deref()]));
        }
        fleet.sort(sort);
        fleet
    }

    fn sort(&mut self, sort: Sort) {
        match sort {
            Sort::Usual => {}
            Sort::Model => {
                self.runners.sort_by_key(|row| row.runner.free);
                self.queue.sort_by(|one, other| one.model.cmp(&other.model));
                self.decisions.sort_by(|one, other| one.model.cmp(&other.model));
                if let Some(slots) = &mut self.asked_slots {
                    slots.sort_by(|one, other| one.model.cmp(&other.model));
                }
            }
            Sort::Age => {
                let busy =
                    |row: &RunnerStatus| row.gpus.iter().filter_map(|gpu| gpu.utilisation).max();
                self.runners.sort_by_key(|row| Reverse(busy(row)));
                self.queue.sort_by_key(|row| Reverse(row.created));
                if let Some(slots) = &mut self.asked_slots {
                    slots.sort_by_key(|row| Reverse(row.created));
                }
            }
        }
    }

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

/// Returns whether a runner, one of its labels or one of its holders has a text.
fn has_text(row: &RunnerStatus, has: &dyn Fn(&[Option<&str>]) -> bool) -> bool {
    let holders = row.gpus.iter().flat_map(|gpu| &gpu.device.tenants);
    let labels = row.runner.labels.iter();
    has(&[Some(&row.runner.runner_id)])
        || labels.map(|(key, value)| format!("{key}={value}")).any(|label| has(&[Some(&label)]))
        || holders.into_iter().any(|tenant| has(&[Some(&tenant.pod), Some(&tenant.namespace)]))
}

fn gpu_count(row: &RunnerStatus) -> usize {
    row.runner.gpu_count.max(row.gpus.len())
}
