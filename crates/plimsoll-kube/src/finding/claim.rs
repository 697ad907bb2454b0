//! Problems of claims of dynamic resource allocation.

use std::fmt;

use plimsoll_core::units::Name;

use super::{Code, Describe, Severity};

/// A problem of a claim. `claim` and `pod` are `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimProblem {
    /// A pod waits for, or runs with, a claim that has no devices.
    Unallocated { pod: Name, claim: Name },
    /// The claim of a pod is still to be created from its template.
    NotCreated { pod: Name, entry: Name },
    /// A running pod names a claim that was not read.
    Unread { pod: Name, claim: Name },
    /// A claim holds a device that no slice of its node lists.
    UnknownDevice { claim: Name, device: Name },
    /// The node of an allocated claim is not known.
    NodeUnknown { claim: Name, node: Option<Name> },
}

impl ClaimProblem {
    /// Returns true if the devices of the claim are missing from the ledger.
    pub(super) fn leaves_out(&self) -> bool {
        matches!(self, ClaimProblem::NodeUnknown { .. })
    }
}

impl Describe for ClaimProblem {
    fn code(&self) -> Code {
        match self {
            ClaimProblem::Unallocated { .. } | ClaimProblem::NotCreated { .. } => {
                Code::ClaimUnallocated
            }
            ClaimProblem::Unread { .. } => Code::ClaimUnread,
            ClaimProblem::UnknownDevice { .. } => Code::ClaimUnknownDevice,
            ClaimProblem::NodeUnknown { .. } => Code::ClaimNodeUnknown,
        }
    }

    fn severity(&self) -> Severity {
        match self {
            ClaimProblem::Unread { .. } | ClaimProblem::UnknownDevice { .. } => Severity::Error,
            ClaimProblem::Unallocated { .. }
            | ClaimProblem::NotCreated { .. }
            | ClaimProblem::NodeUnknown { .. } => Severity::Warning,
        }
    }

    fn remedy(&self) -> String {
        let remedy = match self {
            ClaimProblem::Unallocated { .. } | ClaimProblem::NotCreated { .. } => {
                "kube-scheduler allocates claims: see the pod's events for what it waits for"
            }
            ClaimProblem::Unread { .. } => {
                "read claims and slices too: kubectl get \
                 nodes,pods,resourceclaims,resourceslices -A -o json"
            }
            ClaimProblem::UnknownDevice { .. } => {
                "read the slices too (kubectl get resourceslices -o json), or let the driver \
                 publish its devices again"
            }
            ClaimProblem::NodeUnknown { .. } => {
                "read nodes, slices and claims together: kubectl get \
                 nodes,pods,resourceclaims,resourceslices -A -o json"
            }
        };
        remedy.to_owned()
    }
}

impl fmt::Display for ClaimProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimProblem::Unallocated { pod, claim } => {
                write!(out, "{pod} needs claim {claim}, which has no devices yet")
            }
            ClaimProblem::NotCreated { pod, entry } => write!(
                out,
                "{pod} needs a claim for its entry \"{entry}\", which is not created yet"
            ),
            ClaimProblem::Unread { pod, claim } => write!(
                out,
                "{pod} runs with claim {claim}, which was not read; it is counted as undeclared \
                 on each device of its node"
            ),
            ClaimProblem::UnknownDevice { claim, device } => write!(
                out,
                "claim {claim} holds device {device}, which no slice of its node lists; it is \
                 counted on each device that it can be"
            ),
            ClaimProblem::NodeUnknown { claim, node: Some(node) } => write!(
                out,
                "claim {claim} holds devices of node {node}, which was not read; they are not \
                 counted"
            ),
            ClaimProblem::NodeUnknown { claim, node: None } => write!(
                out,
                "claim {claim} holds devices, and neither it nor a slice names their node; they \
                 are not counted"
            ),
        }
    }
}
