//! Placing what is submitted: a place, a promise, a wait, or a refusal.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Scheduler, Step};
use crate::candidate::Judge;
use crate::charge::Stage;
use crate::decide::{self, Decision};
use crate::device::{Health, Node};
use crate::draft::Draft;
use crate::event::{Answer, Effect};
use crate::evict::{self, Plan};
use crate::fit::Placement;
use crate::gang::{Gang, decide_gang};
use crate::ledger::{LedgerError, NodeId, Promise};
use crate::queue::{GangMember, PendingReason, PendingRequest};
use crate::reason::{Change, NodeReason, Reason};
use crate::request::{Request, RequestId, Spec};
use crate::room::{NodeRoom, NodeView};
use crate::rules::NodeRules;
use crate::units::{Millis, Name};
use crate::verdict::Table;

impl Scheduler {
    /// Decides a request as it would be decided if it were submitted now: what was promised to it does not stand
    /// in its way, nor, where there is no other place, what was promised to requests of a lower priority.
    pub(super) fn decide_for(&mut self, request: &Request) -> Decision {
        let lower: Vec<RequestId> = self.lower_promises(request).collect();
        let Scheduler { ledger, memo, settings, .. } = self;
        let mut draft = Draft::of(ledger);
        draft.without_promise_to(&request.id);
        let decision = memo.decide_on(&draft, &settings.policy, request);
        if decision.chosen().is_some() || lower.is_empty() {
            return decision;
        }
        for id in &lower {
            draft.without_promise_to(id);
        }
        memo.decide_on(&draft, &settings.policy, request)
    }

    /// Lists the requests of a lower priority that were promised something: a promise does not reverse the order.
    fn lower_promises(&self, request: &Request) -> impl Iterator<Item = RequestId> {
        let lower = |id: &&RequestId| {
            let waiting = self.queue.get(id);
            waiting.is_none_or(|waiting| waiting.request.terms.priority < request.terms.priority)
        };
        let promised = self.ledger.promises().map(|(id, _)| id);
        promised.filter(|id| **id != request.id).filter(lower).cloned()
    }
}

