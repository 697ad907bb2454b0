//! The scheduler log: the last decision about a request and the result of its start, by the
//! core's request id, for any front end. Clients ask by account and name, as Kubernetes' clients
//! ask for a pod by namespace and name; the newest uid counts.
//!
//! A front end whose clients know work by other names (a reservation in a slot) resolves them to
//! request ids; [`clients`] does so for model slots.

pub(crate) mod clients;

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use plimsoll_core::event::Event;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Name;
use plimsoll_engine::engine::Decided;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::decisions::CachedDecision;
use super::served::ServedFront;

/// The settings of the scheduler log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Turns the log on.
    pub(crate) enabled: bool,
    /// The most names that are kept.
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

/// The most bytes that are kept, counted as if no decision shared a row with another.
const BYTES_MOST: usize = 64 << 20;
/// The most requests that are kept, so that a client that joins later finds the decision.
const REQUESTS_MOST: usize = 10_000;

/// The result of a lookup by name.
#[derive(Clone, Debug)]
pub(crate) enum Found<E> {
    Entry(Box<E>),
    /// Nothing had this name since the server started.
    Unknown,
    /// The log was dropped to make room for others.
    Dropped,
    /// The scheduler log is turned off.
    Off,
}

impl<E> Found<E> {
    /// Converts the entry.
    pub(crate) fn map<T>(self, convert: impl FnOnce(E) -> T) -> Found<T> {
        match self {
            Found::Entry(entry) => Found::Entry(Box::new(convert(*entry))),
            Found::Unknown => Found::Unknown,
            Found::Dropped => Found::Dropped,
            Found::Off => Found::Off,
        }
    }
}

/// The log of one name, for any front end.
#[derive(Debug)]
pub(crate) struct LogEntry<D> {
    /// The request that the log is about; `None` before the front end made one.
    pub(crate) request: Option<RequestId>,
    pub(crate) filter: Filter<D>,
    pub(crate) bind: Bind,
}

impl<D> Clone for LogEntry<D> {
    fn clone(&self) -> Self {
        let (request, bind) = (self.request.clone(), self.bind.clone());
        LogEntry { request, filter: self.filter.clone(), bind }
    }
}

/// The reason why work is where it is.
#[derive(Debug)]
pub(crate) enum Filter<D> {
    Decided(Arc<CachedDecision<D>>),
    /// It was placed before the server started. The node may be unknown.
    PlacedEarlier {
        node: Option<KnownNode>,
    },
    /// Nothing was decided, for this reason.
    Undecided {
        reason: String,
        nodes: Vec<KnownNode>,
    },
}

impl<D> Clone for Filter<D> {
    fn clone(&self) -> Self {
        match self {
            Filter::Decided(cached) => Filter::Decided(cached.clone()),
            Filter::PlacedEarlier { node } => Filter::PlacedEarlier { node: node.clone() },
            Filter::Undecided { reason, nodes } => {
                Filter::Undecided { reason: reason.clone(), nodes: nodes.clone() }
            }
        }
    }
}

/// A node that was not judged, but of which the front end knows the verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownNode {
    pub(crate) name: Name,
    pub(crate) container: Name,
    /// The code of the reason; `None` if the work is placed there.
    pub(crate) reason: Option<&'static str>,
}

/// The last decision about a request, and the result of its start.
#[derive(Debug)]
pub(crate) struct LoggedRequest<D> {
    pub(crate) request: RequestId,
    /// The decision; `None` if it was made before the server started.
    pub(crate) decision: Option<Arc<CachedDecision<D>>>,
    pub(crate) bind: Bind,
}

impl<D> Clone for LoggedRequest<D> {
    fn clone(&self) -> Self {
        LoggedRequest {
            request: self.request.clone(),
            decision: self.decision.clone(),
            bind: self.bind.clone(),
        }
    }
}

/// The result of a start on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bind {
    NotYet,
    /// It was seen running.
    Passed,
    /// It failed, for this reason.
    Failed(String),
}

/// Logged requests. The least recently used are dropped first.
#[derive(Debug)]
pub(crate) struct RequestLog<D> {
    cache: Mutex<Cache<D>>,
}

