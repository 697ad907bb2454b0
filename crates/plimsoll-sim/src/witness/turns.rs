//! The checks of turns: the pending requests are served in order, and a request that was promised
//! retired holders starts as soon as those have ended the work that they had when it was promised.
//!
//! The bound of `plimsoll_core::evict::retire` follows from what is checked after each step,
//! without a clock. The holders of such a promise take no new work (`joined`), all of them are
//! evicted in the step in which the last one becomes idle (`kept_idle`), the request is placed in
//! the step in which the last one is gone (`not_placed`), and no later request has holders of its
//! node evicted (`displaced_beside`). The first pending request has a promise if room can be made
//! for it (`room`).
//!
//! Nothing here calls the planner. Facts about requests and holders come from the ledger and the
//! queue; sums are those of the books.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_core::charge::{Activity, Holding};
use plimsoll_core::event::{Effect, Event, Outcome};
use plimsoll_core::ledger::Promise;
use plimsoll_core::queue::PendingRequest;
use plimsoll_core::request::{RequestId, Spec, Terms};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Millis, Name};

use super::Objection;
use super::accounts::Accounts;
use super::books::Books;
use super::room;

/// The promises and pending requests after the last step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    /// In turn.
    pending: Vec<Pending>,
    promised: BTreeMap<RequestId, Promised>,
    /// The requests with any promise.
    has_promise: BTreeSet<RequestId>,
    accounts: Accounts,
}

#[derive(Clone, Debug)]
struct Pending {
    id: RequestId,
    spec: Arc<Spec>,
}

/// A promise of retired holders.
#[derive(Clone, Debug)]
struct Promised {
    made: Millis,
    node: Name,
    /// The requests in flight at each retired holder that runs.
    in_flight: BTreeMap<RequestId, Activity>,
}

/// One step, as the checks see it.
pub(crate) struct Seen<'a> {
    pub now: Millis,
    pub event: &'a Event,
    pub outcome: &'a Outcome,
    pub books: &'a Books,
    pub granted: &'a BTreeSet<RequestId>,
    pub after: &'a Scheduler,
}

impl Turns {
    /// Checks one step, and remembers its result for the next one.
    pub(crate) fn step(&mut self, seen: &Seen<'_>) -> Vec<Objection> {
        let mut found = Vec::new();
        if !self.promised.is_empty() {
            found.extend(self.joined(seen));
            found.extend(self.displaced_beside(seen));
        }
        found.extend(kept_idle(seen));
        found.extend(self.not_placed(seen));
        found.extend(self.overtaken(seen));
        let was_retired = |holder: &RequestId| {
            self.promised.values().any(|before| before.in_flight.contains_key(holder))
        };
        found.extend(self.accounts.wrong_reclaim(seen, &was_retired));
        if matches!(seen.event, Event::Tick) {
            found.extend(room::first_without_promise(seen));
            found.extend(self.accounts.not_reclaimed(seen));
        }
        self.remember(seen);
        found.into_iter().map(Objection).collect()
    }

    fn remember(&mut self, seen: &Seen<'_>) {
        let after = seen.after;
        let pending = after.queue().iter().map(|entry| Pending {
            id: entry.request.id.clone(),
            spec: entry.request.spec.clone(),
        });
        self.pending = pending.collect();
        self.has_promise = after.ledger().promises().map(|(id, _)| id.clone()).collect();
        let promised = after.ledger().promises().filter(|(_, promise)| !promise.retired.is_empty());
        let promised = promised.map(|(id, promise)| {
            let running = running(after, promise);
            let promised = Promised {
                made: promise.made,
                node: promise.placement.node.clone(),
                in_flight: running.map(|held| (held.request.clone(), held.activity)).collect(),
            };
            (id.clone(), promised)
        });
        self.promised = promised.collect();
        self.accounts.remember(seen.books, after);
    }

    /// A retired holder got new work.
    fn joined(&self, seen: &Seen<'_>) -> Option<String> {
        self.promised.iter().find_map(|(id, before)| {
            let promise = seen.after.ledger().promise_to(id)?;
            running(seen.after, promise).find_map(|held| {
                let joined = match (before.in_flight.get(&held.request)?, held.activity) {
                    (Activity::Active { requests: then }, Activity::Active { requests }) => {
                        requests > *then
                    }
                    (Activity::Idle { .. }, Activity::Active { .. }) => true,
                    _ => false,
                };
                joined.then(|| format!("{} got new work and is retired for {id}", held.request))
            })
        })
    }

    /// Returns true if a request with a promise or a placement comes before a pending one.
    fn comes_before(&self, seen: &Seen<'_>, other: &RequestId, entry: &PendingRequest) -> bool {
        let terms = terms(seen.after, other);
        let (theirs, own) = (terms.map(|terms| terms.priority), entry.request.terms.priority);
        theirs.is_some_and(|theirs| {
            theirs > own || (theirs == own && self.accounts.is_due_before(other, &entry.request.id))
        })
    }

