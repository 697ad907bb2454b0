//! A read-only view of the desk and the scheduler together. Everything about memory is read from
//! the ledger.

use std::sync::Arc;

use plimsoll_core::charge::{Activity, Holding, HoldingId, Stage};
use plimsoll_core::evict;
use plimsoll_core::queue::PendingRequest;
use plimsoll_core::reason::NotEvictable;
use plimsoll_core::request::Request;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Millis, Name};

use super::ended::EndedSlot;
use super::reasons::StatusReason;
use super::reports::name_on_runner;
use super::reservation::{Ending, Reservation, ReservationId, ReservationState};
use super::runners::{LiveRunner, Runner};
use super::slots::{Slot, SlotStage};
use super::{Desk, DeskConfig};
use crate::memory::{MemoryFacts, Need};
use crate::model::Model;
use crate::size::Span;
use crate::translate::{self, Purpose};
use crate::wire::SlotReport;

/// The desk and its scheduler, to read.
#[derive(Clone, Copy, Debug)]
pub struct DeskView<'a> {
    pub(super) desk: &'a Desk,
    pub(super) core: &'a Scheduler,
}

/// The status of a reservation: its own state, and how near its slot is to serving it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservationStatus {
    /// No slot has GPUs for it yet.
    Pending,
    /// Its slot has its GPUs and is not ready yet.
    Starting {
        slot: Name,
    },
    /// Its slot is ready.
    Ready {
        slot: Name,
    },
    Ended(Ending),
}

impl ReservationStatus {
    /// Returns the status of the reservations in a slot with this holding.
    pub(super) fn in_slot(slot: &Name, holding: Option<&Holding>) -> ReservationStatus {
        match holding.map(|holding| holding.stage) {
            Some(Stage::Running { .. }) => ReservationStatus::Ready { slot: slot.clone() },
            Some(Stage::Offered { .. } | Stage::Queued | Stage::Sent) => {
                ReservationStatus::Starting { slot: slot.clone() }
            }
            Some(Stage::Releasing { .. }) | None => ReservationStatus::Pending,
        }
    }

    /// Returns its name in the API.
    pub fn name(&self) -> &'static str {
        match self {
            ReservationStatus::Pending => "pending",
            ReservationStatus::Starting { .. } => "starting",
            ReservationStatus::Ready { .. } => "ready",
            ReservationStatus::Ended(ending) => ending.name(),
        }
    }

    /// Returns true if the reservation is being served.
    pub fn is_ready(&self) -> bool {
        matches!(self, ReservationStatus::Ready { .. })
    }

    /// Returns true if a client has nothing more to wait for.
    pub fn is_settled(&self) -> bool {
        matches!(self, ReservationStatus::Ready { .. } | ReservationStatus::Ended(_))
    }
}

/// The evictability of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evictable {
    Since(Millis),
    No(NotEvictable),
}

/// An entry of the queue: a slot pending in the core, or a reservation pending for a slot.
#[derive(Clone, Debug)]
pub enum PendingEntry<'a> {
    Slot { slot: &'a Slot, entry: &'a PendingRequest, reservations: u32 },
    Reservation(&'a Reservation),
}

