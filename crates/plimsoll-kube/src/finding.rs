//! Findings: problems of a cluster, as data. Their text is rendered here and nowhere else.
//!
//! A finding knows its stable code, its severity, its numbers and its remedy. `docs/audit.md`
//! describes all codes.

mod annotation;
mod claim;
mod code;
mod count;
mod label;
mod ledger;
mod list;
mod node;
mod plugin;
mod pod;

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_core::units::Name;

pub use annotation::{AnnotationProblem, MigProfileProblem};
pub use claim::ClaimProblem;
pub use code::Code;
pub use count::CountProblem;
pub use label::{LabelProblem, UnreadableAmount};
pub use ledger::{LedgerProblem, Tenant, UnboundedCards};
pub use node::NodeProblem;
pub use plugin::PluginProblem;
pub use pod::{Contradiction, GivenBy, PodProblem, UnaskedUse, UserAnnotation};

/// The severity of a finding, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A device is overcommitted, or facts about it cannot be trusted.
    Error,
    /// Nothing is overcommitted yet, but nothing prevents it, or the node cannot be used.
    Warning,
    Note,
}

impl Severity {
    /// Returns the severity as one lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// A problem and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub node: Option<Name>,
    /// The label of the device: its UUID, or `node/gpu-0`.
    pub device: Option<Name>,
    pub problem: Problem,
}

/// A problem of a cluster, by its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The ledger shows it once the cluster's pods are in it.
    Ledger(LedgerProblem),
    /// A node's labels, annotations and capacity show it.
    Node(NodeProblem),
    /// A pod, or an object that pods are created from, shows it.
    Pod(PodProblem),
}

/// The properties of a kind of problem. Its `Display` is the sentence with the numbers.
trait Describe: fmt::Display {
    fn code(&self) -> Code;
    fn severity(&self) -> Severity;
    fn remedy(&self) -> String;

    /// Returns the numbers by name. Sizes are in bytes.
    fn numbers(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl Finding {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        self.description().code()
    }

    /// Returns the severity.
    pub fn severity(&self) -> Severity {
        self.description().severity()
    }

    /// Returns the problem as a sentence with its numbers.
    pub fn message(&self) -> String {
        self.description().to_string()
    }

    /// Returns the numbers by name. Sizes are in bytes.
    pub fn numbers(&self) -> BTreeMap<&'static str, u64> {
        self.description().numbers().into_iter().collect()
    }

    /// Returns a sentence that tells what to do.
    pub fn remedy(&self) -> String {
        self.description().remedy()
    }

    fn description(&self) -> &dyn Describe {
        match &self.problem {
            Problem::Ledger(problem) => problem,
            Problem::Node(problem) => problem.description(),
            Problem::Pod(problem) => problem,
        }
    }
}
