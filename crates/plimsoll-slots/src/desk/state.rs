//! What the desk knows besides the ledger: models, slots, places in them, runners. Every change is an operation for the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Name};
use serde::{Deserialize, Serialize};

use crate::memory::{Found, Known, Measured, Source};
use crate::model::Model;
use crate::translate;
use crate::wire::Registration;

/// A process that serves a model, or is to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Its id, such as `slot-7`; the name of its request in the ledger.
    pub id: Name,
    /// The model's name.
    pub model: String,
    /// The declaration that it was made from; `None` for one that a runner reported and nobody here made.
    pub made_from: Option<Arc<Model>>,
    /// When it was made.
    pub created: Millis,
    /// Who says what it is charged, for each number of GPUs that it may be split over.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub basis: BTreeMap<u16, Source>,
    /// What changes while it lives.
    pub life: Life,
}

/// What changes while a slot lives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// Where it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// When its start left for the runner; `None` before, and once it was seen to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Millis>,
    /// Why its last start failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Slot {
    /// Who it is in the ledger.
    pub fn request(&self) -> RequestId {
        translate::slot_request_id(&self.model, &self.id)
    }
}

/// One request's place in a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its number; places are served in this order.
    pub id: u64,
    /// The model.
    pub model: String,
    /// What tells a repeated request from a new one.
    pub key: Option<String>,
    /// Who asked, where they gave a name.
    pub who: Option<Who>,
    /// When they asked.
    pub created: Millis,
    /// When they give up waiting.
    pub deadline: Option<Millis>,
    /// How it stands.
    pub state: PlaceState,
}

/// Who asked: a name in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Who {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// How a place stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceState {
    /// Every slot of the model is full, and there may be no more of them.
    Waiting,
    /// In a slot, which runs, comes, or waits for a device itself.
    In {
        /// The slot.
        slot: Name,
        /// Since when.
        since: Millis,
    },
    /// Over.
    Ended {
        /// How.
        how: Ending,
        /// Why, in a sentence.
        reason: String,
        /// When.
        at: Millis,
    },
}

/// How a place ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It was given back.
    Released,
    /// No empty fleet could hold the model.
    Refused,
    /// Its deadline passed while it waited.
    Expired,
    /// Its slot went while it was in it.
    Lost,
}

/// A runner as it registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runner {
    /// Its name.
    pub id: Name,
    /// When it first registered.
    pub created: Millis,
    /// What it said of itself.
    pub registration: Registration,
    /// How often it was told to report, and how long it may be silent; not known of those from before this was kept.
    #[serde(default)]
    pub pace: Option<Pace>,
}

/// How often a runner is to report, and how long it may be silent, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// How often.
    pub heartbeat: u64,
    /// How long.
    pub lease: u64,
}

/// One change of the desk, as the journal keeps it. Its rows are shared with the desk's own, so that noting a change copies none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A model was declared.
    PutModel(Arc<Model>),
    /// A model is no longer declared.
    DropModel(String),
    /// A slot is as it says.
    PutSlot(Arc<Slot>),
    /// A slot that is there lives so from here on.
    Lives(Name, Life),
    /// A slot is gone.
    DropSlot(Name),
    /// A place is as it says.
    PutPlace(Arc<Place>),
    /// A place is forgotten.
    DropPlace(u64),
    /// A runner is as it says.
    PutRunner(Arc<Runner>),
    /// A runner is gone for good.
    DropRunner(Name),
    /// A model took so many milliseconds to load.
    Loaded(String, u64),
    /// Slots of a model were seen to use so much, split over so many GPUs.
    Measured(String, u16, Box<Measured>),
    /// A runner found this where a file should be.
    Found(String, Name, Box<Found>),
}

/// All of it, with what finds it. Rows are shared with those that are being journalled and saved.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub models: BTreeMap<String, Arc<Model>>,
    pub slots: BTreeMap<Name, Arc<Slot>>,
    pub places: BTreeMap<u64, Arc<Place>>,
    pub runners: BTreeMap<Name, Arc<Runner>>,
    pub loads: BTreeMap<String, u64>,
    pub measured: BTreeMap<String, BTreeMap<u16, Measured>>,
    pub files: BTreeMap<String, BTreeMap<Name, Found>>,
    /// The files that say what a model needs, where nobody else does.
    pub wanted_files: BTreeSet<String>,
    pub next_slot: u64,
    pub next_place: u64,
    pub slots_of: BTreeMap<String, BTreeSet<Name>>,
    pub places_in: BTreeMap<Name, BTreeSet<u64>>,
    pub waiting_for: BTreeMap<String, BTreeSet<u64>>,
    pub deadlines: BTreeSet<(Millis, u64)>,
    pub ended: BTreeSet<(Millis, u64)>,
    pub keys: BTreeMap<String, u64>,
}

/// The desk's own state as it is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    models: Vec<Arc<Model>>,
    slots: Vec<Arc<Slot>>,
    places: Vec<Arc<Place>>,
    runners: Vec<Arc<Runner>>,
    loads: BTreeMap<String, u64>,
    #[serde(default)]
    measured: BTreeMap<String, BTreeMap<u16, Measured>>,
    #[serde(default)]
    files: BTreeMap<String, BTreeMap<Name, Found>>,
    next_slot: u64,
    next_place: u64,
}

impl State {
    pub(super) fn rows(&self) -> Rows {
        Rows {
            models: self.models.values().cloned().collect(),
            slots: self.slots.values().cloned().collect(),
            places: self.places.values().cloned().collect(),
            runners: self.runners.values().cloned().collect(),
            loads: self.loads.clone(),
            measured: self.measured.clone(),
            files: self.files.clone(),
            next_slot: self.next_slot,
            next_place: self.next_place,
        }
    }

