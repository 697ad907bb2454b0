//! Application of operations: total, and the same code for a new decision and for recovery.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::operation::Change;
use super::{Changed, Entry, Ledger, NodeId, Operation, Promise};
use crate::account::Account;
use crate::charge::{Booked, Charge, Holding, HoldingId, Stage};
use crate::device::Node;
use crate::identity;
use crate::request::RequestId;
use crate::room::{Measured, NodeRoom, NodeView};
use crate::units::{Bytes, Name};

impl Ledger {
    /// Rebuilds a ledger from the operations of a journal.
    pub fn recover<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Self {
        let mut ledger = Ledger::default();
        for operation in operations {
            ledger.apply(&operation.0);
        }
        ledger
    }

    /// Applies the next operation of a journal during recovery.
    pub fn recover_next(&mut self, operation: &Operation) {
        self.apply(&operation.0);
    }

    pub(super) fn apply(&mut self, change: &Change) {
        self.revision += 1;
        match change {
            Change::PutNode { node } => self.apply_put(node),
            Change::DropNode { name } => self.apply_drop_node(name),
            Change::Hold { holding } => self.apply_hold(holding),
            Change::Restage { request, stage } => {
                self.amend(request, |holding| holding.stage = *stage);
            }
            Change::Act { request, activity } => {
                self.amend(request, |holding| holding.activity = *activity);
            }
            Change::Claim { request } => {
                self.amend(request, |holding| holding.terms.speculative = false);
            }
            Change::Raise { request, ordinal, bytes } => {
                self.amend(request, |h| raise(h, *ordinal, *bytes));
            }
            Change::Drop { request } => self.apply_drop(request),
            Change::DropCharges { request, ordinal } => self.apply_drop_charges(request, *ordinal),
            Change::Measure { node, ordinal, measured } => {
                self.apply_measure(node, *ordinal, *measured);
            }
            Change::Promise { request, promise } => self.apply_promise(request, Some(promise)),
            Change::Unpromise { request } => self.apply_promise(request, None),
        }
    }

    fn apply_put(&mut self, node: &Node) {
        let Some(&id) = self.by_name.get(&node.name) else {
            return self.apply_put_new(node);
        };
        let before = self.view_at(id).clone();
        let in_use = |ordinal: usize| !before.room.devices()[ordinal].tenants().is_empty();
        let merged = identity::merge(&before.node, node, in_use);
        let moved = |old: u16| merged.moved.get(usize::from(old)).copied().flatten();
        let mut measured = vec![Measured::default(); merged.node.devices.len()];
        let entry = self.nodes[id.index()].as_mut().expect("every named node has an entry");
        for (old, row) in (0_u16..).zip(&entry.measured) {
            if let Some(new) = moved(old) {
                measured[usize::from(new)] = *row;
            }
        }
        entry.measured = measured;
        entry.leaving = false;
        for holding in &entry.holdings {
            let holding = self.holdings.get_mut(holding).expect("listed holdings exist");
            rekey(&mut Arc::make_mut(holding).charges, moved);
        }
        self.promises.retain(|_, promise| {
            promise.placement.node != node.name || rekey_promise(promise, moved)
        });
        self.rebuild(id, Arc::new(merged.node));
    }

