//! What must hold, judged from outside: after each step, for what runs, when all is quiet, and when all is gone.

use std::collections::BTreeSet;

use plimsoll_core::charge::{Activity, Holding, Stage};
use plimsoll_core::decide::decide;
use plimsoll_core::event::{Answer, Effect, Event, Outcome, Settings};
use plimsoll_core::evict::{self, Planned};
use plimsoll_core::gang::{Gang, decide_gang};
use plimsoll_core::ledger::{Ledger, Promise};
use plimsoll_core::queue::{GangMember, PendingRequest};
use plimsoll_core::request::{Eviction, Request, RequestId};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::snapshot::Snapshot;
use plimsoll_core::units::{Bytes, Millis, Name};

use super::machine::{Machine, Process};
use super::tally::{Count, Tally};

/// Counts what came of one event.
pub(crate) fn count(tally: &mut Tally, event: &Event, outcome: &Outcome) {
    tally.count(Count::Events);
    tally.count_all(Count::Decisions, outcome.decisions.len());
    for answer in &outcome.answers {
        tally.count(match answer {
            Answer::Offered { .. } | Answer::Placed { .. } => Count::Placed,
            Answer::Pending { .. } => Count::Waited,
            Answer::Impossible { .. } | Answer::Rejected { .. } => Count::Refused,
        });
    }
    for effect in &outcome.effects {
        match effect {
            Effect::Start { .. } => tally.count(Count::Starts),
            Effect::Stop { request, .. } => {
                tally.count(Count::Stops);
                tally.count_all(Count::Evictions, usize::from(!is_withdrawn(event, request)));
            }
        }
    }
    tally.count_all(Count::SeenOver, usize::from(!outcome.breaches.is_empty()));
}

fn is_withdrawn(event: &Event, request: &RequestId) -> bool {
    matches!(event, Event::Withdraw { request: own } if own == request)
}

/// What one step did and should not have done, beside what the witness sees.
pub(crate) fn step(event: &Event, outcome: &Outcome, after: &Scheduler) -> Vec<String> {
    let mut objections = Vec::new();
    let stopped: BTreeSet<&RequestId> = outcome.effects.iter().filter_map(stopped).collect();
    for effect in &outcome.effects {
        match effect {
            Effect::Stop { request, .. } if !is_withdrawn(event, request) => {
                objections.extend(wrongly_evicted(after, request));
            }
            Effect::Stop { .. } => {}
            Effect::Start { request, node, .. } if after.settings().serial_starts => {
                objections.extend(not_quiet(after.ledger(), request, node, &stopped));
            }
            Effect::Start { .. } => {}
        }
    }
    let idle =
        after.ledger().promises().map(|(id, _)| id).filter(|id| after.queue().get(id).is_none());
    objections.extend(idle.map(|id| format!("{id} is promised a place and does not wait for one")));
    objections
}

/// Why somebody should not have been asked to go: nobody was promised its place, or nobody who may have it.
fn wrongly_evicted(after: &Scheduler, victim: &RequestId) -> Option<String> {
    let (_, holding) = after.ledger().of_request(victim)?;
    if holding.terms.pinned {
        return Some(format!("{victim} is pinned and was asked to go"));
    }
    let mut promised =
        after.ledger().promises().filter(|(_, promise)| promise.after.contains(victim));
    let active = matches!(holding.activity, Activity::Active { .. });
    let may_have_it = |(id, _): (&RequestId, &Promise)| {
        let Some(waiting) = after.queue().get(id) else { return false };
        let terms = &waiting.request.terms;
        let stronger =
            terms.eviction == Eviction::LowerPriority && terms.priority > holding.terms.priority;
        let same_model = terms.model.is_some() && terms.model == holding.terms.model;
        !terms.speculative
            && terms.eviction != Eviction::Never
            && !same_model
            && (!active || stronger)
    };
    (!promised.any(may_have_it))
        .then(|| format!("{victim} was asked to go for nobody who may ask for it"))
}

