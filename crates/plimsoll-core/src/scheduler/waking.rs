//! Waking those whose refusal a change may have lifted.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::Step;
use crate::decide::Decision;
use crate::queue::PendingRequest;
use crate::request::{RequestId, Spec, Terms};

/// Those who were refused in this round, by what they ask for, each with the decision.
type Refused = BTreeMap<(Arc<Spec>, Terms), (PendingRequest, Decision)>;

impl Step<'_> {
    /// Tries again, in turn, those whose refusal a change may have lifted.
    pub(super) fn wake(&mut self) {
        if !self.lifted.is_empty() {
            self.try_again(|step, waiting| {
                waiting.wakes_on.iter().any(|change| step.lifted.contains(change))
            });
        }
    }

    /// Tries those who stood back behind real work, once none of that waits any more: whatever changed meanwhile passed them by.
    pub(super) fn wake_speculative(&mut self, real_work_waited: bool) {
        if real_work_waited && !self.machine.queue.has_real_work() {
            self.try_again(|_, _| true);
        }
    }

    /// Tries those who are meant in turn, and again from the first where a promise was left behind: that makes room for those before.
    fn try_again(&mut self, is_meant: impl Fn(&Self, &PendingRequest) -> bool) {
        loop {
            let queue = self.machine.queue.iter();
            let woken =
                queue.filter(|waiting| waiting.may_try(self.now) && is_meant(self, waiting));
            let woken: Vec<PendingRequest> = woken.cloned().collect();
            if self.try_in_turn(&woken).is_continue() {
                return;
            }
        }
    }

    /// Breaks where a promise was left behind.
    fn try_in_turn(&mut self, woken: &[PendingRequest]) -> ControlFlow<()> {
        let mut refused = Refused::default();
        let mut gangs = BTreeSet::new();
        self.left_behind = false;
        for waiting in woken {
            if waiting.request.terms.speculative && self.machine.queue.has_real_work() {
                break;
            }
            match &waiting.gang {
                Some(gang) if gangs.insert(gang.name.clone()) => self.try_gang(&gang.name),
                Some(_) => {}
                None => self.try_one(waiting, &mut refused),
            }
            if self.left_behind {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Of equals that hold nothing and were promised nothing the first one is tried for all, as long as nothing but places is given out:
    /// that makes room for nobody.
    fn try_one(&mut self, waiting: &PendingRequest, refused: &mut Refused) {
        let id = &waiting.request.id;
        let terms = Terms { deadline: None, ..waiting.request.terms.clone() };
        let kind = (waiting.request.spec.clone(), terms);
        let stands_alone = self.stands_alone(id);
        if let Some((equal, decision)) = refused.get(&kind).filter(|_| !stands_alone) {
            let (reason, wakes_on) = (equal.reason.clone(), equal.wakes_on.clone());
            if self.keep_pending(PendingRequest { reason, wakes_on, ..waiting.clone() }, None) {
                self.out.decisions.push(Decision { request: id.clone(), ..decision.clone() });
            }
            return;
        }
        let before = self.machine.ledger.revision();
        let decision = self.try_place(waiting.clone());
        match (self.machine.queue.get(id), decision) {
            (Some(_), _) if self.machine.ledger.revision() != before => refused.clear(),
            (Some(still), Some(decision)) if !stands_alone => {
                refused.insert(kind, (still.clone(), decision));
            }
            _ => {}
        }
    }

    /// Whether what somebody is told is not what their equals would be: they have a promise, or an earlier place of theirs is still there.
    fn stands_alone(&self, id: &RequestId) -> bool {
        let ledger = &self.machine.ledger;
        ledger.promise_to(id).is_some() || ledger.of_request(id).is_some()
    }
}
