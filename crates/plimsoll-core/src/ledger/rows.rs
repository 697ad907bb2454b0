//! The rows of a ledger, to save and to start again from. The sums are not among them: they are summed anew.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Entry, Ledger, NodeId, Promise};
use crate::charge::{Holding, HoldingId};
use crate::device::Node;
use crate::request::RequestId;
use crate::room::Measured;

/// The rows of a ledger, to save and to start again from. The sums are not among them: they are summed anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerRows {
    /// The revision.
    pub revision: u64,
    /// The number of the next holding.
    pub next_holding: u64,
    /// The nodes with what was measured there.
    pub nodes: Vec<NodeRow>,
    /// The holdings with their numbers.
    pub holdings: Vec<(HoldingId, Arc<Holding>)>,
    /// The promises.
    pub promises: Vec<(RequestId, Promise)>,
}

/// A node as it is saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRow {
    /// Its facts, gone devices included.
    pub node: Arc<Node>,
    /// What was measured on its devices.
    pub measured: Vec<Measured>,
    /// Whether it goes with its last holding.
    pub leaving: bool,
}

impl Ledger {
    /// The rows to save.
    pub fn rows(&self) -> LedgerRows {
        let row = |id: NodeId| {
            let Entry { measured, leaving, .. } = self.entry(id);
            NodeRow {
                node: self.view_at(id).node.clone(),
                measured: measured.clone(),
                leaving: *leaving,
            }
        };
        LedgerRows {
            revision: self.revision,
            next_holding: self.next_holding,
            nodes: self.by_name.values().map(|id| row(*id)).collect(),
            holdings: self.holdings.iter().map(|(id, holding)| (*id, holding.clone())).collect(),
            promises: self
                .promises
                .iter()
                .map(|(id, promise)| (id.clone(), promise.clone()))
                .collect(),
        }
    }

    /// The ledger that rows describe, summed anew; an error says which row contradicts the others.
    pub fn from_rows(rows: LedgerRows) -> Result<Self, String> {
        let mut ledger = Ledger::default();
        for row in rows.nodes {
            let name = &row.node.name;
            if ledger.by_name.contains_key(name) {
                return Err(format!("node {name} is there twice"));
            }
            if row.measured.len() != row.node.devices.len() {
                return Err(format!("node {name} has not one measurement for each device"));
            }
            ledger.apply_put_new(&row.node);
            let entry = ledger.nodes.last_mut().and_then(Option::as_mut).expect("just put");
            (entry.measured, entry.leaving) = (row.measured, row.leaving);
        }
        for (id, holding) in rows.holdings {
            let holding = holding.bounded();
            let node = ledger
                .node_id(&holding.node)
                .ok_or_else(|| format!("{} is on no node", holding.request))?;
            let devices = ledger.view_at(node).node.devices.len();
            if holding
                .charges
                .iter()
                .flat_map(|charge| &charge.on)
                .any(|ordinal| usize::from(*ordinal) >= devices)
            {
                return Err(format!(
                    "{} is on a device that {} does not have",
                    holding.request, holding.node
                ));
            }
            ledger.entry_mut(node).holdings.insert(id);
            ledger.book(id, &holding, true);
            if ledger.by_request.insert(holding.request.clone(), id).is_some() {
                return Err(format!("{} holds two places", holding.request));
            }
            if id.0 >= rows.next_holding {
                return Err(format!(
                    "{} has a number that is still to be given out",
                    holding.request
                ));
            }
            if ledger.holdings.insert(id, Arc::new(holding)).is_some() {
                return Err(format!("two holdings have the number {}", id.0));
            }
        }
        ledger.promises = rows.promises.into_iter().collect();
        for id in ledger.by_name.values().copied().collect::<Vec<_>>() {
            ledger.rebuild(id, ledger.view_at(id).node.clone());
        }
        (ledger.next_holding, ledger.revision) = (rows.next_holding, rows.revision);
        Ok(ledger)
    }
}