impl Step<'_> {
    pub(super) fn submit(&mut self, mut request: Request, deadline: Option<Millis>) {
        (request.terms.waits, request.terms.deadline) = (true, deadline);
        let placed = self
            .machine
            .ledger
            .of_request(&request.id)
            .filter(|(_, held)| !held.stage.is_releasing());
        if let Some((_, holding)) = placed {
            let answer = Answer::Placed { request: request.id.clone(), node: holding.node.clone() };
            return self.out.answers.push(answer);
        }
        if let Some(waiting) = self.machine.queue.get(&request.id) {
            let (reason, promised) = (waiting.reason.clone(), self.promised_after(&request.id));
            return self.out.answers.push(Answer::Pending {
                request: request.id.clone(),
                reason,
                promised,
            });
        }
        let waiting = PendingRequest { deadline, ..PendingRequest::new(self.now, request) };
        if waiting.request.terms.speculative && self.machine.queue.has_real_work() {
            let reason = PendingReason::BehindRealWork;
            let wakes_on = vec![Change::LoadFell];
            self.keep_pending(PendingRequest { reason, wakes_on, ..waiting }, None);
            return;
        }
        self.try_place(waiting);
    }

    /// Breaks the promises to lower ones that stand in the way of a place, those of the lowest and the last first, and no more than it
    /// takes.
    fn break_lower_promises(&mut self, request: &Request, place: &Placement) {
        let ledger = &self.machine.ledger;
        let shares = |id: &RequestId| {
            let devices = |place: &Placement| {
                place.picks.iter().flatten().copied().collect::<BTreeSet<u16>>()
            };
            ledger.promise_to(id).is_some_and(|promise| {
                let there = &promise.placement;
                there.node == place.node && !devices(there).is_disjoint(&devices(place))
            })
        };
        let mut lower: Vec<RequestId> =
            self.machine.lower_promises(request).filter(shares).collect();
        lower.sort_by_key(|id| Reverse(self.machine.queue.turn(id)));
        for id in lower {
            if self.machine.ledger.admits(request, place) {
                return;
            }
            self.break_promise(&id);
        }
    }

    /// Whether somebody's promise waits only for holders that are still going.
    pub(super) fn promise_stands(&self, id: &RequestId) -> bool {
        let going = |after: &RequestId| {
            self.machine
                .ledger
                .of_request(after)
                .is_some_and(|(_, holding)| holding.stage.is_releasing())
        };
        self.machine.ledger.promise_to(id).is_some_and(|promise| promise.after.iter().any(going))
    }

    /// Decides, and places, promises, waits or refuses; gives back the decision that lets it wait.
    pub(super) fn try_place(&mut self, waiting: PendingRequest) -> Option<Decision> {
        let request = waiting.request.clone();
        match self
            .machine
            .ledger
            .of_request(&request.id)
            .map(|(_, holding)| holding.stage.is_releasing())
        {
            Some(true) => {
                let reason = PendingReason::EarlierHoldingReleasing;
                let wakes_on = vec![Change::LoadFell];
                self.keep_pending(PendingRequest { reason, wakes_on, ..waiting }, None);
                return None;
            }
            Some(false) => {
                self.dequeue(&request.id);
                return None;
            }
            None => {}
        }
        let first = self.machine.queue.get(&request.id).is_none();
        let decision = self.machine.decide_for(&request);
        if let Some(placement) = decision.placement().cloned() {
            self.out.decisions.push(decision);
            self.break_lower_promises(&request, &placement);
            self.launch(waiting, &placement);
            return None;
        }
        if decide::malformed(&request.spec).is_some() || (first && self.is_impossible(&request)) {
            let rejection = decision.rejection().cloned().unwrap_or_default();
            self.out.decisions.push(decision);
            self.dequeue(&request.id);
            self.clear_failures(&request.id);
            let request = request.id;
            self.out.answers.push(Answer::Impossible { request, rejection });
            return None;
        }
        let promised = self.promise_stands(&request.id);
        let plan = if promised { None } else { self.plan_room(&request) };
        let no_eviction_helps = plan.is_none() && !promised && !request.terms.speculative;
        let decision = if no_eviction_helps {
            self.with_holders_not_evictable(&request, decision)
        } else {
            decision
        };
        let reason = PendingReason::Rejected(decision.rejection().cloned().unwrap_or_default());
        let wakes_on = wakes_on(&decision);
        // A rejection that equals the one before is no news.
        if self.keep_pending(PendingRequest { reason, wakes_on, ..waiting }, plan) {
            self.out.decisions.push(decision.clone());
        }
        Some(decision)
    }

    /// Returns true if the request is malformed, or no node could hold it even if it were empty. An
    /// empty fleet proves nothing: its nodes may not have registered yet.
    pub(super) fn is_impossible(&mut self, request: &Request) -> bool {
        decide::malformed(&request.spec).is_some()
            || (self.machine.ledger.node_count() > 0 && !self.is_possible(request))
    }

    /// Lets somebody wait, and says whether anything about that is new.
    pub(super) fn keep_pending(&mut self, waiting: PendingRequest, plan: Option<Plan>) -> bool {
        let id = waiting.request.id.clone();
        let promised_before = self.promised_after(&id);
        match plan {
            Some(plan) => self.make_room(&id, plan),
            None if !self.promise_stands(&id) => self.break_promise(&id),
            None => {}
        }
        let promised = self.promised_after(&id);
        if self.machine.queue.get(&id) == Some(&waiting) && promised == promised_before {
            return false;
        }
        let reason = waiting.reason.clone();
        self.enqueue(waiting);
        self.out.answers.push(Answer::Pending { request: id, reason, promised });
        true
    }

    /// Takes back a promise that cannot be kept any more, so that it stands in nobody's way.
    pub(super) fn break_promise(&mut self, id: &RequestId) {
        if let Some(operation) = self.machine.ledger.unpromise(id) {
            self.record(operation);
            self.leave_behind();
        }
    }

    /// What a promise stood on is there for others.
    fn leave_behind(&mut self) {
        self.lifted.insert(Change::LoadFell);
        self.left_behind = true;
    }

    pub(super) fn promised_after(&self, id: &RequestId) -> Vec<RequestId> {
        self.machine.ledger.promise_to(id).map(|promise| promise.after.clone()).unwrap_or_default()
    }

    /// A place that those who are going, or may be asked to go, will leave.
    pub(super) fn plan_room(&self, request: &Request) -> Option<Plan> {
        let Scheduler { ledger, settings, .. } = &*self.machine;
        evict::plan_room(ledger, &settings.policy, request, self.now, settings.residency)
    }

    pub(super) fn make_room(&mut self, id: &RequestId, plan: Plan) {
        for victim in &plan.victims {
            self.ask_to_go(victim);
        }
        let promise = Promise::from(plan);
        let before = self.machine.ledger.promise_to(id).map(|before| &before.placement);
        let moves = before.is_some_and(|before| *before != promise.placement);
        let promised = self.machine.ledger.promise(id, promise);
        if self.keep(promised) && moves {
            self.leave_behind();
        }
    }

    pub(super) fn ask_to_go(&mut self, id: &RequestId) {
        let Some((generation, holding)) = self.machine.ledger.of_request(id) else {
            return;
        };
        let node = holding.node.clone();
        let going = self.machine.ledger.begin_release(id, self.now);
        if self.keep(going) {
            self.out.effects.push(Effect::Stop {
                request: id.clone(),
                generation: generation.0,
                node,
            });
        }
    }

    /// Whether the request would fit if nobody held anything, every device that is there worked, and it might run anywhere.
    pub(super) fn could_ever_fit(&self, request: &Request) -> bool {
        let policy = &self.machine.settings.policy;
        let spec = Spec { rules: NodeRules::default(), ..Spec::clone(&request.spec) };
        let shapes = || (0_u16..).zip(request.spec.shapes()).map(|(shape, _)| shape);
        self.machine.ledger.nodes().any(|(_, view)| {
            let node = as_if_sound(&view.node);
            let room = Arc::new(NodeRoom::empty(&node, &[]));
            let empty = NodeView { node: Arc::new(node), room };
            shapes().any(|shape| {
                let found = Judge::new(policy, &spec, shape).judge(&empty);
                found.fits() || matches!(found.reason, Some(NodeReason::NotFound { .. }))
            })
        })
    }

    /// Charges the placement of a pending or new request.
    pub(super) fn launch(&mut self, waiting: PendingRequest, placement: &Placement) {
        // The promise ends with the charge. A promise of this very placement leaves nothing behind.
        let promise = self.machine.ledger.promise_to(&waiting.request.id);
        let leaves_one = promise.is_some_and(|promise| promise.placement != *placement);
        match self.charge(&waiting.request, placement) {
            Ok(()) => {
                self.dequeue(&waiting.request.id);
                if leaves_one {
                    self.leave_behind();
                }
            }
            Err(error) => {
                debug_assert!(
                    false,
                    "what decide proposes the commit admits, on the same ledger: {error}"
                );
                let reason = PendingReason::NotAdmitted(Arc::new(error));
                let wakes_on = vec![Change::LoadFell];
                self.keep_pending(PendingRequest { reason, wakes_on, ..waiting }, None);
            }
        }
    }

    /// Charges a placement. Its effect leaves now, or as soon as its devices are quiet.
    pub(super) fn charge(
        &mut self,
        request: &Request,
        placement: &Placement,
    ) -> Result<(), LedgerError> {
        let ordinals = placement.picks.iter().flatten().copied();
        let quiet = !self.machine.settings.serial_starts
            || self.is_quiet(&request.id, &placement.node, ordinals);
        if quiet {
            let sent = self.machine.ledger.send(request, placement)?;
            self.record(sent);
            self.start(&request.id);
        } else {
            let queued = self.machine.ledger.queue(request, placement)?;
            self.record(queued);
            let (request, node) = (request.id.clone(), placement.node.clone());
            self.out.answers.push(Answer::Placed { request, node });
        }
        Ok(())
    }

    fn is_quiet(
        &self,
        request: &RequestId,
        node: &Name,
        ordinals: impl Iterator<Item = u16>,
    ) -> bool {
        let Some(view) = self.machine.ledger.view_of(node) else {
            return false;
        };
        let own = self.machine.ledger.of_request(request).map(|(id, _)| id);
        let still =
            |stage: Stage| stage.is_before_start() || matches!(stage, Stage::Running { .. });
        ordinals.map(usize::from).all(|ordinal| {
            let tenants = view.room.devices()[ordinal].tenants();
            tenants
                .iter()
                .filter(|tenant| Some(tenant.holding) != own)
                .all(|tenant| still(tenant.stage))
        })
    }

    /// Whether the devices that somebody holds are quiet: nobody else starts or leaves there.
    pub(super) fn is_quiet_for(&self, id: &RequestId) -> bool {
        let Some((_, holding)) = self.machine.ledger.of_request(id) else { return false };
        let ordinals = holding.charges.iter().flat_map(|charge| charge.on.iter().copied());
        self.is_quiet(id, &holding.node, ordinals)
    }

    /// Lets the starts leave whose devices have become quiet, one a device: on the nodes that changed since a point, or on all.
    pub(super) fn start_quiet(&mut self, since: Option<u64>) {
        let is_serial = self.machine.settings.serial_starts;
        // Where starts need not wait for each other, those are left that had to until the rules changed.
        let nobody_waits = self.machine.ledger.queued().next().is_none();
        if nobody_waits || (!is_serial && since.is_some()) {
            return;
        }
        for id in self.queued(since) {
            if !is_serial || self.is_quiet_for(&id) {
                let taken = self.machine.ledger.take(&id);
                if self.keep(taken) {
                    self.start(&id);
                }
            }
        }
    }

    /// Lists the queued requests: on the nodes that changed since a position, or on all.
    fn queued(&self, since: Option<u64>) -> Vec<RequestId> {
        let ledger = &self.machine.ledger;
        let Some(changed) = since.and_then(|position| ledger.changed_since(position).0) else {
            return ledger.queued().map(|holding| holding.request.clone()).collect();
        };
        let nodes: BTreeSet<NodeId> = changed.collect();
        let queued = nodes.into_iter().flat_map(|node| ledger.queued_on(node));
        queued.map(|holding| holding.request.clone()).collect()
    }

    pub(super) fn submit_gang(&mut self, name: &Name, minimum: u32, members: Vec<Request>) {
        let unplaced = |request: &Request| {
            self.machine
                .ledger
                .of_request(&request.id)
                .is_none_or(|(_, holding)| holding.stage.is_releasing())
        };
        let placed =
            u32::try_from(members.iter().filter(|m| !unplaced(m)).count()).unwrap_or(u32::MAX);
        let members: Vec<Request> = members.into_iter().filter(|member| unplaced(member)).collect();
        let hopeless = members.iter().filter(|member| !self.is_possible(member)).count();
        if members.len() - hopeless < (minimum.saturating_sub(placed) as usize).min(members.len()) {
            return self.refuse_gang(name, minimum, &members);
        }
        for mut request in members {
            request.terms.waits = true;
            let gang =
                Some(GangMember { name: name.clone(), minimum: minimum.saturating_sub(placed) });
            let wakes_on = vec![
                Change::LoadFell,
                Change::NodeChanged,
                Change::DeviceRepaired,
                Change::DeviceOpened,
            ];
            let entry = PendingRequest::new(self.now, request);
            self.enqueue(PendingRequest { gang, wakes_on, ..entry });
        }
        self.try_gang(name);
    }

    fn refuse_gang(&mut self, name: &Name, minimum: u32, members: &[Request]) {
        let gang = Gang { name: name.clone(), minimum, members: members.to_vec() };
        let decided = decide_gang(&self.machine.ledger, &self.machine.settings.policy, &gang);
        for decision in decided.decisions {
            let rejection = decision.rejection().cloned().unwrap_or_default();
            let request = decision.request.clone();
            self.out.answers.push(Answer::Impossible { request, rejection });
            self.out.decisions.push(decision);
        }
    }

    /// Decides all members of a gang that wait: places them together, or none.
    pub(super) fn try_gang(&mut self, name: &Name) {
        let waiting = self
            .machine
            .queue
            .iter()
            .filter(|w| w.gang.as_ref().is_some_and(|gang| gang.name == *name));
        // A member whose earlier place is still being given back cannot be placed yet.
        let settled = |w: &&PendingRequest| self.machine.ledger.of_request(&w.request.id).is_none();
        let waiting: Vec<PendingRequest> = waiting.filter(settled).cloned().collect();
        let Some(minimum) = waiting.first().and_then(|w| w.gang.as_ref()).map(|gang| gang.minimum)
        else {
            return;
        };
        let members = waiting.iter().map(|w| w.request.clone()).collect();
        let gang = Gang { name: name.clone(), minimum, members };
        let decided = decide_gang(&self.machine.ledger, &self.machine.settings.policy, &gang);
        if decided.placed {
            self.launch_gang(waiting, decided.decisions);
        } else {
            self.keep_gang_pending(&gang, waiting, decided.decisions);
        }
    }

    /// Places the members of a gang that has its minimum. A member that was left out is then tried for itself,
    /// on the ledger as the others left it.
    fn launch_gang(&mut self, waiting: Vec<PendingRequest>, decisions: Vec<Decision>) {
        // One member's place may lie on what was promised to another: all promises end before the first start.
        for member in &waiting {
            self.break_promise(&member.request.id);
        }
        let mut left_out = Vec::new();
        for (waiting, decision) in waiting.into_iter().zip(decisions) {
            if let Some(placement) = decision.placement().cloned() {
                self.out.decisions.push(decision);
                self.launch(waiting, &placement);
            } else {
                left_out.push(PendingRequest { gang: None, ..waiting });
            }
        }
        for waiting in left_out {
            self.try_place(waiting);
        }
    }

    /// Lets a gang wait, with a promise to each member where holders that are leaving will make room for all.
    /// Promises stand while enough members for the minimum have one; fewer are worth nothing and are taken back.
    fn keep_gang_pending(
        &mut self,
        gang: &Gang,
        waiting: Vec<PendingRequest>,
        decisions: Vec<Decision>,
    ) {
        let standing = gang.members.iter().filter(|member| self.promise_stands(&member.id)).count();
        let plans = if standing > 0 && standing >= gang.minimum as usize {
            None
        } else {
            for member in &gang.members {
                self.break_promise(&member.id);
            }
            let policy = &self.machine.settings.policy;
            evict::gang_after_releases(&self.machine.ledger, policy, gang)
        };
        let mut plans = plans.unwrap_or_default().into_iter();
        for (waiting, decision) in waiting.into_iter().zip(decisions) {
            let reason = PendingReason::Rejected(decision.rejection().cloned().unwrap_or_default());
            let entry = PendingRequest { reason, ..waiting };
            if self.keep_pending(entry, plans.next().flatten()) {
                self.out.decisions.push(decision);
            }
        }
    }
}

/// The changes that could lift any of a refusal's reasons.
fn wakes_on(decision: &Decision) -> Vec<Change> {
    let mut changes = BTreeSet::from([Change::NodeChanged]);
    for verdict in decision.tables().flat_map(Table::unordered) {
        changes.extend(verdict.reason.as_ref().map(NodeReason::clears_on));
        let devices = verdict.needs.iter().flat_map(|need| &need.devices);
        changes.extend(devices.filter_map(|device| device.reason.as_ref()).map(Reason::clears_on));
    }
    changes.remove(&Change::RequestChanged);
    changes.into_iter().collect()
}

/// The node as it would be if every device that is there worked and nobody kept it closed.
fn as_if_sound(node: &Node) -> Node {
    let mut node = node.clone();
    (node.unschedulable, node.silent_since, node.missing_cards) = (false, None, 0);
    node.taints.clear();
    for device in &mut node.devices {
        (device.health, device.cordoned) = (Health::Healthy, false);
    }
    node
}
