//! Steps the core and follows its outcomes: the only place where the desk hands events to the
//! scheduler.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use plimsoll_core::charge::Stage;
use plimsoll_core::event::{Answer, Effect, Event};
use plimsoll_core::front::Core;
use plimsoll_core::rejection::Rejection;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Name;

use super::ended::SlotEnding;
use super::reasons::{Loss, SlotFailure};
use super::reservation::Ending;
use super::slots::SlotStage;
use super::{Desk, reports};
use crate::size::Span;

/// One item of the work list.
pub(super) enum Work {
    /// Hand an event to the core.
    Step(Event),
    /// Bring a slot's reservations in line with what the core did to it; `impossible` is the core's
    /// reason if no empty fleet could hold it.
    UpdateSlot { request: RequestId, impossible: Option<Arc<Rejection>> },
    /// Replace a slot whose name is taken on its runner.
    Replace(Name),
}

/// The most events that one slot can cause while a work list is done; see [`Desk::run`].
const EVENTS_PER_SLOT: usize = 4;

impl Desk {
    /// Hands an event to the core, and follows what came of it.
    pub(super) fn step(&mut self, core: &mut Core<'_>, event: Event) {
        self.run(core, [Work::Step(event)]);
    }

    /// Updates the slots of some requests.
    pub(super) fn update_slots(&mut self, core: &mut Core<'_>, requests: Vec<RequestId>) {
        let update = |request| Work::UpdateSlot { request, impossible: None };
        self.run(core, requests.into_iter().map(update));
    }

    /// Does a list of work, and the work that comes of it.
    ///
    /// An event changes slots in the core; settling a slot can call for another event. Follow-up
    /// work goes to the front of the list, so that every event is followed to its end before the
    /// next item: the next item then sees a consistent desk. This was mutual recursion once; as a
    /// list its end can be argued and checked.
    ///
    /// It ends because no slot is created here, and each slot that exists causes at most
    /// [`EVENTS_PER_SLOT`] events: one `Acted`, after which the ledger's activity equals the number
    /// of its reservations, which does not change while it runs; one `Withdraw` of a pending slot
    /// without reservations, after which it is removed; and a `Failed` or `Freed` with a `Withdraw`
    /// when it is replaced, after which it is removed. Each event updates a finite number of
    /// requests.
    pub(super) fn run(&mut self, core: &mut Core<'_>, work: impl IntoIterator<Item = Work>) {
        let mut work: VecDeque<Work> = work.into_iter().collect();
        let bound = work.len() + EVENTS_PER_SLOT * self.slots.len();
        let mut events = 0;
        while let Some(next) = work.pop_front() {
            match next {
                Work::Step(event) => {
                    events += 1;
                    debug_assert!(events <= bound, "{events} events for a bound of {bound}");
                    let follow_up = self.take_event(core, event);
                    follow_up.into_iter().rev().for_each(|item| work.push_front(item));
                }
                Work::UpdateSlot { request, impossible } => {
                    let event = self.update_slot(core, &request, impossible);
                    event.into_iter().for_each(|event| work.push_front(Work::Step(event)));
                }
                Work::Replace(slot) => {
                    let events = self.replacing_events(core, &slot);
                    events.into_iter().rev().for_each(|event| work.push_front(Work::Step(event)));
                }
            }
        }
    }

    /// Hands one event to the core; returns the work that comes of it.
    ///
    /// Effects are not executed here. A runner gets its orders when it asks for them, derived from
    /// the ledger; an effect only says that the orders of a runner have changed.
    fn take_event(&mut self, core: &mut Core<'_>, event: Event) -> Vec<Work> {
        let mut touched: BTreeSet<RequestId> = subject(&event).cloned().into_iter().collect();
        let (record, now) = (core.next_seq(), core.now());
        let Some(outcome) = core.step(event) else { return Vec::new() };
        let mut impossible = BTreeMap::new();
        for answer in &outcome.answers {
            touched.insert(answer.request().clone());
            if let Answer::Impossible { request, rejection } = answer {
                impossible.insert(request.clone(), rejection.clone());
            }
        }
        let mut replaced = Vec::new();
        for effect in &outcome.effects {
            let (Effect::Start { request, node, .. } | Effect::Stop { request, node, .. }) = effect;
            touched.insert(request.clone());
            self.runners.mark_orders_changed(node, record);
            if matches!(effect, Effect::Start { .. }) {
                let slot = &request.name;
                self.slots.change_life(&mut self.log, slot, |life| {
                    life.sent = Some(now);
                    life.runner = Some(node.clone());
                    life.loss = None;
                });
                if self.slots.contains(&reports::qualified_name(slot, node)) {
                    replaced.push(Work::Replace(slot.clone()));
                }
            }
        }
        let update = |request| {
            let impossible = impossible.remove(&request);
            Work::UpdateSlot { request, impossible }
        };
        touched.into_iter().map(update).chain(replaced).collect()
    }

