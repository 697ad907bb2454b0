//! Uncommitted overlays of the ledger, in which gangs, evictions, promises and what-if are tried.
//!
//! A draft keeps copies of the views that it changes and reads the others from the ledger. `fit`
//! sees both through [`View`], so that what fits in a draft fits in the ledger after the same
//! changes. Creating a draft costs nothing; the first change of a node copies the node's compact
//! rows, and each change the devices that it is about. Dropping the draft undoes everything: there
//! is no rollback that could leave a remainder. Changing the ledger and changing it back was
//! rejected, because every failed plan would then appear in the journal and in the change log.

use std::collections::{BTreeMap, BTreeSet};

use crate::account::{Account, Allowance};
use crate::charge::{Charge, Holding, HoldingId, Stage};
use crate::fit::{self, AdmissionError, Placement};
use crate::ledger::{Ledger, NodeId, Views};
use crate::reason::NodeReason;
use crate::request::{Request, RequestId};
use crate::room::NodeView;
use crate::units::Name;

/// The views of all nodes, from the ledger or from a draft: everything that a decision reads.
pub trait View {
    /// Iterates over the nodes by name.
    fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeView)>;

    /// Returns the view of a node.
    fn node(&self, id: NodeId) -> Option<&NodeView>;

    /// Returns all views, for a decision to keep.
    fn views(&self) -> Views;

    /// Returns the revision of the ledger.
    fn revision(&self) -> u64;

    /// Returns the maxima that apply to a request.
    fn allowance(&self, request: &RequestId) -> Allowance;
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

    fn allowance(&self, request: &RequestId) -> Allowance {
        Ledger::allowance(self, request)
    }
}

/// One node of a ledger, for requests whose node is already chosen.
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

    fn allowance(&self, request: &RequestId) -> Allowance {
        self.0.allowance(request)
    }
}

/// The node that another scheduler chose for a request. Promises and the shares of accounts do not
/// count: they order Plimsoll's own queue.
#[derive(Clone, Debug)]
pub struct ChosenNode<'a> {
    draft: Draft<'a>,
    node: NodeId,
}

impl<'a> ChosenNode<'a> {
    /// Creates the view of a node for a request. An offer to the request does not count either,
    /// because its charge replaces it.
    pub fn new(ledger: &'a Ledger, node: NodeId, request: &RequestId) -> Self {
        let mut draft = Draft::new(ledger);
        let promises = ledger.promises().map(|(id, _)| id);
        promises.for_each(|id| draft.without_promise_to(id));
        let own = ledger.of_request(request);
        if let Some((id, _)) = own.filter(|(_, own)| own.stage.is_before_start()) {
            draft.without(id);
        }
        ChosenNode { draft, node }
    }
}

impl View for ChosenNode<'_> {
    fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeView)> {
        self.draft.node(self.node).map(|view| (self.node, view)).into_iter()
    }

    fn node(&self, id: NodeId) -> Option<&NodeView> {
        self.draft.node(id).filter(|_| id == self.node)
    }

    fn views(&self) -> Views {
        self.draft.views()
    }

    fn revision(&self) -> u64 {
        self.draft.revision()
    }

    fn allowance(&self, _: &RequestId) -> Allowance {
        Allowance::default()
    }
}

/// An overlay of a ledger.
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    ledger: &'a Ledger,
    changed: BTreeMap<NodeId, NodeView>,
    /// Holdings that the draft removes; removing one twice would free its memory twice.
    removed: BTreeSet<HoldingId>,
    /// Requests whose promises the draft removes, for the same reason.
    unpromised: BTreeSet<RequestId>,
    /// The amounts that the draft adds to and takes from each account. Empty if no account has a
    /// share.
    moved: BTreeMap<Name, (Account, Account)>,
    /// The id of the next drafted holding. Counts on from the ledger, which the draft borrows, so
    /// that a drafted holding never has the id of a real one.
    next_holding: u64,
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

    fn allowance(&self, request: &RequestId) -> Allowance {
        self.ledger.shares().allowance(&request.account, |row| {
            let held = self.ledger.committed(row, request, &self.unpromised);
            let (added, taken) = self.moved.get(row).copied().unwrap_or_default();
            held.plus(added).less(taken)
        })
    }
}

