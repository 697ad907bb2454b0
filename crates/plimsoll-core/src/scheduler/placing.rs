//! Placing what is submitted: a place, a promise, a wait, or a refusal.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Step, UNTIL_QUIET};
use crate::candidate::Judge;
use crate::charge::{Holding, Stage};
use crate::decide::{Decision, Outcome as Answered, decide};
use crate::device::Health;
use crate::draft::Draft;
use crate::event::{Answer, Effect};
use crate::evict::{self, Plan, Planned};
use crate::fit::Placement;
use crate::gang::{Gang, decide_gang};
use crate::ledger::Promise;
use crate::queue::{GangMember, Waiting};
use crate::reason::{Change, RequestReason};
use crate::request::{Eviction, Request, RequestId};
use crate::room::{NodeRoom, NodeView};
use crate::summary;
use crate::units::{Millis, Name};

impl Step<'_> {
    pub(super) fn submit(&mut self, request: Request, deadline: Option<Millis>) {
        if let Some((_, holding)) = self.machine.ledger.of_request(&request.id) {
            let answer = Answer::Placed { request: request.id.clone(), node: holding.node.clone() };
            return self.out.answers.push(answer);
        }
        if let Some(waiting) = self.machine.queue.get(&request.id) {
            let (reason, promised) = (waiting.reason.clone(), self.promised_after(&request.id));
            return self.out.answers.push(Answer::Waiting { request: request.id.clone(), reason, promised });
        }
        let waiting = Waiting {
            request,
            gang: None,
            since: self.now,
            deadline,
            backoff: None,
            wakes_on: Vec::new(),
            reason: String::new(),
        };
        if waiting.request.terms.speculative && self.machine.queue.has_real_work() {
            let reason = "speculative work waits while real work does".to_string();
            return self.keep_waiting(Waiting { reason, wakes_on: vec![Change::LoadFell], ..waiting }, None);
        }
        self.try_place(waiting);
    }

    /// Decides for somebody who may have a promise: what was promised to them does not stand in their way.
    pub(super) fn decide_for(&mut self, request: &Request) -> Decision {
        if self.machine.ledger.promise_to(&request.id).is_none() {
            return self.decide(request);
        }
        let mut draft = Draft::of(&self.machine.ledger);
        draft.without_promise_to(&request.id);
        decide(&draft, &self.machine.settings.policy, request)
    }

    /// Whether somebody's promise waits only for holders that are still going.
    pub(super) fn promise_stands(&self, id: &RequestId) -> bool {
        let going = |after: &RequestId| {
            self.machine.ledger.of_request(after).is_some_and(|(_, holding)| holding.stage.is_releasing())
        };
        self.machine.ledger.promise_to(id).is_some_and(|promise| promise.after.iter().any(going))
    }

    /// Decides, and places, promises, waits or refuses.
    pub(super) fn try_place(&mut self, waiting: Waiting) {
        let request = waiting.request.clone();
        let first = self.machine.queue.get(&request.id).is_none();
        let decision = self.decide_for(&request);
        if let Some(found) = decision.place() {
            let place = found.place.clone();
            self.out.decisions.push(decision);
            self.unwait(&request.id);
            return self.launch(&request, &place);
        }
        if matches!(decision.outcome, Answered::Refused(Some(RequestReason::Malformed(_))))
            || (first && !self.could_ever_fit(&request))
        {
            let reason = summary::sentence(&decision);
            self.out.decisions.push(decision);
            self.unwait(&request.id);
            return self.refuse(&request.id, reason);
        }
        let plan = if self.promise_stands(&request.id) { None } else { self.plan_room(&request) };
        let reason = summary::sentence(&decision);
        let wakes_on = wakes_on(&decision);
        self.out.decisions.push(decision);
        self.keep_waiting(Waiting { reason, wakes_on, ..waiting }, plan);
    }

    pub(super) fn keep_waiting(&mut self, waiting: Waiting, plan: Option<Plan>) {
        let (id, reason) = (waiting.request.id.clone(), waiting.reason.clone());
        if let Some(plan) = plan {
            self.make_room(&id, plan);
        }
        let promised = self.promised_after(&id);
        if self.machine.queue.get(&id) == Some(&waiting) {
            return;
        }
        self.wait(waiting);
        self.out.answers.push(Answer::Waiting { request: id, reason, promised });
    }

    pub(super) fn promised_after(&self, id: &RequestId) -> Vec<RequestId> {
        self.machine.ledger.promise_to(id).map(|promise| promise.after.clone()).unwrap_or_default()
    }

    /// A place that those who are going, or may be asked to go, will leave.
    pub(super) fn plan_room(&self, request: &Request) -> Option<Plan> {
        let evicts = !request.terms.speculative && request.terms.eviction != Eviction::Never;
        if !evicts && !self.machine.ledger.has_releasing() {
            return None;
        }
        let (now, residency) = (self.now, self.machine.settings.residency);
        let may_go = |holding: &Holding| evict::may_go(holding, request, now, residency).is_ok();
        match evict::plan(&self.machine.ledger, &self.machine.settings.policy, request, may_go) {
            Planned::Found(plan) if !plan.after.is_empty() => Some(plan),
            _ => None,
        }
    }

    pub(super) fn make_room(&mut self, id: &RequestId, plan: Plan) {
        for victim in &plan.victims {
            self.ask_to_go(victim);
        }
        let promise = Promise { placement: plan.place, charges: plan.charges, after: plan.after };
        let promised = self.machine.ledger.promise(id, promise);
        self.keep(promised);
    }

    pub(super) fn ask_to_go(&mut self, id: &RequestId) {
        let Some((generation, holding)) = self.machine.ledger.of_request(id) else {
            return;
        };
        let node = holding.node.clone();
        let going = self.machine.ledger.begin_release(id, self.now);
        if self.keep(going) {
            self.out.effects.push(Effect::Stop { request: id.clone(), generation: generation.0, node });
        }
    }

    /// Whether the request would fit if nobody held anything and every device that is there worked.
    pub(super) fn could_ever_fit(&self, request: &Request) -> bool {
        let policy = &self.machine.settings.policy;
        let shapes = || (0_u16..).zip(request.spec.shapes()).map(|(shape, _)| shape);
        self.machine.ledger.nodes().any(|(_, view)| {
            let mut node = (*view.node).clone();
            node.unschedulable = false;
            node.missing_cards = 0;
            for device in &mut node.devices {
                (device.health, device.cordoned) = (Health::Healthy, false);
            }
            let room = Arc::new(NodeRoom::empty(&node, &[]));
            let empty = NodeView { node: Arc::new(node), room };
            shapes().any(|shape| Judge::new(policy, &request.spec, shape).judge(&empty).fits())
        })
    }

    /// Charges a place, and lets its effect leave as soon as its devices are quiet.
    pub(super) fn launch(&mut self, request: &Request, place: &Placement) {
        let quiet = !self.machine.settings.serial_starts || self.is_quiet(request, place);
        let charged = if quiet {
            self.machine.ledger.send(request, place)
        } else {
            self.machine.ledger.offer(request, place, UNTIL_QUIET)
        };
        let charged = self.keep(charged);
        debug_assert!(charged, "what decide proposes the commit admits, on the same ledger");
        if charged && quiet {
            self.start(&request.id);
        } else if charged {
            let answer = Answer::Placed { request: request.id.clone(), node: place.node.clone() };
            self.out.answers.push(answer);
        }
    }

    pub(super) fn is_quiet(&self, request: &Request, place: &Placement) -> bool {
        let Some(view) = self.machine.ledger.node_id(&place.node).and_then(|id| self.machine.ledger.view(id))
        else {
            return false;
        };
        place.picks.iter().flatten().all(|ordinal| {
            let tenants = view.room.devices()[usize::from(*ordinal)].tenants();
            let own = Name::from(request.id.to_string());
            tenants
                .iter()
                .filter(|t| t.name != own)
                .all(|t| matches!(t.stage, Stage::Running { .. } | Stage::Offered { .. }))
        })
    }

    /// Lets the starts leave whose devices have become quiet, one a device.
    pub(super) fn start_quiet(&mut self) {
        if !self.machine.settings.serial_starts {
            return;
        }
        let held = |(_, h): &(_, &Holding)| h.stage == Stage::Offered { until: UNTIL_QUIET };
        let staged: Vec<Holding> =
            self.machine.ledger.holdings().filter(held).map(|(_, h)| h.clone()).collect();
        for holding in staged {
            let Some(spec) = holding.spec.clone() else {
                continue;
            };
            let request = Request { id: holding.request.clone(), spec, terms: holding.terms.clone() };
            let picks = holding.charges.iter().map(|charge| charge.on.clone()).collect();
            let place = Placement { node: holding.node.clone(), shape: 0, picks };
            if self.is_quiet(&request, &place) {
                let taken = self.machine.ledger.take(&request.id);
                if self.keep(taken) {
                    self.start(&request.id);
                }
            }
        }
    }

    pub(super) fn submit_gang(&mut self, name: &Name, minimum: u32, members: Vec<Request>) {
        let unplaced = |request: &Request| self.machine.ledger.of_request(&request.id).is_none();
        let placed = u32::try_from(members.iter().filter(|m| !unplaced(m)).count()).unwrap_or(u32::MAX);
        let members: Vec<Request> = members.into_iter().filter(|member| unplaced(member)).collect();
        for request in members.clone() {
            self.wait(Waiting {
                request,
                gang: Some(GangMember { name: name.clone(), minimum: minimum.saturating_sub(placed) }),
                since: self.now,
                deadline: None,
                backoff: None,
                wakes_on: vec![
                    Change::LoadFell,
                    Change::NodeChanged,
                    Change::DeviceRepaired,
                    Change::DeviceOpened,
                ],
                reason: String::new(),
            });
        }
        self.try_gang(name);
    }

    /// Decides all members of a gang that wait: places them together, or none.
    pub(super) fn try_gang(&mut self, name: &Name) {
        let waiting =
            self.machine.queue.iter().filter(|w| w.gang.as_ref().is_some_and(|gang| gang.name == *name));
        let waiting: Vec<Waiting> = waiting.cloned().collect();
        let Some(minimum) = waiting.first().and_then(|w| w.gang.as_ref()).map(|gang| gang.minimum) else {
            return;
        };
        let members = waiting.iter().map(|w| w.request.clone()).collect();
        let gang = Gang { name: name.clone(), minimum, members };
        let decided = decide_gang(&self.machine.ledger, &self.machine.settings.policy, &gang);
        for (waiting, decision) in waiting.into_iter().zip(decided.decisions) {
            if let Some(found) = decision.place() {
                let (request, place) = (waiting.request.clone(), found.place.clone());
                self.out.decisions.push(decision);
                self.unwait(&request.id);
                self.launch(&request, &place);
            } else {
                let reason = summary::sentence(&decision);
                self.out.decisions.push(decision);
                self.keep_waiting(Waiting { reason, ..waiting }, None);
            }
        }
    }
}

/// The changes that could lift any of a refusal's reasons.
fn wakes_on(decision: &Decision) -> Vec<Change> {
    let mut changes = BTreeSet::from([Change::NodeChanged]);
    for verdict in decision.shapes.iter().flat_map(super::super::verdict::Table::unordered) {
        changes.extend(verdict.reason.as_ref().map(super::super::reason::NodeReason::clears_on));
        let devices = verdict.needs.iter().flat_map(|need| &need.devices);
        changes.extend(
            devices.filter_map(|device| device.reason.as_ref()).map(super::super::reason::Reason::clears_on),
        );
    }
    changes.remove(&Change::RequestChanged);
    changes.into_iter().collect()
}
