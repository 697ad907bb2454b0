//! The audit of a cluster: problems found while reading it, and problems of its filled ledger.

mod breaches;
mod resources;
mod undeclared;

use plimsoll_core::breach;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::units::Name;

use crate::cluster::Cluster;
use crate::finding::{Finding, Severity};

/// Lists the findings of a cluster whose nodes and running pods are in this ledger: worst first,
/// then by node and device.
pub fn audit(cluster: &Cluster, ledger: &Ledger) -> Vec<Finding> {
    with_ledger(cluster.findings.clone(), ledger)
}

/// Adds the findings about a ledger to those about the objects that filled it, and sorts them.
pub fn with_ledger(mut findings: Vec<Finding>, ledger: &Ledger) -> Vec<Finding> {
    findings.extend(breach::audit(ledger).iter().map(|breach| breaches::finding(ledger, breach)));
    findings.extend(ledger.nodes().flat_map(|(id, view)| undeclared::on_node(ledger, id, view)));
    findings.extend(ledger.nodes().flat_map(|(id, view)| resources::on_node(ledger, id, view)));
    findings.sort_by_cached_key(sort_key);
    findings
}

type SortKey = (Severity, Option<Name>, Option<Name>, &'static str, String);

fn sort_key(finding: &Finding) -> SortKey {
    let Finding { node, device, .. } = finding;
    let code = finding.code().as_str();
    (finding.severity(), node.clone(), device.clone(), code, finding.message())
}

#[cfg(test)]
mod tests;
