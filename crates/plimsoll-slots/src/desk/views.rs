//! What there is to see of the desk. Everything about memory is read from the ledger.

use std::ops::Bound;
use std::sync::Arc;

use plimsoll_core::charge::{Activity, Holding, HoldingId, Stage};
use plimsoll_core::evict::{self, Stays};
use plimsoll_core::queue::Waiting;
use plimsoll_core::units::{Millis, Name};

use super::state::{Ending, Place, PlaceState, Runner, Slot};
use super::{Desk, Live};
use crate::model::Model;
use crate::wire::SlotReport;

/// Where a slot is in its life, the nearest to serving first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotStage {
    /// It serves.
    Running,
    /// It has its devices, and does not serve yet.
    Starting,
    /// It waits for a device.
    Waiting,
    /// It has its devices, and its runner is silent: nobody knows whether it serves.
    Unknown,
    /// It was asked to go.
    Releasing,
    /// It is not there any more.
    Gone,
}

impl SlotStage {
    /// Its name in front of people.
    pub fn name(self) -> &'static str {
        match self {
            SlotStage::Waiting => "waiting",
            SlotStage::Starting => "starting",
            SlotStage::Running => "running",
            SlotStage::Unknown => "unknown",
            SlotStage::Releasing => "releasing",
            SlotStage::Gone => "gone",
        }
    }
}

/// How a place stands, in front of the one who asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceStatus {
    /// No slot has a device for it yet.
    Waiting,
    /// Its slot has its devices and does not serve yet.
    Coming {
        /// The slot.
        slot: Name,
    },
    /// Its slot serves.
    Ready {
        /// The slot.
        slot: Name,
    },
    /// Over.
    Ended {
        /// How.
        how: Ending,
        /// Why.
        reason: String,
    },
}

impl PlaceStatus {
    /// How the places in a slot stand that holds this.
    pub(super) fn within(slot: &Name, holding: Option<&Holding>) -> PlaceStatus {
        match holding.map(|holding| holding.stage) {
            Some(Stage::Running { .. }) => PlaceStatus::Ready { slot: slot.clone() },
            Some(Stage::Offered { .. } | Stage::Sent) => PlaceStatus::Coming { slot: slot.clone() },
            Some(Stage::Releasing { .. }) | None => PlaceStatus::Waiting,
        }
    }

    /// Whether it is served.
    pub fn is_ready(&self) -> bool {
        matches!(self, PlaceStatus::Ready { .. })
    }

    /// Whether it will not change by itself any more, or is served.
    pub fn is_settled(&self) -> bool {
        matches!(self, PlaceStatus::Ready { .. } | PlaceStatus::Ended { .. })
    }
}

/// Whether a slot may be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evictable {
    /// It may go, since when.
    Since(Millis),
    /// It may not, and why.
    No(Stays),
}

/// Somebody who waits: a slot for a device, or a place for a slot.
#[derive(Clone, Debug)]
pub enum Unplaced<'a> {
    /// A slot waits for a device, with so many places in it.
    Slot {
        /// The slot.
        slot: &'a Slot,
        /// What the core says of it.
        waiting: &'a Waiting,
        /// Places that wait with it.
        places: u32,
    },
    /// A place waits for room in the slots of its model.
    Place(&'a Place),
}

impl Desk {
    /// The models that are declared, by name.
    pub fn models(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.state.models.values()
    }

    /// A model.
    pub fn model(&self, name: &str) -> Option<&Arc<Model>> {
        self.state.models.get(name)
    }

    /// The models after a name, by name; all of them without one.
    pub fn models_after<'a>(
        &'a self,
        name: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Model>> {
        self.state.models.range::<str, _>(after(name)).map(|(_, model)| model)
    }

    /// When the first of those who wait for a slot gives up.
    pub fn first_deadline(&self, slot: &Slot) -> Option<Millis> {
        let places = self.state.places_in.get(&slot.id).into_iter().flatten();
        places.filter_map(|place| self.state.places.get(place)?.deadline).min()
    }

    /// How long a model took to load the last time, in milliseconds; `None` before it was seen to load.
    pub fn load_time(&self, model: &str) -> Option<u64> {
        self.state.loads.get(model).copied()
    }

    /// The slots of a model.
    pub fn slots_of(&self, model: &str) -> impl Iterator<Item = &Slot> {
        self.state.slots_of(model)
    }

