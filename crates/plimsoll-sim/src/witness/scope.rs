//! The nodes that are compared after a step.

use std::collections::BTreeSet;

use plimsoll_core::units::Name;

/// All nodes, or those that are named.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    All,
    Nodes(BTreeSet<Name>),
}

impl Scope {
    /// Returns true if a node is compared.
    pub(crate) fn covers(&self, node: &Name) -> bool {
        match self {
            Scope::All => true,
            Scope::Nodes(nodes) => nodes.contains(node),
        }
    }
}