fn stopped(effect: &Effect) -> Option<&RequestId> {
    match effect {
        Effect::Stop { request, .. } => Some(request),
        Effect::Start { .. } => None,
    }
}

/// Where starts are serial, nobody starts on a device where another starts or is leaving. Who was asked to go in the same
/// step may have been asked after the start.
fn not_quiet(
    ledger: &Ledger,
    request: &RequestId,
    node: &Name,
    stopped: &BTreeSet<&RequestId>,
) -> Option<String> {
    let (_, own) = ledger.of_request(request)?;
    let devices: BTreeSet<u16> =
        own.charges.iter().flat_map(|charge| charge.on.iter().copied()).collect();
    let loud =
        ledger.holdings_on(ledger.node_id(node)?).map(|(_, holding)| holding).find(|other| {
            let busy = match other.stage {
                Stage::Sent => true,
                Stage::Releasing { .. } => !stopped.contains(&other.request),
                Stage::Offered { .. } | Stage::Queued | Stage::Running { .. } => false,
            };
            busy && other.request != *request
                && other.charges.iter().flat_map(|charge| &charge.on).any(|on| devices.contains(on))
        })?;
    Some(format!("{request} was started beside {}, which is {}", loud.request, loud.stage.name()))
}

/// What runs without being booked: every process that an order started has its charge until it is gone.
pub(crate) fn uncovered(machines: &[Machine], ledger: &Ledger) -> Option<String> {
    let processes =
        machines.iter().flat_map(|machine| machine.processes.iter().map(move |p| (machine, p)));
    let ordered = processes.filter(|(_, (_, process))| process.ordered);
    ordered
        .into_iter()
        .find_map(|(machine, (id, process))| missing_charge(machine, id, process, ledger))
}

fn missing_charge(
    machine: &Machine,
    id: &RequestId,
    process: &Process,
    ledger: &Ledger,
) -> Option<String> {
    let name = machine.name();
    let Some((_, holding)) = ledger.of_request(id) else {
        return Some(format!("{id} runs on {name} as {:?} and holds nothing", process.generation));
    };
    if holding.node != *name {
        return Some(format!("{id} runs on {name} and is booked on {}", holding.node));
    }
    let view = ledger.view_of(name)?;
    for part in &process.parts {
        let place = machine.card(part.serial).and_then(|card| card.place(&view.node));
        let covers = |at: usize| {
            let here = holding
                .charges
                .iter()
                .filter(|charge| charge.on.iter().any(|on| usize::from(*on) == at));
            here.map(|charge| charge.bytes().map_or(0, Bytes::get)).sum::<u64>() >= part.bytes
                || part.whole
        };
        if !place.is_some_and(covers) {
            return Some(format!(
                "{id} uses {} of card {} of {name}, and is not charged for it: {:?}",
                part.bytes, part.serial, holding.charges
            ));
        }
    }
    None
}

/// Who waits on a quiet ledger although there is a place, or somebody who may be asked to leave one.
pub(crate) fn waits_in_vain(scheduler: &Scheduler, now: Millis) -> Option<String> {
    let queue = scheduler.queue();
    let ready = |waiting: &&PendingRequest| {
        let backs_off = waiting.backoff.is_some_and(|backoff| backoff.until > now);
        let yields = waiting.request.terms.speculative && queue.has_real_work();
        // For whom room was made just now the place is on its way; whether it comes is seen when all is at rest.
        let promised = scheduler.ledger().promise_to(&waiting.request.id).is_some();
        !backs_off && !yields && !promised
    };
    queue.iter().filter(ready).find_map(|waiting| {
        let could = match &waiting.gang {
            None => could_be_placed(scheduler, &waiting.request, now)?,
            Some(gang) => could_be_placed_together(scheduler, gang)?,
        };
        Some(format!(
            "{} waits ({}) and could be placed{could}",
            waiting.request.id, waiting.reason
        ))
    })
}

