//! Stage 1: bindings of other schedulers, which are admitted on the node that they name or not at
//! all.

use std::sync::Arc;

use super::{Lifted, Scheduler, Step};
use crate::decide::{Decision, decide};
use crate::draft::ChosenNode;
use crate::event::RejectedCall;
use crate::fit::Placement;
use crate::reason::Change;
use crate::request::{Request, RequestId};
use crate::units::Name;

impl Scheduler {
    /// Decides a request on the node that another scheduler chose; `None` if it is not known.
    pub(super) fn decide_on_chosen(&self, request: &Request, node: &Name) -> Option<Decision> {
        let there = self.ledger.node_id(node)?;
        let view = ChosenNode::new(&self.ledger, there, &request.id);
        Some(decide(&view, &self.settings.policy, request))
    }
}

impl Step<'_> {
    /// Charges a request as sent on the node that another scheduler chose, or rejects it. No effect
    /// leaves: the caller binds. A request that is charged already gets the same answer again.
    pub(super) fn admit(&mut self, request: &Request, node: &Name) -> Lifted {
        let request = request.on_devices_alone();
        let own = self.scheduler.ledger.of_request(&request.id).map(|(_, own)| own);
        if let Some(own) = own.filter(|own| !own.stage.is_before_start()) {
            let at = own.node.clone();
            if at == *node && !own.stage.is_releasing() {
                self.answer_placed(&request.id, at);
            } else {
                self.reject_call(&request.id, RejectedCall::AlreadyOn { node: at });
            }
            return Lifted::new();
        }
        let Some(decision) = self.scheduler.decide_on_chosen(&request, node) else {
            self.reject_call(&request.id, RejectedCall::NoSuchNode { node: node.clone() });
            return Lifted::new();
        };
        let lifted = match decision.placement() {
            Some(placement) => self.book(&request, placement),
            None => {
                let rejection = decision.rejection().cloned().unwrap_or_default();
                self.reject_call(&request.id, RejectedCall::NoPlacement(rejection));
                Lifted::new()
            }
        };
        self.outcome.decisions.push(decision);
        lifted
    }

    /// Charges a placement that was decided without promises, and withdraws those in its way, the
    /// last in turn first.
    fn book(&mut self, request: &Request, placement: &Placement) -> Lifted {
        let mut promised = self.promised_on(&placement.node);
        loop {
            match self.scheduler.ledger.book(request, placement) {
                Ok(operation) => {
                    self.record(operation);
                    self.dequeue(&request.id);
                    self.clear_failures(&request.id);
                    self.answer_placed(&request.id, placement.node.clone());
                    // An offer to the request may have been elsewhere.
                    return Lifted::from([Change::LoadFell]);
                }
                Err(error) => match promised.pop() {
                    Some(id) => self.withdraw_promise(&id),
                    None => {
                        self.reject_call(&request.id, RejectedCall::NotAdmitted(Arc::new(error)));
                        return Lifted::new();
                    }
                },
            }
        }
    }

    /// Lists the requests with promises on a node, in turn.
    fn promised_on(&self, node: &Name) -> Vec<RequestId> {
        let Scheduler { ledger, queue, .. } = &*self.scheduler;
        let there = ledger.promises().filter(|(_, promise)| promise.placement.node == *node);
        let mut promised: Vec<RequestId> = there.map(|(id, _)| id.clone()).collect();
        promised.sort_by_key(|id| queue.turn(id));
        promised
    }
}
