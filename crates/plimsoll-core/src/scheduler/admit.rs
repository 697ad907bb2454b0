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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::account::{Quota, Share, Shares};
    use crate::charge::Stage;
    use crate::device::{Device, Node, Source};
    use crate::event::{Answer, Event, Settings};
    use crate::request::{Amount, Need, Shape, Spec, Terms};
    use crate::units::{Bytes, Millis};

    fn request(name: &str, gib: u64) -> Request {
        let need = Need::one("NVIDIA", Amount::bytes(Bytes::gib(gib)));
        let spec = Spec::from_shapes(vec![Shape::single("app", need)]).into();
        Request { id: RequestId::new("team", name), spec, terms: Terms::default() }
    }

    fn scheduler(settings: Settings) -> Scheduler {
        let mut scheduler = Scheduler::new(settings);
        for name in ["n", "m"] {
            let device = Device::new("NVIDIA", Bytes::gib(25), Source::Declared);
            let devices = if name == "n" { vec![device] } else { Vec::new() };
            let node = Box::new(Node { devices, ..Node::new(name) });
            let _ = scheduler.step(Millis(1), Event::Node { node });
        }
        scheduler
    }

    fn admit(scheduler: &mut Scheduler, request: &Request, node: &str) -> Vec<Answer> {
        let event = Event::Admit { request: request.clone(), node: node.into() };
        scheduler.step(Millis(9), event).answers
    }

    #[test]
    fn an_admitted_request_is_charged_once_and_stays_on_its_node() {
        let mut scheduler = scheduler(Settings::default());
        let web = request("web", 20);
        let placed = vec![Answer::Placed { request: web.id.clone(), node: "n".into() }];
        assert_eq!(admit(&mut scheduler, &web, "n"), placed);
        assert_eq!(admit(&mut scheduler, &web, "n"), placed);
        let stages: Vec<Stage> =
            scheduler.ledger().holdings().map(|(_, holding)| holding.stage).collect();
        assert_eq!(stages, [Stage::Sent]);
        let reason = RejectedCall::AlreadyOn { node: "n".into() };
        let elsewhere = vec![Answer::Rejected { request: web.id.clone(), reason }];
        assert_eq!(admit(&mut scheduler, &web, "m"), elsewhere);
        let other = admit(&mut scheduler, &request("other", 6), "n");
        assert!(
            matches!(&other[..], [Answer::Rejected { reason: RejectedCall::NoPlacement(_), .. }]),
            "{other:?}"
        );
        let _ = admit(&mut scheduler, &request("third", 1), "gone");
        assert_eq!(scheduler.ledger().holdings().count(), 1);
    }

    #[test]
    fn neither_a_promise_nor_a_share_rejects_the_binding_of_another_scheduler() {
        let maximum = Quota { memory: Some(Bytes::gib(1)), devices: None };
        let share = Share { maximum, ..Share::default() };
        let accounts = BTreeMap::from([("team".into(), share)]);
        let accounts = Shares::try_from(accounts).expect("one account with a maximum");
        let mut scheduler = scheduler(Settings { accounts, ..Settings::default() });
        let _ = admit(&mut scheduler, &request("leaves", 20), "n");
        let leaves = RequestId::new("team", "leaves");
        let _ = scheduler.step(Millis(9), Event::Withdraw { request: leaves });
        let mut waits = request("waits", 25);
        waits.id.account = "other".into();
        let _ = scheduler.step(Millis(9), Event::Submit { request: waits, deadline: None });
        assert_eq!(scheduler.ledger().promises().len(), 1, "all memory is promised");
        let web = request("web", 5);
        let placed = vec![Answer::Placed { request: web.id.clone(), node: "n".into() }];
        assert_eq!(admit(&mut scheduler, &web, "n")[..1], placed);
    }
}
