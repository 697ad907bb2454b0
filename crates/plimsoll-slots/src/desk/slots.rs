//! Slots: made when somebody asks, warmed before anybody does, followed through their life.

use std::sync::Arc;

use plimsoll_core::charge::{Holding, HoldingId};
use plimsoll_core::event::Event;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::{Millis, Name};

use super::ranks::Rank;
use super::state::{Ending, Life, Operation, PlaceState, Slot};
use super::{Desk, views::SlotStage};
use crate::model::Model;
use crate::translate;

/// There is no slot of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchSlot;

/// What a model is taken to need to come back before it was ever seen to load, in milliseconds.
const UNSEEN_LOAD: u64 = 30_000;

impl Desk {
    /// Lets a slot go, whoever has a place in it: an operator wants that.
    pub fn stop_slot(&mut self, now: Millis, slot: &str) -> Result<(), NoSuchSlot> {
        let id = self.state.slots.get(slot).ok_or(NoSuchSlot)?.id.clone();
        self.let_go(now, &id, "its slot was stopped by an operator");
        self.seat_waiting(now);
        Ok(())
    }

    pub(super) fn let_go(&mut self, now: Millis, slot: &Name, reason: &str) {
        let Some(known) = self.state.slots.get(slot) else { return };
        let request = known.request();
        // It goes as a whole, so that nobody needs to hear how it empties.
        for place in self.state.places_in.get(slot).cloned().unwrap_or_default() {
            self.close(now, place, Ending::Lost, reason);
        }
        self.step(now, Event::Withdraw { request });
    }

    pub(super) fn new_slot_id(&mut self) -> Name {
        let ids =
            (self.state.next_slot.max(1)..).map(|number| Name::from(format!("slot-{number}")));
        ids.into_iter()
            .find(|id| !self.state.slots.contains_key(id))
            .expect("there are more numbers than slots")
    }

    /// Asks the core for a place for a slot that was just made.
    pub(super) fn submit(&mut self, now: Millis, slot: &Name, speculative: bool) {
        let Some(model) = self.state.slots.get(slot).and_then(|slot| slot.made_from.clone()) else {
            return;
        };
        let reload = self.reload_cost(model.name());
        let request =
            translate::slot_request(&model, self.state.known(&model), slot, speculative, reload);
        self.step(now, Event::Submit { request, deadline: None });
    }

    /// How long a model takes to come back, in milliseconds.
    pub(super) fn reload_cost(&self, model: &str) -> u64 {
        self.state.loads.get(model).copied().unwrap_or(UNSEEN_LOAD)
    }

    /// Warms models that want it and have no slot at all. It never evicts, so what does not fit waits behind all real work.
    pub(super) fn prewarm(&mut self, now: Millis) {
        if self.scheduler().ledger().node_count() == 0 {
            return;
        }
        let cold = self.state.models.iter().filter(|(name, model)| {
            model.declared().prewarm
                && !self.hopeless.contains(*name)
                && self.state.slots_of(name).next().is_none()
        });
        let cold: Vec<_> = cold.map(|(name, model)| (name.clone(), model.clone())).collect();
        for (_, model) in cold {
            if self.awaits_file(&model).is_none() {
                let id = self.make_slot(now, model);
                self.submit(now, &id, true);
            }
        }
    }

    /// Makes a slot of a model that asks the core for nothing yet.
    pub(super) fn make_slot(&mut self, now: Millis, model: Arc<Model>) -> Name {
        let id = self.new_slot_id();
        let sources = self
            .needs(&model)
            .into_iter()
            .filter_map(|need| Some((need.gpus, need.charge.ok()?.0)));
        let slot = Slot {
            id: id.clone(),
            model: model.name().to_string(),
            basis: sources.collect(),
            made_from: Some(model),
            created: now,
            life: Life::default(),
        };
        self.note(Operation::PutSlot(Arc::new(slot)));
        id
    }

