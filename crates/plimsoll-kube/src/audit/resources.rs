//! Named resources, such as the tokens of a device plugin, of which pods hold more than there are.

use plimsoll_core::ledger::{Ledger, NodeId};
use plimsoll_core::room::NodeView;
use plimsoll_core::units::Name;

use crate::finding::{Finding, LedgerProblem, Problem};

/// Lists the resources of a node that are exceeded. A resource that the node does not list is not
/// judged: its status may be incomplete.
pub(super) fn on_node(ledger: &Ledger, id: NodeId, view: &NodeView) -> Vec<Finding> {
    let allocatable = &view.node.allocatable.extended;
    let exceeded = view.room.extended_in_use().filter_map(|(resource, used)| {
        let allocatable = allocatable.get(resource);
        let exceeds = allocatable > 0 && used > u128::from(allocatable);
        exceeds.then(|| (resource, allocatable, u64::try_from(used).unwrap_or(u64::MAX)))
    });
    let finding = |(resource, allocatable, used): (&Name, u64, u64)| Finding {
        node: Some(view.node.name.clone()),
        device: None,
        problem: Problem::Ledger(LedgerProblem::ResourceOverLine {
            resource: resource.clone(),
            allocatable,
            used,
            holders: holders(ledger, id, resource),
        }),
    };
    exceeded.map(finding).collect()
}

fn holders(ledger: &Ledger, id: NodeId, resource: &str) -> Vec<Name> {
    let holdings = ledger.holdings_on(id).map(|(_, holding)| holding);
    let holders = holdings.filter(|holding| holding.resources.extended.get(resource) > 0);
    holders.map(|holding| holding.request.to_string().into()).collect()
}
