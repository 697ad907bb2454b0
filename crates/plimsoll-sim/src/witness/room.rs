//! Room that could be made for the first pending request, computed from the books alone.
//!
//! Only plain requests are judged: bytes on a number of devices, without any selector. For the
//! others the witness would need the rules of `fit`, and would repeat its mistakes.

use plimsoll_core::charge::{Holding, Stage};
use plimsoll_core::device::{Health, Sharing, Telemetry};
use plimsoll_core::queue::PendingRequest;
use plimsoll_core::request::{
    Amount, Compute, DeviceSelector, Eviction, NodeNeed, Request, RequestId, Shape,
};
use plimsoll_core::room::NodeView;
use plimsoll_core::rules::NodeRules;
use plimsoll_core::units::Name;

use super::books::{self, Booking};
use super::place::usable;
use super::turns::Seen;

/// The memory and the tokens that a plain request takes of each of its devices, largest first.
type Needs = Vec<(u128, u128)>;

/// The steps of a search from which on the witness expects that it finds room.
pub(crate) const ENOUGH_STEPS: u32 = 1_000;

/// Returns the first request in turn if it has no promise although room could be made for it, by
/// waiting for the work of holders that have no higher priority.
pub(crate) fn first_without_promise(seen: &Seen<'_>) -> Option<String> {
    let settings = seen.after.settings();
    // Searches of few steps may end before they find it.
    if !settings.accounts.is_empty() || settings.policy.search_steps < ENOUGH_STEPS {
        return None;
    }
    let first = seen.after.queue().iter().next().filter(|entry| displaces(seen, entry))?;
    let (request, ledger) = (&first.request, seen.after.ledger());
    // Memory that is promised may come sooner than that of holders in use: the first in turn takes
    // it from a lower priority when it is released.
    if ledger.promises().len() > 0 {
        return None;
    }
    let leaves = |held: &Holding| held.stage.is_releasing() || can_be_retired(held, request);
    let mut nodes = ledger.nodes().map(|(_, view)| view);
    let node = nodes.find(|view| fits_without(seen, view, request, &leaves))?;
    let (id, name) = (&request.id, &node.node.name);
    let why = &first.reason;
    Some(format!("{id} is first in turn, could have room on {name}, and has no promise: {why}"))
}

/// Returns true if a pending request displaces work now, and has neither a promise nor a holding.
pub(crate) fn displaces(seen: &Seen<'_>, entry: &PendingRequest) -> bool {
    let (request, ledger) = (&entry.request, seen.after.ledger());
    !request.terms.speculative
        && request.terms.eviction != Eviction::Never
        && entry.gang.is_none()
        && entry.backoff.is_none()
        && ledger.promise_to(&request.id).is_none()
        && ledger.of_request(&request.id).is_none()
        && seen.after.displaces_from(request, seen.now).is_none()
}

/// Returns true if a holder can be waited for, by its terms and those of the request.
fn can_be_retired(held: &Holding, request: &Request) -> bool {
    !held.terms.pinned
        && held.terms.idle_limit.is_some()
        && held.terms.priority <= request.terms.priority
        && (held.terms.model.is_none() || held.terms.model != request.terms.model)
        && !matches!(held.stage, Stage::Offered { .. })
}

/// Returns true if a plain request fits on a node without the holdings that leave, and beside all
/// promises of the node to others.
pub(crate) fn fits_without(
    seen: &Seen<'_>,
    view: &NodeView,
    request: &Request,
    leaves: &dyn Fn(&Holding) -> bool,
) -> bool {
    let node = &view.node;
    let is_open = !node.unschedulable
        && node.silent_since.is_none()
        && node.unknown.is_none()
        && node.missing_cards == 0
        && node.taints.is_empty();
    let spec = &request.spec;
    if !is_open || spec.rules != NodeRules::default() || spec.resources != NodeNeed::default() {
        return false;
    }
    let Some(mut free) = free_without(seen, view, leaves) else { return false };
    free.sort_unstable_by(|one, other| other.cmp(one));
    let Some(kind) = node.devices.first().map(|device| &device.kind) else { return false };
    let needs = spec.shapes().iter().filter_map(|shape| plain_needs(kind, shape));
    needs.into_iter().any(|needs| {
        let mut pairs = needs.iter().zip(&free);
        needs.len() <= free.len() && pairs.all(|(need, free)| need.0 <= free.0 && need.1 <= free.1)
    })
}

/// Returns the needs of a shape; `None` if it is not plain.
fn plain_needs(kind: &Name, shape: &Shape) -> Option<Needs> {
    let [container] = &shape.containers[..] else { return None };
    let mut needs = Vec::new();
    for need in &container.needs {
        let is_plain = need.kind == *kind
            && need.selector == DeviceSelector::default()
            && need.compute == Compute::Any;
        let Amount::Bytes(bytes) = need.amount else { return None };
        let each = (u128::from(bytes.get()), u128::from(need.slots));
        needs.extend(is_plain.then(|| vec![each; usize::from(need.count.get())])?);
    }
    needs.sort_unstable_by(|one, other| other.cmp(one));
    (!needs.is_empty()).then_some(needs)
}

/// Returns the free memory and tokens of the devices of a node that a plain request can use; `None`
/// if the node has devices of several kinds, or holders on one of several devices.
fn free_without(
    seen: &Seen<'_>,
    view: &NodeView,
    leaves: &dyn Fn(&Holding) -> bool,
) -> Option<Needs> {
    let (node, books, ledger) = (&view.node, seen.books, seen.after.ledger());
    let stays = |id: &RequestId| ledger.of_request(id).is_none_or(|(_, held)| !leaves(held));
    let foreign = &books.nodes.get(&node.name)?.foreign;
    let promises = ledger.promises().filter(|(_, one)| one.placement.node == node.name);
    let promised: Vec<Booking> =
        promises.flat_map(|(_, one)| one.charges.iter().map(Booking::from_charge)).collect();
    let kind = &node.devices.first()?.kind;
    let mut free = Vec::new();
    for (ordinal, device) in node.devices.iter().enumerate() {
        let here = books.on_device(&node.name, ordinal).filter(|(id, _)| stays(id));
        let here = here.map(|(_, booking)| booking);
        let here: Vec<&Booking> =
            here.chain(promised.iter().filter(|one| one.on.contains(&ordinal))).collect();
        if device.kind != *kind || here.iter().any(|booking| booking.floats()) {
            return None;
        }
        let room = view.room.devices().get(ordinal)?;
        let is_open = device.health == Health::Healthy
            && !device.cordoned
            && device.sharing == Sharing::Shares
            && device.geometry.is_none()
            && !room.closed()
            && !matches!(room.telemetry(), Telemetry::Stale { .. })
            && here.iter().all(|booking| matches!(booking.amount, books::Amount::Share(_)));
        let held: u128 = here.iter().map(|booking| booking.bytes()).sum();
        let tokens: u128 = here.iter().map(|booking| booking.slots).sum();
        let left = usable(device).and_then(|usable| usable.checked_sub(held + foreign[ordinal]));
        if let Some(left) = left.filter(|_| is_open) {
            let all = device.slots.map_or(u128::from(u32::MAX), u128::from);
            free.push((left, all.saturating_sub(tokens)));
        }
    }
    Some(free)
}
