//! The problems that are found while one node is translated.

use plimsoll_core::units::Name;

use crate::finding::{Finding, NodeProblem, Problem};

/// Collects the problems of one node.
pub(super) struct Notes {
    node: Name,
    findings: Vec<Finding>,
}

impl Notes {
    pub(super) fn new(node: &str) -> Notes {
        Notes { node: node.into(), findings: Vec::new() }
    }

    pub(super) fn node(&self) -> &str {
        &self.node
    }

    pub(super) fn add(&mut self, problem: impl Into<NodeProblem>) {
        let problem = problem.into();
        let (node, device) = (Some(self.node.clone()), problem.device());
        self.findings.push(Finding { node, device, problem: Problem::Node(problem) });
    }

    /// Returns true if the node's devices are unknown.
    pub(super) fn closes_node(&self) -> bool {
        self.findings.iter().any(closes)
    }

    /// Returns the findings, and the reason why the node's devices are unknown, if they are.
    pub(super) fn into_parts(self) -> (Vec<Finding>, Option<Name>) {
        let closing = self.findings.iter().filter(|finding| closes(finding));
        let reasons: Vec<String> = closing.map(Finding::message).collect();
        let unknown = (!reasons.is_empty()).then(|| reasons.join("; ").into());
        (self.findings, unknown)
    }
}

fn closes(finding: &Finding) -> bool {
    matches!(&finding.problem, Problem::Node(problem) if problem.closes_node())
}
