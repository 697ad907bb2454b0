//! The state machine: an event in; operations, decisions, effects and answers out. Time is an argument.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::breach::{self, Breach};
use crate::charge::Stage;
use crate::decide::{Decision, decide};
use crate::draft::OneNode;
use crate::event::{Answer, Effect, Event, Operation, Outcome, RejectedCall, Settings};
use crate::ledger::{self, Ledger, LedgerError, NodeId};
use crate::memo::Memo;
use crate::queue::{PendingRequest, Queue};
use crate::reason::Change;
use crate::request::{Request, RequestId};
use crate::room::Measured;
use crate::units::{Millis, Name};

mod holders;
mod life;
mod placing;
mod possible;
mod waking;

use possible::Possible;

/// The whole state: the ledger, the queue, and what was found before.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    pub(crate) ledger: Ledger,
    pub(crate) queue: Queue,
    pub(crate) settings: Settings,
    memo: Memo,
    possible: Possible,
}

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

    /// Decides a request as [`Event::Submit`] would, without changing anything.
    pub fn what_if(&mut self, request: &Request) -> Decision {
        self.decide_for(request)
    }

    /// Takes one event at one time.
    pub fn step(&mut self, now: Millis, event: Event) -> Outcome {
        let (_, before) = self.ledger.changed_since(0);
        let checks_all = event == Event::Audit;
        let changes_rules = matches!(event, Event::Configured { .. });
        let real_work_waited = self.queue.has_real_work();
        let mut step = Step {
            now,
            out: Outcome::default(),
            lifted: BTreeSet::new(),
            left_behind: false,
            machine: self,
        };
        let since = (!changes_rules).then_some(before);
        step.take(event);
        // Who was placed before starts before those who are placed now.
        step.start_quiet(since);
        step.wake();
        step.wake_speculative(real_work_waited);
        step.start_quiet(since);
        if checks_all {
            step.check_all();
        } else {
            step.check_changed(before);
        }
        step.out
    }

    /// Applies the next operation of a journal to a machine that is being recovered.
    pub fn recover_next(&mut self, operation: &Operation) {
        match operation {
            Operation::Ledger(operation) => self.ledger.recover_next(operation),
            Operation::Enqueue(pending) => self.queue.insert(PendingRequest::clone(pending)),
            Operation::Dequeue(request) => {
                self.queue.remove(request);
            }
            Operation::ClearFailures(request) => self.queue.clear_failures(request),
            Operation::Configure(settings) => self.settings = Settings::clone(settings),
        }
    }
}

/// One event being taken.
struct Step<'a> {
    now: Millis,
    out: Outcome,
    /// The changes that may lift somebody's refusal.
    lifted: BTreeSet<Change>,
    /// Whether a promise was taken back or moved, so that what it stood on is free for others.
    left_behind: bool,
    machine: &'a mut Scheduler,
}

