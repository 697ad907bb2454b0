//! What runners say of their slots, compared with what the ledger holds of them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::charge::{Activity, Booked, Charge, Holding, Stage};
use plimsoll_core::device::Node;
use plimsoll_core::event::Event;
use plimsoll_core::request::{NodeNeed, RequestId, Terms};
use plimsoll_core::units::{Bytes, Cores, Millis, Name};

use super::state::{Life, Operation, Slot};
use super::{Desk, orders};
use crate::model::Model;
use crate::translate;
use crate::wire::{OnDevice, SlotReport, SlotState};

/// More failures in a row do not make a runner worse.
const MOST_FAILURES: u16 = 4; // mutant: failed-starts

impl Desk {
    /// What a runner says of one slot, compared with what the ledger holds of it.
    pub(super) fn take_report(&mut self, now: Millis, runner: &Name, report: &SlotReport) {
        let id = self.name_here(runner, report);
        let request = match self.state.slots.get(&id) {
            Some(slot) => slot.request(),
            None => translate::slot_request_id(&report.model, &id),
        };
        let Some((holding, held)) = self.scheduler().ledger().of_request(&request) else {
            if !report.state.is_over() {
                self.adopt(now, runner, &id, report);
            }
            return;
        };
        let is_meant = match report.generation.cmp(&holding.0) {
            // What was only observed was numbered here and not there.
            _ if held.spec.is_none() => true,
            Ordering::Less => false,
            Ordering::Equal => true,
            // The server went back. That an earlier start is over says nothing of one that was ordered since.
            Ordering::Greater if report.state.is_over() && held.stage == Stage::Sent => {
                let said = self.state.slots.get(&id).and_then(|slot| self.report(slot));
                report.generation == orders::generation(holding, held, said)
            }
            Ordering::Greater => true,
        };
        if held.node != *runner || !is_meant {
            return;
        }
        let (stage, generation) = (held.stage, holding.0);
        let grown: Vec<OnDevice> =
            report.used.iter().filter(|used| exceeds(held, used)).copied().collect();
        if let Some(slot) = self.state.slots.get(&id).filter(|_| !report.used.is_empty()).cloned() {
            self.note_use(now, &slot, report);
        }
        self.say_endpoint(&id, report);
        let event = match (stage, report.state) {
            (Stage::Offered { .. } | Stage::Sent, SlotState::Running) => {
                let requests = self.state.taken(&id);
                let activity = (requests > 0).then_some(Activity::Active { requests });
                Event::Started { request: request.clone(), generation, activity }
            }
            (Stage::Sent, SlotState::Failed | SlotState::Gone) => {
                let reason = report
                    .reason
                    .clone()
                    .unwrap_or_else(|| "the runner gave no reason".to_string());
                self.change_life(&id, |life| life.failure = Some(reason));
                Event::Failed { request: request.clone(), generation }
            }
            (
                Stage::Running { .. } | Stage::Releasing { .. },
                SlotState::Failed | SlotState::Gone,
            ) => {
                if let Some(reason) = report.reason.clone().filter(|_| !stage.is_releasing()) {
                    self.change_life(&id, |life| life.failure = Some(reason));
                }
                Event::Freed {
                    request: request.clone(),
                    generation: Some(generation),
                    ordinal: None,
                }
            }
            // It ends by itself, or its runner ends it: nobody else joins it, and it counts until it is gone.
            (Stage::Running { .. }, SlotState::Stopping) => {
                let reason =
                    report.reason.clone().unwrap_or_else(|| "its runner stops it".to_string());
                self.change_life(&id, |life| life.failure = Some(reason));
                Event::Withdraw { request: request.clone() }
            }
            _ => return self.grow(now, &request, &grown),
        };
        let node = runner.clone();
        let went_well = matches!(event, Event::Started { .. });
        let went_badly = matches!(event, Event::Failed { .. });
        self.new_orders(&node, self.drive.next_seq());
        self.step(now, event);
        if went_well || went_badly {
            self.count_failure(now, runner, went_badly);
        }
        self.grow(now, &request, &grown);
    }

    /// A runner where starts fail is chosen after the others: else, being the emptiest, it would be sent all the work. One that goes
    /// well makes up for all that failed.
    fn count_failure(&mut self, now: Millis, runner: &Name, failed: bool) {
        let ledger = self.scheduler().ledger();
        let Some(view) = ledger.view_of(runner) else { return };
        let before = translate::failed_starts(&view.node);
        let after = if failed { before.saturating_add(1).min(MOST_FAILURES) } else { 0 };
        if before != after {
            let mut node = Node::clone(&view.node);
            translate::set_failed_starts(&mut node, after);
            self.put_node(now, node);
        }
    }

    /// A slot that uses more than its charge is charged what it uses.
    fn grow(&mut self, now: Millis, request: &RequestId, grown: &[OnDevice]) {
        for used in grown {
            let (ordinal, bytes) = (used.index, Bytes::new(used.bytes));
            self.step(now, Event::Grew { request: request.clone(), ordinal, bytes });
        }
    }

    fn say_endpoint(&mut self, id: &Name, report: &SlotReport) {
        if report.endpoint.is_some() && report.state == SlotState::Running {
            self.change_life(id, |life| life.endpoint.clone_from(&report.endpoint));
        }
    }

