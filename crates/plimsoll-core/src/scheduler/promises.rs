//! Promises: memory that is earmarked for one pending request, so that the requests behind it
//! cannot take it piece by piece.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::{Scheduler, Step};
use crate::draft::Draft;
use crate::evict::{self, Plan};
use crate::fit::Placement;
use crate::ledger::Promise;
use crate::queue::PendingRequest;
use crate::request::{Request, RequestId};

impl Scheduler {
    /// Lists the promises that do not block a request: those to requests of lower priority, and to
    /// those that the guarantee of the request's account comes before, because a promise does not
    /// reverse that order. Those of holders in use do not block a promise whose holders have gone,
    /// on its own devices: they were planned beside it.
    pub(super) fn promises_behind(&self, request: &Request) -> Vec<RequestId> {
        let own = self.ledger.promise_to(&request.id);
        let is_gone = |holder: &RequestId| self.ledger.of_request(holder).is_none();
        let due = own.filter(|own| own.after.iter().all(is_gone));
        let promised = self.ledger.promises().filter(|(id, _)| **id != request.id);
        let behind = promised.filter(|(id, promise)| {
            !self.is_ahead(id, request)
                || (due.is_some_and(|own| overlaps(&own.placement, &promise.placement))
                    && self.is_equal_and_waits(id, promise, request))
        });
        behind.map(|(id, _)| id.clone()).collect()
    }

    /// Returns true if a placement fits now, beside the promises that block it.
    fn is_admitted(&self, request: &Request, placement: &Placement) -> bool {
        if self.ledger.admits(request, placement) {
            return true;
        }
        let mut draft = Draft::new(&self.ledger);
        draft.without_promise_to(&request.id);
        self.promises_behind(request).iter().for_each(|id| draft.without_promise_to(id));
        draft.place(request, placement).is_ok()
    }

    fn is_equal_and_waits(&self, id: &RequestId, promise: &Promise, request: &Request) -> bool {
        let entry = self.queue.get(id);
        entry.is_some_and(|entry| entry.request.terms.priority == request.terms.priority)
            && self.waits_for_retired(promise)
    }
}