    /// Follows what became of a slot in the core.
    pub(super) fn settle(&mut self, now: Millis, request: &RequestId, refused: Option<&String>) {
        let Some(slot) =
            self.state.slots.get(&request.name).filter(|slot| slot.request() == *request)
        else {
            return;
        };
        let (id, model) = (slot.id.clone(), slot.model.clone());
        let stage = self.stage(slot);
        let has_failed = slot.life.failure.is_some();
        let went = slot
            .life
            .failure
            .as_ref()
            .map_or("its slot went".to_string(), |why| format!("its slot went: {why}"));
        self.rank(&id);
        match stage {
            SlotStage::Waiting if self.is_for_nobody(&id) => {
                self.step(now, Event::Withdraw { request: request.clone() });
            }
            SlotStage::Waiting | SlotStage::Starting | SlotStage::Unknown => {}
            SlotStage::Running => self.serves(now, &id),
            SlotStage::Releasing if has_failed => self.lose_places(now, &id, &went),
            SlotStage::Releasing => {
                self.lose_places(now, &id, "its slot was asked to go to make room")
            }
            SlotStage::Gone => {
                match refused {
                    Some(reason) => self.refuse_places(now, &id, reason),
                    None => self.lose_places(now, &id, &went),
                }
                if refused.is_some() {
                    self.hopeless.insert(model.clone());
                }
                self.note(Operation::DropSlot(id.clone()));
                self.rank(&id);
                self.unserved.insert(model);
            }
        }
    }

    /// Whether a slot waits for a device, and nobody waits for it: those who asked have left, and it is not made to be warm.
    fn is_for_nobody(&self, slot: &Name) -> bool {
        let request = self.state.slots[slot].request();
        let waiting = self.scheduler().queue().get(&request);
        self.state.taken(slot) == 0
            && waiting.is_some_and(|waiting| !waiting.request.terms.speculative)
    }

    /// A slot runs: those who have a place in it can be told, and how long it took is remembered.
    fn serves(&mut self, now: Millis, id: &Name) {
        let slot = &self.state.slots[id];
        if let Some(sent) = slot.life.sent {
            let (model, took) = (slot.model.clone(), now.0.saturating_sub(sent.0));
            self.note(Operation::Loaded(model, took));
            self.change_life(id, |life| (life.sent, life.failure) = (None, None));
            let places = self.state.places_in.get(id).cloned().unwrap_or_default();
            for place in places {
                self.telling.places.insert(place);
            }
        }
        self.say_activity(now, id);
    }

    /// Those who were being served lose their place; those who were still waiting for it wait again.
    fn lose_places(&mut self, now: Millis, slot: &Name, reason: &str) {
        let Some(known) = self.state.slots.get(slot) else { return };
        let (served, model) = (known.life.sent.is_none(), known.model.clone());
        for place in self.state.places_in.get(slot).cloned().unwrap_or_default() {
            if served {
                self.end(now, place, Ending::Lost, reason);
            } else {
                self.change_place(place, |place| place.state = PlaceState::Waiting);
            }
        }
        self.rank(slot);
        self.unserved.insert(model);
    }

    /// Whether the slots that a silent runner was sent will ever start nobody knows: those who wait for them wait for another. The slots
    /// stay charged.
    pub(super) fn unseat(&mut self, now: Millis, runner: &Name) {
        let ledger = self.scheduler().ledger();
        let held = ledger.node_id(runner).into_iter().flat_map(|node| ledger.holdings_on(node));
        let sent = |(_, held): (HoldingId, &Holding)| {
            let slot = self.state.slots.get(&held.request.name)?;
            slot.life.sent.map(|_| slot.id.clone())
        };
        let sent: Vec<Name> = held.filter_map(sent).collect();
        sent.iter().for_each(|slot| self.lose_places(now, slot, "its runner is silent"));
    }

    fn refuse_places(&mut self, now: Millis, slot: &Name, reason: &str) {
        for place in self.state.places_in.get(slot).cloned().unwrap_or_default() {
            self.end(now, place, Ending::Refused, reason);
        }
    }

    /// Keeps a slot's rank among those that can be joined.
    pub(super) fn rank(&mut self, id: &Name) {
        let Some(slot) = self.state.slots.get(id) else {
            return self.ranks.put(id, "", None, false);
        };
        let taken = self.state.taken(id);
        let (rank, has_room) =
            (Rank::of(self.stage(slot), taken, slot.created), taken < self.concurrency(slot));
        let model = slot.model.clone();
        self.ranks.put(id, &model, rank, has_room);
    }

    /// Ranks every slot, once after a start: what was recovered has not been ranked yet.
    pub(super) fn rank_all(&mut self) {
        if !self.is_ranked {
            self.is_ranked = true;
            let ids: Vec<Name> = self.state.slots.keys().cloned().collect();
            ids.iter().for_each(|id| self.rank(id));
        }
    }

    pub(super) fn change_life(&mut self, id: &Name, change: impl FnOnce(&mut Life)) {
        let Some(slot) = self.state.slots.get(id) else { return };
        let mut life = slot.life.clone();
        change(&mut life);
        if life != slot.life {
            self.note(Operation::Lives(id.clone(), life));
        }
    }
}
