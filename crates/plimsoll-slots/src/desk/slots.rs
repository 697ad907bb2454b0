//! Slots: model server processes, existing or about to be started. What they hold is in the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Name};
use serde::{Deserialize, Serialize};

use super::ChangeLog;
use super::ended::{EndedSlot, EndedSlotLimits, EndedSlots, SlotEnding};
use super::models::after;
use super::reasons::{Loss, SlotFailure};
use super::seating::{Occupancy, Seating};
use crate::memory::Source;
use crate::model::Model;
use crate::translate;

/// A model server process on specific GPUs of one runner, or one that is to become that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Such as `slot-7`; also the name of its request in the ledger.
    pub id: Name,
    pub model: String,
    /// The declaration that it was created from; `None` if a runner reported a slot that this
    /// server did not create.
    pub made_from: Option<Arc<Model>>,
    pub created: Millis,
    /// The source of its charge, for each number of GPUs that it may be split over.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub basis: BTreeMap<u16, Source>,
    pub life: Life,
}

impl Slot {
    /// Returns the id of its request in the ledger.
    pub fn request(&self) -> RequestId {
        translate::slot_request_id(&self.model, &self.id)
    }
}

/// The part of a slot that changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The time when its start was ordered; `None` before, and again once it has run. A slot that
    /// has this has never served, so its reservations can move to another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Millis>,
    /// True once a client has released a reservation that the slot served. Noted only of a slot
    /// whose measurement depends on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub served: bool,
    /// The runner of its last start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<Name>,
    /// The cause of its end, from when it is being stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// The reason for the last failed start, or for the end of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<SlotFailure>,
}

/// The stage of a slot, the nearest to serving first. Derived from the core's stage of its charge
/// and from whether its runner is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotStage {
    /// Its model server is ready.
    Running,
    /// It has its GPUs, and its model server is not ready yet.
    Starting,
    /// It is pending in the core.
    Pending,
    /// It has its GPUs, and its runner is silent.
    Unknown,
    /// It is being stopped, and its memory is still charged.
    Releasing,
}

impl SlotStage {
    /// Returns its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            SlotStage::Pending => "pending",
            SlotStage::Starting => "starting",
            SlotStage::Running => "running",
            SlotStage::Unknown => "unknown",
            SlotStage::Releasing => "releasing",
        }
    }
}

/// All slots, and the order in which they take reservations.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    slots: BTreeMap<Name, Arc<Slot>>,
    ended: EndedSlots,
    by_model: BTreeMap<String, BTreeSet<Name>>,
    next_number: u64,
    seating: Seating,
    /// True once the slots that recovery restored have been ranked. Ranking needs the ledger, which
    /// a recovery builds separately.
    is_ranked: bool,
}

/// A journalled change of `Slots`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotChange {
    Put(Arc<Slot>),
    Life {
        slot: Name,
        life: Life,
    },
    /// A slot of an earlier version was removed without a record.
    Removed(Name),
    Ended(Arc<EndedSlot>),
    /// The oldest ended slots are forgotten.
    Forgotten(usize),
}

/// The saved form of `Slots`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotsState {
    slots: Vec<Arc<Slot>>,
    #[serde(default)]
    ended: Vec<Arc<EndedSlot>>,
    next_number: u64,
}

/// Numbers above this are ignored when a runner reports a slot: a made-up name must not use up the
/// numbers of slots to come.
const MAX_REPORTED_NUMBER: u64 = 1 << 40;

impl Slots {
    pub(super) fn restore(state: SlotsState) -> Slots {
        let mut slots = Slots::default();
        state.slots.into_iter().for_each(|slot| slots.apply(SlotChange::Put(slot)));
        slots.ended = EndedSlots::restore(state.ended);
        slots.next_number = state.next_number;
        slots
    }

    pub(super) fn state(&self) -> SlotsState {
        SlotsState {
            slots: self.slots.values().cloned().collect(),
            ended: self.ended.state(),
            next_number: self.next_number,
        }
    }

    /// Makes a change; the same for a new one and for recovery.
    pub(super) fn apply(&mut self, change: SlotChange) {
        match change {
            SlotChange::Put(slot) => {
                self.forget(&slot.id);
                if let Some(number) = number(&slot.id) {
                    self.next_number = self.next_number.max(number + 1);
                }
                self.by_model.entry(slot.model.clone()).or_default().insert(slot.id.clone());
                self.slots.insert(slot.id.clone(), slot);
            }
            SlotChange::Life { slot, life } => {
                if let Some(slot) = self.slots.get_mut(&slot) {
                    Arc::make_mut(slot).life = life;
                }
            }
            SlotChange::Removed(id) => self.take_out(&id),
            SlotChange::Ended(ended) => {
                self.take_out(&ended.slot.id);
                self.ended.add(ended);
            }
            SlotChange::Forgotten(number) => self.ended.forget_oldest(number),
        }
    }

