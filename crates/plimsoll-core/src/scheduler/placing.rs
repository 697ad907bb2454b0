//! Placing one request: it gets a placement, a promise, a place in the queue, or the answer that
//! it is impossible.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Scheduler, Step};
use crate::decide::{self, Decision, Outcome};
use crate::draft::Draft;
use crate::event::Answer;
use crate::evict::Plan;
use crate::fit::Placement;
use crate::queue::{PendingReason, PendingRequest};
use crate::reason::{Change, NodeReason, Reason};
use crate::request::{Request, RequestId};
use crate::units::Millis;
use crate::verdict::Table;

impl Scheduler {
    /// Decides a request as if it were submitted now. Its own promise does not block it, nor, if
    /// there is no other placement, the promises to requests behind it.
    pub(super) fn decide_for(&mut self, request: &Request) -> Decision {
        let behind = self.promises_behind(request);
        let Scheduler { ledger, memo, settings, .. } = self;
        let mut draft = Draft::new(ledger);
        draft.without_promise_to(&request.id);
        let decision = memo.decide_on(&draft, &settings.policy, request);
        if decision.chosen().is_some() || behind.is_empty() {
            return decision;
        }
        for id in &behind {
            draft.without_promise_to(id);
        }
        memo.decide_on(&draft, &settings.policy, request)
    }
}

impl Step<'_> {
    pub(super) fn submit(&mut self, mut request: Request, deadline: Option<Millis>) {
        request.terms.waits = true;
        request.terms.deadline = deadline;
        let id = &request.id;
        let holding = self.scheduler.ledger.of_request(id).map(|(_, holding)| holding);
        if let Some(holding) = holding.filter(|holding| !holding.stage.is_releasing()) {
            let node = holding.node.clone();
            return self.answer_placed(id, node);
        }
        if let Some(entry) = self.scheduler.queue.get(id) {
            let reason = entry.reason.clone();
            return self.answer_pending(id, reason);
        }
        let entry = PendingRequest { deadline, ..PendingRequest::new(self.now, request) };
        if entry.request.terms.speculative && self.scheduler.queue.has_real_work() {
            self.keep_pending_for(entry, PendingReason::BehindRealWork);
        } else {
            self.try_place(entry);
        }
    }

    /// Decides a new or pending request and carries the decision out. Returns the decision if it
    /// leaves the request pending.
    pub(super) fn try_place(&mut self, entry: PendingRequest) -> Option<Decision> {
        let request = entry.request.clone();
        if let Some((_, holding)) = self.scheduler.ledger.of_request(&request.id) {
            if holding.stage.is_releasing() {
                self.keep_pending_for(entry, PendingReason::EarlierHoldingReleasing);
            } else {
                self.dequeue(&request.id);
            }
            return None;
        }
        let is_new = self.scheduler.queue.get(&request.id).is_none();
        let decision = self.scheduler.decide_for(&request);
        if let Some(placement) = decision.placement().cloned() {
            self.outcome.decisions.push(decision);
            self.withdraw_promises_behind(&request, &placement);
            self.place(entry, &placement);
            return None;
        }
        // A request that was possible when it arrived stays pending: its node may come back.
        if decide::malformed(&request.spec).is_some() || (is_new && self.is_impossible(&request)) {
            self.dequeue(&request.id);
            self.clear_failures(&request.id);
            self.answer_impossible(decision);
            return None;
        }
        Some(self.leave_pending(entry, decision))
    }

    /// Keeps a rejected request pending, with a promise if holders are leaving or can be evicted
    /// for it.
    fn leave_pending(&mut self, entry: PendingRequest, decision: Decision) -> Decision {
        let request = &entry.request;
        let plan = self.plan_for(request);
        let waits_for_releases = match &plan {
            Some(plan) => plan.retired.is_empty(),
            None => self.waits_for_releases(&request.id),
        };
        let no_eviction_helps = !waits_for_releases && !request.terms.speculative;
        let decision = if no_eviction_helps {
            self.with_holders_not_evictable(request, decision)
        } else {
            decision
        };
        let reason = PendingReason::Rejected(decision.rejection().cloned().unwrap_or_default());
        let wakes_on = wakes_on(&decision);
        let kept = self.keep_pending(PendingRequest { reason, wakes_on, ..entry }, plan);
        // A rejection that equals the previous one is not worth a record.
        if kept == News::Changed {
            self.outcome.decisions.push(decision.clone());
        }
        decision
    }

    /// Keeps a request pending for a reason that only less load can lift.
    fn keep_pending_for(&mut self, entry: PendingRequest, reason: PendingReason) {
        let wakes_on = vec![Change::LoadFell];
        self.keep_pending(PendingRequest { reason, wakes_on, ..entry }, None);
    }

    /// Keeps a request pending, makes the promise that `plan` allows, and withdraws one that no
    /// longer holds. Answers only if something changed.
    pub(super) fn keep_pending(&mut self, entry: PendingRequest, plan: Option<Plan>) -> News {
        let id = entry.request.id.clone();
        let promised_before = self.promised_after(&id);
        match plan {
            Some(plan) => self.make_room(&entry.request, plan),
            None if !self.promise_holds(&id) => self.withdraw_promise(&id),
            None => {}
        }
        let is_same = self.scheduler.queue.get(&id) == Some(&entry)
            && self.promised_after(&id) == promised_before;
        if is_same {
            return News::Unchanged;
        }
        let reason = entry.reason.clone();
        self.enqueue(entry);
        self.answer_pending(&id, reason);
        News::Changed
    }

    fn answer_pending(&mut self, id: &RequestId, reason: PendingReason) {
        let promised = self.promised_after(id);
        self.outcome.answers.push(Answer::Pending { request: id.clone(), reason, promised });
    }

    /// Charges the placement of a new or pending request and takes it out of the queue.
    pub(super) fn place(&mut self, entry: PendingRequest, placement: &Placement) {
        let id = entry.request.id.clone();
        // The charge ends the promise. Unless the promise was for this very placement, it leaves
        // memory to others.
        let promise = self.scheduler.ledger.promise_to(&id);
        let leaves_memory = promise.is_some_and(|promise| promise.placement != *placement);
        match self.charge(&entry.request, placement) {
            Ok(()) => {
                self.dequeue(&id);
                self.promises_withdrawn += usize::from(leaves_memory);
            }
            Err(error) => {
                debug_assert!(
                    false,
                    "the commit admits what decide proposes on the same ledger: {error}"
                );
                self.keep_pending_for(entry, PendingReason::NotAdmitted(Arc::new(error)));
            }
        }
    }
}

/// The result of keeping a request pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Its reason or its promise changed.
    Changed,
    Unchanged,
}

/// Returns the changes that could lift any reason of a rejection.
fn wakes_on(decision: &Decision) -> Vec<Change> {
    let mut changes = BTreeSet::from([Change::NodeChanged]);
    for verdict in decision.tables().flat_map(Table::unordered) {
        changes.extend(verdict.reason.as_ref().map(NodeReason::clears_on));
        let devices = verdict.needs.iter().flat_map(|need| &need.devices);
        changes.extend(devices.filter_map(|device| device.reason.as_ref()).map(Reason::clears_on));
    }
    if let Outcome::Rejected(Some(reason)) = &decision.outcome {
        changes.extend(reason.clears_on());
    }
    changes.remove(&Change::RequestChanged);
    changes.into_iter().collect()
}
