//! The changes that the ledger makes, as the journal records them.

use serde::{Deserialize, Serialize};

use super::Promise;
use crate::charge::{Activity, Holding, Stage};
use crate::device::Node;
use crate::request::RequestId;
use crate::room::Measured;
use crate::units::{Bytes, Name};

/// One change of the ledger. Only the ledger's verbs create it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation(pub(super) Change);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Change {
    PutNode { node: Box<Node> },
    DropNode { name: Name },
    Hold { holding: Box<Holding> },
    Restage { request: RequestId, stage: Stage },
    Drop { request: RequestId },
    DropCharges { request: RequestId, ordinal: u16 },
    Raise { request: RequestId, ordinal: u16, bytes: Bytes },
    Act { request: RequestId, activity: Activity },
    Claim { request: RequestId },
    Measure { node: Name, ordinal: u16, measured: Measured },
    Promise { request: RequestId, promise: Box<Promise> },
    Unpromise { request: RequestId },
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationKind {
    PutNode,
    DropNode,
    Hold,
    Restage,
    Drop,
    DropCharges,
    Raise,
    Act,
    Claim,
    Measure,
    Promise,
    Unpromise,
}

impl OperationKind {
    /// Returns the name in the journal and in APIs.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::PutNode => "put_node",
            OperationKind::DropNode => "drop_node",
            OperationKind::Hold => "hold",
            OperationKind::Restage => "restage",
            OperationKind::Drop => "drop",
            OperationKind::DropCharges => "drop_charges",
            OperationKind::Raise => "raise",
            OperationKind::Act => "act",
            OperationKind::Claim => "claim",
            OperationKind::Measure => "measure",
            OperationKind::Promise => "promise",
            OperationKind::Unpromise => "unpromise",
        }
    }
}

impl Operation {
    /// Returns the kind of the operation.
    pub fn kind(&self) -> OperationKind {
        match &self.0 {
            Change::PutNode { .. } => OperationKind::PutNode,
            Change::DropNode { .. } => OperationKind::DropNode,
            Change::Hold { .. } => OperationKind::Hold,
            Change::Restage { .. } => OperationKind::Restage,
            Change::Drop { .. } => OperationKind::Drop,
            Change::DropCharges { .. } => OperationKind::DropCharges,
            Change::Raise { .. } => OperationKind::Raise,
            Change::Act { .. } => OperationKind::Act,
            Change::Claim { .. } => OperationKind::Claim,
            Change::Measure { .. } => OperationKind::Measure,
            Change::Promise { .. } => OperationKind::Promise,
            Change::Unpromise { .. } => OperationKind::Unpromise,
        }
    }

    /// Returns the request that the operation is about.
    pub fn request(&self) -> Option<&RequestId> {
        match &self.0 {
            Change::Hold { holding } => Some(&holding.request),
            Change::Restage { request, .. }
            | Change::Drop { request }
            | Change::DropCharges { request, .. }
            | Change::Raise { request, .. }
            | Change::Act { request, .. }
            | Change::Claim { request }
            | Change::Promise { request, .. }
            | Change::Unpromise { request } => Some(request),
            Change::PutNode { .. } | Change::DropNode { .. } | Change::Measure { .. } => None,
        }
    }

    /// Returns the node that the operation names. An operation on an existing holding names none.
    pub fn node(&self) -> Option<&Name> {
        match &self.0 {
            Change::PutNode { node } => Some(&node.name),
            Change::DropNode { name } => Some(name),
            Change::Hold { holding } => Some(&holding.node),
            Change::Measure { node, .. } => Some(node),
            Change::Promise { promise, .. } => Some(&promise.placement.node),
            _ => None,
        }
    }

    /// Returns the device that the operation names, by ordinal.
    pub fn ordinal(&self) -> Option<u16> {
        match &self.0 {
            Change::DropCharges { ordinal, .. }
            | Change::Raise { ordinal, .. }
            | Change::Measure { ordinal, .. } => Some(*ordinal),
            _ => None,
        }
    }

    /// Returns the amount of memory that the operation sets: of a holding over all its devices, of
    /// a raised charge, or the foreign memory of a measured device. `None` if it is undeclared.
    pub fn bytes(&self) -> Option<Bytes> {
        match &self.0 {
            Change::Hold { holding } if !holding.charges.is_empty() => holding.bytes(),
            Change::Raise { bytes, .. } => Some(*bytes),
            Change::Measure { measured, .. } => Some(measured.foreign),
            _ => None,
        }
    }

    /// Returns the stage that a holding enters.
    pub fn stage(&self) -> Option<Stage> {
        match &self.0 {
            Change::Hold { holding } => Some(holding.stage),
            Change::Restage { stage, .. } => Some(*stage),
            _ => None,
        }
    }
}
