//! Slots that have ended, kept for a limited time and number, so that an operator can see how.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use plimsoll_core::rejection::Rejection;
use plimsoll_core::units::{Millis, Name};
use serde::{Deserialize, Serialize};

use super::reasons::Loss;
use super::slots::Slot;
use crate::size::Span;

/// The limits on the ended slots that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedSlotLimits {
    pub count: usize,
    pub keep: Span,
}

impl EndedSlotLimits {
    pub const DEFAULT: EndedSlotLimits =
        EndedSlotLimits { count: 1000, keep: Span::seconds(24 * 60 * 60) };
}

/// A slot that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedSlot {
    /// The slot as it was at its end; its life has the runner and the failure.
    pub slot: Arc<Slot>,
    pub at: Millis,
    pub ending: SlotEnding,
}

/// The cause of the end of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotEnding {
    /// It never had GPUs, and no reservation waited for it any more.
    Withdrawn,
    /// No empty fleet could hold it.
    Impossible { rejection: Arc<Rejection> },
    /// It had GPUs.
    Lost(Loss),
}

impl SlotEnding {
    /// Returns its name in the API.
    pub fn name(&self) -> &'static str {
        match self {
            SlotEnding::Withdrawn => "withdrawn",
            SlotEnding::Impossible { .. } => "impossible",
            SlotEnding::Lost(Loss::Evicted) => "evicted",
            SlotEnding::Lost(Loss::Stopped) => "stopped",
            SlotEnding::Lost(Loss::Drained { .. }) => "drained",
            SlotEnding::Lost(Loss::ModelRemoved) => "model_removed",
            SlotEnding::Lost(Loss::Ended { .. }) => "ended",
        }
    }
}

/// The ended slots, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedSlots {
    by_age: VecDeque<Arc<EndedSlot>>,
    by_id: BTreeMap<Name, Arc<EndedSlot>>,
}

impl EndedSlots {
    pub(super) fn restore(rows: Vec<Arc<EndedSlot>>) -> EndedSlots {
        let mut ended = EndedSlots::default();
        rows.into_iter().for_each(|row| ended.add(row));
        ended
    }

    pub(super) fn state(&self) -> Vec<Arc<EndedSlot>> {
        self.by_age.iter().cloned().collect()
    }

    /// Adds a slot. An earlier one of the same name, which a runner may report again, is replaced.
    pub(super) fn add(&mut self, ended: Arc<EndedSlot>) {
        self.forget(&ended.slot.id);
        self.by_id.insert(ended.slot.id.clone(), ended.clone());
        self.by_age.push_back(ended);
    }

    pub(super) fn forget(&mut self, id: &Name) {
        if self.by_id.remove(id).is_some() {
            self.by_age.retain(|ended| ended.slot.id != *id);
        }
    }

    /// Forgets the oldest ones, up to a number.
    pub(super) fn forget_oldest(&mut self, number: usize) {
        for ended in self.by_age.drain(..number.min(self.by_age.len())) {
            self.by_id.remove(&ended.slot.id);
        }
    }

    /// Returns how many of the oldest exceed the limits.
    pub(super) fn excess(&self, limits: EndedSlotLimits, now: Millis) -> usize {
        let expired = self.by_age.iter().take_while(|row| row.at.after(limits.keep.into()) <= now);
        expired.count().max(self.by_age.len().saturating_sub(limits.count))
    }

    pub(super) fn get(&self, id: &str) -> Option<&Arc<EndedSlot>> {
        self.by_id.get(id)
    }

    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Arc<EndedSlot>> {
        self.by_age.iter().rev()
    }
}
