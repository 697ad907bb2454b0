//! The state of a ledger as rows, for snapshots. Sums are not among them; they are recomputed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Entry, Ledger, NodeId, Promise};
use crate::charge::{Holding, HoldingId};
use crate::device::Node;
use crate::request::RequestId;
use crate::room::Measured;
use crate::units::Name;

/// The state of a ledger without its sums and indexes. `Ledger::from_rows` recomputes those, so
/// that a damaged snapshot cannot carry a wrong sum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerRows {
    pub revision: u64,
    /// The id of the next holding.
    pub next_holding: u64,
    pub nodes: Vec<NodeRow>,
    pub holdings: Vec<(HoldingId, Arc<Holding>)>,
    pub promises: Vec<(RequestId, Promise)>,
}

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRow {
    /// The facts, including devices that are gone but have tenants.
    pub node: Arc<Node>,
    /// One measurement per device.
    pub measured: Vec<Measured>,
    /// The node is dropped with its last holding.
    pub leaving: bool,
}

/// A contradiction between rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowsError {
    #[error("node {node} occurs twice")]
    DuplicateNode { node: Name },
    #[error("node {node} has {devices} devices, but {measurements} measurements")]
    MeasurementCount { node: Name, devices: usize, measurements: usize },
    #[error("{request} is on node {node}, which is missing")]
    MissingNode { request: RequestId, node: Name },
    #[error("{request} is on device {ordinal} of node {node}, which is missing")]
    MissingDevice { request: RequestId, node: Name, ordinal: u16 },
    #[error("{request} has two holdings")]
    DuplicateRequest { request: RequestId },
    #[error("two holdings have the id {id}")]
    DuplicateHolding { id: u64 },
    #[error("{request} has the holding id {id}, but the next id to assign is {next}")]
    UnassignedHolding { request: RequestId, id: u64, next: u64 },
}

impl Ledger {
    /// Returns the rows of the current state.
    pub fn to_rows(&self) -> LedgerRows {
        let promises = self.promises.iter();
        LedgerRows {
            revision: self.revision,
            next_holding: self.next_holding,
            nodes: self.by_name.values().map(|id| self.node_row(*id)).collect(),
            holdings: self.holdings.iter().map(|(id, holding)| (*id, holding.clone())).collect(),
            promises: promises.map(|(id, promise)| (id.clone(), promise.clone())).collect(),
        }
    }

    fn node_row(&self, id: NodeId) -> NodeRow {
        let Entry { measured, leaving, .. } = self.entry(id);
        NodeRow {
            node: self.view_at(id).node.clone(),
            measured: measured.clone(),
            leaving: *leaving,
        }
    }

    /// Rebuilds a ledger from rows and recomputes its sums.
    pub fn from_rows(rows: LedgerRows) -> Result<Self, RowsError> {
        let mut ledger = Ledger::default();
        for row in rows.nodes {
            ledger.restore_node(row)?;
        }
        for (id, holding) in rows.holdings {
            ledger.restore_holding(id, &holding, rows.next_holding)?;
        }
        ledger.promises = rows.promises.into_iter().collect();
        for id in ledger.by_name.values().copied().collect::<Vec<_>>() {
            ledger.rebuild(id, ledger.view_at(id).node.clone());
        }
        ledger.next_holding = rows.next_holding;
        ledger.revision = rows.revision;
        Ok(ledger)
    }

    fn restore_node(&mut self, row: NodeRow) -> Result<(), RowsError> {
        let node = &row.node.name;
        if self.by_name.contains_key(node) {
            return Err(RowsError::DuplicateNode { node: node.clone() });
        }
        let devices = row.node.devices.len();
        let measurements = row.measured.len();
        if devices != measurements {
            let node = node.clone();
            return Err(RowsError::MeasurementCount { node, devices, measurements });
        }
        self.apply_put_new(&row.node);
        let entry = self.nodes.last_mut().and_then(Option::as_mut).expect("the node was just put");
        entry.measured = row.measured;
        entry.leaving = row.leaving;
        Ok(())
    }

    fn restore_holding(
        &mut self,
        id: HoldingId,
        holding: &Holding,
        next: u64,
    ) -> Result<(), RowsError> {
        let holding = holding.bounded();
        let request = holding.request.clone();
        let Some(node) = self.node_id(&holding.node) else {
            return Err(RowsError::MissingNode { request, node: holding.node });
        };
        let devices = self.view_at(node).node.devices.len();
        let mut ordinals = holding.charges.iter().flat_map(|charge| &charge.on).copied();
        if let Some(ordinal) = ordinals.find(|ordinal| usize::from(*ordinal) >= devices) {
            return Err(RowsError::MissingDevice { request, node: holding.node, ordinal });
        }
        if id.0 >= next {
            return Err(RowsError::UnassignedHolding { request, id: id.0, next });
        }
        self.entry_mut(node).holdings.insert(id);
        self.index(id, &holding);
        if self.by_request.insert(request.clone(), id).is_some() {
            return Err(RowsError::DuplicateRequest { request });
        }
        if self.holdings.insert(id, Arc::new(holding)).is_some() {
            return Err(RowsError::DuplicateHolding { id: id.0 });
        }
        Ok(())
    }
}
