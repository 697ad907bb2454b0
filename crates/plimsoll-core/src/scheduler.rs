//! The state machine: an event in; operations, decisions, effects and answers out. Time is an argument.

use std::collections::BTreeSet;

use crate::breach::{self, Breach};
use crate::charge::Stage;
use crate::decide::{Decision, decide};
use crate::draft::OneNode;
use crate::event::{Answer, Effect, Event, Operation, Outcome, Settings};
use crate::ledger::{self, Ledger, LedgerError, NodeId};
use crate::memo::Memo;
use crate::queue::{Queue, Waiting};
use crate::reason::Change;
use crate::request::{Request, RequestId};
use crate::room::Measured;
use crate::summary;
use crate::units::{Millis, Name};

mod life;
mod placing;
mod possible;
mod staying;
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
            Operation::Wait(waiting) => self.queue.put(Waiting::clone(waiting)),
            Operation::Unwait(request) => {
                self.queue.remove(request);
            }
            Operation::Forgive(request) => self.queue.forgive(request),
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

    fn wait(&mut self, waiting: Waiting) {
        self.out.operations.push(Operation::Wait(Box::new(waiting.clone())));
        self.machine.queue.put(waiting);
    }

    /// Lets somebody wait no longer. Who does not wait is promised nothing.
    fn unwait(&mut self, request: &RequestId) -> Option<Waiting> {
        let waiting = self.machine.queue.remove(request)?;
        self.out.operations.push(Operation::Unwait(request.clone()));
        self.break_promise(request);
        Some(waiting)
    }

    fn decide(&mut self, request: &Request) -> Decision {
        let machine = &mut *self.machine;
        machine.memo.decide(&machine.ledger, &machine.settings.policy, request)
    }

    fn ask(&mut self, request: &Request) {
        self.unwait(&request.id);
        self.forgive(&request.id);
        if let Some((_, holding)) = self.machine.ledger.of_request(&request.id) {
            if !matches!(holding.stage, Stage::Offered { .. }) {
                let node = holding.node.clone();
                return self.out.answers.push(Answer::Placed { request: request.id.clone(), node });
            }
            let given_back = self.machine.ledger.fail(&request.id);
            self.keep(given_back);
            self.lifted.insert(Change::LoadFell);
        }
        let decision = self.decide(request);
        let until = self.now.after(self.machine.settings.offer_for);
        let offer = decision
            .place()
            .map(|found| (&found.place, self.machine.ledger.offer(request, &found.place, until)));
        let answer = match offer {
            Some((place, Ok(operation))) => {
                self.record(operation);
                Answer::Offered { request: request.id.clone(), place: place.clone(), until }
            }
            Some((_, Err(error))) => {
                Answer::Refused { request: request.id.clone(), reason: error.to_string() }
            }
            None => Answer::Refused {
                request: request.id.clone(),
                reason: summary::sentence(&decision),
            },
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
            if self.machine.settings.serial_starts && !self.is_quiet_for(id) {
                let staged = self.machine.ledger.extend(id, UNTIL_QUIET);
                if self.keep(staged) {
                    return self.out.answers.push(Answer::Placed { request: id.clone(), node: at });
                }
            }
            let taken = self.machine.ledger.take(id);
            return self.sent(id, taken);
        }
        let (Some(node), Some(spec)) = (node, spec) else {
            return self.refuse(id, format!("{id} runs on {at} already"));
        };
        let request = Request { id: id.clone(), spec, terms };
        let Some(there) = self.machine.ledger.node_id(node) else {
            return self.refuse(id, format!("there is no node {node}"));
        };
        let decision =
            decide(&OneNode(&self.machine.ledger, there), &self.machine.settings.policy, &request);
        let moved = decision.place().map(|found| self.charge(&request, &found.place));
        let sentence = summary::sentence(&decision);
        self.out.decisions.push(decision);
        self.lifted.insert(Change::LoadFell);
        match moved {
            Some(Ok(())) => {}
            Some(Err(error)) => self.refuse(id, error.to_string()),
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
