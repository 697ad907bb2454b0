//! Problems of nodes: contradictory, unreadable or missing facts about their devices.

use plimsoll_core::units::Name;

use crate::declared::DEVICES;

use super::{AnnotationProblem, CountProblem, Describe, LabelProblem, PluginProblem};

/// A problem of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeProblem {
    Count(CountProblem),
    Label(LabelProblem),
    Annotation(AnnotationProblem),
    Plugin(PluginProblem),
}

impl NodeProblem {
    /// Returns true if the node's devices are unknown because of this problem, so that the node
    /// accepts no device requests.
    pub fn closes_node(&self) -> bool {
        match self {
            NodeProblem::Count(problem) => problem.closes_node(),
            NodeProblem::Label(problem) => problem.closes_node(),
            NodeProblem::Annotation(problem) => problem.closes_node(),
            NodeProblem::Plugin(problem) => problem.closes_node(),
        }
    }

    /// Returns the device that the problem is about, if it is about one.
    pub(crate) fn device(&self) -> Option<Name> {
        match self {
            NodeProblem::Annotation(problem) => problem.device(),
            NodeProblem::Plugin(problem) => problem.device(),
            NodeProblem::Count(_) | NodeProblem::Label(_) => None,
        }
    }

    pub(super) fn description(&self) -> &dyn Describe {
        match self {
            NodeProblem::Count(problem) => problem,
            NodeProblem::Label(problem) => problem,
            NodeProblem::Annotation(problem) => problem,
            NodeProblem::Plugin(problem) => problem,
        }
    }
}

impl From<CountProblem> for NodeProblem {
    fn from(problem: CountProblem) -> NodeProblem {
        NodeProblem::Count(problem)
    }
}

impl From<LabelProblem> for NodeProblem {
    fn from(problem: LabelProblem) -> NodeProblem {
        NodeProblem::Label(problem)
    }
}

impl From<AnnotationProblem> for NodeProblem {
    fn from(problem: AnnotationProblem) -> NodeProblem {
        NodeProblem::Annotation(problem)
    }
}

impl From<PluginProblem> for NodeProblem {
    fn from(problem: PluginProblem) -> NodeProblem {
        NodeProblem::Plugin(problem)
    }
}

/// Appends the remedy that always works: a declaration by the operator.
pub(super) fn or_declare(remedy: &str) -> String {
    format!("{remedy}, or declare the devices in annotation {DEVICES}")
}
