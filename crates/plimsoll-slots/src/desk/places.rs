//! Places: asked for, joined, waited for, given back, lost.

use std::fmt;
use std::sync::Arc;

use plimsoll_core::charge::{Activity, Stage};
use plimsoll_core::event::Event;
use plimsoll_core::units::{Millis, Name};

use super::state::{Ending, Operation, Place, PlaceState, Who};
use super::{Desk, views::SlotStage};

/// Somebody asks for one place in a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The model.
    pub model: String,
    /// What tells a repeated request from a new one.
    pub key: Option<String>,
    /// Who asks, where they give a name.
    pub who: Option<Who>,
    /// When they give up waiting.
    pub deadline: Option<Millis>,
}

/// Why nobody can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskError {
    /// The model is not declared.
    NoSuchModel,
    /// The key belongs to a request for another model.
    KeyUsed {
        /// The place it belongs to.
        place: u64,
        /// That place's model.
        model: String,
    },
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NoSuchModel => f.write_str("the model is not declared"),
            AskError::KeyUsed { place, model } => {
                write!(
                    f,
                    "the key was used for place-{place} of model {model}; use a new key for a new request"
                )
            }
        }
    }
}

impl Desk {
    /// Asks for a place. The same key asks for the same place again, and nothing happens twice.
    pub fn ask(&mut self, now: Millis, ask: Ask) -> Result<u64, AskError> {
        let known = ask
            .key
            .as_ref()
            .and_then(|key| self.state.keys.get(key))
            .and_then(|id| self.state.places.get(id));
        if let Some(place) = known {
            return match place.model == ask.model {
                true => Ok(place.id),
                false => Err(AskError::KeyUsed { place: place.id, model: place.model.clone() }),
            };
        }
        if !self.state.models.contains_key(&ask.model) {
            return Err(AskError::NoSuchModel);
        }
        let Ask { model, key, who, deadline } = ask;
        let id = self.state.next_place.max(1);
        let state = PlaceState::Waiting;
        self.put_place(Place { id, model: model.clone(), key, who, created: now, deadline, state });
        self.unserved.insert(model);
        self.seat_waiting(now);
        Ok(id)
    }

    /// Gives a place back; `false` where there is none of this number. What is over stays over.
    pub fn give_back(&mut self, now: Millis, place: u64) -> bool {
        if !self.state.places.contains_key(&place) {
            return false;
        }
        self.end(now, place, Ending::Released, "it was given back");
        self.seat_waiting(now);
        true
    }

    /// Gives those who wait for a place what can be given, in turn, for every model where something changed.
    pub(super) fn seat_waiting(&mut self, now: Millis) {
        self.rank_all();
        while let Some(model) = self.unserved.pop_first() {
            while self.move_up(now, &model) {} // mutant: moving-up
            while let Some(&first) =
                self.state.waiting_for.get(&model).and_then(|waiting| waiting.first())
            {
                if !self.seat(now, first, &model) {
                    break;
                }
            }
        }
    }

    /// Moves the one who has waited longest in a slot that does not serve into one of the same model that is nearer to it and
    /// has room; `false` where nobody can be moved.
    fn move_up(&mut self, now: Millis, model: &str) -> bool {
        let Some((stage, better)) = self.ranks.best_with_stage(model) else { return false };
        let better = better.clone();
        let worse = self.state.slots_of(model).filter(|slot| {
            let theirs = self.stage(slot);
            theirs > stage && theirs <= SlotStage::Waiting
        });
        let places = worse.filter_map(|slot| self.state.places_in.get(&slot.id)?.first());
        let Some(&oldest) = places.min() else { return false };
        let Some(PlaceState::In { slot: left, .. }) =
            self.state.places.get(&oldest).map(|p| p.state.clone())
        else {
            return false;
        };
        self.join(now, oldest, &better);
        self.rank(&left);
        self.left(now, &left);
        true
    }

    /// Finds a seat: in the slot that is nearest to serving, or in a new one.
    fn seat(&mut self, now: Millis, place: u64, model: &str) -> bool {
        if let Some(slot) = self.ranks.best(model).cloned() {
            self.join(now, place, &slot);
            return true;
        }
        let Some(declared) = self.state.models.get(model).cloned() else { return false };
        if self.ranks.standing(model) >= declared.declared().max_slots
            || self.awaits_file(&declared).is_some()
        {
            return false;
        }
        let slot = self.make_slot(now, declared);
        self.sit(now, place, &slot);
        self.submit(now, &slot, false);
        true
    }

