//! A runner's reports of its slots, compared with the ledger: each difference becomes an event.
//!
//! Reports say what is, never what changed, so that a lost, late or repeated heartbeat is repaired
//! by the next one. Three numbers keep old news apart from new: the session tells two agents of one
//! runner apart, the sequence orders the heartbeats of a session, and the generation orders the
//! starts of one slot.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use plimsoll_core::charge::{Activity, Booked, Charge, Holding, HoldingId, Stage};
use plimsoll_core::device::Node;
use plimsoll_core::event::Event;
use plimsoll_core::front::Core;
use plimsoll_core::request::{NodeNeed, RequestId, Terms};
use plimsoll_core::units::{Bytes, Cores, Name};

use super::following::Work;
use super::reasons::SlotFailure;
use super::slots::{Life, Slot};
use super::{Desk, DeskView, orders};
use crate::launch;
use crate::memory::{Measured, Service, ServingSettings};
use crate::translate::{self, Purpose};
use crate::wire::{OnDevice, SlotReport, SlotState};

/// Failed starts in a row beyond this do not make a runner worse: otherwise one that failed for a
/// whole night would never be tried again while any other is left.
const MAX_FAILED_STARTS: u16 = 4; // mutant: failed-starts

impl Desk {
    /// Compares a report with the ledger, and tells the core of the difference.
    pub(super) fn apply_report(&mut self, core: &mut Core<'_>, runner: &Name, report: &SlotReport) {
        let view = self.view(core.scheduler());
        let id = name_here(view, runner, report);
        let request = match self.slots.get(&id) {
            Some(slot) => slot.request(),
            None => translate::slot_request_id(&report.model, &id),
        };
        let Some((holding, held)) = core.ledger().of_request(&request) else {
            if !report.state.is_over() {
                self.adopt(core, runner, &id, report);
            }
            return;
        };
        if held.node != *runner || !is_current(view, &id, report, holding, held) {
            return;
        }
        let (stage, generation) = (held.stage, holding.0);
        let grown: Vec<OnDevice> =
            report.used.iter().filter(|used| exceeds(held, used)).copied().collect();
        self.note_use(core, &id, report);
        if report.endpoint.is_some() && report.state == SlotState::Running {
            let endpoint = report.endpoint.clone();
            self.slots.change_life(&mut self.log, &id, |life| life.endpoint = endpoint);
        }
        if let Some(event) = self.difference(&id, &request, generation, stage, report) {
            let start = StartResult::of(&event);
            self.runners.mark_orders_changed(runner, core.next_seq());
            self.step(core, event);
            if let Some(start) = start {
                self.count_start(core, runner, start);
            }
        }
        for used in grown {
            let (ordinal, bytes) = (used.index, Bytes::new(used.bytes));
            self.step(core, Event::Grew { request: request.clone(), ordinal, bytes });
        }
    }

    /// Returns the event for the difference between the stage of a slot's charge and the state that
    /// its runner reports; `None` if they agree.
    ///
    /// A report of `Failed` or `Gone` is the evidence of release: a runner gives it only once the
    /// process has ended and the device shows its memory back.
    fn difference(
        &mut self,
        id: &Name,
        request: &RequestId,
        generation: u64,
        stage: Stage,
        report: &SlotReport,
    ) -> Option<Event> {
        let request = request.clone();
        match (stage, report.state) {
            (Stage::Offered { .. } | Stage::Queued | Stage::Sent, SlotState::Running) => {
                let requests = self.reservations.count_in_slot(id);
                let activity = (requests > 0).then_some(Activity::Active { requests });
                Some(Event::Started { request, generation, activity })
            }
            (Stage::Sent, state) if state.is_over() => {
                self.note_failure(id, failure(report, SlotFailure::NoReason));
                Some(Event::Failed { request, generation })
            }
            (Stage::Running { .. } | Stage::Releasing { .. }, state) if state.is_over() => {
                if !stage.is_releasing() && report.reason.is_some() {
                    self.note_failure(id, failure(report, SlotFailure::NoReason));
                }
                Some(Event::Freed { request, generation: Some(generation), ordinal: None })
            }
            // The process is ending by itself, or its runner stops it: no reservation joins it any
            // more, and it stays charged until it is gone.
            (Stage::Running { .. }, SlotState::Stopping) => {
                self.note_failure(id, failure(report, SlotFailure::StoppedByRunner));
                Some(Event::Withdraw { request })
            }
            _ => None,
        }
    }

    fn note_failure(&mut self, slot: &Name, failure: SlotFailure) {
        self.slots.change_life(&mut self.log, slot, |life| life.failure = Some(failure));
    }

    /// Counts failed starts of a runner. The core prefers runners with fewer: otherwise a broken
    /// one, being the emptiest, would attract all work. One good start clears the count.
    fn count_start(&mut self, core: &mut Core<'_>, runner: &Name, start: StartResult) {
        let Some(view) = core.ledger().view_of(runner) else { return };
        let before = view.node.failed_starts;
        let after = match start {
            StartResult::Succeeded => 0,
            StartResult::Failed => before.saturating_add(1).min(MAX_FAILED_STARTS),
        };
        if before != after {
            let node = Node { failed_starts: after, ..Node::clone(&view.node) };
            self.update_node(core, node);
        }
    }