    /// A holder was evicted for a request behind one that waits for retired holders of its node.
    fn displaced_beside(&self, seen: &Seen<'_>) -> Option<String> {
        let ledger = seen.after.ledger();
        evicted(seen).find_map(|(victim, node)| {
            let (id, _) = self.promised.iter().find(|(id, before)| {
                before.node == *node
                    && ledger
                        .promise_to(id)
                        .is_some_and(|now| now.made == before.made && !now.after.contains(victim))
            })?;
            let entry = seen.after.queue().get(id).filter(|entry| entry.gang.is_none())?;
            let takers = ledger.promises().filter(|(_, promise)| promise.after.contains(victim));
            let mut takers = takers.map(|(taker, _)| taker);
            (!takers.any(|taker| self.comes_before(seen, taker, entry))).then(|| {
                format!(
                    "{victim} was evicted for a later request beside {id}, which is ahead there"
                )
            })
        })
    }

    /// All holders of a promise are gone, and its request is still pending.
    fn not_placed(&self, seen: &Seen<'_>) -> Option<String> {
        let ledger = seen.after.ledger();
        let has_real_work = seen.after.queue().has_real_work();
        ledger.promises().find_map(|(id, promise)| {
            let entry = seen.after.queue().get(id)?;
            let waits = promise.after.iter().any(|holder| ledger.of_request(holder).is_some())
                || ledger.of_request(id).is_some()
                || entry.gang.is_some()
                || (entry.request.terms.speculative && has_real_work)
                || !entry.may_try(seen.now);
            (!waits).then(|| format!("{id} was promised memory that is free, and is pending"))
        })
    }

    /// A request was placed before an equal one that was pending for longer.
    fn overtaken(&self, seen: &Seen<'_>) -> Option<String> {
        let ledger = seen.after.ledger();
        let new = seen.granted.iter().filter(|id| !self.has_promise.contains(*id));
        new.filter_map(|id| ledger.of_request(id)).find_map(|(_, held)| {
            let (id, spec) = (&held.request, held.spec.as_ref()?);
            let before = self.pending.iter().take_while(|other| other.id != *id);
            let mut equal = before.filter(|other| other.id.account == id.account);
            let other = equal.find(|other| {
                other.spec == *spec && is_equal_and_ready(seen, &other.id, spec, &held.terms)
            })?;
            Some(format!("{id} was placed before {}, which is equal and earlier", other.id))
        })
    }
}

/// Returns true if a request is still pending, could have been tried, and has these terms.
fn is_equal_and_ready(seen: &Seen<'_>, id: &RequestId, wanted: &Arc<Spec>, terms: &Terms) -> bool {
    let ledger = seen.after.ledger();
    let is_free = ledger.promise_to(id).is_none() && ledger.of_request(id).is_none();
    let entry = seen.after.queue().get(id);
    is_free
        && entry.is_some_and(|entry| {
            let own = Terms { deadline: terms.deadline, ..entry.request.terms.clone() };
            let spec = &entry.request.spec;
            entry.gang.is_none()
                && entry.backoff.is_none()
                && (spec, own) == (wanted, terms.clone())
        })
}

/// A promise whose retired holders are all idle, which should have been evicted.
fn kept_idle(seen: &Seen<'_>) -> Option<String> {
    let mut promises = seen.after.ledger().promises();
    promises.find_map(|(id, promise)| {
        let mut running = running(seen.after, promise).peekable();
        let is_due = running.peek().is_some() && running.all(is_idle);
        is_due.then(|| format!("the holders retired for {id} are idle and were not evicted"))
    })
}

fn is_idle(holding: &Holding) -> bool {
    matches!(holding.activity, Activity::Idle { .. })
}

/// Iterates over the retired holders of a promise that are not being released.
fn running<'a>(after: &'a Scheduler, promise: &'a Promise) -> impl Iterator<Item = &'a Holding> {
    let held = promise.retired.iter().filter_map(|holder| after.ledger().of_request(holder));
    held.map(|(_, held)| held).filter(|held| !held.stage.is_releasing())
}

/// Iterates over the holders that a step evicted, with their nodes.
pub(crate) fn evicted<'a>(seen: &'a Seen<'_>) -> impl Iterator<Item = (&'a RequestId, &'a Name)> {
    let withdrawn = match seen.event {
        Event::Withdraw { request } => Some(request),
        _ => None,
    };
    seen.outcome.effects.iter().filter_map(move |effect| match effect {
        Effect::Stop { request, node, .. } if Some(request) != withdrawn => Some((request, node)),
        _ => None,
    })
}

/// Returns the terms of a pending or placed request.
fn terms<'a>(after: &'a Scheduler, id: &RequestId) -> Option<&'a Terms> {
    let pending = after.queue().get(id).map(|entry| &entry.request.terms);
    pending.or_else(|| after.ledger().of_request(id).map(|(_, held)| &held.terms))
}

#[cfg(test)]
mod tests;
