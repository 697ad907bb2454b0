//! How many there are of what: counted in one look at every slot, when somebody asks.

use std::collections::BTreeMap;

use super::Desk;
use super::views::{PlaceStatus, SlotStage};

/// The slots of a model by where they are in their lives, and the places by how they stand. What is over is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Slots that wait for a device.
    pub waiting: u64,
    /// Slots that have their devices, and do not serve yet.
    pub starting: u64,
    /// Slots that serve.
    pub running: u64,
    /// Slots of which nobody knows, since their runner is silent.
    pub unknown: u64,
    /// Slots that were asked to go.
    pub releasing: u64,
    /// Places that no slot has a device for yet.
    pub places_waiting: u64,
    /// Places whose slot has its devices, and does not serve yet.
    pub places_coming: u64,
    /// Places whose slot serves.
    pub places_ready: u64,
}

impl Desk {
    /// The census of every model that is declared or has a slot.
    pub fn census(&self) -> BTreeMap<&str, Census> {
        let mut models: BTreeMap<&str, Census> =
            self.models().map(|m| (m.name(), Census::default())).collect();
        for slot in self.slots() {
            let census = models.entry(&slot.model).or_default();
            let holding = self.holding(slot).map(|(_, holding)| holding);
            let places = match PlaceStatus::within(&slot.id, holding) {
                PlaceStatus::Ready { .. } => &mut census.places_ready,
                PlaceStatus::Coming { .. } => &mut census.places_coming,
                PlaceStatus::Waiting | PlaceStatus::Ended { .. } => &mut census.places_waiting,
            };
            *places += u64::from(self.active_requests(slot));
            let slots = match self.stage_with(slot, holding) {
                SlotStage::Waiting => &mut census.waiting,
                SlotStage::Starting => &mut census.starting,
                SlotStage::Running => &mut census.running,
                SlotStage::Unknown => &mut census.unknown,
                SlotStage::Releasing => &mut census.releasing,
                SlotStage::Gone => continue,
            };
            *slots += 1;
        }
        for (model, places) in &self.state.waiting_for {
            models.entry(model).or_default().places_waiting += places.len() as u64;
        }
        models
    }
}
