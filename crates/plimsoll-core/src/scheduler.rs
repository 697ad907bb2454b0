//! The state machine: an event in; operations, decisions, effects and answers out. Time is an argument.

use std::collections::BTreeSet;

use crate::breach::{self, Breach};
use crate::charge::{Holding, Stage};
use crate::decide::{Decision, Outcome as Answered, decide};
use crate::device::Health;
use crate::draft::Draft;
use crate::event::{Answer, Effect, Event, Operation, Outcome, Settings};
use crate::evict::{self, Plan, Planned};
use crate::fit::Placement;
use crate::gang::{Gang, decide_gang};
use crate::ledger::{self, Ledger, LedgerError, Promise};
use crate::memo::Memo;
use crate::queue::{Backoff, GangMember, Queue, Waiting};
use crate::reason::{Change, RequestReason};
use crate::request::{Request, RequestId};
use crate::room::{Measured, NodeRoom, NodeView};
use crate::summary;
use crate::units::{Millis, Name};

/// The whole state: the ledger, the queue, and what was found before.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    pub(crate) ledger: Ledger,
    pub(crate) queue: Queue,
    pub(crate) settings: Settings,
    memo: Memo,
}

/// An offer that the machine itself will take once its devices are quiet.
const UNTIL_QUIET: Millis = Millis(u64::MAX);

impl Scheduler {
    /// An empty one.
    pub fn new(settings: Settings) -> Self {
        Scheduler { settings, ..Scheduler::default() }
    }

    /// The ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Who waits.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// How it behaves.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Decides without changing anything: what-if.
    pub fn what_if(&mut self, request: &Request) -> Decision {
        self.memo.decide(&self.ledger, &self.settings.policy, request)
    }

    /// Takes one event at one time.
    pub fn step(&mut self, now: Millis, event: Event) -> Outcome {
        let (_, before) = self.ledger.changed_since(0);
        let mut step = Step { now, out: Outcome::default(), lifted: BTreeSet::new(), machine: self };
        step.take(event);
        step.wake();
        step.start_quiet();
        step.check_changed(before);
        step.out
    }

    /// Applies the next operation of a journal to a machine that is being recovered.
    pub fn recover_next(&mut self, operation: &Operation) {
        match operation {
            Operation::Ledger(operation) => self.ledger.recover_next(operation),
            Operation::Wait(waiting) => self.queue.put(Waiting::clone(waiting)),
            Operation::Unwait(request) => {
                self.queue.remove(request);
            }
            Operation::Forgive(request) => self.queue.forgive(request),
        }
    }
}

/// One event being taken.
struct Step<'a> {
    now: Millis,
    out: Outcome,
    /// The changes that may lift somebody's refusal.
    lifted: BTreeSet<Change>,
    machine: &'a mut Scheduler,
}

