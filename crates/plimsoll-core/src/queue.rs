//! Who waits, in which order, and which change wakes whom.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::reason::Change;
use crate::request::{Request, RequestId};
use crate::units::{Millis, Name};

/// The requests that wait for a place: real work before speculative, higher priority first, then by arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    waiting: BTreeMap<Turn, Waiting>,
    turns: BTreeMap<RequestId, Turn>,
    failures: BTreeMap<RequestId, u32>,
    arrivals: u64,
}

/// When somebody's turn is: less is earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    speculative: bool,
    priority: std::cmp::Reverse<i32>,
    arrival: u64,
}

/// Somebody who waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// What is asked.
    pub request: Request,
    /// The gang it waits with.
    pub gang: Option<GangMember>,
    /// When it came.
    pub since: Millis,
    /// When it gives up.
    pub deadline: Option<Millis>,
    /// How often its start has failed, and when it may be tried again.
    pub backoff: Option<Backoff>,
    /// What could change the answer.
    pub wakes_on: Vec<Change>,
    /// Why it waits, in one sentence; replaced whenever it is decided again.
    pub reason: String,
}

impl Waiting {
    /// One who has come just now, and has not been told anything yet.
    pub(crate) fn since(since: Millis, request: Request) -> Self {
        let (gang, deadline, backoff) = (None, None, None);
        Waiting {
            request,
            gang,
            since,
            deadline,
            backoff,
            wakes_on: Vec::new(),
            reason: String::new(),
        }
    }

    /// Whether it may be tried now: it does not hold back after a start that failed.
    pub fn may_try(&self, now: Millis) -> bool {
        self.backoff.is_none_or(|backoff| backoff.until <= now)
    }
}

/// The gang that somebody waits with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GangMember {
    /// Its name.
    pub name: Name,
    /// How many must be placed together.
    pub minimum: u32,
}

/// A start that failed is not tried again at once, so that it does not starve the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// Failures so far.
    pub failures: u32,
    /// When it may be tried again.
    pub until: Millis,
}

impl Backoff {
    /// The next pause after one more failure: a second, doubled each time, at most five minutes.
    pub fn after(failures: u32, now: Millis) -> Self {
        let pause = (1000_u64 << failures.min(9)).min(300_000);
        Backoff { failures: failures.saturating_add(1), until: now.after(pause) }
    }
}

impl Queue {
    /// Adds somebody, or replaces what was known of them without losing their turn.
    pub(crate) fn put(&mut self, waiting: Waiting) {
        let id = waiting.request.id.clone();
        let arrival = match self.turns.get(&id) {
            Some(earlier) => {
                self.waiting.remove(earlier);
                earlier.arrival
            }
            None => {
                self.arrivals += 1;
                self.arrivals
            }
        };
        let terms = &waiting.request.terms;
        let priority = std::cmp::Reverse(terms.priority);
        let turn = Turn { speculative: terms.speculative, priority, arrival };
        if let Some(backoff) = waiting.backoff {
            self.failures.insert(id.clone(), backoff.failures);
        }
        self.turns.insert(id, turn);
        self.waiting.insert(turn, waiting);
    }

    /// Takes somebody out.
    pub(crate) fn remove(&mut self, request: &RequestId) -> Option<Waiting> {
        let turn = self.turns.remove(request)?;
        self.waiting.remove(&turn)
    }

    /// When somebody's turn is; `None` where they do not wait.
    pub(crate) fn turn(&self, request: &RequestId) -> Option<Turn> {
        self.turns.get(request).copied()
    }

    /// How often somebody's start has failed since it last succeeded.
    pub fn failures(&self, request: &RequestId) -> u32 {
        self.failures.get(request).copied().unwrap_or(0)
    }

    /// Forgets somebody's failed starts.
    pub(crate) fn forgive(&mut self, request: &RequestId) {
        self.failures.remove(request);
    }

    /// Everybody who waits, in turn.
    pub fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.values()
    }

    /// Somebody who waits.
    pub fn get(&self, request: &RequestId) -> Option<&Waiting> {
        self.waiting.get(self.turns.get(request)?)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether somebody waits for real work.
    pub fn has_real_work(&self) -> bool {
        self.waiting.keys().next().is_some_and(|turn| !turn.speculative)
    }
}

/// The rows of a queue, to save and to start again from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueRows {
    /// Everybody who waits, with the number of their arrival.
    pub waiting: Vec<(u64, Waiting)>,
    /// Failed starts.
    pub failures: Vec<(RequestId, u32)>,
    /// Arrivals so far.
    pub arrivals: u64,
}

impl Queue {
    /// The rows to save.
    pub fn rows(&self) -> QueueRows {
        QueueRows {
            waiting: self
                .waiting
                .iter()
                .map(|(turn, waiting)| (turn.arrival, waiting.clone()))
                .collect(),
            failures: self.failures.iter().map(|(id, failures)| (id.clone(), *failures)).collect(),
            arrivals: self.arrivals,
        }
    }

    /// The queue that rows describe.
    pub fn from_rows(rows: QueueRows) -> Self {
        let mut queue = Queue::default();
        for (arrival, waiting) in rows.waiting {
            queue.arrivals = arrival.saturating_sub(1);
            queue.put(waiting);
        }
        queue.failures.extend(rows.failures);
        queue.arrivals = rows.arrivals;
        queue
    }
}