    /// Brings the reservations of a slot in line with what the core did to it; returns the event
    /// that this calls for.
    fn update_slot(
        &mut self,
        core: &Core<'_>,
        request: &RequestId,
        impossible: Option<Arc<Rejection>>,
    ) -> Option<Event> {
        let slot = self.slots.of_request(request)?.clone();
        let stage = self.view(core.scheduler()).stage(&slot);
        self.rank(core, &slot.id);
        let failure = slot.life.failure.clone();
        match stage {
            Some(SlotStage::Pending) if self.is_unwanted(core, &slot.id) => {
                Some(Event::Withdraw { request: request.clone() })
            }
            Some(SlotStage::Pending) => {
                // After a failed start it takes reservations again.
                self.to_serve.insert(slot.model.clone());
                None
            }
            Some(SlotStage::Starting | SlotStage::Unknown) => None,
            Some(SlotStage::Running) => self.on_slot_running(core, &slot.id),
            Some(SlotStage::Releasing) => {
                let loss = match failure {
                    Some(_) => Loss::Ended { failure },
                    None => Loss::Evicted,
                };
                self.slots.change_life(&mut self.log, &slot.id, |life| {
                    life.loss.get_or_insert(loss.clone());
                });
                self.lose_reservations(core, &slot.id, &loss);
                None
            }
            None => {
                self.remove_slot(core, &slot.id, failure, impossible);
                None
            }
        }
    }

    /// Returns whether a pending slot serves no purpose: no reservation is in it, and it is not
    /// there to prewarm its model.
    fn is_unwanted(&self, core: &Core<'_>, slot: &Name) -> bool {
        let pending = self.slots.get(slot).and_then(|slot| core.queue().get(&slot.request()));
        self.reservations.count_in_slot(slot) == 0
            && pending.is_some_and(|pending| !pending.request.terms.speculative)
    }

    /// Notes that a slot is ready, and how long its load took; returns the event that sets its
    /// activity.
    fn on_slot_running(&mut self, core: &Core<'_>, id: &Name) -> Option<Event> {
        let slot = self.slots.get(id)?;
        if let Some(sent) = slot.life.sent {
            let took = Span::from(core.now().since(sent));
            self.models.note_load(&mut self.log, &slot.model, took);
            self.slots.change_life(&mut self.log, id, |life| {
                life.sent = None;
                life.failure = None;
            });
            self.reservations.mark_changed_in(id);
        }
        self.activity_event(core, id)
    }

    /// Ends the reservations that a slot was serving. Those of a slot that never served become
    /// pending again: another slot can still serve them.
    pub(super) fn lose_reservations(&mut self, core: &Core<'_>, id: &Name, loss: &Loss) {
        let Some(slot) = self.slots.get(id) else { return };
        let (has_served, model) = (slot.life.sent.is_none(), slot.model.clone());
        for reservation in self.reservations.ids_in_slot(id) {
            if has_served {
                let ending = Ending::Lost(loss.clone());
                self.reservations.end(&mut self.log, reservation, ending, core.now());
            } else {
                self.reservations.unseat(&mut self.log, reservation);
            }
        }
        self.rank(core, id);
        self.to_serve.insert(model);
    }

    /// Removes a slot that the core knows no more.
    fn remove_slot(
        &mut self,
        core: &Core<'_>,
        id: &Name,
        failure: Option<SlotFailure>,
        impossible: Option<Arc<Rejection>>,
    ) {
        let Some(slot) = self.slots.get(id) else { return };
        let (model, loss) = (slot.model.clone(), slot.life.loss.clone());
        let has_run = slot.life.runner.is_some();
        let ending = match (impossible.clone(), loss) {
            (Some(rejection), _) => SlotEnding::Impossible { rejection },
            (None, Some(loss)) => SlotEnding::Lost(loss),
            (None, None) if failure.is_some() || has_run => {
                SlotEnding::Lost(Loss::Ended { failure: failure.clone() })
            }
            (None, None) => SlotEnding::Withdrawn,
        };
        if let Some(rejection) = impossible {
            for reservation in self.reservations.ids_in_slot(id) {
                let ending = Ending::Impossible { slot: id.clone(), rejection: rejection.clone() };
                self.reservations.end(&mut self.log, reservation, ending, core.now());
            }
            self.models.mark_impossible(&model);
        } else {
            self.lose_reservations(core, id, &Loss::Ended { failure });
        }
        self.slots.end(&mut self.log, id, ending, core.now());
        self.to_serve.insert(model);
    }

    /// Returns the events that release a slot whose runner has something else under its name.
    ///
    /// The slot does not exist there and cannot be started there, because a runner identifies slots
    /// by name. Its reservations get a slot with another name.
    fn replacing_events(&self, core: &Core<'_>, slot: &Name) -> Vec<Event> {
        let Some(request) = self.slots.get(slot).map(|slot| slot.request()) else {
            return Vec::new();
        };
        let Some((id, held)) = core.ledger().of_request(&request) else { return Vec::new() };
        let release = match held.stage {
            Stage::Offered { .. } | Stage::Queued | Stage::Sent => {
                Event::Failed { request: request.clone(), generation: id.0 }
            }
            Stage::Running { .. } | Stage::Releasing { .. } => {
                Event::Freed { request: request.clone(), generation: Some(id.0), ordinal: None }
            }
        };
        vec![release, Event::Withdraw { request }]
    }
}

/// Returns the request whose state an event changes.
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
