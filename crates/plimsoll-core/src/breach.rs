//! Breaches: contradictions between a ledger, its own sums, and the memory of the devices.
//!
//! An audit adds up the holdings again instead of reading the ledger's sums, so that it also finds
//! a wrong sum. It is the only other place that adds up device memory, and nothing is decided by
//! it: it closes devices and reports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::charge::{Booked, Charge, Holding, Stage};
use crate::ledger::{Ledger, NodeId};
use crate::room::{DeviceRoom, NodeView};
use crate::units::{Bytes, Name};

/// A contradiction in a ledger, or in the reality that it recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Breach {
    /// The certain holdings of a device exceed its usable memory.
    OverLine {
        node: Name,
        ordinal: u16,
        usable: Bytes,
        /// Charges on this device alone, also of holders that are releasing, and foreign memory.
        held: Bytes,
        over_by: Bytes,
        holders: Vec<Name>,
    },
    /// No assignment of the floating charges to the cards of a node fits.
    NoAssignment {
        node: Name,
        /// The usable memory of all cards together.
        usable: Bytes,
        /// The charges on all cards together.
        held: Bytes,
        holders: Vec<Name>,
    },
    /// The ledger's sum differs from the sum over its holdings: a bug in this program.
    SumsDiffer { node: Name, ordinal: u16, sum: Bytes, holdings: Bytes },
    /// Two tenants have the same hardware slice.
    SlicesOverlap { node: Name, ordinal: u16, holders: Vec<Name> },
}

impl Breach {
    /// Returns the node of the breach.
    pub fn node(&self) -> &Name {
        match self {
            Breach::OverLine { node, .. }
            | Breach::NoAssignment { node, .. }
            | Breach::SumsDiffer { node, .. }
            | Breach::SlicesOverlap { node, .. } => node,
        }
    }
}

/// Returns the breaches of all nodes.
pub fn audit(ledger: &Ledger) -> Vec<Breach> {
    ledger.nodes().flat_map(|(id, _)| audit_node(ledger, id)).collect()
}

/// Returns the breaches of one node.
pub fn audit_node(ledger: &Ledger, id: NodeId) -> Vec<Breach> {
    let Some(view) = ledger.view(id) else {
        return Vec::new();
    };
    let holdings: Vec<&Holding> = ledger.holdings_on(id).map(|(_, holding)| holding).collect();
    let mut tallies = vec![Tally::default(); view.room.devices().len()];
    for holding in &holdings {
        for charge in &holding.charges {
            for ordinal in &charge.on {
                if let Some(tally) = tallies.get_mut(usize::from(*ordinal)) {
                    tally.count(charge, holding.stage);
                }
            }
        }
    }
    let mut breaches = Vec::new();
    for ((ordinal, room), tally) in (0_u16..).zip(view.room.devices()).zip(tallies) {
        let device = Audited { view, ordinal, room, tally, holdings: &holdings };
        breaches.extend(device.sums_differ());
        breaches.extend(device.over_line());
        breaches.extend(device.slices_overlap());
    }
    if !breaches.iter().any(|breach| matches!(breach, Breach::OverLine { .. })) {
        breaches.extend(no_assignment(view, &holdings));
    }
    breaches
}

fn charges_on<'a>(
    holdings: &[&'a Holding],
    ordinal: u16,
) -> impl Iterator<Item = (&'a Holding, &'a Charge)> {
    let on = move |charge: &&Charge| charge.on.contains(&ordinal);
    holdings
        .iter()
        .copied()
        .flat_map(move |h| h.charges.iter().filter(on).map(move |charge| (h, charge)))
}

fn sum<'a>(charges: impl Iterator<Item = &'a Charge>) -> Bytes {
    charges.fold(Bytes::ZERO, |sum, charge| sum.plus(charge.bytes().unwrap_or(Bytes::ZERO)))
}

/// The sums of the charges on one device, from the holdings and not from its room.
#[derive(Clone, Default)]
struct Tally {
    /// All charges that may be on the device, without those in `tokened`.
    booked: Bytes,
    /// Floating charges that take a token of the plugin: as many of them as the card has tokens
    /// left can meet here.
    tokened: Vec<Bytes>,
    /// The tokens that charges on this very card hold.
    pinned: u64,
    /// The charges that are certainly on it: all but the floating ones.
    certain: Bytes,
    /// The occupied slices, as bits.
    slices: u64,
    /// Two charges occupy the same slice.
    overlap: bool,
}

