//! The scheduler: a state machine that turns an event into operations, decisions, effects and
//! answers. Time is an argument.
//!
//! One step has four stages:
//!
//! 1. **Apply** the event to the ledger and the queue. The result is the set of changes that may
//!    lift the reason of a pending request.
//! 2. **Start** queued work whose devices have become quiet. This runs before and after stage 3:
//!    work that was placed earlier starts before work that is placed now.
//! 3. **Retry** the pending requests that such a change may help (`retry`). After that, retired
//!    holders that are idle are evicted: only then is it certain that their memory is still needed.
//! 4. **Check** the nodes that changed for breaches.
//!
//! A step changes state only through the ledger's verbs and the queue, and records every change as
//! an operation, so that the journal alone rebuilds the state ([`Scheduler::recover_next`]).

use std::collections::BTreeSet;

use crate::decide::Decision;
use crate::event::{Answer, Event, Operation, Outcome, RejectedCall, Settings};
use crate::ledger::{self, Ledger, LedgerError, NodeId};
use crate::memo::Memo;
use crate::queue::{PendingRequest, Queue};
use crate::reason::Change;
use crate::request::{Request, RequestId};
use crate::units::{Millis, Name};

mod admit;
mod apply;
mod check;
mod evidence;
mod fair;
mod forecasts;
mod gangs;
mod holders;
mod offers;
mod placing;
mod possible;
mod promises;
mod reclaim;
mod retirement;
mod retry;
mod starts;

pub use fair::Turns;
pub use forecasts::Forecasts;
use possible::Possible;
use retirement::Evicted;

/// The ledger, the queue and the settings. The other fields are caches.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    pub(crate) ledger: Ledger,
    pub(crate) queue: Queue,
    pub(crate) settings: Settings,
    memo: Memo,
    possible: Possible,
}

impl Scheduler {
    /// Creates a scheduler without nodes.
    pub fn new(settings: Settings) -> Self {
        let mut scheduler = Scheduler::default();
        scheduler.configure(settings);
        scheduler
    }

    /// Replaces the settings, and the shares of accounts that the ledger enforces.
    fn configure(&mut self, settings: Settings) {
        self.ledger.set_shares(settings.accounts.clone());
        self.settings = settings;
    }

    /// Returns the ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the pending requests.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Decides a request as [`Event::Submit`] would, without changing anything but caches.
    pub fn what_if(&mut self, request: &Request) -> Decision {
        self.decide_for(request)
    }

    /// Decides a request on one node as [`Event::Admit`] would, without changing anything. `None`
    /// if the node is not known.
    pub fn what_if_on(&self, request: &Request, node: &Name) -> Option<Decision> {
        self.decide_on_chosen(&request.on_devices_alone(), node)
    }

    /// Handles one event at one time.
    pub fn step(&mut self, now: Millis, event: Event) -> Outcome {
        let (starts, checks) = self.scopes(&event);
        let mut step = Step::new(self, now);
        let lifted = step.apply(event);
        step.start_queued(starts);
        step.retry_pending(lifted);
        // The next request in turn is promised retired holders before another one arrives. It ends,
        // because each round stops a holder that runs.
        while step.evict_retired() == Evicted::Some {
            step.retry_pending(Lifted::from([Change::LoadFell]));
        }
        step.start_queued(starts);
        step.check(checks);
        step.outcome
    }

    /// Returns the nodes on which queued work may start after an event, and the nodes to check.
    fn scopes(&self, event: &Event) -> (Scope, Scope) {
        let (_, position) = self.ledger.changed_since(0);
        let changed = Scope::ChangedSince(position);
        match event {
            // New settings may allow every queued start.
            Event::Configured { .. } => (Scope::All, changed),
            Event::Audit => (changed, Scope::All),
            _ => (changed, changed),
        }
    }

