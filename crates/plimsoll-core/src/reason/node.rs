//! The reasons of a node.

use serde::{Deserialize, Serialize};

use super::Change;
use crate::units::{Bytes, MilliCpu, Millis, Name};

/// The reason why a node cannot take a request, whatever its devices say. In checking order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum NodeReason {
    NoSuchNode,
    /// The request names another node.
    NotNamed {
        wanted: Name,
    },
    /// Closed to new work by its operator.
    Unschedulable,
    /// The node has sent no sign of life for too long.
    Silent {
        since: Millis,
    },
    SelectorMismatch {
        /// The first requirement that does not hold.
        wanted: Name,
    },
    AffinityMismatch,
    /// The node lacks a file that the request requires.
    FileMissing {
        file: Name,
    },
    TaintNotTolerated {
        taint: Name,
    },
    CapacityUnknown {
        /// The missing or contradictory fact.
        missing: Name,
    },
    ShortOfCpu {
        need: MilliCpu,
        free: MilliCpu,
    },
    ShortOfNodeMemory {
        need: Bytes,
        free: Bytes,
    },
    PodsExhausted {
        /// Pods that the node admits.
        pods: u32,
    },
    /// Too little of a named resource is left of what the node advertises.
    ShortOfResource {
        resource: Name,
        need: u64,
        free: u64,
        /// 0 if the node does not advertise the resource.
        allocatable: u64,
    },
    /// The search ran out of steps. A placement may still exist.
    NotFound {
        steps: u32,
    },
}

impl NodeReason {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            NodeReason::NoSuchNode => "NodeNotFound",
            NodeReason::NotNamed { .. } => "NodeNameMismatch",
            NodeReason::Unschedulable => "NodeUnschedulable",
            NodeReason::Silent { .. } => "NodeSilent",
            NodeReason::SelectorMismatch { .. } => "NodeSelectorMismatch",
            NodeReason::AffinityMismatch => "NodeAffinityMismatch",
            NodeReason::FileMissing { .. } => "NodeFileMissing",
            NodeReason::TaintNotTolerated { .. } => "NodeTaintNotTolerated",
            NodeReason::CapacityUnknown { .. } => "NodeCapacityUnknown",
            NodeReason::ShortOfCpu { .. } => "NodeInsufficientCpu",
            NodeReason::ShortOfNodeMemory { .. } => "NodeInsufficientMemory",
            NodeReason::PodsExhausted { .. } => "NodePodsExhausted",
            NodeReason::ShortOfResource { .. } => "NodeInsufficientResource",
            NodeReason::NotFound { .. } => "NotFoundInSteps",
        }
    }

    /// Returns the change that could make the request fit here.
    pub fn clears_on(&self) -> Change {
        match self {
            NodeReason::ShortOfCpu { .. }
            | NodeReason::ShortOfNodeMemory { .. }
            | NodeReason::PodsExhausted { .. }
            | NodeReason::NotFound { .. } => Change::LoadFell,
            NodeReason::ShortOfResource { need, allocatable, .. } if need <= allocatable => {
                Change::LoadFell
            }
            _ => Change::NodeChanged,
        }
    }
}
