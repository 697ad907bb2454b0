//! Serves clients: gives reservations a seat in a slot, creates slots where none has room, and ends
//! reservations.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_core::charge::{Activity, Stage};
use plimsoll_core::event::Event;
use plimsoll_core::front::Core;
use plimsoll_core::units::Name;

use super::models::FileGap;
use super::reasons::{Loss, StatusReason};
use super::reservation::{Ending, NewReservation, ReservationId, ReserveError};
use super::seating::Occupancy;
use super::slots::SlotStage;
use super::{Desk, ReservationStatus};
use crate::model::Model;
use crate::translate::{self, Purpose};

/// An error of [`Desk::stop_slot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such slot")]
pub struct UnknownSlot;

impl Desk {
    /// Reserves one concurrency unit of a model. A request with a key that was used before gets the
    /// reservation of the first one.
    pub fn reserve(
        &mut self,
        core: &mut Core<'_>,
        new: NewReservation,
    ) -> Result<ReservationId, ReserveError> {
        if let Some(known) = new.key.as_ref().and_then(|key| self.reservations.with_key(key)) {
            let (reservation, model) = (known.id, known.model.clone());
            if model != new.model {
                return Err(ReserveError::KeyUsed { reservation, model });
            }
            // One that has ended stays so, and its client reads how it ended.
            let _ = self.renew(core, reservation);
            return Ok(reservation);
        }
        if self.models.get(&new.model).is_none() {
            return Err(ReserveError::UnknownModel);
        }
        self.rank_restored(core);
        self.admit(&new)?;
        self.inspect_again(&new.model);
        self.to_serve.insert(new.model.clone());
        let lease = self.config.reservation_lease;
        let id = self.reservations.create(&mut self.log, new, lease, core.now());
        self.serve_pending(core);
        Ok(id)
    }

    /// Checks that a new reservation may become pending, unless a slot with GPUs has room for it.
    ///
    /// One that needs a new slot counts as pending, although the core may place it at once: only a
    /// decision would tell, and what is decided is journalled. A rejected request must cost no
    /// write.
    fn admit(&self, new: &NewReservation) -> Result<(), ReserveError> {
        match self.slots.best_with_room(&new.model) {
            Some((SlotStage::Running | SlotStage::Starting, _)) => Ok(()),
            _ => self.reservations.backlog().check(new, self.config.pending),
        }
    }

    /// Releases a reservation; `false` if there is none with this id. One that has ended stays as
    /// it is.
    pub fn release(&mut self, core: &mut Core<'_>, id: ReservationId) -> bool {
        if self.reservations.get(id).is_none() {
            return false;
        }
        self.end_reservation(core, id, Ending::Released);
        self.serve_pending(core);
        true
    }

    /// Stops a slot on behalf of an operator, whether or not it has reservations.
    pub fn stop_slot(&mut self, core: &mut Core<'_>, slot: &str) -> Result<(), UnknownSlot> {
        let id = self.slots.get(slot).ok_or(UnknownSlot)?.id.clone();
        self.withdraw_slot(core, &id, &Loss::Stopped);
        self.serve_pending(core);
        Ok(())
    }

    /// Ends the reservations of a slot, and withdraws it from the core. Its activity is not updated
    /// in between: the slot goes as a whole.
    pub(super) fn withdraw_slot(&mut self, core: &mut Core<'_>, slot: &Name, loss: &Loss) {
        let Some(request) = self.slots.get(slot).map(|slot| slot.request()) else { return };
        for reservation in self.reservations.ids_in_slot(slot) {
            self.vacate(core, reservation, Ending::Lost(loss.clone()));
        }
        self.slots.change_life(&mut self.log, slot, |life| {
            life.loss.get_or_insert(loss.clone());
        });
        self.step(core, Event::Withdraw { request });
    }

    /// Seats pending reservations of every model where something changed, oldest first.
    ///
    /// It ends: every round of the inner loops either seats or ends a pending reservation, or moves
    /// one to a slot that is strictly nearer to serving. A model comes back into `to_serve` only
    /// when a slot was removed or retired or a reservation ended, and no reservation is created
    /// here.
    pub(super) fn serve_pending(&mut self, core: &mut Core<'_>) {
        self.rank_restored(core);
        self.follow_retirement(core);
        while let Some(model) = self.to_serve.pop_first() {
            while self.move_up(core, &model) {} // mutant: moving-up
            while let Some(first) = self.reservations.first_pending(&model) {
                if !self.seat(core, first, &model) {
                    break;
                }
            }
            self.follow_retirement(core);
        }
    }

    /// Ranks the slots that recovery restored, at the first call after it, and serves their models:
    /// a crash can come between a change of the core, such as the end of a promise, and the
    /// reservations that were seated because of it.
    fn rank_restored(&mut self, core: &Core<'_>) {
        for slot in self.slots.take_unranked() {
            self.rank(core, &slot);
            self.to_serve.extend(self.slots.get(&slot).map(|slot| slot.model.clone()));
        }
    }