    /// A slot that nobody here knows is charged at what it uses, and kept.
    fn adopt(&mut self, now: Millis, runner: &Name, id: &Name, report: &SlotReport) {
        let slot = Slot {
            id: id.clone(),
            model: report.model.clone(),
            made_from: None,
            created: now,
            basis: BTreeMap::new(),
            life: Life { endpoint: report.endpoint.clone(), ..Life::default() },
        };
        let holding = Holding {
            request: slot.request(),
            node: runner.clone(),
            stage: Stage::Running { since: now },
            charges: charges(report, self.state.runners[runner].registration.devices.len()),
            resources: NodeNeed::default(),
            terms: self.terms_of(&report.model),
            activity: Activity::Unknown,
            spec: None,
        };
        self.note(Operation::PutSlot(Arc::new(slot)));
        self.new_orders(runner, self.drive.next_seq());
        self.step(now, Event::Observed { holding: Box::new(holding) });
        self.say_activity(now, id);
        let namesake = self.state.slots.get(report.slot.as_str()).filter(|slot| slot.id != *id);
        let is_here =
            |slot: &&Arc<Slot>| self.holding(slot).is_some_and(|(_, held)| held.node == *runner);
        if let Some(slot) = namesake.filter(is_here).map(|slot| slot.id.clone()) {
            self.rename(now, &slot);
        }
    }

    /// The terms of a slot that nobody here made: those of its model, where that is declared.
    fn terms_of(&self, model: &str) -> Terms {
        let of = |declared: &Arc<Model>| translate::terms(declared, false, self.reload_cost(model));
        let unknown = || Terms { model: Some(model.into()), ..Terms::default() };
        let terms = self.state.models.get(model).map_or_else(unknown, of);
        // What was not asked for is not asked for again.
        Terms { waits: false, ..terms }
    }

    /// Slots of a model that nobody here made go by its declaration, which came after them.
    pub(super) fn agree_on_terms(&mut self, now: Millis, model: &str) {
        let terms = self.terms_of(model);
        let found = self.state.slots_of(model).filter(|slot| slot.made_from.is_none());
        let differs = |slot: &Slot| {
            let (_, held) = self.holding(slot)?;
            (held.spec.is_none() && held.terms != terms)
                .then(|| Holding { terms: terms.clone(), ..held.clone() })
        };
        let found: Vec<Holding> = found.filter_map(differs).collect();
        for holding in found {
            self.step(now, Event::Observed { holding: Box::new(holding) });
        }
    }

    /// A runner has something else under the name of a slot that is charged there. So that slot is not there and cannot be started
    /// there: whoever waits for it gets one with another name.
    pub(super) fn rename(&mut self, now: Millis, slot: &Name) {
        let Some(known) = self.state.slots.get(slot) else { return };
        let request = known.request();
        let Some((id, held)) = self.scheduler().ledger().of_request(&request) else { return };
        let event = match held.stage {
            Stage::Offered { .. } | Stage::Sent => {
                Event::Failed { request: request.clone(), generation: id.0 }
            }
            Stage::Running { .. } | Stage::Releasing { .. } => {
                Event::Freed { request: request.clone(), generation: Some(id.0), ordinal: None }
            }
        };
        self.step(now, event);
        self.step(now, Event::Withdraw { request });
    }

    /// What a runner's slot is called here: its own name, unless that is the name of something else.
    pub(super) fn name_here(&self, runner: &Name, report: &SlotReport) -> Name {
        let own = name_of_its_own(&report.slot, runner);
        if self.state.slots.contains_key(&own) {
            return own;
        }
        let slot = Name::from(report.slot.as_str());
        let Some(known) = self.state.slots.get(&slot) else { return slot };
        let is_it = match self.holding(known) {
            _ if known.model != report.model => false,
            Some((_, holding)) => holding.node == *runner,
            // It waits for a device here, so it cannot be what runs there.
            None => report.state.is_over(),
        };
        if is_it { slot } else { own }
    }
}

/// What a slot is called on its runner.
pub(super) fn name_on_runner<'a>(slot: &'a str, runner: &str) -> &'a str {
    slot.strip_suffix(runner).and_then(|rest| rest.strip_suffix('@')).unwrap_or(slot)
}

/// What a slot of a runner is called that has the name of another one.
pub(super) fn name_of_its_own(slot: &str, runner: &str) -> Name {
    Name::from(format!("{slot}@{runner}"))
}

fn exceeds(held: &Holding, used: &OnDevice) -> bool {
    let on = held.charges.iter().filter(|charge| charge.on == [used.index]);
    on.filter_map(Charge::bytes).any(|booked| booked < Bytes::new(used.bytes))
}

/// The charges of a slot that nobody here made: the larger of what it was booked for and what it uses. A device that is not there
/// closes all that are: it is on one of them.
fn charges(report: &SlotReport, devices: usize) -> Vec<Charge> {
    let mut most: BTreeMap<u16, u64> = BTreeMap::new();
    for on in report.booked.iter().chain(&report.used) {
        let bytes = most.entry(on.index).or_default();
        *bytes = on.bytes.max(*bytes);
    }
    let charge = |on: Vec<u16>, amount: Booked| Charge {
        on,
        amount,
        cores: Cores::default(),
        slots: 1,
        slice: None,
        parts: Vec::new(),
    };
    let (there, elsewhere): (Vec<_>, Vec<_>) =
        most.into_iter().partition(|(index, _)| usize::from(*index) < devices);
    let known = there
        .into_iter()
        .map(|(index, bytes)| charge(vec![index], Booked::share(Bytes::new(bytes))));
    let lost =
        elsewhere.first().filter(|_| devices > 0).map(|_| charge(Vec::new(), Booked::Undeclared));
    known.chain(lost).collect()
}