impl<'a> DeskView<'a> {
    /// Returns the scheduler.
    pub fn scheduler(self) -> &'a Scheduler {
        self.core
    }

    /// Returns the desk's configuration.
    pub fn config(self) -> &'a DeskConfig {
        &self.desk.config
    }

    /// Returns the declared models, by name.
    pub fn models(self) -> impl Iterator<Item = &'a Arc<Model>> {
        self.desk.models.iter()
    }

    /// Returns a declared model.
    pub fn model(self, name: &str) -> Option<&'a Arc<Model>> {
        self.desk.models.get(name)
    }

    /// Returns the models after a name, by name; all of them without one.
    pub fn models_after(self, name: Option<&'a str>) -> impl Iterator<Item = &'a Arc<Model>> {
        self.desk.models.after(name)
    }

    /// Returns a model's memory for every allowed number of GPUs.
    pub fn needs(self, model: &Model) -> Vec<Need> {
        self.desk.models.needs(model)
    }

    /// Returns the facts about a model's memory besides its declaration.
    pub fn memory_facts(self, model: &Model) -> MemoryFacts<'a> {
        self.desk.models.memory_facts(model)
    }

    /// Returns the time of the last load of a model; `None` if it has not been loaded yet.
    pub fn load_time(self, model: &str) -> Option<Span> {
        self.desk.models.load_time(model)
    }

    /// Returns the request for one more slot of a model.
    pub fn what_if_request(self, model: &Model) -> Request {
        translate::slot_request(
            model,
            self.memory_facts(model),
            "what-if",
            Purpose::Reservation,
            Span::default(),
        )
    }

    /// Returns the slots, by id.
    pub fn slots(self) -> impl Iterator<Item = &'a Slot> {
        self.desk.slots.iter().map(|slot| &**slot)
    }

    /// Returns a slot.
    pub fn slot(self, id: &str) -> Option<&'a Slot> {
        self.desk.slots.get(id).map(|slot| &**slot)
    }

    /// Returns a slot that has ended, as long as it is kept.
    pub fn ended_slot(self, id: &str) -> Option<&'a Arc<EndedSlot>> {
        self.desk.slots.ended().get(id)
    }

    /// Returns the slots that have ended, the newest first.
    pub fn ended_slots(self) -> impl Iterator<Item = &'a Arc<EndedSlot>> {
        self.desk.slots.ended().newest_first()
    }

    /// Returns the slots of a model.
    pub fn slots_of(self, model: &str) -> impl Iterator<Item = &'a Slot> {
        self.desk.slots.of_model(model).map(|slot| &**slot)
    }

    /// Returns the slots after an id, by id; all of them without one.
    pub fn slots_after(self, id: Option<&'a str>) -> impl Iterator<Item = &'a Slot> {
        self.desk.slots.after(id).map(|slot| &**slot)
    }

    /// Returns the last report of a slot.
    pub fn report(self, slot: &Slot) -> Option<&'a SlotReport> {
        let (_, holding) = self.holding(slot)?;
        let name = name_on_runner(&slot.id, &holding.node);
        self.live(&holding.node)?.slots.iter().find(|report| report.slot == name)
    }

    /// Returns the holding of a slot.
    pub fn holding(self, slot: &Slot) -> Option<(HoldingId, &'a Holding)> {
        self.core.ledger().of_request(&slot.request())
    }

    /// Returns the stage of a slot; `None` if it is gone.
    pub fn stage(self, slot: &Slot) -> Option<SlotStage> {
        self.stage_with(slot, self.holding(slot).map(|(_, holding)| holding))
    }

    pub(super) fn stage_with(self, slot: &Slot, holding: Option<&Holding>) -> Option<SlotStage> {
        let Some(holding) = holding else {
            let is_pending = self.core.queue().get(&slot.request()).is_some();
            return is_pending.then_some(SlotStage::Pending);
        };
        Some(match holding.stage {
            Stage::Releasing { .. } => SlotStage::Releasing,
            _ if self.is_silent(&holding.node) => SlotStage::Unknown,
            Stage::Offered { .. } | Stage::Queued | Stage::Sent => SlotStage::Starting,
            Stage::Running { .. } => SlotStage::Running,
        })
    }

    /// Returns the number of requests that a slot serves at once.
    pub fn concurrency(self, slot: &Slot) -> u32 {
        let model = slot.made_from.as_ref().or_else(|| self.model(&slot.model));
        model.map_or(1, |model| model.declared().concurrency)
    }

    /// Returns the number of reservations in a slot.
    pub fn active_requests(self, slot: &Slot) -> u32 {
        self.desk.reservations.count_in_slot(&slot.id)
    }

    /// Returns the time when a slot was last given a reservation or became idle.
    pub fn last_activity(self, slot: &Slot) -> Millis {
        let seated =
            self.reservations_in(&slot.id).filter_map(|reservation| match reservation.state {
                ReservationState::Seated { since, .. } => Some(since),
                ReservationState::Pending | ReservationState::Ended { .. } => None,
            });
        let idle = match self.holding(slot).map(|(_, holding)| holding.activity) {
            Some(Activity::Idle { since }) => Some(since),
            Some(Activity::Active { .. } | Activity::Unknown) | None => None,
        };
        seated.chain(idle).max().unwrap_or(slot.created)
    }

    /// Returns the evictability of a slot; `None` if it holds nothing.
    pub fn evictable(self, slot: &Slot, now: Millis) -> Option<Evictable> {
        let (_, holding) = self.holding(slot)?;
        Some(match evict::evictable_since(holding, now, self.core.settings().residency) {
            Ok(since) => Evictable::Since(since),
            Err(reason) => Evictable::No(reason),
        })
    }

    /// Returns the first deadline of the reservations in a slot.
    pub fn first_deadline(self, slot: &Slot) -> Option<Millis> {
        self.reservations_in(&slot.id).filter_map(|reservation| reservation.deadline).min()
    }

    /// Returns the reservations, by id.
    pub fn reservations(self) -> impl Iterator<Item = &'a Reservation> {
        self.desk.reservations.iter().map(|reservation| &**reservation)
    }

    /// Returns the reservations after an id, by id; all of them without one.
    pub fn reservations_after(
        self,
        id: Option<ReservationId>,
    ) -> impl Iterator<Item = &'a Reservation> {
        self.desk.reservations.after(id).map(|reservation| &**reservation)
    }

    /// Returns the number of pending reservations.
    pub fn pending_reservations(self) -> u32 {
        self.desk.reservations.backlog().total()
    }

    /// Returns the number of pending reservations of a namespace; `None` for the clients that name
    /// none.
    pub fn pending_reservations_of(self, namespace: &Option<String>) -> u32 {
        self.desk.reservations.backlog().of_namespace(namespace)
    }

    /// Returns the reservations in a slot, by id.
    pub fn reservations_in(self, slot: &str) -> impl Iterator<Item = &'a Reservation> {
        self.desk.reservations.in_slot(slot).map(|reservation| &**reservation)
    }

    /// Returns a reservation.
    pub fn reservation(self, id: ReservationId) -> Option<&'a Reservation> {
        self.desk.reservations.get(id).map(|reservation| &**reservation)
    }

    /// Returns the status of a reservation.
    pub fn reservation_status(self, id: ReservationId) -> Option<ReservationStatus> {
        Some(match &self.reservation(id)?.state {
            ReservationState::Pending => ReservationStatus::Pending,
            ReservationState::Ended { ending, .. } => ReservationStatus::Ended(ending.clone()),
            ReservationState::Seated { slot: id, .. } => {
                let holding = self.slot(id).and_then(|slot| self.holding(slot));
                ReservationStatus::in_slot(id, holding.map(|(_, holding)| holding))
            }
        })
    }

    /// Returns the time at which the lease of a reservation expires unless it is renewed; `None`
    /// after its end, and if the lease is off.
    pub fn lease_expiry(self, id: ReservationId) -> Option<Millis> {
        self.desk.reservations.lease_expiry(id)
    }

    /// Returns the reason for the status of a reservation.
    pub fn status_reason(self, id: ReservationId) -> Option<StatusReason> {
        let reservation = self.reservation(id)?;
        Some(match &reservation.state {
            ReservationState::Ended { ending, .. } => StatusReason::Ended(ending.clone()),
            ReservationState::Pending => self.reason_without_slot(&reservation.model),
            ReservationState::Seated { slot, .. } => match self.slot(slot) {
                Some(slot) => self.slot_reason(slot),
                None => StatusReason::SlotGone { slot: slot.clone() },
            },
        })
    }

    /// Returns the reason for the stage of a slot.
    pub fn slot_reason(self, slot: &Slot) -> StatusReason {
        let failure = slot.life.failure.clone();
        if let Some(entry) = self.core.queue().get(&slot.request()) {
            return match self.desk.runners.is_empty() {
                true => StatusReason::NoRunner,
                false => StatusReason::NotPlaced { reason: entry.reason.clone(), failure },
            };
        }
        let Some((_, holding)) = self.holding(slot) else {
            return StatusReason::SlotGone { slot: slot.id.clone() };
        };
        let (slot_id, runner) = (slot.id.clone(), holding.node.clone());
        if let Some(since) = self.silent_since(&runner) {
            return StatusReason::RunnerSilent { slot: slot_id, runner, since };
        }
        match holding.stage {
            Stage::Offered { .. } | Stage::Queued => StatusReason::Queued { slot: slot_id, runner },
            Stage::Sent => StatusReason::Starting { slot: slot_id, runner, failure },
            Stage::Running { .. } => StatusReason::Running { slot: slot_id, runner },
            Stage::Releasing { .. } => {
                let report = self.report(slot).and_then(|report| report.reason.clone());
                StatusReason::Releasing { slot: slot_id, runner, report }
            }
        }
    }

    /// Returns why a reservation of a model has no slot.
    fn reason_without_slot(self, name: &str) -> StatusReason {
        let model = self.model(name);
        if let Some(gap) = model.and_then(|model| self.desk.models.file_gap(model)) {
            return StatusReason::File(gap);
        }
        StatusReason::ModelFull {
            model: name.to_string(),
            slots: u32::try_from(self.slots_of(name).count()).unwrap_or(u32::MAX),
            max_slots: model.map_or(0, |model| model.declared().max_slots),
            concurrency: self.slots_of(name).map(|slot| self.concurrency(slot)).sum(),
        }
    }

    /// Returns everything that is pending: the slots by priority and age, then the reservations
    /// that are in no slot.
    pub fn pending(self) -> impl Iterator<Item = PendingEntry<'a>> {
        self.entries(self.core.queue().iter())
    }

    /// Returns everything that is pending: the slots in the order in which the core tries them now,
    /// then the reservations that are in no slot. Beside shares of accounts this costs more than
    /// [`DeskView::pending`].
    pub fn pending_in_turn(self) -> impl Iterator<Item = PendingEntry<'a>> {
        self.entries(self.core.pending_in_turn().into_iter())
    }

    fn entries(
        self,
        pending: impl Iterator<Item = &'a PendingRequest>,
    ) -> impl Iterator<Item = PendingEntry<'a>> {
        let slots = pending.filter_map(move |entry| {
            let slot = self.slot(&entry.request.id.name)?;
            let reservations = self.active_requests(slot);
            Some(PendingEntry::Slot { slot, entry, reservations })
        });
        let reservations = self.desk.reservations.pending().into_iter();
        slots.chain(reservations.map(|one| PendingEntry::Reservation(one)))
    }

    /// Returns the runners, by name.
    pub fn runners(self) -> impl Iterator<Item = &'a Runner> {
        self.desk.runners.iter().map(|runner| &**runner)
    }

    /// Returns the runners after a name, by name; all of them without one.
    pub fn runners_after(self, name: Option<&'a str>) -> impl Iterator<Item = &'a Runner> {
        self.desk.runners.after(name).map(|runner| &**runner)
    }

    /// Returns a runner.
    pub fn runner(self, id: &str) -> Option<&'a Runner> {
        self.desk.runners.get(id).map(|runner| &**runner)
    }

    /// Returns the last report of a runner; `None` before its first one.
    pub fn live(self, runner: &str) -> Option<&'a LiveRunner> {
        self.desk.runners.live(runner)
    }

    /// Returns true if a runner is silent: its lease has expired.
    pub fn is_silent(self, runner: &str) -> bool {
        self.silent_since(runner).is_some()
    }

    /// Returns the time since when a runner has been silent; `None` if it is not.
    pub fn silent_since(self, runner: &str) -> Option<Millis> {
        self.core.ledger().view_of(runner)?.node.silent_since
    }
}