impl Step<'_> {
    fn take(&mut self, event: Event) {
        match event {
            Event::Node { node } => {
                let operation = self.machine.ledger.put_node(*node);
                self.record(operation);
                self.lifted.extend([Change::NodeChanged, Change::DeviceRepaired, Change::DeviceOpened, Change::LoadFell]);
            }
            Event::NodeGone { name } => {
                let dropped = self.machine.ledger.drop_node(&name);
                self.keep(dropped);
            }
            Event::Ask { request } => self.ask(&request),
            Event::Take { request, node } => self.take_offer(&request, node.as_ref()),
            Event::Submit { request, deadline } => self.submit(request, deadline),
            Event::SubmitGang { name, minimum, members } => self.submit_gang(name, minimum, members),
            Event::Withdraw { request } => self.withdraw(&request),
            Event::Started { request, generation } => self.started(&request, generation),
            Event::Failed { request, generation } => self.failed(&request, generation),
            Event::Freed { request, ordinal } => self.freed(&request, ordinal),
            Event::Observed { holding } => self.observed(*holding),
            Event::Measured { node, ordinal, measured } => {
                let measured = self.machine.ledger.measure(&node, ordinal, measured);
                self.keep(measured);
                self.lifted.extend([Change::TelemetryArrived, Change::LoadFell, Change::DeviceOpened]);
            }
            Event::Grew { request, ordinal, bytes } => {
                let raised = self.machine.ledger.raise(&request, ordinal, bytes);
                self.keep(raised);
            }
            Event::Acted { request, activity } => {
                let acted = self.machine.ledger.act(&request, activity);
                self.keep(acted);
                self.lifted.insert(Change::LoadFell);
            }
            Event::Tick => self.tick(),
        }
    }

    fn record(&mut self, operation: ledger::Operation) {
        self.out.operations.push(Operation::Ledger(operation));
    }

    /// Records what applied. What did not is late or doubled, and changes nothing.
    fn keep(&mut self, result: Result<ledger::Operation, LedgerError>) -> bool {
        let applied = result.is_ok();
        if let Ok(operation) = result {
            self.record(operation);
        }
        applied
    }

    fn wait(&mut self, waiting: Waiting) {
        self.out.operations.push(Operation::Wait(Box::new(waiting.clone())));
        self.machine.queue.put(waiting);
    }

    fn unwait(&mut self, request: &RequestId) -> Option<Waiting> {
        let waiting = self.machine.queue.remove(request)?;
        self.out.operations.push(Operation::Unwait(request.clone()));
        Some(waiting)
    }

    fn decide(&mut self, request: &Request) -> Decision {
        let machine = &mut *self.machine;
        machine.memo.decide(&machine.ledger, &machine.settings.policy, request)
    }

    /// Decides for somebody who may have a promise: what was promised to them does not stand in their way.
    fn decide_for(&mut self, request: &Request) -> Decision {
        if self.machine.ledger.promise_to(&request.id).is_none() {
            return self.decide(request);
        }
        let mut draft = Draft::of(&self.machine.ledger);
        draft.without_promise_to(&request.id);
        decide(&draft, &self.machine.settings.policy, request)
    }

    /// Whether somebody's promise waits only for holders that are still going.
    fn promise_stands(&self, id: &RequestId) -> bool {
        let going = |after: &RequestId| {
            self.machine.ledger.of_request(after).is_some_and(|(_, holding)| holding.stage.is_releasing())
        };
        self.machine.ledger.promise_to(id).is_some_and(|promise| promise.after.iter().any(going))
    }

    fn ask(&mut self, request: &Request) {
        if let Some((_, holding)) = self.machine.ledger.of_request(&request.id) {
            if !matches!(holding.stage, Stage::Offered { .. }) {
                let node = holding.node.clone();
                return self.out.answers.push(Answer::Placed { request: request.id.clone(), node });
            }
            let given_back = self.machine.ledger.fail(&request.id);
            self.keep(given_back);
        }
        let decision = self.decide(request);
        let until = self.now.after(self.machine.settings.offer_for);
        let answer = match decision.place() {
            Some(found) => {
                let offered = self.machine.ledger.offer(request, &found.place, until);
                self.keep(offered);
                Answer::Offered { request: request.id.clone(), place: found.place.clone(), until }
            }
            None => Answer::Refused { request: request.id.clone(), reason: summary::sentence(&decision) },
        };
        self.out.decisions.push(decision);
        self.out.answers.push(answer);
    }

    fn take_offer(&mut self, id: &RequestId, node: Option<&Name>) {
        let Some((_, holding)) = self.machine.ledger.of_request(id) else {
            return self.refuse(id, format!("{id} was offered nothing, or its offer has expired"));
        };
        let (at, spec, terms) = (holding.node.clone(), holding.spec.clone(), holding.terms.clone());
        if node.is_none_or(|node| *node == at) {
            let taken = self.machine.ledger.take(id);
            return self.sent(id, taken);
        }
        let (Some(node), Some(spec)) = (node, spec) else { return };
        let mut narrowed = (*spec).clone();
        narrowed.rules.named = Some(node.clone());
        let request = Request { id: id.clone(), spec: spec.clone(), terms };
        let there = Request { spec: std::sync::Arc::new(narrowed), ..request.clone() };
        let decision = self.decide(&there);
        let moved = decision.place().map(|found| self.machine.ledger.send(&request, &found.place));
        let sentence = summary::sentence(&decision);
        self.out.decisions.push(decision);
        match moved {
            Some(moved) => self.sent(id, moved),
            None => self.refuse(id, sentence),
        }
    }

    fn sent(&mut self, id: &RequestId, result: Result<ledger::Operation, LedgerError>) {
        match result {
            Ok(operation) => {
                self.record(operation);
                self.start(id);
            }
            Err(error) => self.refuse(id, error.to_string()),
        }
    }

    fn refuse(&mut self, request: &RequestId, reason: String) {
        self.out.answers.push(Answer::Refused { request: request.clone(), reason });
    }

    /// The effect that leaves with a charge, and the word to the one who asked.
    fn start(&mut self, id: &RequestId) {
        let (generation, holding) = self.machine.ledger.of_request(id).expect("just charged");
        let (node, charges) = (holding.node.clone(), holding.charges.clone());
        self.out.answers.push(Answer::Placed { request: id.clone(), node: node.clone() });
        self.out.effects.push(Effect::Start { request: id.clone(), generation: generation.0, node, charges });
    }

    fn submit(&mut self, request: Request, deadline: Option<Millis>) {
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

    /// Decides, and places, promises, waits or refuses.
    fn try_place(&mut self, waiting: Waiting) {
        let request = waiting.request.clone();
        let decision = self.decide_for(&request);
        if let Some(found) = decision.place() {
            let place = found.place.clone();
            self.out.decisions.push(decision);
            self.unwait(&request.id);
            return self.launch(&request, &place);
        }
        if matches!(decision.outcome, Answered::Refused(Some(RequestReason::Malformed(_)))) || !self.could_ever_fit(&request) {
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

    fn keep_waiting(&mut self, waiting: Waiting, plan: Option<Plan>) {
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

    fn promised_after(&self, id: &RequestId) -> Vec<RequestId> {
        self.machine.ledger.promise_to(id).map(|promise| promise.after.clone()).unwrap_or_default()
    }

    /// A place that those who are going, or may be asked to go, will leave.
    fn plan_room(&self, request: &Request) -> Option<Plan> {
        let (now, residency) = (self.now, self.machine.settings.residency);
        let may_go = |holding: &Holding| evict::may_go(holding, request, now, residency).is_ok();
        match evict::plan(&self.machine.ledger, &self.machine.settings.policy, request, may_go) {
            Planned::Found(plan) if !plan.after.is_empty() => Some(plan),
            _ => None,
        }
    }

    fn make_room(&mut self, id: &RequestId, plan: Plan) {
        for victim in &plan.victims {
            self.ask_to_go(victim);
        }
        let promise = Promise { placement: plan.place, charges: plan.charges, after: plan.after };
        let promised = self.machine.ledger.promise(id, promise);
        self.keep(promised);
    }

    fn ask_to_go(&mut self, id: &RequestId) {
        let Some((generation, holding)) = self.machine.ledger.of_request(id) else { return };
        let node = holding.node.clone();
        let going = self.machine.ledger.begin_release(id, self.now);
        if self.keep(going) {
            self.out.effects.push(Effect::Stop { request: id.clone(), generation: generation.0, node });
        }
    }

    /// Whether the request would fit if nobody held anything and every device that is there worked.
    fn could_ever_fit(&self, request: &Request) -> bool {
        let policy = &self.machine.settings.policy;
        let shapes = || (0_u16..).zip(request.spec.shapes()).map(|(shape, _)| shape);
        self.machine.ledger.nodes().any(|(_, view)| {
            let mut node = (*view.node).clone();
            node.unschedulable = false;
            node.missing_cards = 0;
            for device in &mut node.devices {
                (device.health, device.cordoned) = (Health::Healthy, false);
            }
            let room = std::sync::Arc::new(NodeRoom::empty(&node, &[]));
            let empty = NodeView { node: std::sync::Arc::new(node), room };
            shapes().any(|shape| crate::candidate::judge(&empty, policy, &request.spec, shape).fits())
        })
    }

    /// Charges a place, and lets its effect leave as soon as its devices are quiet.
    fn launch(&mut self, request: &Request, place: &Placement) {
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

    fn is_quiet(&self, request: &Request, place: &Placement) -> bool {
        let Some(view) = self.machine.ledger.node_id(&place.node).and_then(|id| self.machine.ledger.view(id)) else {
            return false;
        };
        place.picks.iter().flatten().all(|ordinal| {
            let tenants = view.room.devices()[usize::from(*ordinal)].tenants();
            let own = Name::from(request.id.to_string());
            tenants.iter().filter(|t| t.name != own).all(|t| matches!(t.stage, Stage::Running { .. } | Stage::Offered { .. }))
        })
    }

    /// Lets the starts leave whose devices have become quiet, one a device.
    fn start_quiet(&mut self) {
        if !self.machine.settings.serial_starts {
            return;
        }
        let held = |(_, h): &(_, &Holding)| h.stage == Stage::Offered { until: UNTIL_QUIET };
        let staged: Vec<Holding> = self.machine.ledger.holdings().filter(held).map(|(_, h)| h.clone()).collect();
        for holding in staged {
            let Some(spec) = holding.spec.clone() else { continue };
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

    fn submit_gang(&mut self, name: Name, minimum: u32, members: Vec<Request>) {
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
                wakes_on: vec![Change::LoadFell, Change::NodeChanged, Change::DeviceRepaired, Change::DeviceOpened],
                reason: String::new(),
            });
        }
        self.try_gang(&name);
    }

    /// Decides all members of a gang that wait: places them together, or none.
    fn try_gang(&mut self, name: &Name) {
        let waiting = self.machine.queue.iter().filter(|w| w.gang.as_ref().is_some_and(|gang| gang.name == *name));
        let waiting: Vec<Waiting> = waiting.cloned().collect();
        let Some(minimum) = waiting.first().and_then(|w| w.gang.as_ref()).map(|gang| gang.minimum) else { return };
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

    fn forgive(&mut self, id: &RequestId) {
        if self.machine.queue.failures(id) > 0 {
            self.machine.queue.forgive(id);
            self.out.operations.push(Operation::Forgive(id.clone()));
        }
    }

    fn withdraw(&mut self, id: &RequestId) {
        self.unwait(id);
        self.forgive(id);
        if let Some(operation) = self.machine.ledger.unpromise(id) {
            self.record(operation);
        }
        match self.machine.ledger.of_request(id).map(|(_, holding)| holding.stage) {
            Some(Stage::Offered { .. }) => {
                let given_back = self.machine.ledger.fail(id);
                self.keep(given_back);
            }
            Some(Stage::Sent | Stage::Running { .. }) => self.ask_to_go(id),
            Some(Stage::Releasing { .. }) | None => {}
        }
        self.lifted.insert(Change::LoadFell);
    }

    fn is_generation(&self, id: &RequestId, generation: u64) -> bool {
        self.machine.ledger.of_request(id).is_some_and(|(holding, _)| holding.0 == generation)
    }

    fn started(&mut self, id: &RequestId, generation: u64) {
        if self.is_generation(id, generation) {
            let confirmed = self.machine.ledger.confirm(id, self.now);
            self.keep(confirmed);
            self.forgive(id);
        }
    }

    fn failed(&mut self, id: &RequestId, generation: u64) {
        if !self.is_generation(id, generation) {
            return;
        }
        let Some((_, holding)) = self.machine.ledger.of_request(id) else { return };
        let holding = holding.clone();
        let undone = self.machine.ledger.fail(id);
        if !self.keep(undone) {
            return;
        }
        self.lifted.insert(Change::LoadFell);
        if let Some(spec) = holding.spec {
            let backoff = Backoff::after(self.machine.queue.failures(id), self.now);
            let request = Request { id: id.clone(), spec, terms: holding.terms };
            let reason = format!("its start on {} failed; tried again from {} ms on", holding.node, backoff.until.0);
            let (backoff, wakes_on) = (Some(backoff), vec![Change::LoadFell]);
            let waiting =
                Waiting { request, gang: None, since: self.now, deadline: None, backoff, wakes_on, reason };
            self.keep_waiting(waiting, None);
        }
    }

    fn freed(&mut self, id: &RequestId, ordinal: Option<u16>) {
        let freed = match ordinal {
            Some(ordinal) => self.machine.ledger.freed_on(id, ordinal),
            None => self.machine.ledger.freed(id),
        };
        if self.keep(freed) {
            self.lifted.insert(Change::LoadFell);
        }
    }

    fn observed(&mut self, holding: Holding) {
        self.unwait(&holding.request);
        let observed = self.machine.ledger.observe(holding);
        self.keep(observed);
    }

    fn tick(&mut self) {
        let expired = self.machine.ledger.expire(self.now);
        if !expired.is_empty() {
            self.lifted.insert(Change::LoadFell);
        }
        let old = Millis(self.now.0.saturating_sub(self.machine.settings.telemetry_for));
        let stale = self.machine.ledger.age_telemetry(old);
        for operation in expired.into_iter().chain(stale) {
            self.record(operation);
        }
        let late = |w: &&Waiting| w.deadline.is_some_and(|deadline| deadline <= self.now);
        let late: Vec<RequestId> = self.machine.queue.iter().filter(late).map(|w| w.request.id.clone()).collect();
        for id in late {
            if let Some(waiting) = self.unwait(&id) {
                if let Some(operation) = self.machine.ledger.unpromise(&id) {
                    self.record(operation);
                }
                self.refuse(&id, format!("its deadline passed: {}", waiting.reason));
            }
        }
        // Idleness, residency and back-off all end by time alone.
        self.lifted.insert(Change::LoadFell);
    }

    /// Tries again, in turn, those whose refusal a change may have lifted. Equal specs are tried once until one is placed.
    fn wake(&mut self) {
        if self.lifted.is_empty() {
            return;
        }
        let woken = |w: &&Waiting| {
            w.backoff.is_none_or(|backoff| backoff.until <= self.now)
                && w.wakes_on.iter().any(|change| self.lifted.contains(change))
        };
        let woken: Vec<Waiting> = self.machine.queue.iter().filter(woken).cloned().collect();
        let mut refused = BTreeSet::new();
        let mut gangs = BTreeSet::new();
        for waiting in woken {
            if waiting.request.terms.speculative && self.machine.queue.has_real_work() {
                break;
            }
            let revision = self.machine.ledger.revision();
            if let Some(gang) = &waiting.gang {
                if gangs.insert(gang.name.clone()) {
                    self.try_gang(&gang.name);
                }
                continue;
            }
            let key = (waiting.request.spec.clone(), waiting.request.terms.model.clone());
            let promised = self.machine.ledger.promise_to(&waiting.request.id).is_some();
            if refused.contains(&key) && !promised {
                continue;
            }
            let id = waiting.request.id.clone();
            self.try_place(waiting);
            if self.machine.queue.get(&id).is_some() && self.machine.ledger.revision() == revision {
                refused.insert(key);
            } else if self.machine.ledger.revision() != revision {
                refused.clear();
            }
        }
    }

    /// Checks every node that changed, from outside; a sum that is wrong closes its device.
    fn check_changed(&mut self, before: u64) {
        let (changed, _) = self.machine.ledger.changed_since(before);
        let changed: BTreeSet<_> = changed.into_iter().flatten().collect();
        for id in changed {
            let breaches = breach::audit_node(&self.machine.ledger, id);
            for breach in &breaches {
                if let Breach::SumsDiffer { node, ordinal, .. } = breach {
                    let measured = self.machine.ledger.measured(id)[usize::from(*ordinal)];
                    let closed = Measured { closed: true, ..measured };
                    let closed = self.machine.ledger.measure(node, *ordinal, closed);
                    self.keep(closed);
                }
            }
            self.out.breaches.extend(breaches);
        }
    }
}

/// The changes that could lift any of a refusal's reasons.
fn wakes_on(decision: &Decision) -> Vec<Change> {
    let mut changes = BTreeSet::from([Change::NodeChanged]);
    for verdict in decision.shapes.iter().flat_map(|table| table.unordered()) {
        changes.extend(verdict.reason.as_ref().map(|reason| reason.clears_on()));
        let devices = verdict.needs.iter().flat_map(|need| &need.devices);
        changes.extend(devices.filter_map(|device| device.reason.as_ref()).map(|reason| reason.clears_on()));
    }
    changes.remove(&Change::RequestChanged);
    changes.into_iter().collect()
}
