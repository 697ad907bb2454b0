//! Why named work is where it is: the last decision about it and what came of its start, for so many names, the least recently used
//! goes first.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use plimsoll_core::event::Event;
use plimsoll_core::units::{Millis, Name};
use plimsoll_slots::desk::{
    ClientName, Desk, DeskView, Ending, Reservation, ReservationId, ReservationState, SlotStage,
    Topic,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::decisions::Kept;
use plimsoll_engine::engine::Decided;

/// Whether logs are kept, and of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Whether they are kept at all.
    pub(crate) enabled: bool,
    /// Of how many names.
    #[serde(deserialize_with = "at_least_one")]
    pub(crate) max_pods: NonZeroUsize,
}

fn at_least_one<'de, D: Deserializer<'de>>(from: D) -> Result<NonZeroUsize, D::Error> {
    let wrong = "max_pods is 0, and must be at least 1; enabled: false keeps no logs";
    NonZeroUsize::new(usize::deserialize(from)?).ok_or_else(|| D::Error::custom(wrong))
}

impl Default for Settings {
    fn default() -> Self {
        Settings { enabled: true, max_pods: NonZeroUsize::new(1000).expect("more than none") }
    }
}

/// So many bytes are kept at most, counted as if no log shared a row with another.
const BYTES_MOST: usize = 64 << 20;
/// What a log weighs besides its decision.
const ENTRY_BYTES: usize = 1 << 10;
/// So many slots are remembered, so that one who joins later finds the decision that placed it.
const SLOTS_MOST: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");
/// So many names are remembered of which the log made room, so that this can be said.
const EVICTED_MOST: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");

/// What is known of one name's work.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its place.
    pub(crate) reservation: ReservationId,
    /// The model.
    pub(crate) model: String,
    /// When it asked.
    pub(crate) created: Millis,
    /// Its slot, where it is or was in one.
    pub(crate) slot: Option<Name>,
    /// What was decided.
    pub(crate) filter: Filter,
    /// What came of the start.
    pub(crate) bind: Bind,
}

/// What was decided about work.
#[derive(Clone, Debug)]
pub(crate) enum Filter {
    /// This.
    Decided(Arc<Kept>),
    /// Nothing: the slots of its model are full, and these runners hold them.
    Full {
        /// The sentence that says so.
        reason: String,
        /// The runners.
        runners: BTreeSet<Name>,
    },
    /// It is in a slot that was placed before anybody here looked; on this runner, where it has one.
    Unseen {
        /// The runner.
        runner: Option<Name>,
    },
    /// It was over before anything was decided, for this reason.
    Over {
        /// The reason.
        reason: String,
    },
}

/// What came of a start on the runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bind {
    /// Nothing yet.
    NotYet,
    /// It was seen running.
    Passed,
    /// It failed, and why.
    Failed(String),
}

/// What there is to say about a name.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// This.
    Entry(Box<Entry>),
    /// Nobody of this name asked, as far as is known.
    Unknown,
    /// It made room for others.
    Evicted,
    /// Nothing is kept.
    Off,
}

/// The logs.
#[derive(Debug)]
pub(crate) struct SchedulerLog {
    settings: Settings,
    cache: Mutex<Cache>,
}

impl SchedulerLog {
    /// An empty one.
    pub(crate) fn new(settings: Settings) -> Self {
        SchedulerLog { settings, cache: Mutex::new(Cache::default()) }
    }

    /// Takes what a batch says, with its decisions in order.
    pub(crate) fn see(&self, batch: &Decided<'_, Desk>, decided: &[Arc<Kept>]) {
        if self.settings.enabled {
            let mut cache = self.cache();
            cache.begin(batch.front.view(batch.scheduler));
            cache.see(batch, decided);
            cache.make_room(self.settings.max_pods.get());
        }
    }

