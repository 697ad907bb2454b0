//! The scheduler log by the names that clients give to their reservations. A name resolves to a
//! reservation, its slot, and the request of that slot.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use plimsoll_core::units::{Millis, Name};
use plimsoll_engine::engine::{Decided, Observer};
use plimsoll_slots::desk::{
    ClientName, Desk, DeskView, Ending, Reservation, ReservationId, ReservationState, SlotStage,
    Topic,
};
use plimsoll_slots::memory::Need;
use plimsoll_slots::translate::slot_request_id;

use super::{
    BYTES_MOST, Bind, Filter, Found, KnownNode, LogEntry, LoggedRequest, RequestLog, Settings,
};

/// The reason code of a runner whose slots of the model are full.
const SLOTS_FULL: &str = "SlotsFull";
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
    /// The end of the reservation; `None` before it.
    pub(crate) ended: Option<Ended>,
    pub(crate) log: LogEntry<Vec<Need>>,
}

/// The end of a reservation.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) ending: Ending,
    pub(crate) at: Millis,
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

    /// Returns the log of a slot by its model and name, with or without a reservation in it.
    pub(crate) fn find_slot(&self, model: &str, slot: &str) -> Found<LogEntry<Vec<Need>>> {
        match self.settings.enabled {
            true => self.requests.find(model, slot),
            false => Found::Off,
        }
    }

    /// Returns the log of a name. Reading counts as use.
    pub(crate) fn find(&self, client: &ClientName) -> Found<Entry> {
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
        let request = match tracked.state {
            Tracking::Follows => entry.log.request.as_ref(),
            Tracking::Fixed => None,
        };
        let logged = request.and_then(|request| self.requests.get(request));
        if let Some(LoggedRequest { decision, bind, .. }) = logged {
            if let Some(decision) = decision {
                entry.log.filter = Filter::Decided(decision);
            }
            if bind != Bind::NotYet {
                entry.log.bind = bind;
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
            ReservationState::Ended { ending, at } => {
                let entry = match known {
                    Some(known) => self.resolve(known),
                    None => self.ended(reservation, ending),
                };
                let ended = Some(Ended { ending: ending.clone(), at: *at });
                let entry = Entry { ended, ..entry };
                Tracked { entry, state: Tracking::Fixed }
            }
        };
        cache.put(client, tracked);
    }

    /// Returns the entry of a reservation that ended before it was seated. Its slot does not exist
    /// any more, but the ending names it.
    fn ended(&self, reservation: &Reservation, ending: &Ending) -> Entry {
        let request = match ending {
            Ending::Impossible { slot, .. } => Some(slot_request_id(&reservation.model, slot)),
            _ => None,
        };
        let logged = request.as_ref().and_then(|request| self.requests.get(request));
        let filter = match logged.and_then(|logged| logged.decision) {
            Some(decision) => Filter::Decided(decision),
            None => Filter::Undecided { reason: ending.to_string(), nodes: Vec::new() },
        };
        entry(reservation, LogEntry { request, filter, bind: Bind::NotYet })
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        // A thread that panicked with the lock left whole rows behind.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry(reservation: &Reservation, log: LogEntry<Vec<Need>>) -> Entry {
    Entry {
        reservation: reservation.id,
        model: reservation.model.clone(),
        created: reservation.created,
        slot: None,
        ended: None,
        log,
    }
}

/// A reservation without a seat: every slot of its model is full.
fn pending(desk: DeskView<'_>, reservation: &Reservation) -> Tracked {
    let slots = desk.slots_of(&reservation.model).filter_map(|slot| desk.holding(slot));
    let runners: BTreeSet<Name> = slots.map(|(_, holding)| holding.node.clone()).collect();
    let full = |name| KnownNode { reason: Some(SLOTS_FULL), ..known_node(reservation, name) };
    let reason = desk.status_reason(reservation.id).map(|reason| reason.to_string());
    let filter = Filter::Undecided {
        reason: reason.unwrap_or_default(),
        nodes: runners.into_iter().map(full).collect(),
    };
    let log = LogEntry { request: None, filter, bind: Bind::NotYet };
    Tracked { entry: entry(reservation, log), state: Tracking::Fixed }
}

fn seated(desk: DeskView<'_>, reservation: &Reservation, slot: &Name) -> Tracked {
    let known = desk.slot(slot);
    let is_running = known.is_some_and(|slot| desk.stage(slot) == Some(SlotStage::Running));
    let runner = known.and_then(|slot| desk.holding(slot)).map(|(_, held)| held.node.clone());
    let filter = match (runner, known) {
        (Some(runner), _) => Filter::PlacedEarlier { node: Some(known_node(reservation, runner)) },
        (None, Some(slot)) => {
            Filter::Undecided { reason: desk.slot_reason(slot).to_string(), nodes: Vec::new() }
        }
        (None, None) => {
            Filter::Undecided { reason: "the slot is being removed".into(), nodes: Vec::new() }
        }
    };
    let bind = if is_running { Bind::Passed } else { Bind::NotYet };
    let request = Some(slot_request_id(&reservation.model, slot));
    let log = LogEntry { request, filter, bind };
    let entry = Entry { slot: Some(slot.clone()), ..entry(reservation, log) };
    Tracked { entry, state: Tracking::Follows }
}

/// A runner that holds a slot; the only container is named after the model.
fn known_node(reservation: &Reservation, runner: Name) -> KnownNode {
    KnownNode { name: runner, container: reservation.model.as_str().into(), reason: None }
}

struct Recorder {
    log: Arc<ClientLog>,
}

impl Observer<Desk> for Recorder {
    fn decided(&mut self, batch: &Decided<'_, Desk>) {
        self.log.record(batch);
    }
}

#[derive(Debug)]
struct Tracked {
    entry: Entry,
    state: Tracking,
}

/// Selects whether the log of the request completes an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tracking {
    /// The newest log of the request counts, while the reservation is seated.
    Follows,
    /// The entry stays as it is.
    Fixed,
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
    let own = match &entry.log.filter {
        Filter::Decided(cached) => cached.bytes,
        Filter::Undecided { reason, nodes } => {
            reason.len() + nodes.iter().map(|node| node.name.len()).sum::<usize>()
        }
        Filter::PlacedEarlier { .. } => 0,
    };
    ENTRY_BYTES + client.namespace.len() + client.name.len() + entry.model.len() + own
}
