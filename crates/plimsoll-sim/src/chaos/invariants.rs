//! Invariants of the desk and the scheduler: at any time, at rest, and when everything has ended.

use plimsoll_core::breach::{self, Breach};
use plimsoll_core::charge::{Activity, Holding, Stage};
use plimsoll_core::decide::decide;
use plimsoll_core::event::Settings;
use plimsoll_core::evict::{self, Planned};
use plimsoll_core::queue::PendingRequest;
use plimsoll_core::request::{Eviction, Request, RequestId};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Millis, Name};
use plimsoll_slots::desk::{DeskView, ReservationState, Slot, SlotStage};

/// Returns where reservations, slots and the ledger disagree.
pub(crate) fn disagreement(view: DeskView<'_>) -> Option<String> {
    let ledger = view.scheduler().ledger();
    seat_without_slot(view)
        .or_else(|| view.slots().find_map(|slot| wrong_slot(view, slot)))
        .or_else(|| {
            let held = ledger.holdings().map(|(_, holding)| &holding.request);
            let pending = view.scheduler().queue().iter().map(|pending| &pending.request.id);
            let mut requests = held.chain(pending);
            let unknown = requests.find(|id| view.slot(&id.name).is_none())?;
            Some(format!("{unknown} is held or pending and is no slot"))
        })
        .or_else(|| pending_beside_room(view))
        .or_else(|| {
            let breaches = breach::audit(ledger);
            let differs = breaches.iter().any(|b| matches!(b, Breach::SumsDiffer { .. }));
            differs.then(|| format!("the audit found {breaches:?}"))
        })
}

fn seat_without_slot(view: DeskView<'_>) -> Option<String> {
    view.reservations().find_map(|reservation| match &reservation.state {
        ReservationState::Seated { slot, .. } if view.slot(slot).is_none() => {
            Some(format!("{} is in {slot}, which does not exist", reservation.id))
        }
        _ => None,
    })
}

fn wrong_slot(view: DeskView<'_>, slot: &Slot) -> Option<String> {
    let (id, taken, stage) = (&slot.id, view.active_requests(slot), view.stage(slot));
    // An adopted slot has the concurrency of its model, whose declaration may have changed since.
    if slot.made_from.is_some() && taken > view.concurrency(slot) {
        return Some(format!("{id} has {taken} reservations, more than its concurrency"));
    }
    let Some(stage) = stage else { return Some(format!("{id} is listed and gone")) };
    if stage == SlotStage::Releasing && taken > 0 {
        return Some(format!("{id} is releasing with {taken} reservations"));
    }
    let (_, holding) = view.holding(slot)?;
    let requests = match holding.activity {
        Activity::Active { requests } => requests,
        Activity::Idle { .. } => 0,
        Activity::Unknown => return None,
    };
    let is_running = matches!(holding.stage, Stage::Running { .. });
    (is_running && requests != taken)
        .then(|| format!("{id} has {taken} reservations and the ledger counts {requests}"))
}

/// Returns a reservation that is pending although a slot of its model has room or another one may
/// be created.
fn pending_beside_room(view: DeskView<'_>) -> Option<String> {
    let mut reservations = view.reservations();
    reservations.find_map(|reservation| {
        if reservation.state != ReservationState::Pending {
            return None;
        }
        let (id, model) = (reservation.id, view.model(&reservation.model)?);
        let mut usable = 0;
        for slot in view.slots_of(&reservation.model) {
            if view.stage(slot).is_some_and(|stage| stage < SlotStage::Unknown) {
                usable += 1;
                let is_retired = view.scheduler().is_retired(&slot.request());
                if view.active_requests(slot) < view.concurrency(slot) && !is_retired {
                    return Some(format!("{id} is pending beside {} with room", slot.id));
                }
            }
        }
        let max_slots = model.declared().max_slots;
        (usable < max_slots).then(|| format!("{id} is pending with {usable} of {max_slots} slots"))
    })
}