    /// The slots after an id, by id; all of them without one.
    pub fn slots_after<'a>(&'a self, id: Option<&'a str>) -> impl Iterator<Item = &'a Slot> {
        self.state.slots.range::<str, _>(after(id)).map(|(_, slot)| &**slot)
    }

    /// What the runner of a slot reported of it last.
    pub fn report(&self, slot: &Slot) -> Option<&SlotReport> {
        let (_, holding) = self.holding(slot)?;
        let name = super::reports::name_on_runner(&slot.id, &holding.node);
        self.live.get(&holding.node)?.slots.iter().find(|report| report.slot == name)
    }

    /// The slots.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.state.slots.values().map(|slot| &**slot)
    }

    /// A slot.
    pub fn slot(&self, id: &str) -> Option<&Slot> {
        self.state.slots.get(id).map(|slot| &**slot)
    }

    /// The places, by number.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.state.places.values().map(|place| &**place)
    }

    /// The places in a slot.
    pub fn places_in(&self, slot: &str) -> impl Iterator<Item = &Place> {
        self.state.places_in.get(slot).into_iter().flatten().map(|id| &*self.state.places[id])
    }

    /// A place.
    pub fn place(&self, id: u64) -> Option<&Place> {
        self.state.places.get(&id).map(|place| &**place)
    }

    /// The runners, by name.
    pub fn runners(&self) -> impl Iterator<Item = &Runner> {
        self.state.runners.values().map(|runner| &**runner)
    }

    /// The runners after a name, by name; all of them without one.
    pub fn runners_after<'a>(&'a self, name: Option<&'a str>) -> impl Iterator<Item = &'a Runner> {
        self.state.runners.range::<str, _>(after(name)).map(|(_, runner)| &**runner)
    }

    /// A runner.
    pub fn runner(&self, id: &str) -> Option<&Runner> {
        self.state.runners.get(id).map(|runner| &**runner)
    }

    /// What a runner said last; `None` before it said anything.
    pub fn live(&self, runner: &str) -> Option<&Live> {
        self.live.get(runner)
    }

    /// What a slot holds, where it holds something.
    pub fn holding(&self, slot: &Slot) -> Option<(HoldingId, &Holding)> {
        self.scheduler().ledger().of_request(&slot.request())
    }

    /// Where a slot is in its life.
    pub fn stage(&self, slot: &Slot) -> SlotStage {
        self.stage_with(slot, self.holding(slot).map(|(_, holding)| holding))
    }

    /// Where a slot is in its life that holds this.
    pub(super) fn stage_with(&self, slot: &Slot, holding: Option<&Holding>) -> SlotStage {
        match holding.map(|holding| (holding.stage, &holding.node)) {
            Some((Stage::Releasing { .. }, _)) => SlotStage::Releasing,
            Some((_, node)) if self.is_silent(node) => SlotStage::Unknown,
            Some((Stage::Offered { .. } | Stage::Sent, _)) => SlotStage::Starting,
            Some((Stage::Running { .. }, _)) => SlotStage::Running,
            None if self.scheduler().queue().get(&slot.request()).is_some() => SlotStage::Waiting,
            None => SlotStage::Gone,
        }
    }

    /// How many requests a slot serves at once.
    pub fn concurrency(&self, slot: &Slot) -> u32 {
        let model = slot.made_from.as_ref().or_else(|| self.state.models.get(&slot.model));
        model.map_or(1, |model| model.declared().concurrency)
    }

    /// How many places of a slot are taken.
    pub fn active_requests(&self, slot: &Slot) -> u32 {
        self.state.taken(&slot.id)
    }

    /// When a slot last did anything.
    pub fn last_activity(&self, slot: &Slot) -> Millis {
        let joined = self.places_in(&slot.id).filter_map(|place| match place.state {
            PlaceState::In { since, .. } => Some(since),
            _ => None,
        });
        let idle = match self.holding(slot).map(|(_, holding)| holding.activity) {
            Some(Activity::Idle { since }) => Some(since),
            _ => None,
        };
        joined.chain(idle).max().unwrap_or(slot.created)
    }

    /// Whether a slot may be evicted now; `None` where it holds nothing.
    pub fn evictable(&self, slot: &Slot, now: Millis) -> Option<Evictable> {
        let (_, holding) = self.holding(slot)?;
        Some(match evict::evictable(holding, now, self.scheduler().settings().residency) {
            Ok(since) => Evictable::Since(since),
            Err(stays) => Evictable::No(stays),
        })
    }

    /// How a place stands.
    pub fn place_status(&self, id: u64) -> Option<PlaceStatus> {
        let place = self.state.places.get(&id)?;
        Some(match &place.state {
            PlaceState::Waiting => PlaceStatus::Waiting,
            PlaceState::Ended { how, reason, .. } => {
                PlaceStatus::Ended { how: *how, reason: reason.clone() }
            }
            PlaceState::In { slot: id, .. } => {
                let slot = self.state.slots.get(id);
                PlaceStatus::within(
                    id,
                    slot.and_then(|slot| self.holding(slot)).map(|(_, holding)| holding),
                )
            }
        })
    }

    /// Why a place is not served yet, as of now.
    pub fn why_waiting(&self, id: u64) -> String {
        let Some(place) = self.state.places.get(&id) else { return "it is not there".to_string() };
        match &place.state {
            PlaceState::Ended { reason, .. } => reason.clone(),
            PlaceState::Waiting => self.why_full(&place.model),
            PlaceState::In { slot, .. } => match self.state.slots.get(slot) {
                Some(slot) => self.why_slot_waits(slot),
                None => "its slot went".to_string(),
            },
        }
    }

    /// Why a slot does not serve yet.
    pub fn why_slot_waits(&self, slot: &Slot) -> String {
        let failure =
            slot.life.failure.as_ref().map_or(String::new(), |failure| format!(" ({failure})"));
        if let Some(waiting) = self.scheduler().queue().get(&slot.request()) {
            if self.state.runners.is_empty() {
                return "there is no runner yet; start one with `plimsoll runner --server URL`"
                    .to_string();
            }
            return format!("{}{failure}", waiting.reason);
        }
        match self.holding(slot) {
            Some((_, holding)) if let Some(since) = self.silent_since(&holding.node) => format!(
                "{} is on {}, which has been silent since {since}: nobody knows how it is; look after that runner, or remove it",
                slot.id, holding.node
            ),
            Some((_, holding)) => match holding.stage {
                Stage::Offered { .. } => {
                    format!(
                        "{} waits on {} for another start or release there",
                        slot.id, holding.node
                    )
                }
                Stage::Sent => format!("{} starts on {}{failure}", slot.id, holding.node),
                Stage::Running { .. } => format!("{} runs on {}", slot.id, holding.node),
                Stage::Releasing { .. } => {
                    let said = self.report(slot).and_then(|report| report.reason.as_ref());
                    let said = said.map_or(String::new(), |said| format!(" ({said})"));
                    format!("{} is going from {}{said}", slot.id, holding.node)
                }
            },
            None => format!("{} is not there", slot.id),
        }
    }

    fn why_full(&self, model: &str) -> String {
        if let Some(why) = self.state.models.get(model).and_then(|model| self.awaits_file(model)) {
            return why;
        }
        let slots = self.state.slots_of(model).count();
        let most = self.state.models.get(model).map_or(0, |model| model.declared().max_slots);
        let places: u32 = self.state.slots_of(model).map(|slot| self.concurrency(slot)).sum();
        let slot_s = if most == 1 { "slot" } else { "slots" };
        let taken = match places {
            1 => "its one place is taken".to_string(),
            _ => format!("all {places} places are taken"),
        };
        format!("model {model} has {slots} of at most {most} {slot_s}, and {taken}")
    }

    /// Everybody who waits: the slots in the core's turn, then the places that wait for a slot, in theirs.
    pub fn unplaced(&self) -> impl Iterator<Item = Unplaced<'_>> {
        let queue = self.scheduler().queue().iter();
        let slots = queue.filter_map(|waiting| {
            let slot = self.state.slots.get(&waiting.request.id.name)?;
            Some(Unplaced::Slot { slot, waiting, places: self.state.taken(&slot.id) })
        });
        let mut places: Vec<u64> = self.state.waiting_for.values().flatten().copied().collect();
        places.sort_unstable();
        slots.chain(places.into_iter().map(|id| Unplaced::Place(&self.state.places[&id])))
    }
}

/// What stands after a name; everything without one.
fn after(name: Option<&str>) -> (Bound<&str>, Bound<&str>) {
    (name.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}
