//! The order in which slots of a model take new reservations, kept up to date so that a request
//! does not look at every slot.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::units::{Millis, Name};

use super::slots::SlotStage;

/// The slots of every model that can take reservations now or later, best first.
///
/// A reservation joins the slot that will serve it soonest: a running one before a starting one
/// before a pending one. Among equals the one with fewer reservations wins, so that the load is
/// even, then the older one, so that the order is total. A full slot stays counted, because it
/// uses up one of the model's `max_slots`, but is not offered. Each change costs O(log slots);
/// sorting at each request was rejected because one model can have thousands of slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Seating {
    models: BTreeMap<String, ModelSlots>,
    ranks: BTreeMap<Name, Ranked>,
}

#[derive(Clone, Debug, Default)]
struct ModelSlots {
    with_room: BTreeSet<(Rank, Name)>,
    count: u32,
}

#[derive(Clone, Debug)]
struct Ranked {
    model: String,
    rank: Rank,
    has_room: bool,
}

/// Less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    stage: SlotStage,
    taken: u32,
    created: Millis,
}

/// The occupancy of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occupancy {
    pub(super) stage: Option<SlotStage>,
    pub(super) taken: u32,
    /// The reservations that it takes at most; what it has already, once it is retired.
    pub(super) limit: u32,
}

impl Seating {
    /// Ranks a slot by its occupancy. One that is releasing, gone, or on a silent runner is taken
    /// out: nothing can be promised of it.
    pub(super) fn update(&mut self, slot: &Name, model: &str, created: Millis, now: Occupancy) {
        self.remove(slot);
        let usable = now.stage.filter(|stage| *stage < SlotStage::Unknown); // mutant: silent-slots
        let Some(stage) = usable else { return };
        let rank = Rank { stage, taken: now.taken, created };
        let has_room = now.taken < now.limit;
        let slots = self.models.entry(model.to_string()).or_default();
        slots.count += 1;
        if has_room {
            slots.with_room.insert((rank, slot.clone()));
        }
        self.ranks.insert(slot.clone(), Ranked { model: model.to_string(), rank, has_room });
    }

    pub(super) fn remove(&mut self, slot: &Name) {
        let Some(ranked) = self.ranks.remove(slot) else { return };
        let Some(slots) = self.models.get_mut(&ranked.model) else { return };
        slots.count -= 1;
        if ranked.has_room {
            slots.with_room.remove(&(ranked.rank, slot.clone()));
        }
        if slots.count == 0 {
            self.models.remove(&ranked.model);
        }
    }

    /// Returns the best slot of a model that has room, with its stage.
    pub(super) fn best(&self, model: &str) -> Option<(SlotStage, &Name)> {
        self.models.get(model)?.with_room.first().map(|(rank, slot)| (rank.stage, slot))
    }

    /// Returns the number of slots of a model that serve or will serve, full ones included.
    pub(super) fn count(&self, model: &str) -> u32 {
        self.models.get(model).map_or(0, |slots| slots.count)
    }
}
