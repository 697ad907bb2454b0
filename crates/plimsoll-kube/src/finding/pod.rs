//! Problems of pods and of the objects that pods are created from.

use std::fmt;

use plimsoll_core::units::{Bytes, Name};

use crate::hami::allocated::{AllocatedError, NODE};
use crate::object::WorkloadKind;

use super::list::list;
use super::{ClaimProblem, Code, Describe, Severity};

/// A problem of a pod. `pod` is `namespace/name`, `key` an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodProblem {
    /// An annotation allocates a device that the pod's node does not have.
    UnknownDevice {
        pod: Name,
        by: GivenBy,
        uuid: Name,
        given: Bytes,
    },
    AllocationUnreadable {
        pod: Name,
        key: &'static str,
        error: AllocatedError,
    },
    /// The pod runs, and its request is invalid.
    RequestInvalid {
        pod: Name,
        problem: Name,
    },
    AnnotationContradicts {
        pod: Name,
        contradiction: Contradiction,
    },
    AnnotationByUser {
        pod: Name,
        key: &'static str,
        annotation: UserAnnotation,
    },
    /// The pod was read twice, once with a node and once without.
    GivenTwice {
        pod: Name,
        node: Name,
    },
    /// Pods are on a node that was not read.
    NodeUnknown {
        node: Name,
        pods: u64,
        first: Name,
    },
    Claim(ClaimProblem),
    /// The pod runs, and asks for devices by resources that are not known.
    DeviceResourceUnknown {
        pod: Name,
        resources: Vec<Name>,
    },
    /// The pod runs, and its node has no device of a kind that it asks for.
    DeviceKindMissing {
        pod: Name,
        resource: Name,
    },
    /// The pod uses devices, or can, without asking for them.
    GpuWithoutRequest {
        pod: Name,
        by: UnaskedUse,
    },
    /// The workload needs more pods than are created.
    WorkloadCut {
        kind: WorkloadKind,
        name: Name,
        missing: u64,
        most: u64,
    },
}

/// The source that names the device of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenBy {
    Annotation(&'static str),
    /// KAI's reservation pod of the pod's group.
    ReservationPod,
}

/// The way in which a container reaches devices that it did not ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnaskedUse {
    /// The variable `NVIDIA_VISIBLE_DEVICES` with a literal value.
    Variable { container: Name, value: Name },
    /// An annotation that names devices of the container device interface.
    Annotation { key: Name, value: Name },
    /// Every device file of the node is there.
    Privileged { container: Name },
}

/// The difference between a scheduler's annotation and the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contradiction {
    OtherNode { node: Name, written: String },
    Memory { key: &'static str, asked: Bytes, written: Bytes },
    TooFewDevices { key: &'static str, asked: usize, listed: usize },
}

/// The reason why a scheduler cannot have written an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserAnnotation {
    PodHasNoNode,
    PodRequestsNoDevice,
}

impl PodProblem {
    /// Returns true if the pods of this problem are missing from the ledger. Otherwise they are
    /// counted, but not as written.
    pub fn leaves_pods_out(&self) -> bool {
        match self {
            PodProblem::NodeUnknown { .. } | PodProblem::WorkloadCut { .. } => true,
            PodProblem::Claim(problem) => problem.leaves_out(),
            _ => false,
        }
    }
}

impl Describe for PodProblem {
    fn code(&self) -> Code {
        match self {
            PodProblem::UnknownDevice { .. } => Code::AllocationUnknownDevice,
            PodProblem::AllocationUnreadable { .. } => Code::AllocationUnreadable,
            PodProblem::RequestInvalid { .. } => Code::PodUnreadable,
            PodProblem::AnnotationContradicts { .. } => Code::LedgerAnnotationContradicts,
            PodProblem::AnnotationByUser { .. } => Code::LedgerAnnotationByUser,
            PodProblem::GivenTwice { .. } => Code::ObjectGivenTwice,
            PodProblem::NodeUnknown { .. } => Code::NodeUnknown,
            PodProblem::Claim(problem) => problem.code(),
            PodProblem::DeviceResourceUnknown { .. } => Code::DeviceResourceUnknown,
            PodProblem::DeviceKindMissing { .. } => Code::DeviceKindMissing,
            PodProblem::GpuWithoutRequest { .. } => Code::GpuWithoutRequest,
            PodProblem::WorkloadCut { .. } => Code::WorkloadCut,
        }
    }

    fn severity(&self) -> Severity {
        match self {
            PodProblem::UnknownDevice { .. }
            | PodProblem::AllocationUnreadable { .. }
            | PodProblem::RequestInvalid { .. } => Severity::Error,
            PodProblem::Claim(problem) => problem.severity(),
            PodProblem::AnnotationContradicts { .. }
            | PodProblem::DeviceResourceUnknown { .. }
            | PodProblem::DeviceKindMissing { .. }
            | PodProblem::GpuWithoutRequest { .. }
            | PodProblem::NodeUnknown { .. }
            | PodProblem::WorkloadCut { .. } => Severity::Warning,
            PodProblem::AnnotationByUser { .. } | PodProblem::GivenTwice { .. } => Severity::Note,
        }
    }