    /// Remembers the memory that a running slot uses, if it serves or has served a reservation as
    /// its model is declared now, and every one of its devices was measured. A slot that no client
    /// has used may not have loaded its model yet.
    fn note_use(&mut self, core: &Core<'_>, id: &Name, report: &SlotReport) {
        let Some(slot) = self.slots.get(id) else { return };
        let Some(made_from) = &slot.made_from else { return };
        let service = match self.reservations.count_in_slot(id) {
            _ if report.state != SlotState::Running || report.used.is_empty() => return,
            _ if slot.life.served => Service::Served,
            0 => return,
            _ => Service::Serving,
        };
        let settings = ServingSettings::from(made_from.declared());
        let current = self.models.get(&slot.model).map(|model| model.declared().into());
        let measured = self.use_in_gpu_order(core, slot, report);
        let Some((bytes, whole)) = measured.filter(|_| current.as_ref() == Some(&settings)) else {
            return;
        };
        let measured = Measured { bytes, at: core.now(), settings, service, whole };
        let model = slot.model.clone();
        self.models.note_use(&mut self.log, &model, measured);
    }

    /// Returns the measured use of a slot in the order of its GPUs, and the memory of those GPUs if
    /// it has them whole; `None` unless the measured devices are exactly those of its charge.
    fn use_in_gpu_order(
        &self,
        core: &Core<'_>,
        slot: &Slot,
        report: &SlotReport,
    ) -> Option<(Vec<Bytes>, Vec<Bytes>)> {
        let (_, held) = self.view(core.scheduler()).holding(slot)?;
        let devices = launch::devices(held, &core.ledger().view_of(&held.node)?.node);
        let used = devices.iter().map(|device| {
            let on = report.used.iter().find(|on| on.index == device.index)?;
            Some(Bytes::new(on.bytes))
        });
        let used: Option<Vec<Bytes>> = used.collect();
        let used = used.filter(|used| used.len() == report.used.len())?;
        let is_whole = |charge: &Charge| matches!(charge.amount, Booked::Whole { .. });
        let whole = devices.iter().map(|device| device.bytes.map(Bytes::new));
        let whole: Option<Vec<Bytes>> =
            if held.charges.iter().all(is_whole) { whole.collect() } else { None };
        Some((used, whole.unwrap_or_default()))
    }

    /// Adopts a slot that this server does not know: it is charged at what it uses, and kept.
    ///
    /// It comes from a server whose data was lost or restored from an older copy. Stopping it would
    /// end work that clients still use; ignoring it would book its memory twice.
    fn adopt(&mut self, core: &mut Core<'_>, runner: &Name, id: &Name, report: &SlotReport) {
        let slot = Slot {
            id: id.clone(),
            model: report.model.clone(),
            made_from: None,
            created: core.now(),
            basis: BTreeMap::new(),
            life: Life {
                endpoint: report.endpoint.clone(),
                runner: Some(runner.clone()),
                ..Life::default()
            },
        };
        let known = self.runners.get(runner);
        let devices = known.map_or(0, |runner| runner.registration.devices.len());
        let holding = Holding {
            request: slot.request(),
            node: runner.clone(),
            stage: Stage::Running { since: core.now() },
            charges: observed_charges(report, devices),
            resources: NodeNeed::default(),
            terms: self.terms_of_adopted(&report.model),
            activity: Activity::Unknown,
            spec: None,
        };
        self.slots.adopt(&mut self.log, slot);
        self.runners.mark_orders_changed(runner, core.next_seq());
        self.step(core, Event::Observed { holding: Box::new(holding) });
        self.update_activity(core, id);
        // It may have room for reservations that are pending.
        self.to_serve.insert(report.model.clone());
        let view = self.view(core.scheduler());
        let namesake = self.slots.get(&report.slot).filter(|slot| {
            slot.id != *id && view.holding(slot).is_some_and(|(_, held)| held.node == *runner)
        });
        if let Some(slot) = namesake.map(|slot| slot.id.clone()) {
            self.run(core, [Work::Replace(slot)]);
        }
    }

    /// Returns the terms of an adopted slot: those of its model, if that is declared. It is never
    /// pending again after its end: no client of this server has reserved it.
    fn terms_of_adopted(&self, model: &str) -> Terms {
        let terms = match self.models.get(model) {
            Some(declared) => {
                let reload_cost = self.models.reload_cost(model);
                translate::terms(declared, Purpose::Reservation, reload_cost)
            }
            None => Terms { model: Some(model.into()), ..Terms::default() },
        };
        Terms { waits: false, ..terms }
    }

