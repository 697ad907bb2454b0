//! The desk: the front end for model serving. It turns reservations and runner reports into core
//! events, and core outcomes into orders and seats.
//!
//! ```text
//!  reserve, release, heartbeat, tick ──▶ Desk ──▶ events ──▶ core
//!                                         ▲                   │
//!                                         └──── outcomes ─────┘
//! ```
//!
//! A *slot* is a model server process; it holds memory in the core's ledger. A *reservation* is a
//! client's claim to one concurrency unit of a model; a slot seats as many as the model's
//! `concurrency`. The desk holds no sum of memory: that is the ledger's.
//!
//! Each kind of state has a module with private fields: `models`, `slots`, `reservations`,
//! `runners`. The desk puts their verbs in order: `serving` for clients, `sessions` and
//! `reports` for runners, `following` for what the core does.

use std::collections::BTreeSet;

use plimsoll_core::decide::Decision;
use plimsoll_core::event::Event;
use plimsoll_core::front::{Core, Front};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::Name;
use serde::{Deserialize, Serialize};

use crate::lease::Lease;
use crate::model::Model;
use crate::size::Span;

mod backlog;
mod census;
mod ended;
mod following;
mod leases;
mod limits;
mod maintenance;
mod measurements;
mod models;
mod orders;
mod reasons;
mod reports;
mod reservation;
mod reservations;
mod runners;
mod seating;
mod served_files;
mod serving;
mod sessions;
mod slots;
mod view;

pub use backlog::{PendingLimit, PendingLimits};
pub use census::Census;
pub use ended::{EndedSlot, EndedSlotLimits, SlotEnding};
pub use leases::RenewError;
pub use limits::ReportProblem;
pub use maintenance::Intake;
pub use models::{FileGap, ModelChange, ModelsState};
pub use reasons::{Loss, SlotFailure, StatusReason};
pub use reservation::{
    ClientName, Ending, IdempotencyKey, InvalidReservationId, NewReservation, Reservation,
    ReservationId, ReservationState, ReserveError,
};
pub use reservations::{ReservationChange, ReservationsState};
pub use runners::{LiveRunner, Pace, Runner, RunnerChange, RunnerError, RunnersState};
pub use serving::UnknownSlot;
pub use slots::{Life, Slot, SlotChange, SlotStage, SlotsState};
pub use view::{DeskView, Evictable, PendingEntry, ReservationStatus};

use models::Models;
use reservations::Reservations;
use runners::Runners;
use slots::Slots;

/// The configuration of the desk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeskConfig {
    /// The interval at which runners report.
    pub heartbeat: Span,
    /// The silence after which a runner gets no new work and the state of its slots is unknown.
    pub lease: Span,
    /// The number of ended reservations to remember, so that a repeated request finds its answer.
    pub ended_kept: usize,
    /// The limits on the ended slots to remember.
    pub ended_slots: EndedSlotLimits,
    /// The lease of a reservation whose request names none.
    pub reservation_lease: Lease,
    pub pending: PendingLimits,
    /// The most models that clients may declare.
    pub max_models: usize,
}

impl Default for DeskConfig {
    fn default() -> Self {
        DeskConfig {
            heartbeat: Span::seconds(2),
            lease: Span::seconds(15),
            ended_kept: 10_000,
            ended_slots: EndedSlotLimits::DEFAULT,
            reservation_lease: Lease::DEFAULT,
            pending: PendingLimits::DEFAULT,
            max_models: 10_000,
        }
    }
}

/// A journalled change of the desk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Model(ModelChange),
    Slot(SlotChange),
    Reservation(ReservationChange),
    Runner(RunnerChange),
}

impl From<ModelChange> for Change {
    fn from(change: ModelChange) -> Change {
        Change::Model(change)
    }
}

impl From<SlotChange> for Change {
    fn from(change: SlotChange) -> Change {
        Change::Slot(change)
    }
}

impl From<ReservationChange> for Change {
    fn from(change: ReservationChange) -> Change {
        Change::Reservation(change)
    }
}

impl From<RunnerChange> for Change {
    fn from(change: RunnerChange) -> Change {
        Change::Runner(change)
    }
}

/// The changes that have not been batched yet.
#[derive(Clone, Debug, Default)]
struct ChangeLog(Vec<Change>);

impl ChangeLog {
    fn push(&mut self, change: impl Into<Change>) {
        self.0.push(change.into());
    }
}

/// The whole state of the desk, for a snapshot. Its version is that of the core's snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeskState {
    models: ModelsState,
    slots: SlotsState,
    reservations: ReservationsState,
    runners: RunnersState,
}

