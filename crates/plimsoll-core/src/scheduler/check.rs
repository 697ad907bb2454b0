//! Stage 4: checks nodes for breaches.

use super::{Scope, Step};
use crate::breach::{self, Breach};
use crate::ledger::NodeId;
use crate::room::Measured;
use crate::units::Name;

impl Step<'_> {
    /// Checks nodes for breaches. A device whose sums differ from its holdings is closed.
    pub(super) fn check(&mut self, scope: Scope) {
        let ledger = &self.scheduler.ledger;
        let nodes =
            scope.nodes(ledger).unwrap_or_else(|| ledger.nodes().map(|(id, _)| id).collect());
        for id in nodes {
            let breaches = breach::audit_node(&self.scheduler.ledger, id);
            for breach in &breaches {
                if let Breach::SumsDiffer { node, ordinal, .. } = breach {
                    self.close_device(id, node, *ordinal);
                }
            }
            self.outcome.breaches.extend(breaches);
        }
    }

    fn close_device(&mut self, id: NodeId, node: &Name, ordinal: u16) {
        let measured = self.scheduler.ledger.measured(id)[usize::from(ordinal)];
        let closed = Measured { closed: true, ..measured };
        let recorded = self.scheduler.ledger.measure(node, ordinal, closed);
        self.record_if_accepted(recorded);
    }
}
