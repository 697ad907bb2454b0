//! Promises: memory that is earmarked for one pending request, so that the requests behind it
//! cannot take it piece by piece.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::{Scheduler, Step};
use crate::evict::Plan;
use crate::fit::Placement;
use crate::ledger::Promise;
use crate::queue::PendingRequest;
use crate::request::{Request, RequestId};
use crate::units::Millis;

impl Scheduler {
    /// Lists the promises to requests of lower priority, and to those of equal priority that the
    /// guarantee of the request's account comes before. A promise does not reverse that order, so
    /// that these do not block the request.
    pub(super) fn lower_promises(&self, request: &Request) -> Vec<RequestId> {
        let promised = self.ledger.promises().map(|(id, _)| id);
        promised
            .filter(|id| **id != request.id)
            .filter(|id| {
                let entry = self.queue.get(id);
                entry.is_none_or(|entry| {
                    let (theirs, own) = (entry.request.terms.priority, request.terms.priority);
                    theirs < own || (theirs == own && self.outranks_by_guarantee(request, id))
                })
            })
            .cloned()
            .collect()
    }
}

impl Step<'_> {
    /// Withdraws the promises of lower priority that block a placement, and no more of them than
    /// necessary: first those of its devices, then those of its node's resources, each the last in
    /// turn first.
    pub(super) fn withdraw_lower_promises(&mut self, request: &Request, placement: &Placement) {
        let mut lower = self.scheduler.lower_promises(request);
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
        let Scheduler { ledger, queue, .. } = &*self.scheduler;
        let is_void = |id: &RequestId, promise: &Promise| {
            let is_admitted =
                |entry: &PendingRequest| ledger.admits(&entry.request, &promise.placement);
            !self.promise_holds(id) && !queue.get(id).is_some_and(is_admitted)
        };
        let promises = ledger.promises().filter(|(id, promise)| is_void(id, promise));
        let void: Vec<RequestId> = promises.map(|(id, _)| id.clone()).collect();
        void.iter().for_each(|id| self.withdraw_promise(id));
        !void.is_empty()
    }

    /// Returns true if the promise to a request still waits for a holder that is leaving or
    /// retired.
    pub(super) fn promise_holds(&self, id: &RequestId) -> bool {
        let ledger = &self.scheduler.ledger;
        let Some(promise) = ledger.promise_to(id) else { return false };
        promise.after.iter().any(|holder| {
            ledger.of_request(holder).is_some_and(|(_, holding)| {
                holding.stage.is_releasing() || promise.retired.contains(holder)
            })
        })
    }

    /// Returns the holders whose release the promise to a request waits for.
    pub(super) fn promised_after(&self, id: &RequestId) -> Vec<RequestId> {
        let promise = self.scheduler.ledger.promise_to(id);
        promise.map(|promise| promise.after.clone()).unwrap_or_default()
    }

    /// Evicts the victims of a plan and promises their memory to a request that is pending since a
    /// time.
    pub(super) fn make_room(&mut self, id: &RequestId, plan: Plan, since: Millis) {
        if !plan.retired.is_empty() {
            self.withdraw_retirements_except(id);
        }
        for victim in &plan.victims {
            self.stop(victim);
        }
        let promise = plan.promise(since);
        let before = self.scheduler.ledger.promise_to(id);
        let moves = before.is_some_and(|before| before.placement != promise.placement);
        let promised = self.scheduler.ledger.promise(id, promise);
        if self.record_if_accepted(promised) && moves {
            self.promises_withdrawn += 1;
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
