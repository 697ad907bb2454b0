//! Cards that several pods share while one of them declares no memory, so that nothing limits it.

use std::collections::BTreeMap;

use plimsoll_core::charge::{Booked, Charge, Holding, HoldingId};
use plimsoll_core::ledger::{Ledger, NodeId};
use plimsoll_core::room::NodeView;
use plimsoll_core::units::Name;

use crate::finding::{Finding, LedgerProblem, Problem, Tenant, UnboundedCards};

/// A charge on a card, or one that can be on it.
type CardCharge<'a> = (HoldingId, &'a Holding, &'a Charge);

/// Finds such cards of a node, or reports the node where the card of a pod is unknown.
pub(super) fn on_node(ledger: &Ledger, id: NodeId, view: &NodeView) -> Vec<Finding> {
    let mut cards: BTreeMap<u16, Vec<CardCharge<'_>>> = BTreeMap::new();
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

fn on_card(view: &NodeView, ordinal: u16, charges: &[CardCharge<'_>]) -> Option<Finding> {
    let certain = charges.iter().copied().filter(|(_, _, charge)| !charge.floats());
    let device = Name::from(view.node.device_label(usize::from(ordinal)));
    unbounded(view, Some(device), UnboundedCards::One, certain)
}

/// Finds pods whose card only the device plugin knows: several of them can be on the same card, and
/// beside pods whose card is known.
fn somewhere(view: &NodeView, cards: &BTreeMap<u16, Vec<CardCharge<'_>>>) -> Option<Finding> {
    let possible: Vec<&Vec<CardCharge<'_>>> =
        cards.values().filter(|charges| charges.iter().any(floats_undeclared)).collect();
    let cards = UnboundedCards::AnyOf(possible.len());
    unbounded(view, None, cards, possible.into_iter().flatten().copied())
}

fn floats_undeclared((_, _, charge): &CardCharge<'_>) -> bool {
    charge.floats() && charge.amount == Booked::Undeclared
}

fn unbounded<'a>(
    view: &NodeView,
    device: Option<Name>,
    cards: UnboundedCards,
    charges: impl Iterator<Item = CardCharge<'a>>,
) -> Option<Finding> {
    let tenants = tenants(charges);
    let undeclared = tenants.iter().filter(|one| one.amount == Booked::Undeclared).count();
    if tenants.len() < 2 || undeclared == 0 {
        return None;
    }
    let problem = LedgerProblem::MemoryUndeclared { cards, tenants, undeclared };
    let node = Some(Name::clone(&view.node.name));
    Some(Finding { node, device, problem: Problem::Ledger(problem) })
}

/// Lists each pod once, in order of arrival. Of several charges of a pod an undeclared one counts.
fn tenants<'a>(charges: impl Iterator<Item = CardCharge<'a>>) -> Vec<Tenant> {
    let mut tenants: BTreeMap<HoldingId, Tenant> = BTreeMap::new();
    for (id, holding, charge) in charges {
        let tenant = tenants.entry(id).or_insert_with(|| Tenant::new(holding, charge));
        if charge.amount == Booked::Undeclared {
            *tenant = Tenant::new(holding, charge);
        }
    }
    tenants.into_values().collect()
}