impl Step<'_> {
    fn take(&mut self, event: Event) {
        match event {
            Event::Node { node } => {
                let operation = self.machine.ledger.put_node(*node);
                self.record(operation);
                self.lifted.extend([
                    Change::NodeChanged,
                    Change::DeviceRepaired,
                    Change::DeviceOpened,
                    Change::LoadFell,
                ]);
            }
            Event::NodeGone { name } => {
                let dropped = self.machine.ledger.drop_node(&name);
                if self.keep(dropped) {
                    self.lifted.insert(Change::NodeChanged);
                }
            }
            Event::Ask { request } => self.ask(&request),
            Event::Take { request, node } => self.take_offer(&request, node.as_ref()),
            Event::Submit { request, deadline } => self.submit(request, deadline),
            Event::SubmitGang { name, minimum, members } => {
                self.submit_gang(&name, minimum, members);
            }
            Event::Withdraw { request } => self.withdraw(&request),
            Event::Started { request, generation, activity } => {
                self.started(&request, generation, activity);
            }
            Event::Failed { request, generation } => self.failed(&request, generation),
            Event::Freed { request, generation, ordinal } => {
                self.freed(&request, generation, ordinal);
            }
            Event::Observed { holding } => self.observed(*holding),
            Event::Measured { node, ordinal, measured } => self.measured(&node, ordinal, measured),
            Event::Grew { request, ordinal, bytes } => {
                let raised = self.machine.ledger.raise(&request, ordinal, bytes);
                self.keep(raised);
            }
            Event::Acted { request, activity } => {
                let acted = self.machine.ledger.act(&request, activity);
                self.keep(acted);
                self.lifted.insert(Change::LoadFell);
            }
            Event::Configured { settings } => {
                self.machine.settings = Settings::clone(&settings);
                self.out.operations.push(Operation::Configure(settings));
                self.lifted.insert(Change::LoadFell);
            }
            Event::Claimed { request } => self.claimed(&request),
            Event::Audit => {}
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

    fn enqueue(&mut self, pending: PendingRequest) {
        self.out.operations.push(Operation::Enqueue(Box::new(pending.clone())));
        self.machine.queue.insert(pending);
    }

    /// Removes a request from the queue. Only a pending request has a promise.
    fn dequeue(&mut self, request: &RequestId) -> Option<PendingRequest> {
        let pending = self.machine.queue.remove(request)?;
        self.out.operations.push(Operation::Dequeue(request.clone()));
        self.break_promise(request);
        Some(pending)
    }

    fn decide(&mut self, request: &Request) -> Decision {
        let machine = &mut *self.machine;
        machine.memo.decide(&machine.ledger, &machine.settings.policy, request)
    }

    fn ask(&mut self, request: &Request) {
        let id = &request.id;
        self.dequeue(id);
        self.clear_failures(id);
        if let Some((_, holding)) = self.machine.ledger.of_request(id) {
            if !holding.stage.is_before_start() {
                let node = holding.node.clone();
                return self.out.answers.push(Answer::Placed { request: id.clone(), node });
            }
            let given_back = self.machine.ledger.fail(id);
            self.keep(given_back);
            self.lifted.insert(Change::LoadFell);
        }
        let decision = self.decide(request);
        let until = self.now.after(self.machine.settings.offer_for);
        match decision.placement() {
            Some(placement) => match self.machine.ledger.offer(request, placement, until) {
                Ok(operation) => {
                    self.record(operation);
                    let placement = placement.clone();
                    let answer = Answer::Offered { request: id.clone(), placement, until };
                    self.out.answers.push(answer);
                }
                Err(error) => self.reject_call(id, RejectedCall::NotAdmitted(Arc::new(error))),
            },
            None => self.reject_offer(request, &decision),
        }
        self.out.decisions.push(decision);
    }

    /// Answers that there is no placement: now, or on any fleet with these nodes.
    fn reject_offer(&mut self, request: &Request, decision: &Decision) {
        let rejection = decision.rejection().cloned().unwrap_or_default();
        if self.is_impossible(request) {
            let request = request.id.clone();
            self.out.answers.push(Answer::Impossible { request, rejection });
        } else {
            self.reject_call(&request.id, RejectedCall::NoPlacement(rejection));
        }
    }

    fn take_offer(&mut self, id: &RequestId, node: Option<&Name>) {
        let Some((_, holding)) = self.machine.ledger.of_request(id) else {
            return self.reject_call(id, RejectedCall::NoOffer);
        };
        let (at, spec, terms) = (holding.node.clone(), holding.spec.clone(), holding.terms.clone());
        if node.is_none_or(|node| *node == at) {
            return self.take_offer_here(id, at);
        }
        let (Some(node), Some(spec)) = (node, spec) else {
            return self.reject_call(id, RejectedCall::AlreadyOn { node: at });
        };
        let request = Request { id: id.clone(), spec, terms };
        let Some(there) = self.machine.ledger.node_id(node) else {
            return self.reject_call(id, RejectedCall::NoSuchNode { node: node.clone() });
        };
        let decision =
            decide(&OneNode(&self.machine.ledger, there), &self.machine.settings.policy, &request);
        let moved = decision.placement().map(|placement| self.charge(&request, placement));
        match moved {
            Some(Ok(())) => {}
            Some(Err(error)) => self.reject_call(id, RejectedCall::NotAdmitted(Arc::new(error))),
            None => {
                let rejection = decision.rejection().cloned().unwrap_or_default();
                self.reject_call(id, RejectedCall::NoPlacement(rejection));
            }
        }
        self.out.decisions.push(decision);
        self.lifted.insert(Change::LoadFell);
    }

    fn take_offer_here(&mut self, id: &RequestId, node: Name) {
        if self.machine.settings.serial_starts && !self.is_quiet_for(id) {
            // An offer that was taken before stays queued.
            let queued = self.machine.ledger.take_queued(id);
            if self.keep(queued) || self.is_queued(id) {
                return self.out.answers.push(Answer::Placed { request: id.clone(), node });
            }
        }
        match self.machine.ledger.take(id) {
            Ok(operation) => {
                self.record(operation);
                self.start(id);
            }
            Err(error) => self.reject_call(id, RejectedCall::NotAdmitted(Arc::new(error))),
        }
    }

    fn is_queued(&self, id: &RequestId) -> bool {
        let holding = self.machine.ledger.of_request(id);
        holding.is_some_and(|(_, holding)| holding.stage == Stage::Queued)
    }

    fn reject_call(&mut self, request: &RequestId, reason: RejectedCall) {
        self.out.answers.push(Answer::Rejected { request: request.clone(), reason });
    }

    /// The effect that leaves with a charge, and the word to the one who asked.
    fn start(&mut self, id: &RequestId) {
        let (generation, holding) = self.machine.ledger.of_request(id).expect("just charged");
        let (node, charges) = (holding.node.clone(), holding.charges.clone());
        self.out.answers.push(Answer::Placed { request: id.clone(), node: node.clone() });
        self.out.effects.push(Effect::Start {
            request: id.clone(),
            generation: generation.0,
            node,
            charges,
        });
    }

    fn check_changed(&mut self, before: u64) {
        let changed = self.machine.ledger.changed_since(before).0.map(Iterator::collect);
        match changed {
            Some(changed) => self.check(changed),
            None => self.check_all(),
        }
    }

    fn check_all(&mut self) {
        self.check(self.machine.ledger.nodes().map(|(id, _)| id).collect());
    }

    /// Checks nodes from outside; a sum that is wrong closes its device.
    fn check(&mut self, nodes: BTreeSet<NodeId>) {
        for id in nodes {
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
