//! The pending requests in the order in which they are tried, and the changes that wake each.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ledger::LedgerError;
use crate::reason::Change;
use crate::rejection::Rejection;
use crate::request::{Request, RequestId};
use crate::units::{Millis, Name, Timespan};

/// The pending requests: real work before speculative, higher priority first, then by arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    pending: BTreeMap<Turn, PendingRequest>,
    turns: BTreeMap<RequestId, Turn>,
    failures: BTreeMap<RequestId, u32>,
    /// The times at which models last lost a holder to another request.
    evicted: BTreeMap<Name, Millis>,
    arrivals: u64,
}

/// The most models whose last eviction is remembered. Beyond it the oldest is forgotten; its model
/// may then displace others too early once.
const EVICTED_KEPT: usize = 1024;

/// The position of a request in the queue; the least is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    speculative: bool,
    priority: std::cmp::Reverse<i32>,
    arrival: u64,
}

/// A request that is not placed yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRequest {
    pub request: Request,
    /// The gang that it must be placed with.
    pub gang: Option<GangMember>,
    pub since: Millis,
    /// The time at which it is given up.
    pub deadline: Option<Millis>,
    /// Set after a failed start.
    pub backoff: Option<Backoff>,
    /// The changes that could lift its reason.
    pub wakes_on: Vec<Change>,
    /// Replaced whenever it is decided again.
    pub reason: PendingReason,
}

/// The reason why a request is pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PendingReason {
    NotTried,
    /// The last decision found no placement.
    Rejected(Arc<Rejection>),
    /// It is speculative, and other requests are pending.
    BehindRealWork,
    /// Its earlier holding is still being released.
    EarlierHoldingReleasing,
    StartFailed {
        node: Name,
        retry_at: Millis,
    },
    /// The commit rejected a placement that the decision had found. That is a bug, which debug
    /// builds report.
    NotAdmitted(Arc<LedgerError>),
}

impl AsRef<PendingRequest> for PendingRequest {
    fn as_ref(&self) -> &PendingRequest {
        self
    }
}

impl PendingReason {
    /// Returns the rejection of the last decision, if that is the reason.
    pub fn rejection(&self) -> Option<&Arc<Rejection>> {
        match self {
            PendingReason::Rejected(rejection) => Some(rejection),
            _ => None,
        }
    }
}

impl PendingRequest {
    /// Creates the entry of a request that has just arrived.
    pub fn new(since: Millis, request: Request) -> Self {
        PendingRequest {
            request,
            gang: None,
            since,
            deadline: None,
            backoff: None,
            wakes_on: Vec::new(),
            reason: PendingReason::NotTried,
        }
    }

    /// Returns true if it may be tried now: it does not back off after a failed start.
    pub fn may_try(&self, now: Millis) -> bool {
        self.backoff.is_none_or(|backoff| backoff.until <= now)
    }
}

/// The gang of a pending request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GangMember {
    pub name: Name,
    /// Members that must be placed together.
    pub minimum: u32,
}

/// The pause after a failed start, so that a request that always fails does not starve the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// Failed starts so far.
    pub failures: u32,
    pub until: Millis,
}

impl Backoff {
    /// Returns the pause after one more failure: a second, doubled each time, at most five minutes.
    pub fn after(failures: u32, now: Millis) -> Self {
        let pause = Timespan::seconds(1 << failures.min(9)).min(Timespan::seconds(300));
        Backoff { failures: failures.saturating_add(1), until: now.after(pause) }
    }
}

impl Queue {
    /// Adds a request, or replaces its entry without changing its turn.
    pub(crate) fn insert(&mut self, entry: PendingRequest) {
        let id = entry.request.id.clone();
        let arrival = match self.turns.get(&id) {
            Some(earlier) => {
                self.pending.remove(earlier);
                earlier.arrival
            }
            None => {
                self.arrivals += 1;
                self.arrivals
            }
        };
        let terms = &entry.request.terms;
        let priority = std::cmp::Reverse(terms.priority);
        let turn = Turn { speculative: terms.speculative, priority, arrival };
        if let Some(backoff) = entry.backoff {
            self.failures.insert(id.clone(), backoff.failures);
        }
        self.turns.insert(id, turn);
        self.pending.insert(turn, entry);
    }

    /// Removes a request.
    pub(crate) fn remove(&mut self, request: &RequestId) -> Option<PendingRequest> {
        let turn = self.turns.remove(request)?;
        self.pending.remove(&turn)
    }

    /// Returns the turn of a request; `None` if it is not pending.
    pub(crate) fn turn(&self, request: &RequestId) -> Option<Turn> {
        self.turns.get(request).copied()
    }

    /// Returns the number of failed starts of a request since its last success.
    pub fn failures(&self, request: &RequestId) -> u32 {
        self.failures.get(request).copied().unwrap_or(0)
    }

    /// Resets the number of failed starts of a request.
    pub(crate) fn clear_failures(&mut self, request: &RequestId) {
        self.failures.remove(request);
    }

    /// Returns the time at which a holder of a model was last evicted for another request.
    pub fn evicted_at(&self, model: &str) -> Option<Millis> {
        self.evicted.get(model).copied()
    }

    /// Notes that a holder of a model was evicted for another request.
    pub(crate) fn note_eviction(&mut self, model: Name, at: Millis) {
        self.evicted.insert(model, at);
        if self.evicted.len() > EVICTED_KEPT {
            let oldest = self.evicted.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(model, _)| model.clone()) {
                self.evicted.remove(&oldest);
            }
        }
    }

    /// Iterates over the pending requests in turn.
    pub fn iter(&self) -> impl Iterator<Item = &PendingRequest> {
        self.pending.values()
    }

    /// Returns the entry of a request.
    pub fn get(&self, request: &RequestId) -> Option<&PendingRequest> {
        self.pending.get(self.turns.get(request)?)
    }

    /// Returns the number of pending requests.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Returns true if nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns true if a request that is not speculative is pending.
    pub fn has_real_work(&self) -> bool {
        self.pending.keys().next().is_some_and(|turn| !turn.speculative)
    }
}

/// The rows of a queue in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueRows {
    /// In turn, each with the number of its arrival.
    pub pending: Vec<(u64, PendingRequest)>,
    /// Failed starts.
    pub failures: Vec<(RequestId, u32)>,
    /// The last eviction of each model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evicted: Vec<(Name, Millis)>,
    /// Arrivals so far.
    pub arrivals: u64,
}

impl Queue {
    /// Returns the rows for a snapshot.
    pub fn to_rows(&self) -> QueueRows {
        let pending = self.pending.iter();
        let failures = self.failures.iter();
        QueueRows {
            pending: pending.map(|(turn, entry)| (turn.arrival, entry.clone())).collect(),
            failures: failures.map(|(id, failures)| (id.clone(), *failures)).collect(),
            evicted: self.evicted.iter().map(|(model, at)| (model.clone(), *at)).collect(),
            arrivals: self.arrivals,
        }
    }

    /// Rebuilds a queue from the rows of a snapshot.
    pub fn from_rows(rows: QueueRows) -> Self {
        let mut queue = Queue::default();
        for (arrival, entry) in rows.pending {
            queue.arrivals = arrival.saturating_sub(1);
            queue.insert(entry);
        }
        queue.failures.extend(rows.failures);
        queue.evicted.extend(rows.evicted);
        queue.arrivals = rows.arrivals;
        queue
    }
}