/// Something that a client can wait for a change of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// The status of a reservation.
    Reservation(ReservationId),
    /// The orders of a runner.
    Runner(Name),
}

/// The front end for model serving.
#[derive(Clone, Debug, Default)]
pub struct Desk {
    config: DeskConfig,
    models: Models,
    slots: Slots,
    reservations: Reservations,
    runners: Runners,
    /// Models where a pending reservation may find a seat now that it did not find before.
    to_serve: BTreeSet<String>,
    /// Slots that are ranked as full, because the core has retired them. One event can retire a
    /// slot, and another one of the same call end that: this is what `rank` saw last.
    retired: BTreeSet<Name>,
    log: ChangeLog,
}

impl Desk {
    /// Creates a desk without models and runners.
    pub fn new(config: DeskConfig) -> Self {
        Desk { config, ..Desk::default() }
    }

    /// Returns a view of the desk and its scheduler, to read.
    pub fn view<'a>(&'a self, core: &'a Scheduler) -> DeskView<'a> {
        DeskView { desk: self, core }
    }

    /// Declares a model, or replaces its declaration. Slots that exist stay as they were created.
    pub fn declare_model(&mut self, core: &mut Core<'_>, model: Model) {
        let name = model.name().to_string();
        if !self.models.declare(&mut self.log, model) {
            return;
        }
        self.update_terms_of_adopted(core, &name);
        // The concurrency of an adopted slot is known only from its model.
        let slots: Vec<Name> = self.slots.of_model(&name).map(|slot| slot.id.clone()).collect();
        slots.iter().for_each(|slot| self.rank(core, slot));
        self.to_serve.insert(name);
        self.serve_pending(core);
        self.prewarm(core);
    }

    /// Returns the limit on models if a further one with this name would exceed it. Models of the
    /// configuration and those of the journal are declared without this check.
    pub fn exceeded_model_limit(&self, name: &str) -> Option<usize> {
        let is_new = self.models.get(name).is_none();
        let is_full = self.models.iter().count() >= self.config.max_models;
        (is_new && is_full).then_some(self.config.max_models)
    }

    /// Removes a model, its pending reservations and its slots; `false` if it is not declared.
    pub fn remove_model(&mut self, core: &mut Core<'_>, name: &str) -> bool {
        if !self.models.remove(&mut self.log, name) {
            return false;
        }
        for reservation in self.reservations.pending_of_model(name) {
            self.end_reservation(core, reservation, Ending::ModelRemoved);
        }
        let slots: Vec<Name> = self.slots.of_model(name).map(|slot| slot.id.clone()).collect();
        for slot in slots {
            self.withdraw_slot(core, &slot, &Loss::ModelRemoved);
        }
        self.serve_pending(core);
        true
    }

    /// Decides for one more slot of a model without changing anything.
    pub fn what_if(&self, core: &mut Core<'_>, model: &Model) -> Decision {
        let request = self.view(core.scheduler()).what_if_request(model);
        core.what_if(&request)
    }
}

impl Front for Desk {
    type Change = Change;
    type State = DeskState;
    type Topic = Topic;

    fn restore(&mut self, state: DeskState) {
        self.models = Models::restore(state.models);
        self.slots = Slots::restore(state.slots);
        self.reservations = Reservations::restore(state.reservations);
        self.runners = Runners::restore(state.runners);
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Model(change) => self.models.apply(change),
            Change::Slot(change) => self.slots.apply(change),
            Change::Reservation(change) => self.reservations.apply(change),
            Change::Runner(change) => self.runners.apply(change),
        }
    }

    fn state(&self) -> DeskState {
        DeskState {
            models: self.models.state(),
            slots: self.slots.state(),
            reservations: self.reservations.state(),
            runners: self.runners.state(),
        }
    }

    fn tick(&mut self, core: &mut Core<'_>) {
        self.expire(core);
        self.expire_leases(core);
        self.close_silent_runners(core);
        self.step(core, Event::Tick);
        self.advance_drains(core);
        self.serve_pending(core);
        self.prewarm(core);
        self.reservations.forget_oldest(&mut self.log, self.config.ended_kept);
        self.slots.forget_ended(&mut self.log, self.config.ended_slots, core.now());
    }

    fn handle(&mut self, core: &mut Core<'_>, event: Event) {
        self.step(core, event);
    }

    fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.log.0)
    }

    fn take_topics(&mut self) -> BTreeSet<Topic> {
        let reservations = self.reservations.take_changed().into_iter().map(Topic::Reservation);
        reservations.chain(self.runners.take_changed().into_iter().map(Topic::Runner)).collect()
    }
}