    pub(super) fn from_rows(rows: Rows) -> State {
        let mut state = State::default();
        let models = rows.models.into_iter().map(Operation::PutModel);
        let slots = rows.slots.into_iter().map(Operation::PutSlot);
        let places = rows.places.into_iter().map(Operation::PutPlace);
        let runners = rows.runners.into_iter().map(Operation::PutRunner);
        for operation in models.chain(slots).chain(places).chain(runners) {
            state.apply(operation);
        }
        (state.loads, state.next_slot, state.next_place) =
            (rows.loads, rows.next_slot, rows.next_place);
        (state.measured, state.files) = (rows.measured, rows.files);
        state
    }

    /// Makes one change; the same for a fresh one and for recovery.
    pub(super) fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::PutModel(model) => {
                self.models.insert(model.name().to_string(), model);
                self.want_files();
            }
            Operation::DropModel(name) => {
                self.models.remove(&name);
                self.measured.remove(&name);
                self.want_files();
            }
            Operation::PutSlot(slot) => {
                let (name, _) = slot.id.split_once('@').unwrap_or((&slot.id, ""));
                let number =
                    name.strip_prefix("slot-").and_then(|number| number.parse::<u64>().ok());
                // A runner may report any name; one with an absurd number does not use all numbers up.
                if let Some(number) = number.filter(|number| *number < 1 << 40) {
                    self.next_slot = self.next_slot.max(number + 1);
                }
                let other = self.slots.get(&slot.id).filter(|other| other.model != slot.model);
                if let Some(model) = other.map(|other| other.model.clone()) {
                    take_from(&mut self.slots_of, &model, &slot.id);
                }
                self.slots_of.entry(slot.model.clone()).or_default().insert(slot.id.clone());
                self.slots.insert(slot.id.clone(), slot);
            }
            Operation::Lives(id, life) => {
                if let Some(slot) = self.slots.get_mut(&id) {
                    Arc::make_mut(slot).life = life;
                }
            }
            Operation::DropSlot(id) => {
                if let Some(slot) = self.slots.remove(&id) {
                    take_from(&mut self.slots_of, &slot.model, &id);
                }
            }
            Operation::PutPlace(place) => {
                self.next_place = self.next_place.max(place.id + 1);
                self.forget(place.id);
                self.find_by(&place);
                self.places.insert(place.id, place);
            }
            Operation::DropPlace(id) => self.forget(id),
            Operation::PutRunner(runner) => {
                self.runners.insert(runner.id.clone(), runner);
            }
            Operation::DropRunner(id) => {
                self.runners.remove(&id);
                self.files.values_mut().for_each(|found| drop(found.remove(&id)));
                self.files.retain(|_, found| !found.is_empty());
            }
            Operation::Loaded(model, millis) => {
                self.loads.insert(model, millis);
            }
            Operation::Measured(model, gpus, measured) => {
                self.measured.entry(model).or_default().insert(gpus, *measured);
            }
            Operation::Found(path, runner, found) => {
                self.files.entry(path).or_default().insert(runner, *found);
            }
        }
    }

    fn want_files(&mut self) {
        let files = self.models.values().filter_map(|model| translate::needs_file(model));
        self.wanted_files = files.map(str::to_string).collect();
    }

    fn find_by(&mut self, place: &Place) {
        match &place.state {
            PlaceState::Waiting => {
                self.waiting_for.entry(place.model.clone()).or_default().insert(place.id);
            }
            PlaceState::In { slot, .. } => {
                self.places_in.entry(slot.clone()).or_default().insert(place.id);
            }
            PlaceState::Ended { at, .. } => {
                self.ended.insert((*at, place.id));
            }
        }
        if let Some(deadline) =
            place.deadline.filter(|_| !matches!(place.state, PlaceState::Ended { .. }))
        {
            self.deadlines.insert((deadline, place.id));
        }
        if let Some(key) = &place.key {
            self.keys.insert(key.clone(), place.id);
        }
    }

    fn forget(&mut self, id: u64) {
        let Some(place) = self.places.remove(&id) else { return };
        match &place.state {
            PlaceState::Waiting => take_from(&mut self.waiting_for, &place.model, &id),
            PlaceState::In { slot, .. } => take_from(&mut self.places_in, slot, &id),
            PlaceState::Ended { at, .. } => {
                self.ended.remove(&(*at, id));
            }
        }
        if let Some(deadline) = place.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        if let Some(key) = place.key.as_ref().filter(|key| self.keys.get(*key) == Some(&id)) {
            self.keys.remove(key);
        }
    }

    /// What is known of a model's memory besides its declaration.
    pub(super) fn known(&self, model: &Model) -> Known<'_> {
        let found = model.declared().file.as_ref().and_then(|file| self.files.get(file));
        Known { measured: self.measured.get(model.name()), found }
    }

    /// The slots of a model.
    pub(super) fn slots_of(&self, model: &str) -> impl Iterator<Item = &Slot> {
        self.slots_of
            .get(model)
            .into_iter()
            .flatten()
            .filter_map(|id| self.slots.get(id).map(|slot| &**slot))
    }

    /// How many places of a slot are taken.
    pub(super) fn taken(&self, slot: &Name) -> u32 {
        self.places_in.get(slot).map_or(0, |places| u32::try_from(places.len()).unwrap_or(u32::MAX))
    }
}

fn take_from<K: Ord, V: Ord>(sets: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}
