//! Retirement: the first pending request, or gang, that it helps gets a promise of memory that is
//! still in use; see `evict::retire` for the rule and its bound.

use std::collections::BTreeSet;

use super::reclaim::Displacing;
use super::retry::Kind;
use super::{Scheduler, Step};
use crate::charge::{Activity, Holding};
use crate::draft::Draft;
use crate::evict::{self, Displaceable, Plan};
use crate::gang::Gang;
use crate::ledger::Promise;
use crate::queue::PendingRequest;
use crate::request::{Request, RequestId};
use crate::units::{Millis, Name};

/// The result of evicting the retired holders that are idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evicted {
    Some,
    None,
}

impl Scheduler {
    /// Plans room for a request that does not fit now, for the scheduler to carry out and for
    /// what-if to show: by eviction if possible, else by retirement if it is first in turn.
    pub fn plan_room(&self, request: &Request, now: Millis) -> Option<Plan> {
        self.plan_eviction(request, now).or_else(|| self.plan_retirement(request, now))
    }

    /// Returns true if a holder is retired and takes no new work any more.
    pub fn is_retired(&self, holder: &RequestId) -> bool {
        self.ledger.retired_for(holder).is_some()
    }

    /// Returns the time until which a request does not displace holders of its own priority,
    /// because its model was evicted less than a residency before; `None` if it does now.
    pub fn displaces_from(&self, request: &Request, now: Millis) -> Option<Millis> {
        let evicted_at = self.queue.evicted_at(request.terms.model.as_ref()?)?;
        Some(evicted_at.after(self.settings.residency)).filter(|from| *from > now)
    }

    fn displaceable(&self, request: &Request, now: Millis) -> Displaceable {
        match self.displaces_from(request, now) {
            Some(_) => Displaceable::OnlyLower,
            None => Displaceable::UpToEqual,
        }
    }

    /// Plans an eviction. Nothing is evicted for a request on a node where another one, which is
    /// ahead of it, waits for retired holders.
    fn plan_eviction(&self, request: &Request, now: Millis) -> Option<Plan> {
        let is_evictable = |held: &Holding| self.check_evictable(held, request, now).is_ok();
        self.plan_eviction_of(request, now, is_evictable)
    }

    fn plan_eviction_of(
        &self,
        request: &Request,
        now: Millis,
        is_evictable: impl Fn(&Holding) -> bool,
    ) -> Option<Plan> {
        let kept = self.nodes_kept_from(request);
        let is_evictable = |held: &Holding| !is_on_any(held, &kept) && is_evictable(held);
        let is_fair = |plan: &Plan| self.is_fair(request, plan, Displacing::Evict { now });
        let order = self.victim_order(request);
        let policy = &self.settings.policy;
        evict::plan_room(&self.ledger, policy, request, order, is_evictable, is_fair)
    }

    /// Plans a retirement, unless a request that is ahead has one, or is to have the next one.
    fn plan_retirement(&self, request: &Request, now: Millis) -> Option<Plan> {
        let others = self.retirements_to_replace(request)?;
        let plan = self.retire_beside(request, now, &others)?;
        (!self.is_next_for_another(request, now)).then_some(plan)
    }

    /// Returns true if an earlier pending request has no promise only because of promises to
    /// others. It must get the next retirement: a later request would take it whenever an earlier
    /// promise has just ended on a part of the devices, and a request for several devices would
    /// wait for ever.
    ///
    /// A search visits every node. There is one for each kind of earlier request that displaces
    /// work at all, not for each request: equal requests get equal plans.
    fn is_next_for_another(&self, request: &Request, now: Millis) -> bool {
        let promised: Vec<RequestId> = self.ledger.promises().map(|(id, _)| id.clone()).collect();
        let is_earlier = |entry: &&PendingRequest| entry.request.id != request.id;
        let earlier = self.queue.iter().take_while(is_earlier).filter(|entry| {
            entry.request.terms.priority >= request.terms.priority
                && entry.gang.is_none()
                && !evict::displaces_nothing(&entry.request)
                && entry.may_try(now)
                && self.ledger.promise_to(&entry.request.id).is_none()
                && !self.outranks_by_guarantee(request, &entry.request.id)
        });
        let mut searched: BTreeSet<Kind> = BTreeSet::new();
        let mut first_of_kind = earlier.map(|entry| &entry.request).filter(|earlier| {
            self.ledger.of_request(&earlier.id).is_some() || searched.insert(self.kind(earlier))
        });
        first_of_kind.any(|earlier| self.retire_beside(earlier, now, &promised).is_some())
    }