    /// Moves the oldest reservation from a slot that does not serve yet into one that is nearer to
    /// serving and has room; `false` if there is no such pair.
    ///
    /// Without this a reservation that caused a second slot would wait for it to load although a
    /// unit of the first slot has become free.
    fn move_up(&mut self, core: &mut Core<'_>, model: &str) -> bool {
        let Some((stage, best)) = self.slots.best_with_room(model) else { return false };
        let best = best.clone();
        let view = self.view(core.scheduler());
        let worse = self.slots.of_model(model).filter(|slot| {
            view.stage(slot).is_some_and(|other| other > stage && other <= SlotStage::Pending)
        });
        let oldest = worse.filter_map(|slot| {
            let first = self.reservations.first_in_slot(&slot.id)?;
            Some((first, slot.id.clone()))
        });
        let Some((oldest, left)) = oldest.min() else { return false };
        self.join(core, oldest, &best);
        self.rank(core, &left);
        self.on_vacated(core, &left);
        true
    }

    /// Seats a pending reservation in the best slot with room, or in a new one; `false` if neither
    /// is possible now.
    fn seat(&mut self, core: &mut Core<'_>, reservation: ReservationId, model: &str) -> bool {
        if let Some((_, slot)) = self.slots.best_with_room(model) {
            let slot = slot.clone();
            self.join(core, reservation, &slot);
            return true;
        }
        let Some(model) = self.models.get(model).cloned() else { return false };
        if let Some(FileGap::Damaged { file, problems }) = self.models.file_gap(&model)
            && self.have_all_inspected(core, &file)
        {
            let ending = Ending::UnusableFile { file, problems };
            self.end_reservation(core, reservation, ending);
            return true;
        }
        let max_slots = model.declared().max_slots;
        if self.slots.usable_count(model.name()) >= max_slots
            || self.models.file_gap(&model).is_some()
        {
            return false;
        }
        let slot = self.create_slot(core, model.clone());
        self.reservations.seat(&mut self.log, reservation, &slot, core.now());
        self.rank(core, &slot);
        self.submit(core, &slot, &model, Purpose::Reservation);
        true
    }

    /// Asks the runners again that reported a problem with the file of a model, which may have been
    /// copied there since.
    fn inspect_again(&mut self, model: &str) {
        let Some(model) = self.models.get(model) else { return };
        for (runner, file) in self.models.unusable_files(model) {
            self.runners.edit_live(&runner, |live| {
                live.files.remove(&file);
            });
        }
    }

    /// Returns true if every runner that is not silent has inspected a file in its session.
    fn have_all_inspected(&self, core: &Core<'_>, file: &str) -> bool {
        let view = self.view(core.scheduler());
        let mut runners = view.runners().filter(|runner| !view.is_silent(&runner.id));
        runners.all(|runner| view.live(&runner.id).is_some_and(|live| live.files.contains(file)))
    }

    fn join(&mut self, core: &mut Core<'_>, reservation: ReservationId, slot: &Name) {
        self.reservations.seat(&mut self.log, reservation, slot, core.now());
        self.rank(core, slot);
        let Some(request) = self.slots.get(slot).map(|slot| slot.request()) else { return };
        let terms = match core.ledger().of_request(&request) {
            Some((_, holding)) => Some(&holding.terms),
            None => core.queue().get(&request).map(|pending| &pending.request.terms),
        };
        if terms.is_some_and(|terms| terms.speculative) {
            self.step(core, Event::Claimed { request });
        }
        self.update_activity(core, slot);
    }

    /// Creates a slot that the core does not know of yet.
    fn create_slot(&mut self, core: &Core<'_>, model: Arc<Model>) -> Name {
        let needs = self.models.needs(&model).into_iter();
        let basis = needs.filter_map(|need| Some((need.gpus, need.charge.ok()?.0))).collect();
        self.slots.create(&mut self.log, model, basis, core.now())
    }

    /// Asks the core to place a slot that was just created.
    fn submit(&mut self, core: &mut Core<'_>, slot: &Name, model: &Model, purpose: Purpose) {
        let reload_cost = self.models.reload_cost(model.name());
        let facts = self.models.memory_facts(model);
        let request = translate::slot_request(model, facts, slot, purpose, reload_cost);
        self.step(core, Event::Submit { request, deadline: None });
    }

    /// Starts a slot of every model that wants to be prewarmed and has none.
    ///
    /// A prewarmed slot is speculative to the core: it never evicts, and it is placed after all
    /// real work and evicted before it. The first reservation that joins it makes it real
    /// (`Event::Claimed`).
    pub(super) fn prewarm(&mut self, core: &mut Core<'_>) {
        if core.ledger().node_count() == 0 {
            return;
        }
        let is_cold = |model: &&Arc<Model>| self.slots.of_model(model.name()).next().is_none();
        let cold: Vec<Arc<Model>> = self.models.to_prewarm().filter(is_cold).cloned().collect();
        for model in cold {
            if self.models.file_gap(&model).is_none() {
                let slot = self.create_slot(core, model.clone());
                self.submit(core, &slot, &model, Purpose::Prewarm);
            }
        }
    }

