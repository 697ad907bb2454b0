//! The scheduler log by the names that clients give to their reservations. A name resolves to a
//! reservation, its slot, and the request of that slot.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Name};
use plimsoll_engine::engine::{Decided, Observer};
use plimsoll_slots::desk::{
    ClientName, Desk, DeskView, Ending, Reservation, ReservationId, ReservationState, SlotStage,
    Topic,
};
use plimsoll_slots::memory::Need;
use plimsoll_slots::translate::slot_request_id;

use super::{BYTES_MOST, Bind, LoggedRequest, RequestLog, Settings};
use crate::decisions::CachedDecision;

/// The estimated size of an entry without its decision.
const ENTRY_BYTES: usize = 1 << 10;
/// The most dropped names that are remembered, so that the answer can say that they were dropped.
const DROPPED_MOST: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");

/// The log of one name.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) reservation: ReservationId,
    pub(crate) model: String,
    pub(crate) created: Millis,
    /// The slot that the reservation is or was seated in.
    pub(crate) slot: Option<Name>,
    pub(crate) filter: Filter,
    pub(crate) bind: Bind,
}

/// The reason why a reservation is where it is.
#[derive(Clone, Debug)]
pub(crate) enum Filter {
    Decided(Arc<CachedDecision<Vec<Need>>>),
    /// The slots of the model are full; nothing was decided.
    Full {
        reason: String,
        runners: BTreeSet<Name>,
    },
    /// The slot was placed before the server started, on this runner if it is placed.
    Unseen {
        runner: Option<Name>,
    },
    /// The reservation ended before anything was decided.
    Over {
        reason: String,
    },
}

/// The result of a lookup.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Entry(Box<Entry>),
    /// No reservation had this name since the server started.
    Unknown,
    /// The log was dropped to make room for others.
    Dropped,
    /// The scheduler log is turned off.
    Off,
}

/// The scheduler log of all named reservations.
#[derive(Debug)]
pub(crate) struct ClientLog {
    settings: Settings,
    requests: Arc<RequestLog<Vec<Need>>>,
    cache: Mutex<Cache>,
}

impl ClientLog {
    pub(crate) fn new(settings: Settings, requests: Arc<RequestLog<Vec<Need>>>) -> Self {
        ClientLog { settings, requests, cache: Mutex::new(Cache::default()) }
    }

