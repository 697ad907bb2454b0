//! Counts of slots and reservations, taken in one pass when metrics are read.

use std::collections::BTreeMap;

use super::slots::SlotStage;
use super::{DeskView, ReservationStatus};

/// The slots of a model by stage, and its reservations by status. Ended reservations are not
/// counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub pending: u64,
    pub starting: u64,
    pub running: u64,
    pub unknown: u64,
    pub releasing: u64,
    pub reservations_pending: u64,
    pub reservations_starting: u64,
    pub reservations_ready: u64,
}

impl<'a> DeskView<'a> {
    /// Counts for every model that is declared or has a slot.
    pub fn census(self) -> BTreeMap<&'a str, Census> {
        let mut models: BTreeMap<&str, Census> =
            self.models().map(|model| (model.name(), Census::default())).collect();
        for slot in self.slots() {
            let census = models.entry(&slot.model).or_default();
            let holding = self.holding(slot).map(|(_, holding)| holding);
            let reservations = match ReservationStatus::in_slot(&slot.id, holding) {
                ReservationStatus::Ready { .. } => &mut census.reservations_ready,
                ReservationStatus::Starting { .. } => &mut census.reservations_starting,
                ReservationStatus::Pending | ReservationStatus::Ended(_) => {
                    &mut census.reservations_pending
                }
            };
            *reservations += u64::from(self.active_requests(slot));
            let slots = match self.stage_with(slot, holding) {
                Some(SlotStage::Pending) => &mut census.pending,
                Some(SlotStage::Starting) => &mut census.starting,
                Some(SlotStage::Running) => &mut census.running,
                Some(SlotStage::Unknown) => &mut census.unknown,
                Some(SlotStage::Releasing) => &mut census.releasing,
                None => continue,
            };
            *slots += 1;
        }
        for (model, count) in self.desk.reservations.pending_counts() {
            models.entry(model).or_default().reservations_pending += count;
        }
        models
    }
}