    fn numbers(&self) -> Vec<(&'static str, u64)> {
        match self {
            PodProblem::UnknownDevice { given, .. } => vec![("given", given.get())],
            PodProblem::AnnotationContradicts {
                contradiction: Contradiction::Memory { asked, written, .. },
                ..
            } => vec![("asked", asked.get()), ("written", written.get())],
            PodProblem::NodeUnknown { pods, .. } => vec![("pods", *pods)],
            PodProblem::WorkloadCut { missing, most, .. } => {
                vec![("missing", *missing), ("most", *most)]
            }
            _ => Vec::new(),
        }
    }

    fn remedy(&self) -> String {
        let remedy = match self {
            PodProblem::UnknownDevice { .. } => {
                "let the device plugin register its devices again, or remove the pod"
            }
            PodProblem::AllocationUnreadable { .. } => {
                "let its scheduler write the annotation again, or remove the pod"
            }
            PodProblem::RequestInvalid { .. } => {
                "correct the pod; until then its devices are closed to new work"
            }
            PodProblem::AnnotationContradicts { .. } => {
                "find out what wrote it: only the scheduler should"
            }
            PodProblem::AnnotationByUser { key, .. } => {
                return format!("leave {key} to the scheduler");
            }
            PodProblem::GivenTwice { .. } => {
                "to place the other one as well, give it a different name"
            }
            PodProblem::NodeUnknown { .. } => {
                "read nodes and pods together: kubectl get nodes,pods -A -o json"
            }
            PodProblem::Claim(problem) => return problem.remedy(),
            PodProblem::DeviceResourceUnknown { .. } => {
                "request the devices by a resource that docs/kubernetes.md lists; until then its \
                 devices are closed to new work"
            }
            PodProblem::DeviceKindMissing { .. } => {
                "see why its node no longer lists the device; declare it, or remove the pod"
            }
            PodProblem::GpuWithoutRequest { by: UnaskedUse::Privileged { .. }, .. } => {
                "run it without privileges, or let it request the devices that it uses"
            }
            PodProblem::GpuWithoutRequest { .. } => {
                "let it request the devices that it uses; until then they are closed to new work"
            }
            PodProblem::WorkloadCut { .. } => "lower its replicas",
        };
        remedy.to_owned()
    }
}

impl fmt::Display for PodProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PodProblem::UnknownDevice { pod, by, uuid, given } => write!(
                out,
                "{pod} was given {given} of device {uuid} by {by}, and its node has no such \
                 device; it is counted on each device that it can be on"
            ),
            PodProblem::AllocationUnreadable { pod, key, error } => write!(
                out,
                "annotation {key} of {pod} is unreadable: {error}; the request in its spec is \
                 counted"
            ),
            PodProblem::RequestInvalid { pod, problem } => {
                write!(out, "{pod} runs, and its request is invalid: {problem}")
            }
            PodProblem::AnnotationContradicts { pod, contradiction } => {
                write!(out, "{pod} {contradiction}")
            }
            PodProblem::AnnotationByUser { pod, key, annotation } => {
                let why = match annotation {
                    UserAnnotation::PodHasNoNode => "has no node yet",
                    UserAnnotation::PodRequestsNoDevice => "requests no device",
                };
                write!(out, "{pod} has annotation {key}, but {why}; it is ignored")
            }
            PodProblem::GivenTwice { pod, node } => write!(
                out,
                "{pod} is given twice, on node {node} and without a node; the former counts"
            ),
            PodProblem::NodeUnknown { node, pods, first } => {
                write!(out, "{first} ")?;
                match pods {
                    0 | 1 => out.write_str("is")?,
                    _ => write!(out, "and {} more pods are", pods - 1)?,
                }
                write!(out, " on node {node}, which was not read; their charges are not counted")
            }
            PodProblem::Claim(problem) => problem.fmt(out),
            PodProblem::DeviceResourceUnknown { pod, resources } => write!(
                out,
                "{pod} runs, and asks for devices by {}, which is not known; it is counted as \
                 undeclared on each device that it can be on",
                list(resources)
            ),
            PodProblem::DeviceKindMissing { pod, resource } => write!(
                out,
                "{pod} runs with {resource}, and its node lists no such device; what it holds is \
                 not counted"
            ),
            PodProblem::GpuWithoutRequest { pod, by } => {
                write!(out, "{pod} requests no device, but {by}")
            }
            PodProblem::WorkloadCut { kind, name, missing, most } => write!(
                out,
                "{} {name} needs {missing} more pods; at most {most} are created in all",
                kind.name()
            ),
        }
    }
}

impl fmt::Display for GivenBy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            GivenBy::Annotation(key) => key,
            GivenBy::ReservationPod => "the reservation pod of its group",
        })
    }
}

impl fmt::Display for UnaskedUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnaskedUse::Variable { container, value } => {
                write!(out, "container {container} sets NVIDIA_VISIBLE_DEVICES={value}")
            }
            UnaskedUse::Annotation { key, value } => write!(out, "has annotation {key}={value}"),
            UnaskedUse::Privileged { container } => write!(
                out,
                "container {container} is privileged, and reaches every device of the node"
            ),
        }
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contradiction::OtherNode { node, written } => write!(
                out,
                "is on node {node}, but {NODE} says \"{written}\"; the request in its spec is \
                 counted"
            ),
            Contradiction::Memory { key, asked, written } => write!(
                out,
                "requests {asked}, but {key} says {written}; {} is counted",
                asked.max(written)
            ),
            Contradiction::TooFewDevices { key, asked, listed } => write!(
                out,
                "requests {asked} device{}, but {key} lists {listed}; the rest is counted where it \
                 can be",
                if *asked == 1 { "" } else { "s" }
            ),
        }
    }
}