fn could_be_placed(scheduler: &Scheduler, request: &Request, now: Millis) -> Option<String> {
    let Settings { policy, residency, .. } = scheduler.settings();
    if decide(scheduler.ledger(), policy, request).chosen().is_some() {
        return Some(String::new());
    }
    if request.terms.speculative || request.terms.eviction == Eviction::Never {
        return None;
    }
    let may_go =
        |holding: &Holding| evict::check_evictable(holding, request, now, *residency).is_ok();
    match evict::plan(scheduler.ledger(), policy, request, may_go) {
        Planned::Found(plan) => Some(format!(" after {:?}", plan.after)),
        Planned::Impossible | Planned::NotFound { .. } => None,
    }
}

fn could_be_placed_together(scheduler: &Scheduler, gang: &GangMember) -> Option<String> {
    let of_gang =
        |waiting: &&PendingRequest| waiting.gang.as_ref().is_some_and(|own| own.name == gang.name);
    let members =
        scheduler.queue().iter().filter(of_gang).map(|waiting| waiting.request.clone()).collect();
    let gang = Gang { name: gang.name.clone(), minimum: gang.minimum, members };
    let decided = decide_gang(scheduler.ledger(), &scheduler.settings().policy, &gang);
    decided.placed.then(|| " with its gang".to_string())
}

/// What does not come to rest although nothing happens any more.
pub(crate) fn restless(scheduler: &Scheduler) -> Option<String> {
    let moving = |stage: Stage| !matches!(stage, Stage::Running { .. });
    if let Some((_, holding)) =
        scheduler.ledger().holdings().find(|(_, holding)| moving(holding.stage))
    {
        return Some(format!("{} is still {}", holding.request, holding.stage.name()));
    }
    let (id, promise) = scheduler.ledger().promises().next()?;
    Some(format!("{id} still waits for a promise after {:?}", promise.after))
}

/// What is left after everybody has gone.
pub(crate) fn leaked(scheduler: &Scheduler, machines: &[Machine]) -> Option<String> {
    let ledger = scheduler.ledger();
    if let Some((_, holding)) = ledger.holdings().next() {
        return Some(format!(
            "{} still holds {:?} on {} ({})",
            holding.request,
            holding.charges,
            holding.node,
            holding.stage.name()
        ));
    }
    for (_, view) in ledger.nodes() {
        for (ordinal, room) in view.room.devices().iter().enumerate() {
            let booked = room.load().less(room.foreign()).plus(room.promised());
            if !booked.is_zero() || room.cores() > 0 || room.slots() > 0 || room.occupied() != 0 {
                return Some(format!(
                    "nobody holds {}/{ordinal}, and it reads {room:?}",
                    view.node.name
                ));
            }
        }
    }
    if let Some((id, _)) = ledger.promises().next() {
        return Some(format!("{id} has a promise and does not wait"));
    }
    let rows = scheduler.queue().rows();
    if let Some((_, waiting)) = rows.pending.first() {
        return Some(format!("{} still waits", waiting.request.id));
    }
    if let Some((id, failures)) = rows.failures.first() {
        return Some(format!("{failures} failures of {id} are remembered, which has gone"));
    }
    let running = machines.iter().flat_map(|machine| machine.processes.keys()).next();
    running.map(|id| format!("{id} still runs"))
}

/// Where two snapshots differ first, in few words.
pub(crate) fn first_difference(one: &Snapshot, other: &Snapshot) -> String {
    let (one, other) = (format!("{one:?}"), format!("{other:?}"));
    let at = one
        .bytes()
        .zip(other.bytes())
        .position(|(a, b)| a != b)
        .unwrap_or(one.len().min(other.len()));
    let around = |text: &str| {
        let text: String = text.chars().skip(at.saturating_sub(120)).take(240).collect();
        text
    };
    format!("`…{}…` became `…{}…`", around(&one), around(&other))
}