    /// Returns the observer that fills the log. It runs after the observer that fills the log of
    /// requests, because a reservation that ends keeps what that log says then.
    pub(crate) fn observer(self: &Arc<Self>) -> Box<dyn Observer<Desk>> {
        Box::new(Recorder { log: self.clone() })
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// Returns the log of a name. Reading counts as use.
    pub(crate) fn find(&self, client: &ClientName) -> Found {
        if !self.settings.enabled {
            return Found::Off;
        }
        let mut cache = self.cache();
        if let Some(tracked) = cache.entries.get(client) {
            return Found::Entry(Box::new(self.resolve(tracked)));
        }
        if cache.dropped.contains(client) { Found::Dropped } else { Found::Unknown }
    }

    /// Returns an entry with the newest decision about the request that it follows.
    fn resolve(&self, tracked: &Tracked) -> Entry {
        let mut entry = tracked.entry.clone();
        let logged = tracked.follows.as_ref().and_then(|request| self.requests.get(request));
        if let Some(LoggedRequest { decision, bind }) = logged {
            if let Some(decision) = decision {
                entry.filter = Filter::Decided(decision);
            }
            if bind != Bind::NotYet {
                entry.bind = bind;
            }
        }
        entry
    }

    fn record(&self, batch: &Decided<'_, Desk>) {
        if !self.settings.enabled {
            return;
        }
        let desk = batch.front.view(batch.scheduler);
        let mut cache = self.cache();
        if !std::mem::replace(&mut cache.has_begun, true) {
            // Reservations from before the start: their state is known, if not their decisions.
            let is_open = |reservation: &&Reservation| {
                !matches!(reservation.state, ReservationState::Ended { .. })
            };
            for reservation in desk.reservations().filter(is_open) {
                self.update(&mut cache, desk, reservation);
            }
        }
        for topic in batch.topics {
            if let Topic::Reservation(id) = topic
                && let Some(reservation) = desk.reservation(*id)
            {
                self.update(&mut cache, desk, reservation);
            }
        }
        cache.shrink(self.settings.max_pods.get());
    }

    /// Replaces the entry of a reservation. If a name is used again, the newest reservation counts.
    fn update(&self, cache: &mut Cache, desk: DeskView<'_>, reservation: &Reservation) {
        let Some(client) = &reservation.client else { return };
        let known = cache.entries.peek(client);
        if known.is_some_and(|known| known.entry.reservation > reservation.id) {
            return;
        }
        let known = known.filter(|known| known.entry.reservation == reservation.id);
        let tracked = match &reservation.state {
            ReservationState::Pending => pending(desk, reservation),
            ReservationState::Seated { slot, .. } => seated(desk, reservation, slot),
            ReservationState::Ended { ending, .. } => {
                let entry = match known {
                    Some(known) => self.resolve(known),
                    None => self.ended(reservation, ending),
                };
                Tracked { entry, follows: None }
            }
        };
        cache.put(client, tracked);
    }

    /// Returns the entry of a reservation that ended before it was seated. Its slot does not exist
    /// any more, but the ending names it.
    fn ended(&self, reservation: &Reservation, ending: &Ending) -> Entry {
        let logged = match ending {
            Ending::Impossible { slot, .. } => {
                self.requests.get(&slot_request_id(&reservation.model, slot))
            }
            _ => None,
        };
        let filter = match logged.and_then(|logged| logged.decision) {
            Some(decision) => Filter::Decided(decision),
            None => Filter::Over { reason: ending.to_string() },
        };
        entry(reservation, filter, Bind::NotYet)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        // A thread that panicked with the lock left whole rows behind.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry(reservation: &Reservation, filter: Filter, bind: Bind) -> Entry {
    Entry {
        reservation: reservation.id,
        model: reservation.model.clone(),
        created: reservation.created,
        slot: None,
        filter,
        bind,
    }
}

fn pending(desk: DeskView<'_>, reservation: &Reservation) -> Tracked {
    let slots = desk.slots_of(&reservation.model).filter_map(|slot| desk.holding(slot));
    let runners = slots.map(|(_, holding)| holding.node.clone()).collect();
    let reason = desk.status_reason(reservation.id).map(|reason| reason.to_string());
    let filter = Filter::Full { reason: reason.unwrap_or_default(), runners };
    Tracked { entry: entry(reservation, filter, Bind::NotYet), follows: None }
}

fn seated(desk: DeskView<'_>, reservation: &Reservation, slot: &Name) -> Tracked {
    let known = desk.slot(slot);
    let is_running = known.is_some_and(|slot| desk.stage(slot) == Some(SlotStage::Running));
    let runner = known.and_then(|slot| desk.holding(slot)).map(|(_, held)| held.node.clone());
    let filter = match (runner, known) {
        (None, Some(slot)) => {
            Filter::Full { reason: desk.slot_reason(slot).to_string(), runners: BTreeSet::new() }
        }
        (runner, _) => Filter::Unseen { runner },
    };
    let bind = if is_running { Bind::Passed } else { Bind::NotYet };
    let entry = Entry { slot: Some(slot.clone()), ..entry(reservation, filter, bind) };
    Tracked { entry, follows: Some(slot_request_id(&reservation.model, slot)) }
}

struct Recorder {
    log: Arc<ClientLog>,
}

impl Observer<Desk> for Recorder {
    fn decided(&mut self, batch: &Decided<'_, Desk>) {
        self.log.record(batch);
    }
}

/// An entry, and the request whose log completes it while the reservation is seated.
#[derive(Debug)]
struct Tracked {
    entry: Entry,
    follows: Option<RequestId>,
}

#[derive(Debug)]
struct Cache {
    entries: LruCache<ClientName, Tracked>,
    bytes: usize,
    dropped: LruCache<ClientName, ()>,
    /// True once the reservations from before the start are included.
    has_begun: bool,
}

impl Default for Cache {
    fn default() -> Self {
        Cache {
            entries: LruCache::unbounded(),
            bytes: 0,
            dropped: LruCache::new(DROPPED_MOST),
            has_begun: false,
        }
    }
}

impl Cache {
    fn put(&mut self, client: &ClientName, tracked: Tracked) {
        self.dropped.pop(client);
        self.bytes += weight(client, &tracked.entry);
        if let Some(old) = self.entries.put(client.clone(), tracked) {
            self.bytes -= weight(client, &old.entry);
        }
    }

    fn shrink(&mut self, most: usize) {
        while self.entries.len() > most || self.bytes > BYTES_MOST {
            let Some((client, old)) = self.entries.pop_lru() else { break };
            self.bytes -= weight(&client, &old.entry);
            self.dropped.put(client, ());
        }
    }
}

fn weight(client: &ClientName, entry: &Entry) -> usize {
    let own = match &entry.filter {
        Filter::Decided(cached) => cached.bytes,
        Filter::Full { reason, runners } => {
            reason.len() + runners.iter().map(Name::len).sum::<usize>()
        }
        Filter::Unseen { .. } => 0,
        Filter::Over { reason } => reason.len(),
    };
    ENTRY_BYTES + client.namespace.len() + client.name.len() + entry.model.len() + own
}
