//! Cards that several pods share while one of them does not say how much memory it takes: nothing bounds them.

use std::collections::BTreeMap;

use plimsoll_core::charge::{Booked, Charge, Holding, HoldingId};
use plimsoll_core::ledger::{Ledger, NodeId};
use plimsoll_core::room::NodeView;
use plimsoll_core::units::Name;

use crate::finding::{Finding, Severity};

use super::{Holder, named};

const REMEDY: &str = "declare memory on these pods (annotation gpu-memory, or resource nvidia.com/gpumem), or give them \
                      cards of their own";

/// Somebody on a card, or perhaps on it.
type Tenant<'a> = (HoldingId, &'a Holding, &'a Charge);

/// The cards of a node where that is so; where it is not known which card a pod is on, the node.
pub(super) fn on_node(ledger: &Ledger, id: NodeId, view: &NodeView) -> Vec<Finding> {
    let mut cards: BTreeMap<u16, Vec<Tenant<'_>>> = BTreeMap::new();
    for (holder, holding) in ledger.holdings_on(id) {
        for charge in &holding.charges {
            charge
                .on
                .iter()
                .for_each(|on| cards.entry(*on).or_default().push((holder, holding, charge)));
        }
    }
    let mut findings: Vec<Finding> =
        cards.iter().filter_map(|(ordinal, tenants)| on_card(view, *ordinal, tenants)).collect();
    findings.extend(somewhere(view, &cards));
    findings
}

fn on_card(view: &NodeView, ordinal: u16, tenants: &[Tenant<'_>]) -> Option<Finding> {
    let surely = tenants.iter().copied().filter(|(_, _, charge)| !charge.floats());
    let found = shared(view, surely, "shared, with nothing that bounds the memory of each")?;
    Some(Finding { uuid: Some(view.node.device_label(usize::from(ordinal)).into()), ..found })
}

/// Tenants of which the device plugin alone knows the card: more than one of them may be on the same, and beside those
/// whose card is known.
fn somewhere(view: &NodeView, cards: &BTreeMap<u16, Vec<Tenant<'_>>>) -> Option<Finding> {
    let unbounded = |charge: &Charge| charge.floats() && charge.amount == Booked::Undeclared;
    let unbounded =
        |tenants: &&Vec<Tenant<'_>>| tenants.iter().any(|(_, _, charge)| unbounded(charge));
    let possible: Vec<&Vec<Tenant<'_>>> = cards.values().filter(unbounded).collect();
    let what = format!(
        "on {} cards that the device plugin shares out, with nothing that bounds the memory of each",
        possible.len()
    );
    shared(view, possible.into_iter().flatten().copied(), &what)
}

fn shared<'a>(
    view: &NodeView,
    tenants: impl Iterator<Item = Tenant<'a>>,
    what: &str,
) -> Option<Finding> {
    let holders = holders(tenants);
    let undeclared = holders.iter().filter(|(_, is_undeclared)| *is_undeclared).count();
    if holders.len() < 2 || undeclared == 0 {
        return None;
    }
    let words: Vec<String> = holders.iter().map(|(holder, _)| holder.words()).collect();
    Some(Finding {
        code: "memory-undeclared",
        severity: Severity::Warning,
        node: Some(Name::clone(&view.node.name)),
        uuid: None,
        message: format!("{what}: {}", named(&words)),
        numbers: [("tenants", holders.len() as u64), ("undeclared", undeclared as u64)].into(),
        remedy: REMEDY.to_owned(),
    })
}

/// One for each pod, in the order in which they came, however many of its charges are there; with whether it is undeclared.
fn holders<'a>(tenants: impl Iterator<Item = Tenant<'a>>) -> Vec<(Holder, bool)> {
    let mut holders: BTreeMap<HoldingId, (Holder, bool)> = BTreeMap::new();
    for (id, holding, charge) in tenants {
        let is_undeclared = charge.amount == Booked::Undeclared;
        let here = || (Holder::of(holding, charge), is_undeclared);
        let known = holders.entry(id).or_insert_with(here);
        if is_undeclared && !known.1 {
            *known = here();
        }
    }
    holders.into_values().collect()
}
