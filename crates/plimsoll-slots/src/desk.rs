//! The desk: who asks for a place in a model, which slots there are, and what runners say. Around the core's own loop, without I/O.
//!
//! ```text
//!  ask, give back, beat, tick ──▶ desk ──▶ events ──▶ core's drive ──▶ records ┐
//!                                  └─────────────▶ operations ──────────▶ notes ┴──(durable)──▶ committed ──▶ told
//! ```
//!
//! A *slot* is a process that serves a model and holds memory in the core's ledger. A *place* is one request's share of a slot;
//! a slot has as many as the model's concurrency. The desk holds no sum of memory: that is the ledger's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_core::decide::Decision;
use plimsoll_core::drive::{Drive, Output, Record};
use plimsoll_core::event::{Answer, Effect, Event, Settings};
use plimsoll_core::request::{Request, RequestId};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Millis, Name};
use serde::{Deserialize, Serialize};

use crate::model::Model;
use crate::translate;

mod census;
mod check;
mod files;
mod orders;
mod places;
mod ranks;
mod reports;
mod runners;
mod slots;
mod state;
mod views;

pub use census::Census;
pub use places::{Ask, AskError};
pub use runners::{Live, RunnerError};
pub use slots::NoSuchSlot;
pub use state::{Ending, Life, Operation, Place, PlaceState, Rows, Runner, Slot, Who};
pub use views::{Evictable, PlaceStatus, SlotStage, Unplaced};

use ranks::Ranks;
use state::State;

/// How the desk behaves; plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manners {
    /// How often runners report, in milliseconds.
    pub heartbeat: u64,
    /// After so long a silence a runner's slots are unknown and it gets no new work, in milliseconds.
    pub lease: u64,
    /// How many places that are over are remembered, so that a repeated request finds its answer.
    pub ended_kept: usize,
}

impl Default for Manners {
    fn default() -> Self {
        Manners { heartbeat: 2_000, lease: 15_000, ended_kept: 10_000 }
    }
}

/// What is made durable in one go: the core's records, and the desk's own operations, in order.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The core's records.
    pub records: Vec<Record>,
    /// The desk's operations, numbered.
    pub notes: Vec<(u64, Vec<Operation>)>,
}

/// What may be told once a batch is durable.
#[derive(Debug, Default)]
pub struct Told {
    /// What came of each record.
    pub outputs: Vec<Output>,
    /// Places that stand differently.
    pub places: BTreeSet<u64>,
    /// Runners that have other orders.
    pub runners: BTreeSet<Name>,
}

/// Models, slots, places and runners around one scheduler.
#[derive(Debug)]
pub struct Desk {
    drive: Drive,
    manners: Manners,
    state: State,
    live: BTreeMap<Name, Live>,
    ranks: Ranks,
    is_ranked: bool,
    /// Prewarmed models that no fleet so far could hold; tried again when the fleet changes.
    hopeless: BTreeSet<String>,
    /// Models where somebody may find a seat now who did not before.
    unserved: BTreeSet<String>,
    noted: Vec<Operation>,
    notes: Vec<(u64, Vec<Operation>)>,
    next_note: u64,
    telling: Told,
    in_flight: Told,
}

impl Desk {
    /// Goes on from a saved state: the scheduler and the desk's rows, and the numbers of the next record and note.
    pub fn resume(
        manners: Manners,
        scheduler: Scheduler,
        rows: Rows,
        next_seq: u64,
        next_note: u64,
    ) -> Self {
        let state = State::from_rows(rows);
        Desk {
            drive: Drive::resume(scheduler, next_seq),
            manners,
            live: BTreeMap::new(),
            ranks: Ranks::default(),
            is_ranked: false,
            hopeless: BTreeSet::new(),
            state,
            unserved: BTreeSet::new(),
            noted: Vec::new(),
            notes: Vec::new(),
            next_note,
            telling: Told::default(),
            in_flight: Told::default(),
        }
    }

    /// An empty one.
    pub fn new(manners: Manners, settings: Settings) -> Self {
        Desk::resume(manners, Scheduler::new(settings), Rows::default(), 0, 0)
    }

    /// Applies the next operation of a journal to a desk that is being recovered.
    pub fn recover_next(&mut self, operation: Operation) {
        self.state.apply(operation);
    }

    /// The desk's own state, to save beside the scheduler's snapshot.
    pub fn rows(&self) -> Rows {
        self.state.rows()
    }

    /// The machine, to look at.
    pub fn scheduler(&self) -> &Scheduler {
        self.drive.scheduler()
    }

    /// How the desk behaves.
    pub fn manners(&self) -> &Manners {
        &self.manners
    }

    /// The numbers of the next record and of the next note.
    pub fn next_numbers(&self) -> (u64, u64) {
        (self.drive.next_seq(), self.next_note)
    }

    /// What to make durable next, in one go; nothing while an earlier batch is on its way.
    pub fn batch(&mut self) -> Batch {
        self.close_note();
        let records = self.drive.batch();
        self.in_flight = std::mem::take(&mut self.telling);
        Batch { records, notes: std::mem::take(&mut self.notes) }
    }

    /// What came of the batch that is on its way, record by record, and the places that stand differently with it: to get ready with.
    /// Nothing of it is told before it is durable.
    pub fn in_flight(&self) -> (&[Output], &BTreeSet<u64>) {
        (self.drive.in_flight(), &self.in_flight.places)
    }