    pub(super) fn apply_put_new(&mut self, node: &Node) {
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            NodeId::at(self.nodes.len() - 1)
        });
        let view =
            NodeView { node: Arc::new(node.clone()), room: Arc::new(NodeRoom::empty(node, &[])) };
        let measured = vec![Measured::default(); node.devices.len()];
        self.nodes[id.index()] =
            Some(Entry { measured, holdings: BTreeSet::new(), leaving: false });
        self.by_name.insert(node.name.clone(), id);
        self.put_view(id, Some(view));
    }

    /// Recomputes a node's usage from its holdings, after a change of its facts. Costs O(holdings
    /// on the node); patching the sums was rejected, because ordinals, capacities and with them the
    /// amounts of whole-device charges may all change at once.
    pub(super) fn rebuild(&mut self, id: NodeId, node: Arc<Node>) {
        self.refresh_wholes(id, &node);
        let entry = self.entry(id);
        let mut room = NodeRoom::empty(&node, &entry.measured);
        for holding in &entry.holdings {
            room.add(&node, *holding, &self.holdings[holding]);
        }
        for promise in self.promises.values().filter(|promise| promise.placement.node == node.name)
        {
            room.add_promise(&node, &promise.charges, &promise.resources);
        }
        self.put_view(id, Some(NodeView { node, room: Arc::new(room) }));
    }

    /// Replaces a node's view; `None` removes it. New facts may change every verdict.
    fn put_view(&mut self, id: NodeId, view: Option<NodeView>) {
        self.views.set(id, view);
        self.facts += 1;
        self.changes.push(Changed { node: id, affects_fit: true });
    }

    /// Changes a node's usage.
    fn change_view(&mut self, id: NodeId, change: impl FnOnce(&mut NodeView)) {
        let affects_fit = self.views.change(id, change);
        self.changes.push(Changed { node: id, affects_fit });
    }

    /// Updates the amounts of whole-device charges to the new capacities, and the accounts with
    /// them.
    fn refresh_wholes(&mut self, id: NodeId, node: &Node) {
        for id in self.entry(id).holdings.clone() {
            let mut holding = self.holdings.remove(&id).expect("listed holdings exist");
            self.unindex(id, &holding);
            refresh_whole(Arc::make_mut(&mut holding), node);
            self.index(id, &holding);
            self.holdings.insert(id, holding);
        }
    }

    fn apply_drop_node(&mut self, name: &Name) {
        let Some(&id) = self.by_name.get(name) else { return };
        let entry = self.entry_mut(id);
        entry.leaving = true;
        self.rebuild(id, Arc::new(identity::all_gone(&self.view_at(id).node)));
        self.vacate_if_empty(id);
    }

    fn vacate_if_empty(&mut self, id: NodeId) {
        let entry = self.entry(id);
        if entry.leaving && entry.holdings.is_empty() {
            let name = self.view_at(id).node.name.clone();
            self.nodes[id.index()] = None;
            self.by_name.remove(&name);
            self.promises.retain(|_, promise| promise.placement.node != name);
            self.vacant.push(id);
            self.put_view(id, None);
        }
    }

    fn apply_hold(&mut self, holding: &Holding) {
        let Some(&node) = self.by_name.get(&holding.node) else {
            return;
        };
        self.apply_promise(&holding.request, None);
        let id = HoldingId(self.next_holding);
        self.next_holding += 1;
        // A leaving node is vacated only after the new charge is in, not between a holder's old
        // charge and its new one on the same node.
        let replaced = self.by_request.insert(holding.request.clone(), id);
        let left = replaced.map(|replaced| self.take_out(replaced));
        let mut holding = holding.bounded();
        refresh_whole(&mut holding, &self.view_at(node).node);
        self.change_view(node, |view| view.add(id, &holding));
        self.entry_mut(node).holdings.insert(id);
        self.index(id, &holding);
        self.holdings.insert(id, Arc::new(holding));
        if let Some(left) = left {
            self.vacate_if_empty(left);
        }
    }

    fn apply_drop(&mut self, request: &RequestId) {
        if let Some(id) = self.by_request.remove(request) {
            let left = self.take_out(id);
            self.vacate_if_empty(left);
        }
    }

    /// Removes a holding that `by_request` no longer lists, and returns its node, which may now
    /// have none left. The caller must call `vacate_if_empty` for it.
    fn take_out(&mut self, id: HoldingId) -> NodeId {
        let holding = self.holdings.remove(&id).expect("listed holdings exist");
        self.unindex(id, &holding);
        let node = self.by_name[&holding.node];
        self.change_view(node, |view| view.remove(id, &holding));
        self.entry_mut(node).holdings.remove(&id);
        node
    }

    fn apply_drop_charges(&mut self, request: &RequestId, ordinal: u16) {
        self.amend(request, |holding| {
            holding.charges.retain(|charge| charge.on != [ordinal]);
        });
        if self.of_request(request).is_some_and(|(_, holding)| holding.charges.is_empty()) {
            self.apply_drop(request);
        }
    }

    /// Changes a holding in place: removes its charges, changes it, and adds them again.
    fn amend(&mut self, request: &RequestId, change: impl FnOnce(&mut Holding)) {
        let Some(&id) = self.by_request.get(request) else {
            return;
        };
        let mut holding = self.holdings.remove(&id).expect("listed holdings exist");
        let node = self.by_name[&holding.node];
        self.unindex(id, &holding);
        self.change_view(node, |view| {
            view.remove(id, &holding);
            change(Arc::make_mut(&mut holding));
            view.add(id, &holding);
        });
        self.index(id, &holding);
        self.holdings.insert(id, holding);
    }

    fn apply_measure(&mut self, name: &Name, ordinal: u16, measured: Measured) {
        let Some(&id) = self.by_name.get(name) else { return };
        if let Some(row) = self.entry_mut(id).measured.get_mut(usize::from(ordinal)) {
            *row = measured;
            self.change_view(id, |view| view.measure(usize::from(ordinal), measured));
        }
    }

    fn apply_promise(&mut self, request: &RequestId, promise: Option<&Promise>) {
        if let Some(old) = self.promises.remove(request)
            && let Some(&id) = self.by_name.get(&old.placement.node)
        {
            self.change_view(id, |view| view.remove_promise(&old.charges, &old.resources));
        }
        let Some(new) = promise else { return };
        if let Some(&id) = self.by_name.get(&new.placement.node) {
            self.change_view(id, |view| view.add_promise(&new.charges, &new.resources));
        }
        self.promises.insert(request.clone(), new.clone());
    }

    /// Adds a holding to the sums and indexes over the whole fleet.
    pub(super) fn index(&mut self, id: HoldingId, holding: &Holding) {
        match holding.stage {
            Stage::Offered { until } => {
                self.offered.insert(id, until);
            }
            Stage::Queued => {
                self.queued.insert(id);
            }
            Stage::Releasing { .. } => {
                self.releasing.insert(id);
            }
            Stage::Sent | Stage::Running { .. } => {}
        }
        let account = self.accounts.entry(holding.request.account.clone()).or_default();
        *account = account.plus(Account::of_holding(holding));
    }

    /// Removes a holding from the sums and indexes: undoes [`Ledger::index`].
    fn unindex(&mut self, id: HoldingId, holding: &Holding) {
        self.offered.remove(&id);
        self.queued.remove(&id);
        self.releasing.remove(&id);
        let account = self.accounts.entry(holding.request.account.clone()).or_default();
        *account = account.less(Account::of_holding(holding));
        if account.holdings == 0 {
            self.accounts.remove(&holding.request.account);
        }
    }
}