impl Tally {
    fn count(&mut self, charge: &Charge, stage: Stage) {
        let bytes = charge.bytes().unwrap_or(Bytes::ZERO);
        let stays = !stage.is_releasing();
        if stays && charge.floats() && charge.slots > 0 && charge.parts.len() < 2 {
            self.tokened.push(bytes);
        } else {
            self.booked = self.booked.plus(bytes);
        }
        if !charge.floats() {
            self.certain = self.certain.plus(bytes);
            self.pinned += if stays { u64::from(charge.slots) } else { 0 };
        }
        let mask = charge.slice.as_ref().map_or(0, |slice| slice.span.mask());
        self.overlap |= self.slices & mask != 0;
        self.slices |= mask;
    }

    /// Returns the most that can be on a card with this number of slots.
    fn most(&self, slots: Option<u32>) -> Bytes {
        let tokens = slots.and_then(|slots| u64::from(slots).checked_sub(self.pinned));
        let tokens = tokens.and_then(|tokens| usize::try_from(tokens).ok());
        let mut tokened = self.tokened.clone();
        tokened.sort_unstable();
        let meeting = tokens.unwrap_or(tokened.len());
        tokened.into_iter().rev().take(meeting).fold(self.booked, Bytes::plus)
    }
}

/// One device with its room and the sums of its holders' charges.
struct Audited<'a> {
    view: &'a NodeView,
    ordinal: u16,
    room: &'a DeviceRoom,
    tally: Tally,
    holdings: &'a [&'a Holding],
}

impl Audited<'_> {
    fn sums_differ(&self) -> Option<Breach> {
        let slots = self.view.node.devices[usize::from(self.ordinal)].slots;
        let (sum, holdings) = (self.room.load().less(self.room.foreign()), self.tally.most(slots));
        (sum != holdings).then(|| Breach::SumsDiffer {
            node: self.view.node.name.clone(),
            ordinal: self.ordinal,
            sum,
            holdings,
        })
    }

    fn over_line(&self) -> Option<Breach> {
        let usable = self.view.node.devices[usize::from(self.ordinal)].memory.usable()?;
        let held = self.tally.certain.plus(self.room.foreign());
        (held > usable).then(|| Breach::OverLine {
            node: self.view.node.name.clone(),
            ordinal: self.ordinal,
            usable,
            held,
            over_by: held.less(usable),
            holders: self.holders(|charge| !charge.floats()),
        })
    }

    fn slices_overlap(&self) -> Option<Breach> {
        self.tally.overlap.then(|| Breach::SlicesOverlap {
            node: self.view.node.name.clone(),
            ordinal: self.ordinal,
            holders: self.holders(|charge| charge.slice.is_some()),
        })
    }

    fn holders(&self, counts: impl Fn(&Charge) -> bool) -> Vec<Name> {
        let on = charges_on(self.holdings, self.ordinal).filter(|(_, charge)| counts(charge));
        names(on.map(|(holding, _)| holding))
    }
}

fn names<'a>(holdings: impl Iterator<Item = &'a Holding>) -> Vec<Name> {
    let mut names: Vec<Name> =
        holdings.map(|holding| Name::from(holding.request.to_string())).collect();
    names.dedup();
    names
}

/// The bound of the search for an assignment. Beyond it no breach is reported.
const ASSIGNMENT_STEPS: u32 = 100_000;

/// Reports a breach if the floating charges of a node fit its cards in no assignment.
///
/// A floating charge is booked on every card that the plugin may have picked, so that no single
/// card shows the overload. The search assigns the largest charge first, one card after the other,
/// and skips cards with equal free memory. It ends after `ASSIGNMENT_STEPS`: packing is NP-hard,
/// and an audit must not stall a step. Comparing only the sums was rejected: three charges of
/// 5 GiB do not fit two cards of 8 GiB.
fn no_assignment(view: &NodeView, holdings: &[&Holding]) -> Option<Breach> {
    let mut floating: Vec<&Charge> =
        holdings.iter().flat_map(|h| h.charges.iter().filter(|c| c.floats())).collect();
    if floating.is_empty() {
        return None;
    }
    let mut free: BTreeMap<u16, Bytes> = BTreeMap::new();
    for (ordinal, device) in (0_u16..).zip(&view.node.devices) {
        let certain =
            charges_on(holdings, ordinal).filter(|(_, c)| !c.floats()).map(|(_, charge)| charge);
        let foreign = view.room.devices()[usize::from(ordinal)].foreign();
        free.insert(ordinal, device.memory.usable()?.less(sum(certain).plus(foreign)));
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

/// Returns true if every charge finds a card; `None` if the steps run out.
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