    /// The last batch is durable: what came of it may be told.
    pub fn committed(&mut self) -> Told {
        let outputs = self.drive.committed();
        Told { outputs, ..std::mem::take(&mut self.in_flight) }
    }

    /// Lets the machine behave differently from here on.
    pub fn configure(&mut self, now: Millis, settings: Settings) {
        if *self.scheduler().settings() != settings {
            self.step(now, Event::Configured { settings: Box::new(settings) });
        }
    }

    /// Declares a model, or declares it anew: slots that are there stay as they were made.
    pub fn put_model(&mut self, now: Millis, model: Model) {
        let name = model.name().to_string();
        if self.state.models.get(&name).is_some_and(|known| **known == model) {
            return;
        }
        self.note(Operation::PutModel(Arc::new(model)));
        self.hopeless.remove(&name);
        self.agree_on_terms(now, &name);
        // How many a slot serves that nobody here made is known only from its model.
        let slots: Vec<Name> = self.state.slots_of(&name).map(|slot| slot.id.clone()).collect();
        slots.iter().for_each(|slot| self.rank(slot));
        self.unserved.insert(name);
        self.seat_waiting(now);
        self.prewarm(now);
    }

    /// A model is no longer declared: nobody waits for it any more, and its slots go.
    pub fn drop_model(&mut self, now: Millis, name: &str) -> bool {
        if !self.state.models.contains_key(name) {
            return false;
        }
        self.note(Operation::DropModel(name.to_string()));
        let reason = format!("model {name} is no longer declared");
        for place in self.state.waiting_for.get(name).cloned().unwrap_or_default() {
            self.end(now, place, Ending::Refused, &reason);
        }
        let slots: Vec<Name> = self.state.slots_of(name).map(|slot| slot.id.clone()).collect();
        for slot in slots {
            self.let_go(now, &slot, &reason);
        }
        self.seat_waiting(now);
        true
    }

    /// Time passed: deadlines, silent runners, and whatever else only time brings.
    pub fn tick(&mut self, now: Millis) {
        self.expire(now);
        self.notice_silence(now);
        self.step(now, Event::Tick);
        self.seat_waiting(now);
        self.prewarm(now);
        self.forget_ended();
    }

    /// Checks every device, whether it changed or not.
    pub fn audit(&mut self, now: Millis) {
        self.step(now, Event::Audit);
    }

    /// Decides for a slot of a model without changing anything.
    pub fn what_if(&mut self, model: &Model) -> Decision {
        let request = self.what_if_request(model);
        self.drive.what_if(&request)
    }

    /// What is asked for one more slot of a model.
    pub fn what_if_request(&self, model: &Model) -> Request {
        translate::slot_request(model, self.state.known(model), "what-if", false, 0)
    }

    /// Hands an event to the core, and follows what came of it.
    fn step(&mut self, now: Millis, event: Event) {
        let subject = subject(&event).cloned();
        let seq = self.drive.next_seq();
        let Some(outcome) = self.drive.handle(now, event) else { return };
        let mut touched: BTreeSet<RequestId> = subject.into_iter().collect();
        let mut refused = BTreeMap::new();
        for answer in &outcome.answers {
            let (Answer::Offered { request, .. }
            | Answer::Placed { request, .. }
            | Answer::Waiting { request, .. }
            | Answer::Refused { request, .. }) = answer;
            touched.insert(request.clone());
            if let Answer::Refused { reason, .. } = answer {
                refused.insert(request.clone(), reason.clone());
            }
        }
        let (mut nodes, mut sent, mut unnameable) = (BTreeSet::new(), Vec::new(), Vec::new());
        for effect in &outcome.effects {
            let (Effect::Start { request, node, .. } | Effect::Stop { request, node, .. }) = effect;
            touched.insert(request.clone());
            nodes.insert(node.clone());
            if matches!(effect, Effect::Start { .. }) {
                sent.push(request.name.clone());
                let other = reports::name_of_its_own(&request.name, node);
                unnameable
                    .extend(self.state.slots.contains_key(&other).then(|| request.name.clone()));
            }
        }
        for node in nodes {
            self.new_orders(&node, seq);
        }
        for slot in sent {
            self.change_life(&slot, |life| life.sent = Some(now));
        }
        for request in touched {
            self.settle(now, &request, refused.get(&request));
        }
        for slot in unnameable {
            self.rename(now, &slot);
        }
    }

    fn note(&mut self, operation: Operation) {
        self.noted.push(operation.clone());
        self.state.apply(operation);
    }

    fn close_note(&mut self) {
        if !self.noted.is_empty() {
            self.notes.push((self.next_note, std::mem::take(&mut self.noted)));
            self.next_note += 1;
        }
    }
}

/// Whose state an event is about.
fn subject(event: &Event) -> Option<&RequestId> {
    match event {
        Event::Submit { request, .. } => Some(&request.id),
        Event::Withdraw { request }
        | Event::Started { request, .. }
        | Event::Failed { request, .. }
        | Event::Freed { request, .. }
        | Event::Grew { request, .. }
        | Event::Claimed { request } => Some(request),
        Event::Observed { holding } => Some(&holding.request),
        _ => None,
    }
}
