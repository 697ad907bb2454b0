//! A ledger with changes that are not made yet: gangs, evictions, promises and what-if try here.
//!
//! A draft copies only the rows it changes, and is thrown away by dropping it.

use std::collections::{BTreeMap, BTreeSet};

use crate::charge::{Charge, Holding, HoldingId, Stage};
use crate::fit::{self, Placement, Refusal};
use crate::ledger::{Ledger, NodeId, Views};
use crate::reason::NodeReason;
use crate::request::{Request, RequestId};
use crate::room::NodeView;

/// Nodes with their accounts, real or drafted: all that a decision looks at.
pub trait View {
    /// The nodes, in the order of their names.
    fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeView)>;

    /// A node with its account.
    fn node(&self, id: NodeId) -> Option<&NodeView>;

    /// All these rows, to keep.
    fn views(&self) -> Views;

    /// How many operations the ledger had seen when this was looked at.
    fn revision(&self) -> u64;
}

impl View for Ledger {
    fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeView)> {
        Ledger::nodes(self)
    }

    fn node(&self, id: NodeId) -> Option<&NodeView> {
        self.view(id)
    }

    fn views(&self) -> Views {
        Ledger::views(self).clone()
    }

    fn revision(&self) -> u64 {
        Ledger::revision(self)
    }
}

/// One node of a ledger: where somebody else chose the node already.
#[derive(Clone, Copy, Debug)]
pub struct OneNode<'a>(pub &'a Ledger, pub NodeId);

impl View for OneNode<'_> {
    fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeView)> {
        self.0.view(self.1).map(|view| (self.1, view)).into_iter()
    }

    fn node(&self, id: NodeId) -> Option<&NodeView> {
        self.0.view(id).filter(|_| id == self.1)
    }

    fn views(&self) -> Views {
        self.0.views().clone()
    }

    fn revision(&self) -> u64 {
        self.0.revision()
    }
}

/// A ledger with changes that are not made yet.
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    ledger: &'a Ledger,
    changed: BTreeMap<NodeId, NodeView>,
    gone: BTreeSet<HoldingId>,
    drafted: u64,
}

impl View for Draft<'_> {
    fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeView)> {
        self.ledger.nodes().map(|(id, view)| (id, self.changed.get(&id).unwrap_or(view)))
    }

    fn node(&self, id: NodeId) -> Option<&NodeView> {
        self.changed.get(&id).or_else(|| self.ledger.view(id))
    }

    fn views(&self) -> Views {
        let mut views = self.ledger.views().clone();
        for (id, view) in &self.changed {
            views.set(*id, Some(view.clone()));
        }
        views
    }

    fn revision(&self) -> u64 {
        self.ledger.revision()
    }
}

impl<'a> Draft<'a> {
    /// A draft without changes.
    pub fn of(ledger: &'a Ledger) -> Self {
        Draft { ledger, changed: BTreeMap::new(), gone: BTreeSet::new(), drafted: u64::MAX }
    }

    /// The ledger behind the draft.
    pub fn ledger(&self) -> &'a Ledger {
        self.ledger
    }

    /// The nodes that differ from the ledger's.
    pub fn changed(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.changed.keys().copied()
    }

    /// Whether a node differs from the ledger's.
    pub fn has_changed(&self, node: NodeId) -> bool {
        self.changed.contains_key(&node)
    }

    /// Lets a holding go.
    pub fn without(&mut self, id: HoldingId) {
        if let Some(holding) = self.ledger.holding(id).filter(|_| !self.gone.contains(&id))
            && let Some(node) = self.ledger.node_id(&holding.node)
            && let Some(view) = self.touch(node)
        {
            view.remove(id, holding);
            self.gone.insert(id);
        }
    }

    /// Lets everything go that is on its way back from a node already.
    pub fn without_releasing_on(&mut self, node: NodeId) {
        let going =
            self.ledger.holdings_on(node).filter(|(_, holding)| holding.stage.is_releasing());
        for id in going.map(|(id, _)| id).collect::<Vec<_>>() {
            self.without(id);
        }
    }

    /// Takes back what was promised to this request, so that it can be judged anew.
    pub fn without_promise_to(&mut self, request: &RequestId) {
        if let Some(promise) = self.ledger.promise_to(request)
            && let Some(node) = self.ledger.node_id(&promise.placement.node)
            && let Some(view) = self.touch(node)
        {
            view.promise(&promise.charges, false);
        }
    }

    /// Takes a place in the draft, by the same `fit` that the commit asks.
    pub fn place(&mut self, request: &Request, place: &Placement) -> Result<Vec<Charge>, Refusal> {
        let missing = || Refusal::Node { node: place.node.clone(), reason: NodeReason::NoSuchNode };
        let node = self.ledger.node_id(&place.node).ok_or_else(missing)?;
        let charges = fit::admit(self.node(node).ok_or_else(missing)?, &request.spec, place)?;
        let holding = Holding::placed(request, &place.node, Stage::Sent, charges.clone());
        let id = HoldingId(self.drafted);
        self.drafted -= 1;
        self.touch(node).ok_or_else(missing)?.add(id, &holding);
        Ok(charges)
    }

    fn touch(&mut self, node: NodeId) -> Option<&mut NodeView> {
        let view = self.ledger.view(node)?;
        Some(self.changed.entry(node).or_insert_with(|| view.clone()))
    }
}
