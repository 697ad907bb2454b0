//! What there is to see in a ledger. Nothing here changes it.

use std::collections::BTreeSet;

use super::{Account, Ledger, NodeId, Promise, Views};
use crate::charge::{Holding, HoldingId};
use crate::request::RequestId;
use crate::room::{Measured, NodeView};

impl Ledger {
    /// How many operations this ledger has seen.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How often what nodes are has changed: while it is the same, so is every node.
    pub(crate) fn facts(&self) -> u64 {
        self.facts
    }

    /// The nodes, in the order of their names.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeView)> {
        self.by_name.values().map(|&id| (id, self.view_at(id)))
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.by_name.len()
    }

    /// One more than the largest [`NodeId::index`].
    pub fn node_slots(&self) -> usize {
        self.nodes.len()
    }

    /// The node of this name.
    pub fn node_id(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// A node with its account; `None` once it is gone.
    pub fn view(&self, id: NodeId) -> Option<&NodeView> {
        self.views.get(id)
    }

    /// Every node with its account.
    pub fn views(&self) -> &Views {
        &self.views
    }

    /// A node with its account, by name.
    pub fn view_of(&self, name: &str) -> Option<&NodeView> {
        self.view(self.node_id(name)?)
    }

    /// The names of some devices of a node, each once, by ordinal; none for a node that is gone.
    pub fn device_labels(
        &self,
        node: &str,
        ordinals: impl IntoIterator<Item = u16>,
    ) -> Vec<String> {
        let Some(view) = self.view_of(node) else { return Vec::new() };
        let ordinals: BTreeSet<u16> = ordinals.into_iter().collect();
        ordinals.into_iter().map(|ordinal| view.node.device_label(usize::from(ordinal))).collect()
    }

    /// The names of the devices of a promise, for each charge: several where the device plugin picks the card.
    pub fn promised_device_labels(&self, promise: &Promise) -> Vec<Vec<String>> {
        let node = &promise.placement.node;
        let charges = promise.charges.iter();
        charges.map(|charge| self.device_labels(node, charge.on.iter().copied())).collect()
    }

    /// What was last measured on the devices of a node.
    pub fn measured(&self, id: NodeId) -> &[Measured] {
        self.nodes.get(id.index()).and_then(Option::as_ref).map_or(&[], |entry| &entry.measured)
    }

    /// The holdings on a node.
    pub fn holdings_on(&self, id: NodeId) -> impl Iterator<Item = (HoldingId, &Holding)> {
        self.held_on(id).map(|id| (id, &*self.holdings[&id]))
    }

    /// All holdings, in the order in which they came.
    pub fn holdings(&self) -> impl Iterator<Item = (HoldingId, &Holding)> {
        self.holdings.iter().map(|(id, holding)| (*id, &**holding))
    }

    /// Those that are no more than offers, in the order in which they came.
    pub fn offered(&self) -> impl Iterator<Item = &Holding> {
        self.offered.keys().map(|id| &*self.holdings[id])
    }

    /// Those on a node that are no more than offers.
    pub fn offered_on(&self, id: NodeId) -> impl Iterator<Item = &Holding> {
        let offered = self.held_on(id).filter(|id| self.offered.contains_key(id));
        offered.map(|id| &*self.holdings[&id])
    }

    fn held_on(&self, id: NodeId) -> impl Iterator<Item = HoldingId> + '_ {
        let entry = self.nodes.get(id.index()).and_then(Option::as_ref);
        entry.into_iter().flat_map(|entry| &entry.holdings).copied()
    }

    /// A holding.
    pub fn holding(&self, id: HoldingId) -> Option<&Holding> {
        self.holdings.get(&id).map(|holding| &**holding)
    }

    /// What a request holds.
    pub fn of_request(&self, request: &RequestId) -> Option<(HoldingId, &Holding)> {
        let id = *self.by_request.get(request)?;
        Some((id, &self.holdings[&id]))
    }

    /// Whether the devices that a holding is charged on can hold all that is on them. They could when it was decided; since then
    /// its node may have come back with smaller ones, or somebody may have grown. What has not started then must not start.
    pub fn may_start(&self, holding: &Holding) -> bool {
        let Some(view) = self.view_of(&holding.node) else { return false };
        let mut devices = holding.charges.iter().flat_map(|charge| &charge.on);
        devices.all(|ordinal| {
            let room = view.room.devices().get(usize::from(*ordinal));
            room.is_some_and(|room| room.usable().is_none_or(|usable| room.load() <= usable))
        })
    }

    /// Whether anybody's memory is on its way back.
    pub fn has_releasing(&self) -> bool {
        self.releasing > 0
    }

    /// The promises that are open, by the one they were made to.
    pub fn promises(&self) -> impl ExactSizeIterator<Item = (&RequestId, &Promise)> {
        self.promises.iter()
    }

    /// The promise made to a request.
    pub fn promise_to(&self, request: &RequestId) -> Option<&Promise> {
        self.promises.get(request)
    }

    /// What an account holds.
    pub fn account(&self, name: &str) -> Account {
        self.accounts.get(name).copied().unwrap_or_default()
    }

    /// The nodes that changed since a point that an earlier call returned, and the point now; `None` when that is too
    /// long ago to remember, and everything may have changed.
    pub fn changed_since(&self, point: u64) -> (Option<impl Iterator<Item = NodeId> + '_>, u64) {
        let changed = self.changes.since(point);
        (changed.map(|changed| changed.map(|changed| changed.node)), self.changes.end())
    }

    /// The same for those only where whoever judges may find something else since then.
    pub fn reads_anew_since(&self, point: u64) -> (Option<impl Iterator<Item = NodeId> + '_>, u64) {
        let changed = self.changes.since(point);
        let anew = changed.map(|changed| changed.filter(|changed| changed.reads_anew));
        (anew.map(|anew| anew.map(|changed| changed.node)), self.changes.end())
    }
}