fn rekey(charges: &mut [Charge], moved: impl Fn(u16) -> Option<u16>) {
    for charge in charges {
        for ordinal in &mut charge.on {
            *ordinal = moved(*ordinal).expect("identity::merge keeps every device with tenants");
        }
        charge.on.sort_unstable();
    }
}

/// Moves a promise with its devices. Returns false if a device was dropped; the promise is then
/// void.
fn rekey_promise(promise: &mut Promise, moved: impl Fn(u16) -> Option<u16>) -> bool {
    let charged = promise.charges.iter_mut().flat_map(|charge| &mut charge.on);
    charged.chain(promise.placement.picks.iter_mut().flatten()).all(|ordinal| {
        match moved(*ordinal) {
            Some(now) => {
                *ordinal = now;
                true
            }
            None => false,
        }
    })
}

/// Sets the amount of whole-device charges to the device's current usable memory.
fn refresh_whole(holding: &mut Holding, node: &Node) {
    for charge in &mut holding.charges {
        if let Booked::Whole { bytes } = &mut charge.amount {
            let usable = |ordinal: &u16| {
                node.devices.get(usize::from(*ordinal)).and_then(|d| d.memory.usable())
            };
            *bytes = charge.on.iter().filter_map(usable).max();
        }
    }
}

/// Raises shares to the measured amount. Other charges cannot grow: a whole device is all there is,
/// the hardware bounds a slice, and an undeclared amount stays unknown.
fn raise(holding: &mut Holding, ordinal: u16, bytes: Bytes) {
    let shares = holding
        .charges
        .iter_mut()
        .filter(|charge| charge.on.contains(&ordinal) && charge.slice.is_none());
    for charge in shares {
        if let Booked::Share(booked) = charge.amount
            && Bytes::new(booked.get()) < bytes
        {
            charge.amount = Booked::share(bytes);
        }
    }
}
