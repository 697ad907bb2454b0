//! Everything that is wrong with a ledger, found from outside: summed anew from the holdings, not read from the sums.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::charge::{Booked, Charge, Holding};
use crate::ledger::{Ledger, NodeId};
use crate::room::{DeviceRoom, NodeView};
use crate::units::{Bytes, Name};

/// One thing that is wrong with a ledger, or with the reality that it recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Breach {
    /// A device holds more than it has.
    OverLine {
        /// The node.
        node: Name,
        /// The device.
        ordinal: u16,
        /// What may be used there.
        usable: Bytes,
        /// What is held there for certain: booked, being given back, and foreign.
        held: Bytes,
        /// By how much that is too much.
        over_by: Bytes,
        /// Who holds it.
        holders: Vec<Name>,
    },
    /// However the plugin spread them over the cards, its tenants do not fit.
    NoAssignment {
        /// The node.
        node: Name,
        /// What may be used of all its cards together.
        usable: Bytes,
        /// What is held there in all.
        held: Bytes,
        /// Who holds it.
        holders: Vec<Name>,
    },
    /// The ledger's sum is not the sum of its holdings: a fault in this program.
    SumsDiffer {
        /// The node.
        node: Name,
        /// The device.
        ordinal: u16,
        /// The ledger's sum.
        sum: Bytes,
        /// The sum of its holdings.
        holdings: Bytes,
    },
    /// Two tenants sit in the same hardware slice.
    SlicesOverlap {
        /// The node.
        node: Name,
        /// The device.
        ordinal: u16,
        /// Who sits there.
        holders: Vec<Name>,
    },
}

impl Breach {
    /// The node it is on.
    pub fn node(&self) -> &Name {
        match self {
            Breach::OverLine { node, .. }
            | Breach::NoAssignment { node, .. }
            | Breach::SumsDiffer { node, .. }
            | Breach::SlicesOverlap { node, .. } => node,
        }
    }
}

/// Everything that is wrong on any device.
pub fn audit(ledger: &Ledger) -> Vec<Breach> {
    ledger.nodes().flat_map(|(id, _)| audit_node(ledger, id)).collect()
}

/// Everything that is wrong on the devices of one node.
pub fn audit_node(ledger: &Ledger, id: NodeId) -> Vec<Breach> {
    let Some(view) = ledger.view(id) else {
        return Vec::new();
    };
    let holdings: Vec<&Holding> = ledger.holdings_on(id).map(|(_, holding)| holding).collect();
    let mut breaches = Vec::new();
    for (ordinal, room) in (0_u16..).zip(view.room.devices()) {
        let on: Vec<(&Holding, &Charge)> = charges_on(&holdings, ordinal).collect();
        breaches.extend(sums_differ(view, ordinal, room, &on));
        breaches.extend(over_line(view, ordinal, room, &on));
        breaches.extend(slices_overlap(view, ordinal, &on));
    }
    if !breaches.iter().any(|breach| matches!(breach, Breach::OverLine { .. })) {
        breaches.extend(no_assignment(view, &holdings));
    }
    breaches
}

fn charges_on<'a>(holdings: &[&'a Holding], ordinal: u16) -> impl Iterator<Item = (&'a Holding, &'a Charge)> {
    let on = move |charge: &&Charge| charge.on.contains(&ordinal);
    holdings.iter().copied().flat_map(move |h| h.charges.iter().filter(on).map(move |charge| (h, charge)))
}

fn sum<'a>(charges: impl Iterator<Item = &'a Charge>) -> Bytes {
    charges.fold(Bytes::ZERO, |sum, charge| sum.plus(charge.bytes().unwrap_or(Bytes::ZERO)))
}

fn sums_differ(
    view: &NodeView,
    ordinal: u16,
    room: &DeviceRoom,
    on: &[(&Holding, &Charge)],
) -> Option<Breach> {
    let holdings = sum(on.iter().map(|(_, charge)| *charge));
    let booked = room.load().less(room.foreign());
    (booked != holdings).then(|| Breach::SumsDiffer {
        node: view.node.name.clone(),
        ordinal,
        sum: booked,
        holdings,
    })
}