    /// How it is kept.
    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// What there is to say about a name. Reading is use.
    pub(crate) fn find(&self, who: &ClientName) -> Found {
        if !self.settings.enabled {
            return Found::Off;
        }
        let mut cache = self.cache();
        if let Some(entry) = cache.entries.get(who) {
            return Found::Entry(Box::new(entry.clone()));
        }
        if cache.evicted.contains(who) { Found::Evicted } else { Found::Unknown }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        // One who panicked while it was locked left whole rows behind.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Cache {
    entries: LruCache<ClientName, Entry>,
    bytes: usize,
    evicted: LruCache<ClientName, ()>,
    slots: LruCache<Name, OfSlot>,
    slot_bytes: usize,
    in_slot: BTreeMap<Name, BTreeSet<ClientName>>,
    /// Whether those are in it who were there when the server started.
    began: bool,
}

/// What is known of a slot.
#[derive(Clone, Debug)]
struct OfSlot {
    decision: Arc<Kept>,
    bind: Bind,
}

impl Default for Cache {
    fn default() -> Self {
        Cache {
            entries: LruCache::unbounded(),
            bytes: 0,
            evicted: LruCache::new(EVICTED_MOST),
            slots: LruCache::unbounded(),
            slot_bytes: 0,
            in_slot: BTreeMap::new(),
            began: false,
        }
    }
}

impl Cache {
    /// Takes in those who were there before the server started: how they stand is known, if not what was decided then.
    fn begin(&mut self, desk: DeskView<'_>) {
        if std::mem::replace(&mut self.began, true) {
            return;
        }
        for place in desk
            .reservations()
            .filter(|place| !matches!(place.state, ReservationState::Ended { .. }))
        {
            if let Some(who) = &place.client {
                self.placed(desk, who, place, &[]);
            }
        }
    }

    fn see(&mut self, batch: &Decided<'_, Desk>, decided: &[Arc<Kept>]) {
        let desk = batch.front.view(batch.scheduler);
        let mut next = decided.iter().peekable();
        for record in batch.records {
            match &record.event {
                Event::Started { request, .. } => self.bound(&request.name, &Bind::Passed),
                Event::Failed { request, .. } => {
                    let failure =
                        desk.slot(&request.name).and_then(|slot| slot.life.failure.clone());
                    let reason = failure.map_or("the start failed".to_string(), |f| f.to_string());
                    self.bound(&request.name, &Bind::Failed(reason));
                }
                _ => {}
            }
            while let Some(kept) = next.next_if(|kept| kept.id.seq == record.seq) {
                self.decided(kept);
            }
        }
        let changed = batch.topics.iter().filter_map(|topic| match topic {
            Topic::Reservation(id) => desk.reservation(*id),
            Topic::Runner(_) => None,
        });
        for place in changed {
            if let Some(who) = &place.client {
                self.placed(desk, who, place, decided);
            }
        }
    }

    /// A slot was decided: that is the newest word about all who are in it.
    fn decided(&mut self, kept: &Arc<Kept>) {
        let slot = kept.decision.request.name.clone();
        // A refusal after a failed start leaves that failure standing; a new place is a new start.
        let bind = match self.slots.peek(&slot) {
            Some(known) if kept.decision.chosen().is_none() => known.bind.clone(),
            _ => Bind::NotYet,
        };
        self.slot_bytes += kept.bytes;
        let of_slot = OfSlot { decision: kept.clone(), bind: bind.clone() };
        if let Some(old) = self.slots.put(slot.clone(), of_slot) {
            self.slot_bytes -= old.decision.bytes;
        }
        self.each_in(&slot, |entry| {
            entry.filter = Filter::Decided(kept.clone());
            entry.bind = bind.clone();
        });
    }

    /// A start was seen to have happened, or not to have.
    fn bound(&mut self, slot: &Name, bind: &Bind) {
        if let Some(known) = self.slots.get_mut(slot) {
            known.bind = bind.clone();
        }
        self.each_in(slot, |entry| entry.bind = bind.clone());
    }

    fn each_in(&mut self, slot: &Name, change: impl Fn(&mut Entry)) {
        for who in self.in_slot.get(slot).cloned().unwrap_or_default() {
            if let Some(entry) = self.entries.get_mut(&who) {
                self.bytes -= weight(&who, entry);
                change(entry);
                self.bytes += weight(&who, entry);
            }
        }
    }