impl<'a> Draft<'a> {
    /// Creates a draft without changes.
    pub fn new(ledger: &'a Ledger) -> Self {
        Draft {
            ledger,
            changed: BTreeMap::new(),
            removed: BTreeSet::new(),
            unpromised: BTreeSet::new(),
            moved: BTreeMap::new(),
            next_holding: ledger.next_holding(),
        }
    }

    /// Returns the underlying ledger.
    pub fn ledger(&self) -> &'a Ledger {
        self.ledger
    }

    /// Iterates over the nodes that the draft changes.
    pub fn changed(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.changed.keys().copied()
    }

    /// Returns true if the draft changes a node.
    pub fn has_changed(&self, node: NodeId) -> bool {
        self.changed.contains_key(&node)
    }

    /// Removes a holding.
    pub fn without(&mut self, id: HoldingId) {
        if let Some(holding) = self.ledger.holding(id).filter(|_| !self.removed.contains(&id))
            && let Some(node) = self.ledger.node_id(&holding.node)
            && let Some(view) = self.view_mut(node)
        {
            view.remove(id, holding);
            self.removed.insert(id);
            if let Some((_, taken)) = self.moved_mut(holding) {
                *taken = taken.plus(Account::of_holding(holding));
            }
        }
    }

    /// Removes all holdings of a node that are releasing.
    pub fn without_releasing_on(&mut self, node: NodeId) {
        let ledger = self.ledger;
        for (id, holding) in ledger.holdings_on(node) {
            if holding.stage.is_releasing() {
                self.without(id);
            }
        }
    }

    /// Removes the promise to a request, so that the request can be judged without it.
    pub fn without_promise_to(&mut self, request: &RequestId) {
        let promise = self.ledger.promise_to(request);
        if let Some(promise) = promise.filter(|_| !self.unpromised.contains(request))
            && let Some(node) = self.ledger.node_id(&promise.placement.node)
            && let Some(view) = self.view_mut(node)
        {
            view.remove_promise(&promise.charges, &promise.resources);
            self.unpromised.insert(request.clone());
        }
    }

    /// Places a request in the draft, checked by the same `fit` as the commit.
    pub fn place(
        &mut self,
        request: &Request,
        place: &Placement,
    ) -> Result<Vec<Charge>, AdmissionError> {
        let missing =
            || AdmissionError::Node { node: place.node.clone(), reason: NodeReason::NoSuchNode };
        let node = self.ledger.node_id(&place.node).ok_or_else(missing)?;
        let charges = self.admit(self.node(node).ok_or_else(missing)?, request, place)?;
        let holding = Holding::placed(request, &place.node, Stage::Sent, charges.clone());
        let id = HoldingId(self.next_holding);
        self.next_holding += 1;
        self.view_mut(node).ok_or_else(missing)?.add(id, &holding);
        if let Some((added, _)) = self.moved_mut(&holding) {
            *added = added.plus(Account::of_holding(&holding));
        }
        Ok(charges)
    }

    fn admit(
        &self,
        view: &NodeView,
        request: &Request,
        place: &Placement,
    ) -> Result<Vec<Charge>, AdmissionError> {
        fit::admit(view, &self.allowance(&request.id), &request.spec, place)
    }

    /// Returns the changes of a holding's account; `None` if no account has a share.
    fn moved_mut(&mut self, holding: &Holding) -> Option<&mut (Account, Account)> {
        if self.ledger.shares().is_empty() {
            return None;
        }
        Some(self.moved.entry(holding.request.account.clone()).or_default())
    }

    /// Returns the draft's own copy of a view; copies it from the ledger at the first call.
    fn view_mut(&mut self, node: NodeId) -> Option<&mut NodeView> {
        let view = self.ledger.view(node)?;
        Some(self.changed.entry(node).or_insert_with(|| view.clone()))
    }
}