#[derive(Debug)]
struct Cache<D> {
    /// By account and name. A request that reuses the name of an earlier one replaces its log.
    requests: LruCache<(Name, Name), LoggedRequest<D>>,
    bytes: usize,
}

impl<D> Default for RequestLog<D> {
    fn default() -> Self {
        let cache = Cache { requests: LruCache::unbounded(), bytes: 0 };
        RequestLog { cache: Mutex::new(cache) }
    }
}

impl<D> RequestLog<D> {
    /// Returns the log of a request. Reading counts as use.
    pub(crate) fn get(&self, request: &RequestId) -> Option<LoggedRequest<D>> {
        let mut cache = self.cache();
        cache.requests.get(&key(request)).filter(|known| known.request == *request).cloned()
    }

    /// Returns the log of the newest request with a name. Reading counts as use.
    pub(crate) fn find(&self, account: &str, name: &str) -> Found<LogEntry<D>> {
        let key = (account.into(), name.into());
        let Some(logged) = self.cache().requests.get(&key).cloned() else {
            return Found::Unknown;
        };
        let filter = match logged.decision {
            Some(decision) => Filter::Decided(decision),
            // A start was reported, so the request was placed.
            None => Filter::PlacedEarlier { node: None },
        };
        let request = Some(logged.request);
        Found::Entry(Box::new(LogEntry { request, filter, bind: logged.bind }))
    }

    /// Records the events of a batch, with its decisions in order.
    pub(crate) fn record<F: ServedFront>(
        &self,
        batch: &Decided<'_, F>,
        decided: &[Arc<CachedDecision<D>>],
    ) {
        let mut cache = self.cache();
        let mut next = decided.iter().peekable();
        for record in batch.records {
            match &record.event {
                Event::Started { request, .. } => cache.bind(request, Bind::Passed),
                Event::Failed { request, .. } => {
                    let reason = batch.front.start_failure(batch.scheduler, request);
                    let reason = reason.unwrap_or_else(|| "the start failed".to_string());
                    cache.bind(request, Bind::Failed(reason));
                }
                _ => {}
            }
            while let Some(cached) = next.next_if(|cached| cached.id.seq == record.seq) {
                cache.decided(cached);
            }
        }
        cache.shrink();
    }

    fn cache(&self) -> MutexGuard<'_, Cache<D>> {
        // A thread that panicked with the lock left whole rows behind.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D> Cache<D> {
    fn decided(&mut self, cached: &Arc<CachedDecision<D>>) {
        let request = cached.decision.request.clone();
        // A rejection after a failed start does not hide the failure; a placement is a new start.
        let bind = match self.requests.peek(&key(&request)) {
            Some(known) if known.request == request && cached.decision.chosen().is_none() => {
                known.bind.clone()
            }
            _ => Bind::NotYet,
        };
        self.put(LoggedRequest { request, decision: Some(cached.clone()), bind });
    }

    /// Records the result of a start. A late report about a request whose name is in use again is
    /// dropped.
    fn bind(&mut self, request: &RequestId, bind: Bind) {
        match self.requests.get_mut(&key(request)) {
            Some(known) if known.request == *request => known.bind = bind,
            Some(_) => {}
            None => self.put(LoggedRequest { request: request.clone(), decision: None, bind }),
        }
    }

    fn put(&mut self, logged: LoggedRequest<D>) {
        self.bytes += logged.bytes();
        if let Some(old) = self.requests.put(key(&logged.request), logged) {
            self.bytes -= old.bytes();
        }
    }

    fn shrink(&mut self) {
        while self.requests.len() > REQUESTS_MOST || self.bytes > BYTES_MOST {
            let Some((_, old)) = self.requests.pop_lru() else { break };
            self.bytes -= old.bytes();
        }
    }
}

fn key(request: &RequestId) -> (Name, Name) {
    (request.account.clone(), request.name.clone())
}

impl<D> LoggedRequest<D> {
    fn bytes(&self) -> usize {
        self.decision.as_ref().map_or(0, |cached| cached.bytes)
    }
}

#[cfg(test)]
mod tests;