    /// Plans a retirement as if there were no promises to `others`.
    fn retire_beside(&self, request: &Request, now: Millis, others: &[RequestId]) -> Option<Plan> {
        let is_fair = |plan: &Plan| self.is_fair(request, plan, Displacing::Retire);
        let displaceable = self.displaceable(request, now);
        let mut kept = self.nodes_kept_from(request);
        kept.retain(|(id, _)| !others.contains(id));
        let can_retire = |held: &Holding| {
            !is_on_any(held, &kept) && evict::can_retire(held, request, displaceable)
        };
        let policy = &self.settings.policy;
        evict::plan_retirement(&self.ledger, policy, request, can_retire, others, is_fair)
    }

    /// Returns the nodes on which nothing is displaced for a request, because one that is ahead
    /// waits there for retired holders, or for their release. A holder that was displaced meanwhile
    /// would let later requests take free memory of that promise in exchange for memory that is
    /// still to be released.
    fn nodes_kept_from(&self, request: &Request) -> Vec<(&RequestId, &Name)> {
        let promises = self.ledger.promises().filter(|(id, promise)| {
            !promise.retired.is_empty()
                && !self.is_together(id, &request.id)
                && self.is_ahead(id, request)
        });
        promises.map(|(id, promise)| (id, &promise.placement.node)).collect()
    }

    /// Plans the retirement of holders for a gang, unless a request that is ahead has one.
    pub(super) fn plan_gang_retirement(
        &self,
        gang: &Gang,
        now: Millis,
    ) -> Option<Vec<Option<Plan>>> {
        let first = gang.members.first()?;
        let others = self.retirements_to_replace(first)?;
        let is_fair = |plan: &Plan| self.is_fair(first, plan, Displacing::Retire);
        let kept = self.nodes_kept_from(first);
        let can_retire = |held: &Holding| {
            !is_on_any(held, &kept)
                && gang
                    .members
                    .iter()
                    .all(|member| evict::can_retire(held, member, self.displaceable(member, now)))
        };
        let policy = &self.settings.policy;
        evict::gang_after_retirement(&self.ledger, policy, gang, can_retire, &others, is_fair)
    }

    /// Returns the requests whose promises do not keep this one from a promise of retired holders:
    /// those that have such a promise, and those behind it. `None` if one of the first kind
    /// is ahead.
    fn retirements_to_replace(&self, request: &Request) -> Option<Vec<RequestId>> {
        let mut others = self.promises_behind(request);
        for (id, _) in self.retirements().filter(|(id, _)| !self.is_together(id, &request.id)) {
            if self.is_ahead(id, request) {
                return None;
            }
            others.push(id.clone());
        }
        Some(others)
    }

    /// Iterates over the promises that wait for retired holders that still run. All of them are to
    /// one request or one gang (`Step::make_room`).
    pub(super) fn retirements(&self) -> impl Iterator<Item = (&RequestId, &Promise)> {
        self.ledger.promises().filter(|(_, promise)| self.waits_for_retired(promise))
    }

    pub(super) fn waits_for_retired(&self, promise: &Promise) -> bool {
        promise.retired.iter().any(|holder| self.running(holder).is_some())
    }

    pub(super) fn running(&self, holder: &RequestId) -> Option<&Holding> {
        let holding = self.ledger.of_request(holder).map(|(_, holding)| holding);
        holding.filter(|holding| !holding.stage.is_releasing())
    }

    /// Returns true if two requests are the same, or pending members of the same gang.
    fn is_together(&self, one: &RequestId, other: &RequestId) -> bool {
        let gang = |id: &RequestId| Some(&self.queue.get(id)?.gang.as_ref()?.name);
        one == other || gang(one).is_some_and(|name| gang(other) == Some(name))
    }

    /// Returns true if a promise to a pending request is kept although another request wants its
    /// memory: it has at least the same priority, and the guarantee of the other one's account does
    /// not come before it. Age does not count: a promise once made is not moved by an older request
    /// that could not use it then.
    pub(super) fn is_ahead(&self, id: &RequestId, request: &Request) -> bool {
        self.queue.get(id).is_some_and(|entry| {
            let (theirs, own) = (entry.request.terms.priority, request.terms.priority);
            theirs > own || (theirs == own && !self.outranks_by_guarantee(request, id))
        })
    }

