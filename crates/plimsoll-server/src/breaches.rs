//! The current breaches, compared from batch to batch.

use std::collections::BTreeMap;

use plimsoll_core::breach::{self, Breach};
use plimsoll_core::front::Front;
use plimsoll_core::units::Name;

use plimsoll_engine::engine::Decided;

/// Everything that is known to be wrong.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    known: BTreeMap<Name, Vec<Breach>>,
}

/// The difference from the batch before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Breaches that are new.
    pub(crate) found: Vec<Breach>,
    /// Breaches that ended.
    pub(crate) over: Vec<Breach>,
}

impl Watch {
    /// Audits again every node that had a breach or is reported to have one.
    pub(crate) fn update<F: Front>(&mut self, decided: &Decided<'_, F>) -> Changed {
        let reported = decided.outputs.iter().flat_map(|output| &output.outcome.breaches);
        for breach in reported {
            self.known.entry(breach.node().clone()).or_default();
        }
        let ledger = decided.scheduler.ledger();
        let mut changed = Changed::default();
        for (node, known) in &mut self.known {
            let now =
                ledger.node_id(node).map(|id| breach::audit_node(ledger, id)).unwrap_or_default();
            changed.found.extend(now.iter().filter(|breach| !has(known, breach)).cloned());
            changed.over.extend(known.iter().filter(|breach| !has(&now, breach)).cloned());
            *known = now;
        }
        self.known.retain(|_, breaches| !breaches.is_empty());
        changed
    }

    /// Lists the breaches that exist now.
    pub(crate) fn now(&self) -> impl Iterator<Item = &Breach> {
        self.known.values().flatten()
    }
}

/// Returns the kind of a breach as metrics and logs name it.
pub(crate) fn kind(breach: &Breach) -> &'static str {
    match breach {
        Breach::OverLine { .. } => "over_line",
        Breach::NoAssignment { .. } => "no_assignment",
        Breach::SumsDiffer { .. } => "sums_differ",
        Breach::SlicesOverlap { .. } => "slices_overlap",
    }
}

/// The kinds there are.
pub(crate) const KINDS: [&str; 4] = ["over_line", "no_assignment", "sums_differ", "slices_overlap"];

/// Returns true if the same breach is present, whatever its amount.
fn has(breaches: &[Breach], breach: &Breach) -> bool {
    breaches.iter().any(|other| place(other) == place(breach))
}

fn place(breach: &Breach) -> (&'static str, &Name, Option<u16>) {
    let ordinal = match breach {
        Breach::OverLine { ordinal, .. }
        | Breach::SumsDiffer { ordinal, .. }
        | Breach::SlicesOverlap { ordinal, .. } => Some(*ordinal),
        Breach::NoAssignment { .. } => None,
    };
    (kind(breach), breach.node(), ordinal)
}