    /// A place of this name stands differently. The newest one counts.
    fn placed(
        &mut self,
        desk: DeskView<'_>,
        who: &ClientName,
        place: &Reservation,
        decided: &[Arc<Kept>],
    ) {
        let known = self.entries.get(who).filter(|known| known.reservation == place.id).cloned();
        if self.entries.peek(who).is_some_and(|known| known.reservation > place.id) {
            return;
        }
        let fresh = |slot, filter, bind| Entry {
            reservation: place.id,
            model: place.model.clone(),
            created: place.created,
            slot,
            filter,
            bind,
        };
        let entry = match &place.state {
            ReservationState::Pending => {
                let slots = desk.slots_of(&place.model).filter_map(|slot| desk.holding(slot));
                let runners = slots.map(|(_, holding)| holding.node.clone()).collect();
                fresh(None, Filter::Full { reason: sentence(desk, place), runners }, Bind::NotYet)
            }
            ReservationState::Seated { slot, .. } => {
                let (filter, bind) = self.of_slot(desk, slot);
                fresh(Some(slot.clone()), filter, bind)
            }
            ReservationState::Ended { ending, .. } => known.unwrap_or_else(|| {
                let filter = ended(ending, decided);
                fresh(None, filter, Bind::NotYet)
            }),
        };
        let is_over = matches!(place.state, ReservationState::Ended { .. });
        self.put(who, entry, is_over);
    }

    fn of_slot(&mut self, desk: DeskView<'_>, slot: &Name) -> (Filter, Bind) {
        let known = desk.slot(slot);
        let runs = known.is_some_and(|slot| desk.stage(slot) == Some(SlotStage::Running));
        match self.slots.get(slot) {
            Some(of_slot) => {
                let bind = if runs { Bind::Passed } else { of_slot.bind.clone() };
                (Filter::Decided(of_slot.decision.clone()), bind)
            }
            None => {
                let runner =
                    known.and_then(|slot| desk.holding(slot)).map(|(_, held)| held.node.clone());
                let filter = match (runner, known) {
                    (None, Some(slot)) => Filter::Full {
                        reason: desk.slot_reason(slot).to_string(),
                        runners: BTreeSet::new(),
                    },
                    (runner, _) => Filter::Unseen { runner },
                };
                (filter, if runs { Bind::Passed } else { Bind::NotYet })
            }
        }
    }

    fn put(&mut self, who: &ClientName, entry: Entry, is_over: bool) {
        self.take_out(who);
        if let Some(slot) = entry.slot.clone().filter(|_| !is_over) {
            self.in_slot.entry(slot).or_default().insert(who.clone());
        }
        self.evicted.pop(who);
        self.bytes += weight(who, &entry);
        self.entries.put(who.clone(), entry);
    }

    fn take_out(&mut self, who: &ClientName) {
        let Some(entry) = self.entries.pop(who) else { return };
        self.bytes -= weight(who, &entry);
        self.leave_slot(who, &entry);
    }

    fn leave_slot(&mut self, who: &ClientName, entry: &Entry) {
        let Some(slot) = &entry.slot else { return };
        if let Some(those) = self.in_slot.get_mut(slot) {
            those.remove(who);
            if those.is_empty() {
                self.in_slot.remove(slot);
            }
        }
    }

    fn make_room(&mut self, most: usize) {
        while self.entries.len() > most || self.bytes > BYTES_MOST {
            let Some((who, entry)) = self.entries.pop_lru() else { break };
            self.bytes -= weight(&who, &entry);
            self.leave_slot(&who, &entry);
            self.evicted.put(who, ());
        }
        while self.slots.len() > SLOTS_MOST.get() || self.slot_bytes > BYTES_MOST {
            let Some((_, of_slot)) = self.slots.pop_lru() else { break };
            self.slot_bytes -= of_slot.decision.bytes;
        }
    }
}

/// Returns the decision about a reservation that ended before it was seated. Its slot is gone, but
/// the ending names it.
fn ended(ending: &Ending, decided: &[Arc<Kept>]) -> Filter {
    let decision = match ending {
        Ending::Impossible { slot, .. } => {
            decided.iter().rev().find(|kept| kept.decision.request.name == *slot)
        }
        _ => None,
    };
    match decision {
        Some(kept) => Filter::Decided(kept.clone()),
        None => Filter::Over { reason: ending.to_string() },
    }
}

fn sentence(desk: DeskView<'_>, reservation: &Reservation) -> String {
    desk.status_reason(reservation.id).map(|reason| reason.to_string()).unwrap_or_default()
}

fn weight(who: &ClientName, entry: &Entry) -> usize {
    let own = match &entry.filter {
        Filter::Decided(kept) => kept.bytes,
        Filter::Full { reason, runners } => {
            reason.len() + runners.iter().map(Name::len).sum::<usize>()
        }
        Filter::Unseen { .. } => 0,
        Filter::Over { reason } => reason.len(),
    };
    ENTRY_BYTES + who.namespace.len() + who.name.len() + entry.model.len() + own
}
