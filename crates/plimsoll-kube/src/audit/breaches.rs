//! Breaches of the ledger as findings.

use plimsoll_core::breach::Breach;
use plimsoll_core::charge::Charge;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::room::NodeView;
use plimsoll_core::units::{Bytes, Name};

use crate::finding::{Finding, LedgerProblem, Problem, Tenant};

/// Converts a breach into a finding.
pub(super) fn finding(ledger: &Ledger, breach: &Breach) -> Finding {
    let view = ledger.view_of(breach.node());
    let (ordinal, problem) = match breach {
        Breach::OverLine { ordinal, usable, held, over_by, .. } => {
            let problem = LedgerProblem::DeviceOverLine {
                usable: *usable,
                held: *held,
                over_by: *over_by,
                tenants: view.map_or_else(Vec::new, |view| tenants(ledger, view, *ordinal)),
                foreign: view.map_or(Bytes::ZERO, |view| foreign(view, *ordinal)),
            };
            (Some(*ordinal), problem)
        }
        Breach::NoAssignment { usable, held, holders, .. } => {
            let problem = LedgerProblem::NodeOverLine {
                usable: *usable,
                held: *held,
                cards: view.map_or(0, |view| view.node.devices.len()),
                holders: holders.clone(),
            };
            (None, problem)
        }
        Breach::SlicesOverlap { ordinal, holders, .. } => {
            (Some(*ordinal), LedgerProblem::SlicesOverlap { holders: holders.clone() })
        }
        Breach::SumsDiffer { ordinal, sum, holdings, .. } => {
            (Some(*ordinal), LedgerProblem::SumsDiffer { sum: *sum, holdings: *holdings })
        }
    };
    let label = |view: &NodeView, ordinal: u16| view.node.device_label(usize::from(ordinal));
    let device = view.zip(ordinal).map(|(view, ordinal)| Name::from(label(view, ordinal)));
    Finding { node: Some(breach.node().clone()), device, problem: Problem::Ledger(problem) }
}

/// Lists the pods that are certainly on this card.
fn tenants(ledger: &Ledger, view: &NodeView, ordinal: u16) -> Vec<Tenant> {
    let id = ledger.node_id(&view.node.name);
    let holdings = id.into_iter().flat_map(|id| ledger.holdings_on(id)).map(|(_, holding)| holding);
    let is_here = |charge: &&Charge| charge.on == [ordinal];
    let tenants = holdings.flat_map(|holding| {
        let charges = holding.charges.iter().filter(is_here);
        charges.map(move |charge| Tenant::new(holding, charge))
    });
    tenants.collect()
}

fn foreign(view: &NodeView, ordinal: u16) -> Bytes {
    view.room.devices().get(usize::from(ordinal)).map_or(Bytes::ZERO, |room| room.foreign())
}
