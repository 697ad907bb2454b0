//! Stage 1: offers, which a caller takes or lets expire.

use std::sync::Arc;

use super::{Lifted, Step};
use crate::charge::Stage;
use crate::decide::{Decision, decide};
use crate::draft::OneNode;
use crate::event::{Answer, RejectedCall};
use crate::ledger::LedgerError;
use crate::reason::Change;
use crate::request::{Request, RequestId};
use crate::units::Name;

impl Step<'_> {
    /// Offers a placement. An earlier offer to the same request is withdrawn first.
    pub(super) fn ask(&mut self, request: &Request) -> Lifted {
        let mut lifted = Lifted::new();
        let id = &request.id;
        self.dequeue(id);
        self.clear_failures(id);
        if let Some((_, holding)) = self.scheduler.ledger.of_request(id) {
            if !holding.stage.is_before_start() {
                let node = holding.node.clone();
                self.answer_placed(id, node);
                return lifted;
            }
            let dropped = self.scheduler.ledger.fail(id);
            self.record_if_accepted(dropped);
            lifted.insert(Change::LoadFell);
        }
        self.offer(request);
        lifted
    }

    fn offer(&mut self, request: &Request) {
        let scheduler = &mut *self.scheduler;
        let policy = &scheduler.settings.policy;
        let decision = scheduler.memo.decide(&scheduler.ledger, policy, request);
        let Some(placement) = decision.placement() else {
            return self.reject_offer(request, decision);
        };
        let until = self.now.after(scheduler.settings.offer_for);
        match scheduler.ledger.offer(request, placement, until) {
            Ok(operation) => {
                let (request, placement) = (request.id.clone(), placement.clone());
                self.outcome.answers.push(Answer::Offered { request, placement, until });
                self.record(operation);
            }
            Err(error) => self.reject_placement(&request.id, error),
        }
        self.outcome.decisions.push(decision);
    }

    /// Answers that there is no placement now, or on no fleet with these nodes.
    fn reject_offer(&mut self, request: &Request, decision: Decision) {
        if self.is_impossible(request) {
            return self.answer_impossible(decision);
        }
        self.reject_call(&request.id, no_placement(&decision));
        self.outcome.decisions.push(decision);
    }

    /// Takes an offer on its node, or moves it to another node on which the request fits too.
    pub(super) fn take(&mut self, id: &RequestId, node: Option<&Name>) -> Lifted {
        let Some((_, holding)) = self.scheduler.ledger.of_request(id) else {
            self.reject_call(id, RejectedCall::NoOffer);
            return Lifted::new();
        };
        let at = holding.node.clone();
        let Some(node) = node.filter(|node| **node != at) else {
            self.take_on_its_node(id, at);
            return Lifted::new();
        };
        let Some(spec) = holding.spec.clone() else {
            self.reject_call(id, RejectedCall::AlreadyOn { node: at });
            return Lifted::new();
        };
        let request = Request { id: id.clone(), spec, terms: holding.terms.clone() };
        self.take_on_another_node(&request, node)
    }

    fn take_on_its_node(&mut self, id: &RequestId, node: Name) {
        if self.scheduler.settings.serial_starts && !self.is_quiet_for(id) {
            // An offer that was already taken stays queued.
            let queued = self.scheduler.ledger.take_queued(id);
            if self.record_if_accepted(queued) || self.is_queued(id) {
                return self.answer_placed(id, node);
            }
        }
        match self.scheduler.ledger.take(id) {
            Ok(operation) => {
                self.record(operation);
                self.start(id);
            }
            Err(error) => self.reject_placement(id, error),
        }
    }

    fn take_on_another_node(&mut self, request: &Request, node: &Name) -> Lifted {
        let Some(there) = self.scheduler.ledger.node_id(node) else {
            self.reject_call(&request.id, RejectedCall::NoSuchNode { node: node.clone() });
            return Lifted::new();
        };
        let view = OneNode(&self.scheduler.ledger, there);
        let decision = decide(&view, &self.scheduler.settings.policy, request);
        match decision.placement().map(|placement| self.charge(request, placement)) {
            Some(Ok(())) => {}
            Some(Err(error)) => self.reject_placement(&request.id, error),
            None => self.reject_call(&request.id, no_placement(&decision)),
        }
        self.outcome.decisions.push(decision);
        Lifted::from([Change::LoadFell])
    }

    fn is_queued(&self, id: &RequestId) -> bool {
        let holding = self.scheduler.ledger.of_request(id);
        holding.is_some_and(|(_, holding)| holding.stage == Stage::Queued)
    }

    fn reject_placement(&mut self, id: &RequestId, error: LedgerError) {
        self.reject_call(id, RejectedCall::NotAdmitted(Arc::new(error)));
    }
}

fn no_placement(decision: &Decision) -> RejectedCall {
    RejectedCall::NoPlacement(decision.rejection().cloned().unwrap_or_default())
}