    fn join(&mut self, now: Millis, place: u64, slot: &Name) {
        self.sit(now, place, slot);
        let request = self.state.slots[slot].request();
        let speculative = match self.scheduler().ledger().of_request(&request) {
            Some((_, holding)) => holding.terms.speculative,
            None => {
                self.scheduler().queue().get(&request).is_some_and(|w| w.request.terms.speculative)
            }
        };
        if speculative {
            self.step(now, Event::Claimed { request });
        }
        self.say_activity(now, slot);
    }

    fn sit(&mut self, now: Millis, place: u64, slot: &Name) {
        self.change_place(place, |place| {
            place.state = PlaceState::In { slot: slot.clone(), since: now }
        });
        self.rank(slot);
    }

    /// Tells the ledger how busy a slot that runs is, where that is news.
    pub(super) fn say_activity(&mut self, now: Millis, slot: &Name) {
        let Some(known) = self.state.slots.get(slot) else { return };
        let request = known.request();
        let Some((_, holding)) = self.scheduler().ledger().of_request(&request) else { return };
        if !matches!(holding.stage, Stage::Running { .. }) {
            return;
        }
        let activity = match (self.state.taken(slot), holding.activity) {
            (0, Activity::Idle { .. }) => return,
            (0, _) => Activity::Idle { since: now },
            (requests, _) => Activity::Active { requests },
        };
        if activity != holding.activity {
            self.step(now, Event::Acted { request, activity });
        }
    }

    /// Ends a place, and gives what it held to the next.
    pub(super) fn end(&mut self, now: Millis, place: u64, how: Ending, reason: &str) {
        if let Some(slot) = self.close(now, place, how, reason) {
            self.left(now, &slot);
        }
    }

    /// Ends a place, and names the slot that it was in.
    pub(super) fn close(
        &mut self,
        now: Millis,
        place: u64,
        how: Ending,
        reason: &str,
    ) -> Option<Name> {
        let known = self.state.places.get(&place)?;
        let (model, before) = (known.model.clone(), known.state.clone());
        if matches!(before, PlaceState::Ended { .. }) {
            return None;
        }
        let reason = reason.to_string();
        self.change_place(place, |place| place.state = PlaceState::Ended { how, reason, at: now });
        self.unserved.insert(model);
        let PlaceState::In { slot, .. } = before else { return None };
        self.rank(&slot);
        Some(slot)
    }

    /// Somebody left a slot: it is less busy, or nobody waits for it any more.
    fn left(&mut self, now: Millis, slot: &Name) {
        let Some(known) = self.state.slots.get(slot) else { return };
        let (request, empty) = (known.request(), self.state.taken(slot) == 0);
        if empty && self.stage(known) == SlotStage::Waiting {
            self.step(now, Event::Withdraw { request });
        } else {
            self.say_activity(now, slot);
        }
    }

    /// Ends those whose deadline passed before they were served.
    pub(super) fn expire(&mut self, now: Millis) {
        let due: Vec<u64> = self
            .state
            .deadlines
            .iter()
            .take_while(|(deadline, _)| *deadline <= now)
            .map(|(_, id)| *id)
            .collect();
        for id in due {
            match self.place_status(id) {
                Some(status) if !status.is_ready() => {
                    let why = self.why_waiting(id);
                    self.end(now, id, Ending::Expired, &format!("its deadline passed: {why}"));
                }
                // One who is served has no deadline any more.
                _ => self.change_place(id, |place| place.deadline = None),
            }
        }
    }

    /// Forgets the oldest of those that are over.
    pub(super) fn forget_ended(&mut self) {
        while self.state.ended.len() > self.manners.ended_kept
            && let Some((_, id)) = self.state.ended.first().copied()
        {
            self.note(Operation::DropPlace(id));
        }
    }

    pub(super) fn change_place(&mut self, id: u64, change: impl FnOnce(&mut Place)) {
        if let Some(mut place) = self.state.places.get(&id).map(|place| Place::clone(place)) {
            change(&mut place);
            self.put_place(place);
        }
    }

    fn put_place(&mut self, place: Place) {
        self.telling.places.insert(place.id);
        self.note(Operation::PutPlace(Arc::new(place)));
    }
}
