//! Retirement: the first pending request that it helps gets a promise of memory that is still in
//! use; see `evict::retire` for the rule and its bound.

use super::reclaim::Displacing;
use super::{Scheduler, Step};
use crate::charge::{Activity, Holding};
use crate::evict::{self, Plan};
use crate::ledger::Promise;
use crate::request::{Request, RequestId};
use crate::units::{Millis, Name};

impl Scheduler {
    /// Plans room for a request that does not fit now, for the scheduler to carry out and for
    /// what-if to show: by eviction if possible, else by retirement if it is first in turn.
    pub fn plan_room(&self, request: &Request, now: Millis) -> Option<Plan> {
        self.plan_eviction(request, now).or_else(|| self.plan_retirement(request))
    }

    /// Returns true if a holder is retired and takes no new work any more.
    pub fn is_retired(&self, holder: &RequestId, now: Millis) -> bool {
        let Some((_, promise)) = self.ledger.retired_for(holder) else { return false };
        let holding = self.ledger.of_request(holder).map(|(_, holding)| holding);
        let retires_at =
            holding.and_then(|held| evict::retires_at(held, promise, self.settings.residency));
        retires_at.is_some_and(|at| at <= now)
    }

    /// Plans an eviction. Nothing is evicted for a request on a node where another one, which is
    /// ahead of it, waits for retired holders.
    fn plan_eviction(&self, request: &Request, now: Millis) -> Option<Plan> {
        let policy = &self.settings.policy;
        let ahead = self.retirements().find(|(id, _)| self.is_ahead(id, request));
        let kept: Option<&Name> = ahead.map(|(_, promise)| &promise.placement.node);
        let is_evictable = |held: &Holding| {
            kept != Some(&held.node) && self.check_evictable(held, request, now).is_ok()
        };
        let is_fair = |plan: &Plan| self.is_fair(request, plan, Displacing::Evict { now });
        let order = self.victim_order(request);
        evict::plan_room(&self.ledger, policy, request, order, is_evictable, is_fair)
    }

    /// Plans a retirement, unless a request that is ahead has one.
    fn plan_retirement(&self, request: &Request) -> Option<Plan> {
        let mut others = Vec::new();
        for (id, _) in self.retirements().filter(|(id, _)| **id != request.id) {
            if self.is_ahead(id, request) {
                return None;
            }
            others.push(id.clone());
        }
        let is_fair = |plan: &Plan| self.is_fair(request, plan, Displacing::Retire);
        evict::plan_retirement(&self.ledger, &self.settings.policy, request, &others, is_fair)
    }

    /// Iterates over the promises that wait for retired holders that still run. There is at most
    /// one (`Step::make_room`).
    fn retirements(&self) -> impl Iterator<Item = (&RequestId, &Promise)> {
        self.ledger.promises().filter(|(_, promise)| self.waits_for_retired(promise))
    }

    fn waits_for_retired(&self, promise: &Promise) -> bool {
        promise.retired.iter().any(|holder| self.running(holder).is_some())
    }

    fn running(&self, holder: &RequestId) -> Option<&Holding> {
        let holding = self.ledger.of_request(holder).map(|(_, holding)| holding);
        holding.filter(|holding| !holding.stage.is_releasing())
    }

    /// Returns true if a pending request is tried before another one. A request that is not pending
    /// yet comes after those of its priority.
    fn is_ahead(&self, id: &RequestId, request: &Request) -> bool {
        let Some(turn) = self.queue.turn(id) else { return false };
        match self.queue.turn(&request.id) {
            Some(other) if turn.has_same_priority(other) && !self.ledger.shares().is_empty() => {
                *id != request.id && !self.outranks_by_guarantee(request, id)
            }
            Some(other) => turn < other,
            None => self.queue.get(id).is_some_and(|entry| {
                let priority = entry.request.terms.priority;
                priority > request.terms.priority
                    || (priority == request.terms.priority
                        && !self.outranks_by_guarantee(request, id))
            }),
        }
    }
}

impl Step<'_> {
    /// Plans room for a pending request. A promise that holds is kept, unless all of its retired
    /// holders still run and an eviction now makes room sooner.
    pub(super) fn plan_for(&self, request: &Request) -> Option<Plan> {
        let scheduler = &*self.scheduler;
        if !self.promise_holds(&request.id) {
            return scheduler.plan_room(request, self.now);
        }
        let promise = scheduler.ledger.promise_to(&request.id)?;
        let all_run = promise.retired.iter().all(|holder| scheduler.running(holder).is_some());
        let can_move = all_run && !promise.retired.is_empty();
        if can_move { scheduler.plan_eviction(request, self.now) } else { None }
    }

    /// Returns true if the promise to a request holds and all its holders are leaving.
    pub(super) fn waits_for_releases(&self, id: &RequestId) -> bool {
        let promise = self.scheduler.ledger.promise_to(id);
        self.promise_holds(id)
            && !promise.is_some_and(|promise| self.scheduler.waits_for_retired(promise))
    }

    /// Evicts the retired holders of a promise, once all of them are idle: before that the eviction
    /// of some would make no room.
    pub(super) fn evict_retired(&mut self) {
        let mut victims: Vec<RequestId> = Vec::new();
        for (_, promise) in self.scheduler.ledger.promises() {
            let running =
                promise.retired.iter().filter(|one| self.scheduler.running(one).is_some());
            let running: Vec<&RequestId> = running.collect();
            if running.iter().all(|holder| self.can_evict_retired(holder)) {
                victims.extend(running.into_iter().cloned());
            }
        }
        victims.iter().for_each(|victim| self.stop(victim));
    }

    fn can_evict_retired(&self, holder: &RequestId) -> bool {
        let scheduler = &*self.scheduler;
        let Some(holding) = scheduler.running(holder) else { return false };
        let is_idle = matches!(holding.activity, Activity::Idle { .. });
        let residency = scheduler.settings.residency;
        evict::evictable_since(holding, self.now, residency).is_ok()
            || (is_idle && scheduler.is_retired(holder, self.now))
    }

    /// Withdraws the promises of memory that is still in use, except that of one request.
    pub(super) fn withdraw_retirements_except(&mut self, request: &RequestId) {
        let retirements = self.scheduler.retirements().map(|(id, _)| id.clone());
        let others: Vec<RequestId> = retirements.filter(|id| id != request).collect();
        others.iter().for_each(|id| self.withdraw_promise(id));
    }
}