fn over_line(view: &NodeView, ordinal: u16, room: &DeviceRoom, on: &[(&Holding, &Charge)]) -> Option<Breach> {
    let usable = view.node.devices[usize::from(ordinal)].memory.usable()?;
    let surely = || on.iter().filter(|(_, charge)| !charge.floats());
    let held = sum(surely().map(|(_, charge)| *charge)).plus(room.foreign());
    (held > usable).then(|| Breach::OverLine {
        node: view.node.name.clone(),
        ordinal,
        usable,
        held,
        over_by: held.less(usable),
        holders: names(surely().map(|(holding, _)| *holding)),
    })
}

fn slices_overlap(view: &NodeView, ordinal: u16, on: &[(&Holding, &Charge)]) -> Option<Breach> {
    let mut taken = 0_u64;
    let mut overlap = false;
    for mask in on.iter().filter_map(|(_, charge)| charge.slice.as_ref()).map(|slice| slice.span.mask()) {
        overlap |= taken & mask != 0;
        taken |= mask;
    }
    let holders = || names(on.iter().filter(|(_, c)| c.slice.is_some()).map(|(holding, _)| *holding));
    overlap.then(|| Breach::SlicesOverlap { node: view.node.name.clone(), ordinal, holders: holders() })
}

fn names<'a>(holdings: impl Iterator<Item = &'a Holding>) -> Vec<Name> {
    let mut names: Vec<Name> = holdings.map(|holding| Name::from(holding.request.to_string())).collect();
    names.dedup();
    names
}

/// Steps after which it is not claimed that no assignment exists.
const ASSIGNMENT_STEPS: u32 = 100_000;

/// Whether tenants of unknown cards cannot all be somewhere, whichever cards they got.
fn no_assignment(view: &NodeView, holdings: &[&Holding]) -> Option<Breach> {
    let mut floating: Vec<&Charge> =
        holdings.iter().flat_map(|h| h.charges.iter().filter(|c| c.floats())).collect();
    if floating.is_empty() {
        return None;
    }
    let mut free: BTreeMap<u16, Bytes> = BTreeMap::new();
    for (ordinal, device) in (0_u16..).zip(&view.node.devices) {
        let surely = charges_on(holdings, ordinal).filter(|(_, c)| !c.floats()).map(|(_, charge)| charge);
        let foreign = view.room.devices()[usize::from(ordinal)].foreign();
        free.insert(ordinal, device.memory.usable()?.less(sum(surely).plus(foreign)));
    }
    floating.sort_by_key(|charge| std::cmp::Reverse(charge.bytes()));
    let mut steps = ASSIGNMENT_STEPS;
    (assign(&floating, &mut free, &mut steps) == Some(false)).then(|| Breach::NoAssignment {
        node: view.node.name.clone(),
        usable: view
            .room
            .devices()
            .iter()
            .fold(Bytes::ZERO, |sum, room| sum.plus(room.usable().unwrap_or_default())),
        held: sum(holdings.iter().flat_map(|holding| &holding.charges)),
        holders: names(holdings.iter().copied().filter(|h| !h.charges.is_empty())),
    })
}

/// Whether every charge finds a card; `None` when the steps ran out.
fn assign(charges: &[&Charge], free: &mut BTreeMap<u16, Bytes>, steps: &mut u32) -> Option<bool> {
    let Some((charge, rest)) = charges.split_first() else {
        return Some(true);
    };
    let need = match charge.amount {
        Booked::Undeclared => Bytes::ZERO,
        _ => charge.bytes().unwrap_or(Bytes::ZERO),
    };
    let mut tried = Vec::new();
    for ordinal in &charge.on {
        let left = free.get(ordinal).copied().unwrap_or(Bytes::ZERO);
        if left < need || tried.contains(&left) {
            continue;
        }
        tried.push(left);
        *steps = steps.checked_sub(1)?;
        free.insert(*ordinal, left.less(need));
        let found = assign(rest, free, steps);
        free.insert(*ordinal, left);
        if found != Some(false) {
            return found;
        }
    }
    Some(false)
}