    /// Ends the reservations whose deadline passed before they were served.
    pub(super) fn expire(&mut self, core: &mut Core<'_>) {
        for id in self.reservations.due(core.now()) {
            let view = self.view(core.scheduler());
            match (view.reservation_status(id), view.status_reason(id)) {
                (Some(ReservationStatus::Ready { .. }), _) => {
                    self.reservations.drop_deadline(&mut self.log, id);
                }
                (Some(_), Some(pending)) if !matches!(pending, StatusReason::Ended(_)) => {
                    let pending = Box::new(pending);
                    self.end_reservation(core, id, Ending::Expired { pending });
                }
                _ => {}
            }
        }
    }

    /// Ends a reservation, and updates the slot that it was in.
    pub(super) fn end_reservation(
        &mut self,
        core: &mut Core<'_>,
        id: ReservationId,
        ending: Ending,
    ) {
        if let Some(slot) = self.vacate(core, id, ending) {
            self.on_vacated(core, &slot);
        }
    }

    /// Ends a reservation; returns the slot that it was in.
    fn vacate(&mut self, core: &Core<'_>, id: ReservationId, ending: Ending) -> Option<Name> {
        let is_released = ending == Ending::Released;
        let vacated = self.reservations.end(&mut self.log, id, ending, core.now())?;
        self.to_serve.insert(vacated.model);
        let slot = vacated.slot?;
        if is_released {
            self.note_served(core, &slot);
        }
        self.rank(core, &slot);
        Some(slot)
    }

    /// Notes that a client has used a slot, if its memory can be charged only after that.
    fn note_served(&mut self, core: &Core<'_>, id: &Name) {
        let Some(slot) = self.slots.get(id) else { return };
        let is_measured_first =
            slot.made_from.as_ref().is_some_and(|model| model.declared().is_measured_first());
        let stage = self.view(core.scheduler()).stage(slot);
        if is_measured_first && stage == Some(SlotStage::Running) {
            self.slots.change_life(&mut self.log, id, |life| life.served = true);
        }
    }

    /// Withdraws a slot that is pending for no reservation any more; tells the core of the activity
    /// of any other one.
    fn on_vacated(&mut self, core: &mut Core<'_>, id: &Name) {
        let Some(slot) = self.slots.get(id).cloned() else { return };
        let stage = self.view(core.scheduler()).stage(&slot);
        if stage == Some(SlotStage::Pending) && self.reservations.count_in_slot(id) == 0 {
            self.step(core, Event::Withdraw { request: slot.request() });
        } else {
            self.update_activity(core, id);
        }
    }

    pub(super) fn update_activity(&mut self, core: &mut Core<'_>, slot: &Name) {
        if let Some(event) = self.activity_event(core, slot) {
            self.step(core, event);
        }
    }

    /// Returns the event that brings the ledger's activity of a running slot in line with its
    /// reservations; `None` if it is.
    pub(super) fn activity_event(&self, core: &Core<'_>, slot: &Name) -> Option<Event> {
        let request = self.slots.get(slot)?.request();
        let (_, holding) = core.ledger().of_request(&request)?;
        if !matches!(holding.stage, Stage::Running { .. }) {
            return None;
        }
        let activity = match (self.reservations.count_in_slot(slot), holding.activity) {
            (0, Activity::Idle { .. }) => return None,
            (0, _) => Activity::Idle { since: core.now() },
            (requests, _) => Activity::Active { requests },
        };
        (activity != holding.activity).then_some(Event::Acted { request, activity })
    }

    /// Updates the rank of a slot after its stage or its reservations changed.
    pub(super) fn rank(&mut self, core: &Core<'_>, id: &Name) {
        let Some(slot) = self.slots.get(id) else { return };
        let view = self.view(core.scheduler());
        let taken = view.active_requests(slot);
        let is_retired = core.scheduler().is_retired(&slot.request());
        let holding = view.holding(slot);
        let is_draining = holding.is_some_and(|(_, held)| view.is_draining(&held.node));
        let limit = if is_retired || is_draining { taken } else { view.concurrency(slot) };
        let occupancy = Occupancy { stage: view.stage(slot), taken, limit };
        let model = slot.model.clone();
        let has_changed = match is_retired {
            true => self.retired.insert(id.clone()),
            false => self.retired.remove(id),
        };
        // Noted here, `follow_retirement` sees no difference any more: a slot that is needed no
        // longer would keep its room beside a pending reservation.
        if has_changed {
            self.to_serve.insert(model);
        }
        self.slots.rank(id, occupancy);
        self.reservations.note_stage(id, occupancy.stage);
    }

    /// Ranks the slots that the core has retired since they were ranked, and those that it needs no
    /// longer: retirement begins and ends with the promise.
    fn follow_retirement(&mut self, core: &Core<'_>) {
        let promises = core.ledger().promises();
        let retired = promises.flat_map(|(_, promise)| &promise.retired);
        let retired: BTreeSet<Name> = retired.map(|holder| holder.name.clone()).collect();
        let changed: Vec<Name> = self.retired.symmetric_difference(&retired).cloned().collect();
        for slot in changed {
            self.rank(core, &slot);
            self.to_serve.extend(self.slots.get(&slot).map(|slot| slot.model.clone()));
        }
        self.retired = retired;
    }
}
