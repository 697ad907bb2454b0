//! Everything that is wrong in a cluster: what was found while it was read, and what its ledger shows once it is filled.

mod breaches;
mod undeclared;

use plimsoll_core::breach;
use plimsoll_core::charge::{Booked, Charge, Holding};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::units::{Bytes, Name};

use crate::cluster::Cluster;
use crate::finding::{Finding, Severity};

/// A message names so many tenants at most, and counts the rest.
const NAMED: usize = 16;

/// The findings of a cluster whose nodes and running pods stand in this ledger: the worst first, then by node and device.
pub fn audit(cluster: &Cluster, ledger: &Ledger) -> Vec<Finding> {
    let mut findings = cluster.findings.clone();
    findings.extend(breach::audit(ledger).iter().map(|breach| breaches::finding(ledger, breach)));
    findings.extend(ledger.nodes().flat_map(|(id, view)| undeclared::on_node(ledger, id, view)));
    findings.sort_by(|one, other| key(one).cmp(&key(other)));
    findings
}

type Key<'a> = (Severity, &'a Option<Name>, &'a Option<Name>, &'static str, &'a str);

fn key(finding: &Finding) -> Key<'_> {
    (finding.severity, &finding.node, &finding.uuid, finding.code, &finding.message)
}

/// Somebody on a card, as a message names them.
struct Holder {
    name: Name,
    /// What it holds there, in words.
    amount: String,
    is_releasing: bool,
}

impl Holder {
    fn of(holding: &Holding, charge: &Charge) -> Holder {
        let amount = match charge.amount {
            Booked::Undeclared => "undeclared".to_owned(),
            Booked::Whole { bytes: None } => "the whole card".to_owned(),
            Booked::Whole { bytes: Some(bytes) } => bytes.to_string(),
            Booked::Share(bytes) => Bytes::new(bytes.get()).to_string(),
        };
        let name = holding.request.to_string().into();
        Holder { name, amount, is_releasing: holding.stage.is_releasing() }
    }

    fn words(&self) -> String {
        let leaving = if self.is_releasing { ", being given back" } else { "" };
        format!("{} ({}{leaving})", self.name, self.amount)
    }
}

/// The first of them by name and amount, and how many more there are.
fn named(words: &[String]) -> String {
    let shown = words.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match words.len().checked_sub(NAMED) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests;