/// Returns a pending request that could be placed, or that could evict what is in its way.
pub(crate) fn pending_in_vain(scheduler: &Scheduler, now: Millis) -> Option<String> {
    let queue = scheduler.queue();
    let is_ready = |pending: &&PendingRequest| {
        let backs_off = pending.backoff.is_some_and(|backoff| backoff.until > now);
        let yields = pending.request.terms.speculative && queue.has_real_work();
        let is_promised = scheduler.ledger().promise_to(&pending.request.id).is_some();
        !backs_off && !yields && !is_promised
    };
    queue.iter().filter(is_ready).find_map(|pending| {
        let how = possible_placement(scheduler, &pending.request, now)?;
        Some(format!("{} is pending ({}) and fits {how}", pending.request.id, pending.reason))
    })
}

fn possible_placement(scheduler: &Scheduler, request: &Request, now: Millis) -> Option<String> {
    let Settings { policy, residency, .. } = scheduler.settings();
    if decide(scheduler.ledger(), policy, request).chosen().is_some() {
        return Some("now".to_string());
    }
    if request.terms.speculative || request.terms.eviction == Eviction::Never {
        return None;
    }
    // Nothing is evicted on a node where another request waits for retired holders.
    let retirements =
        scheduler.ledger().promises().filter(|(_, promise)| !promise.retired.is_empty());
    let kept: Vec<&Name> = retirements.map(|(_, promise)| &promise.placement.node).collect();
    let is_evictable = |holding: &Holding| {
        !kept.contains(&&holding.node)
            && evict::check_evictable(holding, request, now, *residency).is_ok()
    };
    match evict::plan(scheduler.ledger(), policy, request, is_evictable) {
        Planned::Found(plan) => Some(format!("after {:?}", plan.after)),
        Planned::Impossible | Planned::NotFound { .. } => None,
    }
}

/// Returns what is still changing.
pub(crate) fn unsettled(scheduler: &Scheduler) -> Option<String> {
    let mut holdings = scheduler.ledger().holdings().map(|(_, holding)| holding);
    if let Some(holding) = holdings.find(|one| !matches!(one.stage, Stage::Running { .. })) {
        let (request, stage) = (&holding.request, holding.stage.name());
        return Some(format!("{request} is still {stage} on {}", holding.node));
    }
    let is_in_use = |holder: &RequestId| {
        let holding = scheduler.ledger().of_request(holder);
        holding.is_some_and(|(_, holding)| matches!(holding.activity, Activity::Active { .. }))
    };
    let mut promises = scheduler.ledger().promises();
    let (id, promise) = promises.find(|(_, promise)| !promise.retired.iter().any(is_in_use))?;
    Some(format!("{id} still has a promise after {:?}", promise.after))
}

/// Returns what is left although every model, reservation and slot has ended.
pub(crate) fn leftover(view: DeskView<'_>) -> Option<String> {
    let (scheduler, ledger) = (view.scheduler(), view.scheduler().ledger());
    if let Some((_, holding)) = ledger.holdings().next() {
        let (request, node, stage) = (&holding.request, &holding.node, holding.stage.name());
        return Some(format!("{request} still holds memory on {node} ({stage})"));
    }
    for (_, node) in ledger.nodes() {
        for (index, room) in node.room.devices().iter().enumerate() {
            let booked = room.load().less(room.foreign()).plus(room.promised());
            if !booked.is_zero() || room.cores() > 0 || room.slots() > 0 || room.occupied() != 0 {
                let name = &node.node.name;
                return Some(format!("GPU {index} of {name} has no holder and reads {room:?}"));
            }
        }
    }
    if let Some((id, _)) = ledger.promises().next() {
        return Some(format!("{id} has a promise and is not pending"));
    }
    if let Some(slot) = view.slots().next() {
        return Some(format!("{} still exists", slot.id));
    }
    let mut reservations = view.reservations();
    let has_ended = |state: &ReservationState| matches!(state, ReservationState::Ended { .. });
    if let Some(open) = reservations.find(|reservation| !has_ended(&reservation.state)) {
        return Some(format!("{} has not ended", open.id));
    }
    let rows = scheduler.queue().to_rows();
    if let Some((_, pending)) = rows.pending.first() {
        return Some(format!("{} is still pending", pending.request.id));
    }
    let (id, failures) = rows.failures.first()?;
    Some(format!("{failures} failures of {id} are remembered, which is gone"))
}
