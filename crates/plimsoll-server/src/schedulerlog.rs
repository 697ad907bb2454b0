//! The scheduler log: the last decision about a request and the result of its start, keyed by the
//! core's request id, for any front end.
//!
//! A front end whose clients know work by other names (a reservation in a slot) resolves them to
//! request ids; [`clients`] does so for model slots.

pub(crate) mod clients;

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use plimsoll_core::event::Event;
use plimsoll_core::request::RequestId;
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

/// The last decision about a request, and the result of its start.
#[derive(Debug)]
pub(crate) struct LoggedRequest<D> {
    /// The decision; `None` if it was made before the server started.
    pub(crate) decision: Option<Arc<CachedDecision<D>>>,
    pub(crate) bind: Bind,
}

impl<D> Clone for LoggedRequest<D> {
    fn clone(&self) -> Self {
        LoggedRequest { decision: self.decision.clone(), bind: self.bind.clone() }
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
    requests: LruCache<RequestId, LoggedRequest<D>>,
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
        self.cache().requests.get(request).cloned()
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
        let bind = match self.requests.peek(&request) {
            Some(known) if cached.decision.chosen().is_none() => known.bind.clone(),
            _ => Bind::NotYet,
        };
        self.put(request, LoggedRequest { decision: Some(cached.clone()), bind });
    }

    fn bind(&mut self, request: &RequestId, bind: Bind) {
        match self.requests.get_mut(request) {
            Some(known) => known.bind = bind,
            None => self.put(request.clone(), LoggedRequest { decision: None, bind }),
        }
    }

    fn put(&mut self, request: RequestId, logged: LoggedRequest<D>) {
        self.bytes += logged.bytes();
        if let Some(old) = self.requests.put(request, logged) {
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

impl<D> LoggedRequest<D> {
    fn bytes(&self) -> usize {
        self.decision.as_ref().map_or(0, |cached| cached.bytes)
    }
}

#[cfg(test)]
mod tests;