    /// Returns true if the request of a promise would fit once all holders have left that the
    /// promise waits for. Otherwise its node was closed, or memory was lost to another process.
    pub(super) fn is_promise_possible(&self, request: &Request, promise: &Promise) -> bool {
        let Some(node) = self.ledger.node_id(&promise.placement.node) else { return false };
        let mut draft = Draft::new(&self.ledger);
        draft.without_releasing_on(node);
        draft.without_promise_to(&request.id);
        for holder in &promise.after {
            if let Some((id, _)) = self.ledger.of_request(holder) {
                draft.without(id);
            }
        }
        draft.place(request, &promise.placement).is_ok()
    }

    fn is_idle(&self, holder: &RequestId) -> bool {
        self.running(holder).is_some_and(is_idle)
    }
}

fn is_on_any(holding: &Holding, kept: &[(&RequestId, &Name)]) -> bool {
    kept.iter().any(|(_, node)| **node == holding.node)
}

fn is_idle(holding: &Holding) -> bool {
    matches!(holding.activity, Activity::Idle { .. })
}

impl Step<'_> {
    /// Plans room for a pending request. A promise that holds is kept, unless it cannot be
    /// fulfilled any more, or all of its retired holders still run, some in use, and others are
    /// idle.
    pub(super) fn plan_for(&self, request: &Request) -> Option<Plan> {
        let scheduler = &*self.scheduler;
        let promise = scheduler.ledger.promise_to(&request.id);
        let Some(promise) = promise.filter(|_| self.promise_holds(&request.id)) else {
            return scheduler.plan_room(request, self.now);
        };
        if promise.retired.is_empty()
            || !promise.retired.iter().all(|holder| scheduler.running(holder).is_some())
        {
            return None;
        }
        if !scheduler.is_promise_possible(request, promise) {
            return scheduler.plan_room(request, self.now);
        }
        if promise.retired.iter().all(|holder| scheduler.is_idle(holder)) {
            return None;
        }
        let displaceable = scheduler.displaceable(request, self.now);
        let can_go_now = |held: &Holding| {
            scheduler.check_evictable(held, request, self.now).is_ok()
                || (is_idle(held) && evict::can_retire(held, request, displaceable))
        };
        scheduler.plan_eviction_of(request, self.now, can_go_now)
    }

    /// Returns true if the promise to a request holds and all its holders are leaving.
    pub(super) fn waits_for_releases(&self, id: &RequestId) -> bool {
        let promise = self.scheduler.ledger.promise_to(id);
        self.promise_holds(id)
            && !promise.is_some_and(|promise| self.scheduler.waits_for_retired(promise))
    }

    /// Evicts the retired holders of a promise, once all of them are idle: before that the eviction
    /// of some would make no room.
    pub(super) fn evict_retired(&mut self) -> Evicted {
        let mut victims: Vec<RequestId> = Vec::new();
        for (_, promise) in self.scheduler.ledger.promises() {
            let running =
                promise.retired.iter().filter(|one| self.scheduler.running(one).is_some());
            let running: Vec<&RequestId> = running.collect();
            if running.iter().all(|holder| self.can_evict_retired(holder)) {
                victims.extend(running.into_iter().cloned());
            }
        }
        victims.sort();
        victims.dedup();
        victims.iter().for_each(|victim| self.evict(victim));
        if victims.is_empty() { Evicted::None } else { Evicted::Some }
    }

    fn can_evict_retired(&self, holder: &RequestId) -> bool {
        let scheduler = &*self.scheduler;
        let Some(holding) = scheduler.running(holder) else { return false };
        let residency = scheduler.settings.residency;
        is_idle(holding) || evict::evictable_since(holding, self.now, residency).is_ok()
    }

    /// Withdraws the promises of memory that is still in use, except that of one request and of its
    /// gang.
    pub(super) fn withdraw_retirements_except(&mut self, request: &RequestId) {
        let scheduler = &*self.scheduler;
        let others = scheduler.retirements().filter(|(id, _)| !scheduler.is_together(id, request));
        let others: Vec<RequestId> = others.map(|(id, _)| id.clone()).collect();
        others.iter().for_each(|id| self.withdraw_promise(id));
    }
}