    /// Applies a new declaration to the adopted slots of its model. A slot that this server created
    /// keeps the terms that it was created with.
    pub(super) fn update_terms_of_adopted(&mut self, core: &mut Core<'_>, model: &str) {
        let terms = self.terms_of_adopted(model);
        let view = self.view(core.scheduler());
        let adopted = self.slots.of_model(model).filter(|slot| slot.made_from.is_none());
        let holdings = adopted.filter_map(|slot| {
            let (_, held) = view.holding(slot)?;
            (held.spec.is_none() && held.terms != terms)
                .then(|| Holding { terms: terms.clone(), ..held.clone() })
        });
        let holdings: Vec<Holding> = holdings.collect();
        for holding in holdings {
            self.step(core, Event::Observed { holding: Box::new(holding) });
        }
    }
}

/// The result of a start.
#[derive(Clone, Copy)]
enum StartResult {
    Succeeded,
    Failed,
}

impl StartResult {
    fn of(event: &Event) -> Option<StartResult> {
        match event {
            Event::Started { .. } => Some(StartResult::Succeeded),
            Event::Failed { .. } => Some(StartResult::Failed),
            _ => None,
        }
    }
}

/// Returns the reason of a report, or the given one if it has none.
fn failure(report: &SlotReport, without_reason: SlotFailure) -> SlotFailure {
    match &report.reason {
        Some(reason) => SlotFailure::Reported { reason: reason.clone() },
        None => without_reason,
    }
}

/// Returns true if a report is about the current start of its slot, and not about an earlier one.
fn is_current(
    view: DeskView<'_>,
    id: &Name,
    report: &SlotReport,
    holding: HoldingId,
    held: &Holding,
) -> bool {
    match report.generation.cmp(&holding.0) {
        // An adopted slot has its runner's generation, not the ledger's.
        _ if held.spec.is_none() => true,
        Ordering::Less => false,
        Ordering::Equal => true,
        // The server was restored from an older copy of its data. The end of a start that it has
        // forgotten says nothing about the start that it has ordered since.
        Ordering::Greater if report.state.is_over() && held.stage == Stage::Sent => {
            let last = view.slot(id).and_then(|slot| view.report(slot));
            report.generation == orders::generation(holding, held, last)
        }
        Ordering::Greater => true,
    }
}

/// Returns the name that a runner's slot has here: its own, unless another slot has that.
///
/// Two runners can report the same name, and a server that lost its data gives out names again that
/// runners still use. Such a slot is known by a name that includes its runner.
pub(super) fn name_here(view: DeskView<'_>, runner: &Name, report: &SlotReport) -> Name {
    let qualified = qualified_name(&report.slot, runner);
    if view.slot(&qualified).is_some() {
        return qualified;
    }
    let slot = Name::from(report.slot.as_str());
    let Some(known) = view.slot(&slot) else { return slot };
    let is_same = match view.holding(known) {
        // Nothing is left under the name, so that nothing is left of the slot here either.
        Some((id, holding)) if known.model != report.model => {
            let is_answer = report.state.is_over() && report.generation == id.0;
            is_answer && holding.node == *runner
        }
        _ if known.model != report.model => false,
        Some((_, holding)) => holding.node == *runner,
        // Here it is pending, so it cannot be what runs there.
        None => report.state.is_over(),
    };
    if is_same { slot } else { qualified }
}

/// Returns the name that a slot has on its runner.
pub(super) fn name_on_runner<'a>(slot: &'a str, runner: &str) -> &'a str {
    slot.strip_suffix(runner).and_then(|rest| rest.strip_suffix('@')).unwrap_or(slot)
}

/// Returns the name of a runner's slot whose own name another slot has.
pub(super) fn qualified_name(slot: &str, runner: &str) -> Name {
    Name::from(format!("{slot}@{runner}"))
}

fn exceeds(held: &Holding, used: &OnDevice) -> bool {
    let on = held.charges.iter().filter(|charge| charge.on == [used.index]);
    on.filter_map(Charge::bytes).any(|booked| booked < Bytes::new(used.bytes))
}

/// Returns the charges of an adopted slot: on each device the larger of its booked and its used
/// memory. A device that the runner does not have makes it an undeclared charge on all that it has,
/// because the slot must be on one of them.
fn observed_charges(report: &SlotReport, devices: usize) -> Vec<Charge> {
    let mut largest: BTreeMap<u16, u64> = BTreeMap::new();
    for on in report.booked.iter().chain(&report.used) {
        let bytes = largest.entry(on.index).or_default();
        *bytes = on.bytes.max(*bytes);
    }
    let (known, unknown): (Vec<_>, Vec<_>) =
        largest.into_iter().partition(|(index, _)| usize::from(*index) < devices);
    let mut charges: Vec<Charge> = known
        .into_iter()
        .map(|(index, bytes)| observed_charge(vec![index], Booked::share(Bytes::new(bytes))))
        .collect();
    if devices > 0 && !unknown.is_empty() {
        charges.push(observed_charge(Vec::new(), Booked::Undeclared));
    }
    charges
}

fn observed_charge(on: Vec<u16>, amount: Booked) -> Charge {
    Charge { on, amount, cores: Cores::default(), slots: 1, slice: None, parts: Vec::new() }
}
