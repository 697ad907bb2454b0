//! Renders outcomes and the state of the scheduler as lines.

use std::collections::BTreeMap;

use plimsoll_core::breach::{self, Breach};
use plimsoll_core::charge::{Activity, Booked, Charge, Holding, Stage};
use plimsoll_core::device::{Node, Telemetry};
use plimsoll_core::event::{Answer, Effect, Outcome};
use plimsoll_core::evict;
use plimsoll_core::request::RequestId;
use plimsoll_core::room::{DeviceRoom, NodeView, Tenant};
use plimsoll_core::units::Bytes;
use plimsoll_core::wording;

use super::output::{LineKind, OutputLine};
use super::world::World;
use crate::witness::Objection;

/// Renders the outcome of one event as at least one line.
pub(crate) fn step(world: &World, outcome: &Outcome, objections: &[Objection]) -> Vec<OutputLine> {
    let lines = news(world, outcome, objections);
    match (lines.is_empty(), outcome.operations.is_empty()) {
        (false, _) => lines,
        (true, false) => vec!["noted".to_string().into()],
        (true, true) => vec!["changes nothing".to_string().into()],
    }
}

/// Renders the answers, effects and breaches of one event.
pub(crate) fn news(world: &World, outcome: &Outcome, objections: &[Objection]) -> Vec<OutputLine> {
    let mut lines: Vec<OutputLine> = Vec::new();
    for said in &outcome.answers {
        let line = OutputLine { kind: kind(said), text: answer(world, outcome, said) };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let stops = outcome.effects.iter().filter_map(|effect| match effect {
        Effect::Stop { request, node, .. } => {
            let text = format!("{request} is asked to stop on {node}");
            Some(OutputLine { kind: LineKind::Stop, text })
        }
        Effect::Start { .. } => None,
    });
    lines.extend(stops);
    lines.extend(
        outcome
            .breaches
            .iter()
            .map(|found| format!("breach: {}", breach_line(world, found)).into()),
    );
    lines.extend(objections.iter().map(|objection| OutputLine {
        kind: LineKind::Objection,
        text: format!("witness: {objection}"),
    }));
    lines
}

fn kind(answer: &Answer) -> LineKind {
    match answer {
        Answer::Offered { .. } => LineKind::Offered,
        Answer::Placed { .. } => LineKind::Placed,
        Answer::Pending { .. } => LineKind::Pending,
        Answer::Impossible { .. } => LineKind::Impossible,
        Answer::Rejected { .. } => LineKind::Rejected,
    }
}

fn answer(world: &World, outcome: &Outcome, answer: &Answer) -> String {
    match answer {
        Answer::Offered { request, until, .. } => {
            format!("{request} offered {} until {}", place(world, request), until)
        }
        Answer::Placed { request, .. } => {
            let starts = outcome
                .effects
                .iter()
                .any(|e| matches!(e, Effect::Start { request: r, .. } if r == request));
            let holding = world.scheduler().ledger().of_request(request);
            let is_queued = holding.is_some_and(|(_, holding)| holding.stage == Stage::Queued);
            let note = match (starts, is_queued) {
                (true, _) => "",
                (false, true) => "; its start is queued",
                (false, false) => " already",
            };
            format!("{request} placed on {}{note}", place(world, request))
        }
        Answer::Pending { .. } | Answer::Impossible { .. } | Answer::Rejected { .. } => {
            answer.to_string()
        }
    }
}

fn place(world: &World, request: &RequestId) -> String {
    let ledger = world.scheduler().ledger();
    let held = ledger.of_request(request).map(|(_, holding)| holding);
    let node = held.and_then(|held| ledger.view_of(&held.node));
    match (held, node) {
        (Some(held), Some(view)) if held.charges.is_empty() => view.node.name.to_string(),
        (Some(held), Some(view)) => charges(&view.node, &held.charges),
        _ => "nothing".to_string(),
    }
}

/// The devices of charges with what each holds.
pub(crate) fn charges(node: &Node, charges: &[Charge]) -> String {
    let one = |charge: &Charge| {
        let on: Vec<String> =
            charge.on.iter().map(|ordinal| node.device_label(usize::from(*ordinal))).collect();
        let amount = match charge.amount {
            Booked::Share(bytes) => format!("with {}", Bytes::new(bytes.get())),
            Booked::Whole { bytes: Some(bytes) } => format!("whole with {bytes}"),
            Booked::Whole { bytes: None } => "whole".to_string(),
            Booked::Undeclared => "undeclared".to_string(),
        };
        let slice = charge
            .slice
            .as_ref()
            .map_or(String::new(), |s| format!(" in {} at {}", s.profile, s.span.start));
        format!("{} {amount}{slice}", on.join(" or "))
    };
    charges.iter().map(one).collect::<Vec<_>>().join(" and ")
}

fn none_if_empty(lines: Vec<String>) -> Vec<String> {
    if lines.is_empty() { vec!["none".to_string()] } else { lines }
}

/// Every device with its line and its tenants.
pub(crate) fn devices(world: &World, only: Option<&str>) -> Vec<String> {
    let wanted = |view: &&NodeView| only.is_none_or(|only| &*view.node.name == only);
    let views = world.scheduler().ledger().nodes().map(|(_, view)| view).filter(wanted);
    let rows = |view: &NodeView| -> Vec<String> {
        view.room.devices().iter().enumerate().map(|(at, room)| device(view, at, room)).collect()
    };
    none_if_empty(views.flat_map(rows).collect())
}

fn device(view: &NodeView, at: usize, room: &DeviceRoom) -> String {
    let device = &view.node.devices[at];
    let mut parts = vec![format!("{} holds {}", view.node.device_label(at), room.held())];
    let named = [
        ("floating", room.floating()),
        ("releasing", room.releasing()),
        ("foreign", room.foreign()),
        ("promised", room.promised()),
    ];
    parts.extend(
        named
            .iter()
            .filter(|(_, bytes)| !bytes.is_zero())
            .map(|(name, bytes)| format!("{name} {bytes}")),
    );
    parts.push(match (room.free(), room.usable()) {
        (Some(free), Some(usable)) => format!("free {free} of {usable}"),
        (None, Some(usable)) => format!("free unknown of {usable}"),
        _ => "size unknown".to_string(),
    });
    if !room.over_by().is_zero() {
        parts.push(format!("over by {}", room.over_by()));
    }
    let flags = [
        (device.health != plimsoll_core::device::Health::Healthy)
            .then(|| format!("{:?}", device.health).to_lowercase()),
        device.cordoned.then(|| "cordoned".to_string()),
        room.closed().then(|| "closed".to_string()),
        match room.telemetry() {
            Telemetry::Stale { since } => Some(format!("not measured since {since}")),
            Telemetry::None | Telemetry::Fresh { .. } => None,
        },
    ];
    parts.extend(flags.into_iter().flatten());
    let tenants: Vec<String> = room.tenants().iter().map(|one| tenant(one, room)).collect();
    if tenants.is_empty() {
        parts.join(", ")
    } else {
        format!("{}: {}", parts.join(", "), tenants.join(", "))
    }
}

fn tenant(tenant: &Tenant, room: &DeviceRoom) -> String {
    let unknown = if room.usable().is_none() { "of unknown size" } else { "undeclared" };
    let bytes = tenant.bytes.map_or(unknown.to_string(), |bytes| bytes.to_string());
    format!("{} {bytes}", tenant.name)
}

/// Lists the pending requests in turn.
pub(crate) fn queue(world: &World) -> Vec<String> {
    let line = |waiting: &plimsoll_core::queue::PendingRequest| {
        let gang =
            waiting.gang.as_ref().map_or(String::new(), |gang| format!(" with gang {}", gang.name));
        format!("{}{gang} since {}: {}", waiting.request.id, waiting.since, waiting.reason)
    };
    none_if_empty(world.scheduler().pending_in_turn().into_iter().map(line).collect())
}

/// Lists the holders and whether they are evictable.
pub(crate) fn slots(world: &World) -> Vec<String> {
    let scheduler = world.scheduler();
    let line = |holding: &Holding| {
        let node = scheduler.ledger().view_of(&holding.node);
        let on = node.filter(|_| !holding.charges.is_empty());
        let on = on.map_or(holding.node.to_string(), |view| charges(&view.node, &holding.charges));
        let activity = match holding.activity {
            Activity::Unknown => String::new(),
            Activity::Active { requests } => format!(", serving {requests}"),
            Activity::Idle { since } => format!(", idle since {since}"),
        };
        let eviction =
            match evict::evictable_since(holding, world.now, scheduler.settings().residency) {
                Ok(from) => format!("evictable since {from}"),
                Err(reason) => format!("not evictable ({reason})"),
            };
        format!("{} {}{activity} on {on}; {eviction}", holding.request, holding.stage.name())
    };
    none_if_empty(scheduler.ledger().holdings().map(|(_, holding)| line(holding)).collect())
}

/// Lists the bytes that eviction could free on each device.
pub(crate) fn evictable(world: &World) -> Vec<String> {
    let scheduler = world.scheduler();
    let is_evictable = |holding: &Holding| {
        evict::evictable_since(holding, world.now, scheduler.settings().residency).is_ok()
    };
    let ledger = scheduler.ledger();
    let mut lines = Vec::new();
    for (id, view) in ledger.nodes() {
        for (ordinal, _) in (0_u16..).zip(&view.node.devices) {
            let holdings = ledger.holdings_on(id).map(|(_, holding)| holding);
            let charges = holdings.filter(|held| is_evictable(held)).flat_map(|held| &held.charges);
            let here = charges.filter(|charge| charge.on.contains(&ordinal));
            let bytes = here.filter_map(Charge::bytes).fold(Bytes::ZERO, Bytes::plus);
            lines.push(format!("{}/{ordinal} {bytes}", view.node.name));
        }
    }
    none_if_empty(lines)
}

/// Lists the promises with the holders that they wait for.
pub(crate) fn promises(world: &World) -> Vec<String> {
    let ledger = world.scheduler().ledger();
    let line = |(id, promise): (&RequestId, &plimsoll_core::ledger::Promise)| {
        let node = ledger.view_of(&promise.placement.node);
        let on = node.map_or("a node that is gone".to_string(), |view| {
            charges(&view.node, &promise.charges)
        });
        let after: Vec<String> = promise.after.iter().map(ToString::to_string).collect();
        format!("{id} is promised {on} after {}", after.join(", "))
    };
    none_if_empty(ledger.promises().map(line).collect())
}

/// Lists the breaches.
pub(crate) fn breaches(world: &World) -> Vec<String> {
    none_if_empty(
        breach::audit(world.scheduler().ledger())
            .iter()
            .map(|found| breach_line(world, found))
            .collect(),
    )
}

fn breach_line(world: &World, breach: &Breach) -> String {
    let ledger = world.scheduler().ledger();
    let label = |ordinal: u16| {
        let view = ledger.view_of(breach.node());
        view.map_or(breach.node().to_string(), |view| view.node.device_label(usize::from(ordinal)))
    };
    match breach {
        Breach::OverLine { ordinal, usable, held, over_by, holders, .. } => {
            format!(
                "{} holds {held} of {usable}, over by {over_by}: {}",
                label(*ordinal),
                holders.join(", ")
            )
        }
        Breach::NoAssignment { node, usable, held, holders } => {
            format!(
                "{node} holds {held} of {usable}, and no choice of cards fits: {}",
                holders.join(", ")
            )
        }
        Breach::SumsDiffer { ordinal, sum, holdings, .. } => {
            format!("{} is booked {sum}, and its holdings sum to {holdings}", label(*ordinal))
        }
        Breach::SlicesOverlap { ordinal, holders, .. } => {
            format!("{} has slices that overlap: {}", label(*ordinal), holders.join(", "))
        }
    }
}

/// Lists the holdings of each account.
pub(crate) fn accounts(world: &World) -> Vec<String> {
    let ledger = world.scheduler().ledger();
    let names: BTreeMap<_, ()> =
        ledger.holdings().map(|(_, holding)| (holding.request.account.clone(), ())).collect();
    let line = |name: &plimsoll_core::units::Name| {
        let account = ledger.account(name);
        format!("{name} holds {} in {} places", account.bytes, account.holdings)
    };
    let without_share = names.keys().filter(|name| ledger.shares().get(name).is_none());
    let mut lines: Vec<String> = without_share.map(line).collect();
    lines.extend(world.scheduler().account_rows().iter().map(ToString::to_string));
    none_if_empty(lines)
}

/// Lists the prospects of each pending request, in turn.
pub(crate) fn forecasts(world: &World) -> Vec<String> {
    let scheduler = world.scheduler();
    let mut forecasts = scheduler.forecasts(world.now);
    let mut lines = Vec::new();
    for entry in scheduler.pending_in_turn() {
        let id = &entry.request.id;
        if let Some(forecast) = forecasts.of(id) {
            let start = wording::expected_start(&forecast.start, world.now);
            lines.push(format!(
                "{id}: {}; expected start: {start}",
                wording::place_in_queue(&forecast)
            ));
        }
    }
    none_if_empty(lines)
}