    fn take_out(&mut self, id: &Name) {
        self.forget(id);
        self.seating.remove(id);
    }

    fn forget(&mut self, id: &Name) {
        let Some(slot) = self.slots.remove(id) else { return };
        if let Some(ids) = self.by_model.get_mut(&slot.model) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_model.remove(&slot.model);
            }
        }
    }

    fn change(&mut self, log: &mut ChangeLog, change: SlotChange) {
        log.push(change.clone());
        self.apply(change);
    }

    /// Creates a slot of a model; the core does not know of it yet.
    pub(super) fn create(
        &mut self,
        log: &mut ChangeLog,
        model: Arc<Model>,
        basis: BTreeMap<u16, Source>,
        created: Millis,
    ) -> Name {
        let id = self.unused_id();
        let slot = Slot {
            id: id.clone(),
            model: model.name().to_string(),
            made_from: Some(model),
            created,
            basis,
            life: Life::default(),
        };
        self.change(log, SlotChange::Put(Arc::new(slot)));
        id
    }

    /// Adds a slot that a runner reported and this server did not create.
    pub(super) fn adopt(&mut self, log: &mut ChangeLog, slot: Slot) {
        self.change(log, SlotChange::Put(Arc::new(slot)));
    }

    pub(super) fn change_life(
        &mut self,
        log: &mut ChangeLog,
        id: &Name,
        edit: impl FnOnce(&mut Life),
    ) {
        let Some(slot) = self.slots.get(id) else { return };
        let mut life = slot.life.clone();
        edit(&mut life);
        if life != slot.life {
            self.change(log, SlotChange::Life { slot: id.clone(), life });
        }
    }

    /// Removes a slot, and keeps the record of its end.
    pub(super) fn end(&mut self, log: &mut ChangeLog, id: &Name, ending: SlotEnding, at: Millis) {
        if let Some(slot) = self.slots.get(id).cloned() {
            self.change(log, SlotChange::Ended(Arc::new(EndedSlot { slot, at, ending })));
        }
    }

    /// Forgets the ended slots beyond the limits.
    pub(super) fn forget_ended(
        &mut self,
        log: &mut ChangeLog,
        limits: EndedSlotLimits,
        now: Millis,
    ) {
        match self.ended.excess(limits, now) {
            0 => {}
            excess => self.change(log, SlotChange::Forgotten(excess)),
        }
    }

    pub(super) fn ended(&self) -> &EndedSlots {
        &self.ended
    }

    fn unused_id(&self) -> Name {
        let ids = (self.next_number.max(1)..).map(|number| Name::from(format!("slot-{number}")));
        ids.into_iter()
            .find(|id| !self.slots.contains_key(id))
            .expect("there are more numbers than slots")
    }

    /// Updates a slot's rank among those that take reservations.
    pub(super) fn rank(&mut self, id: &Name, occupancy: Occupancy) {
        if let Some(slot) = self.slots.get(id) {
            self.seating.update(id, &slot.model, slot.created, occupancy);
        }
    }

    /// Returns the slots that recovery restored and that have not been ranked yet: all at the first
    /// call, none later.
    pub(super) fn take_unranked(&mut self) -> Vec<Name> {
        match std::mem::replace(&mut self.is_ranked, true) {
            true => Vec::new(),
            false => self.slots.keys().cloned().collect(),
        }
    }

    /// Returns the slot of a model that a new reservation should join, with its stage.
    pub(super) fn best_with_room(&self, model: &str) -> Option<(SlotStage, &Name)> {
        self.seating.best(model)
    }

    /// Returns the number of slots of a model that serve or will serve.
    pub(super) fn usable_count(&self, model: &str) -> u32 {
        self.seating.count(model)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn get(&self, id: &str) -> Option<&Arc<Slot>> {
        self.slots.get(id)
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.slots.contains_key(id)
    }

    /// Returns the slot of a request in the core; requests of another model under the same name are
    /// not it.
    pub(super) fn of_request(&self, request: &RequestId) -> Option<&Arc<Slot>> {
        self.slots.get(&request.name).filter(|slot| slot.request() == *request)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.slots.values()
    }

    pub(super) fn after<'a>(&'a self, id: Option<&'a str>) -> impl Iterator<Item = &'a Arc<Slot>> {
        self.slots.range::<str, _>(after(id)).map(|(_, slot)| slot)
    }

    pub(super) fn of_model(&self, model: &str) -> impl Iterator<Item = &Arc<Slot>> {
        self.by_model.get(model).into_iter().flatten().filter_map(|id| self.slots.get(id))
    }
}

/// Returns the number in a slot's name, where it is one that this server could have given.
fn number(id: &str) -> Option<u64> {
    let (name, _) = id.split_once('@').unwrap_or((id, ""));
    let number = name.strip_prefix("slot-")?.parse::<u64>().ok()?;
    (number < MAX_REPORTED_NUMBER).then_some(number)
}