    /// Applies the next operation of a journal during recovery.
    pub fn recover_next(&mut self, operation: &Operation) {
        match operation {
            Operation::Ledger(operation) => self.ledger.recover_next(operation),
            Operation::Enqueue(entry) => self.queue.insert(PendingRequest::clone(entry)),
            Operation::Dequeue(request) => {
                self.queue.remove(request);
            }
            Operation::ClearFailures(request) => self.queue.clear_failures(request),
            Operation::Evicted { model, at } => self.queue.note_eviction(model.clone(), *at),
            Operation::Configure(settings) => self.configure(Settings::clone(settings)),
        }
    }
}

/// A set of nodes.
#[derive(Clone, Copy, Debug)]
enum Scope {
    All,
    /// The nodes that changed since a position in the ledger's change log.
    ChangedSince(u64),
}

impl Scope {
    /// Returns the nodes of the scope; `None` if they are all nodes, or if the change log no longer
    /// reaches back.
    fn nodes(self, ledger: &Ledger) -> Option<BTreeSet<NodeId>> {
        match self {
            Scope::All => None,
            Scope::ChangedSince(position) => {
                ledger.changed_since(position).0.map(Iterator::collect)
            }
        }
    }
}

/// The changes of one step that may lift the reason of a pending request.
type Lifted = BTreeSet<Change>;

/// One event being handled.
struct Step<'a> {
    now: Millis,
    scheduler: &'a mut Scheduler,
    outcome: Outcome,
    /// The number of promises that were withdrawn or moved in this step. Each leaves memory to
    /// other pending requests.
    promises_withdrawn: usize,
    /// A request that is not speculative was pending when the step began.
    had_real_work: bool,
}

impl<'a> Step<'a> {
    fn new(scheduler: &'a mut Scheduler, now: Millis) -> Self {
        let had_real_work = scheduler.queue.has_real_work();
        let outcome = Outcome::default();
        Step { now, scheduler, outcome, promises_withdrawn: 0, had_real_work }
    }

    fn record(&mut self, operation: ledger::Operation) {
        self.outcome.operations.push(Operation::Ledger(operation));
    }

    /// Records an operation and returns true, if the ledger accepted it. Otherwise the event is
    /// late or a duplicate, and changes nothing.
    fn record_if_accepted(&mut self, result: Result<ledger::Operation, LedgerError>) -> bool {
        match result {
            Ok(operation) => {
                self.record(operation);
                true
            }
            Err(_) => false,
        }
    }

    fn enqueue(&mut self, entry: PendingRequest) {
        self.outcome.operations.push(Operation::Enqueue(Box::new(entry.clone())));
        self.scheduler.queue.insert(entry);
    }

    /// Removes a request from the queue, and its promise with it: only pending requests have one.
    fn dequeue(&mut self, request: &RequestId) -> Option<PendingRequest> {
        let entry = self.scheduler.queue.remove(request)?;
        self.outcome.operations.push(Operation::Dequeue(request.clone()));
        self.withdraw_promise(request);
        Some(entry)
    }

    fn clear_failures(&mut self, id: &RequestId) {
        if self.scheduler.queue.failures(id) > 0 {
            self.scheduler.queue.clear_failures(id);
            self.outcome.operations.push(Operation::ClearFailures(id.clone()));
        }
    }

    fn answer_placed(&mut self, request: &RequestId, node: Name) {
        self.outcome.answers.push(Answer::Placed { request: request.clone(), node });
    }

    /// Answers that no empty fleet could hold a request, and records the decision.
    fn answer_impossible(&mut self, decision: Decision) {
        let rejection = decision.rejection().cloned().unwrap_or_default();
        let request = decision.request.clone();
        self.outcome.answers.push(Answer::Impossible { request, rejection });
        self.outcome.decisions.push(decision);
    }

    fn reject_call(&mut self, request: &RequestId, reason: RejectedCall) {
        self.outcome.answers.push(Answer::Rejected { request: request.clone(), reason });
    }
}