impl Step<'_> {
    /// Withdraws the promises behind a request that block its placement, and no more of them than
    /// necessary: first those of its devices, then those of its node's resources, each the last in
    /// turn first.
    pub(super) fn withdraw_promises_behind(&mut self, request: &Request, placement: &Placement) {
        let mut lower = self.scheduler.promises_behind(request);
        let promise_to = |id: &RequestId| self.scheduler.ledger.promise_to(id);
        let shares = self.scheduler.ledger.shares();
        // A promise also counts against the maximum of its account, wherever it is.
        let top = |id: &RequestId| shares.levels(&id.account).top.clone();
        lower.retain(|id| {
            promise_to(id).is_some_and(|promise| promise.placement.node == placement.node)
                || (!shares.is_empty() && top(id) == top(&request.id))
        });
        lower.sort_by_key(|id| {
            let shares = promise_to(id).is_some_and(|one| overlaps(&one.placement, placement));
            (Reverse(shares), Reverse(self.scheduler.queue.turn(id)))
        });
        for id in lower {
            if self.scheduler.ledger.admits(request, placement) {
                return;
            }
            self.withdraw_promise(&id);
        }
    }

    /// Withdraws the promise to a request, if there is one.
    pub(super) fn withdraw_promise(&mut self, id: &RequestId) {
        if let Some(operation) = self.scheduler.ledger.unpromise(id) {
            self.record(operation);
            self.promises_withdrawn += 1;
        }
    }

    /// Withdraws the promises whose holders have left and whose placement is not admitted
    /// nevertheless, such as for foreign memory that came meanwhile; returns true if there were
    /// any. This comes before the requests are tried: otherwise holders would be evicted for a
    /// request that fits where such a promise was.
    pub(super) fn withdraw_void_promises(&mut self) -> bool {
        let scheduler = &*self.scheduler;
        let is_void = |id: &RequestId, promise: &Promise| {
            let is_admitted =
                |entry: &PendingRequest| scheduler.is_admitted(&entry.request, &promise.placement);
            !self.promise_holds(id) && !scheduler.queue.get(id).is_some_and(is_admitted)
        };
        let promises = scheduler.ledger.promises().filter(|(id, promise)| is_void(id, promise));
        let void: Vec<RequestId> = promises.map(|(id, _)| id.clone()).collect();
        void.iter().for_each(|id| self.withdraw_promise(id));
        !void.is_empty()
    }

    /// Returns true if the promise to a request still waits for a holder that is leaving or
    /// retired, and may wait for all that are retired.
    pub(super) fn promise_holds(&self, id: &RequestId) -> bool {
        let ledger = &self.scheduler.ledger;
        let Some(promise) = ledger.promise_to(id) else { return false };
        if !self.are_retirable(id, promise) {
            return false;
        }
        promise.after.iter().any(|holder| {
            ledger.of_request(holder).is_some_and(|(_, holding)| {
                holding.stage.is_releasing() || promise.retired.contains(holder)
            })
        })
    }

    /// Returns false if a retired holder has been given terms under which it must not be evicted:
    /// it was pinned meanwhile, or got a higher priority.
    fn are_retirable(&self, id: &RequestId, promise: &Promise) -> bool {
        let Some(entry) = self.scheduler.queue.get(id) else { return false };
        let mut running = promise.retired.iter().filter_map(|one| self.scheduler.running(one));
        let request = &entry.request;
        running.all(|held| evict::check_retirable(held, request).is_ok()) // mutant: retired-terms
    }

    /// Returns the holders whose release the promise to a request waits for.
    pub(super) fn promised_after(&self, id: &RequestId) -> Vec<RequestId> {
        let promise = self.scheduler.ledger.promise_to(id);
        promise.map(|promise| promise.after.clone()).unwrap_or_default()
    }

    /// Evicts the victims of a plan and promises their memory to a request.
    pub(super) fn make_room(&mut self, request: &Request, plan: Plan) {
        let id = &request.id;
        if !plan.retired.is_empty() {
            self.withdraw_retirements_except(id);
        }
        for victim in &plan.victims {
            self.evict(victim);
        }
        if !plan.retired.is_empty() {
            self.withdraw_promises_in_the_way(request, &plan);
        }
        let promise = plan.promise(self.now);
        let before = self.scheduler.ledger.promise_to(id);
        let moves = before.is_some_and(|before| before.placement != promise.placement);
        let promised = self.scheduler.ledger.promise(id, promise);
        if self.record_if_accepted(promised) && moves {
            self.promises_withdrawn += 1;
        }
    }
}

impl Step<'_> {
    /// Withdraws the promises that a plan to retire holders ignores, as far as its placement needs
    /// their memory or resources.
    fn withdraw_promises_in_the_way(&mut self, request: &Request, plan: &Plan) {
        let node = &plan.placement.node;
        let promise = plan.clone().promise(self.now);
        let mut lower = self.scheduler.promises_behind(request);
        lower.retain(|other| {
            let theirs = self.scheduler.ledger.promise_to(other);
            theirs.is_some_and(|theirs| theirs.placement.node == *node)
        });
        lower.sort_by_key(|other| Reverse(self.scheduler.queue.turn(other)));
        for other in lower {
            if self.scheduler.is_promise_possible(request, &promise) {
                return;
            }
            self.withdraw_promise(&other);
        }
    }
}

/// Returns true if two placements share a device.
fn overlaps(one: &Placement, other: &Placement) -> bool {
    one.node == other.node && !devices(one).is_disjoint(&devices(other))
}

fn devices(placement: &Placement) -> BTreeSet<u16> {
    placement.picks.iter().flatten().copied().collect()
}
