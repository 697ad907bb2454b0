//! Which slot of a model is the best to join, and how many there are: kept up to date, so that an ask costs no look at all slots.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::units::{Millis, Name};

use super::views::SlotStage;

/// The slots of every model that are not on their way out, best first.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranks {
    models: BTreeMap<String, Ranked>,
    ranks: BTreeMap<Name, (String, Rank, bool)>,
}

#[derive(Clone, Debug, Default)]
struct Ranked {
    with_room: BTreeSet<(Rank, Name)>,
    standing: u32,
}

/// Less is better: nearer to serving, then fewer places taken, then older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    stage: SlotStage,
    taken: u32,
    created: Millis,
}

impl Rank {
    /// The rank of a slot in a stage; `None` for one that is on its way out, or of which nobody knows.
    pub(super) fn of(stage: SlotStage, taken: u32, created: Millis) -> Option<Rank> {
        (stage < SlotStage::Unknown).then_some(Rank { stage, taken, created }) // mutant: silent-slots
    }
}

impl Ranks {
    /// A slot is as it says from here on; without a rank it counts no more.
    pub(super) fn put(&mut self, slot: &Name, model: &str, rank: Option<Rank>, has_room: bool) {
        if let Some((model, rank, had_room)) = self.ranks.remove(slot)
            && let Some(ranked) = self.models.get_mut(&model)
        {
            ranked.standing -= 1;
            if had_room {
                ranked.with_room.remove(&(rank, slot.clone()));
            }
            if ranked.standing == 0 {
                self.models.remove(&model);
            }
        }
        if let Some(rank) = rank {
            let ranked = self.models.entry(model.to_string()).or_default();
            ranked.standing += 1;
            if has_room {
                ranked.with_room.insert((rank, slot.clone()));
            }
            self.ranks.insert(slot.clone(), (model.to_string(), rank, has_room));
        }
    }

    /// The best slot of a model that has room.
    pub(super) fn best(&self, model: &str) -> Option<&Name> {
        self.best_with_stage(model).map(|(_, slot)| slot)
    }

    /// The best slot of a model that has room, and where it is in its life.
    pub(super) fn best_with_stage(&self, model: &str) -> Option<(SlotStage, &Name)> {
        self.models.get(model)?.with_room.first().map(|(rank, slot)| (rank.stage, slot))
    }

    /// How many slots of a model can be counted on.
    pub(super) fn standing(&self, model: &str) -> u32 {
        self.models.get(model).map_or(0, |ranked| ranked.standing)
    }
}
