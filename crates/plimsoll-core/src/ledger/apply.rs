//! Applying operations: total, and the same for a fresh decision and for recovery.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Change, Changed, Entry, Ledger, NodeId, Operation, Promise};
use crate::charge::{Booked, Charge, Holding, HoldingId, Stage};
use crate::device::Node;
use crate::identity;
use crate::request::RequestId;
use crate::room::{Measured, NodeRoom, NodeView};
use crate::units::{Bytes, Name};

impl Ledger {
    /// A ledger from nothing and the operations of a journal.
    pub fn recover<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Self {
        let mut ledger = Ledger::default();
        for operation in operations {
            ledger.apply(&operation.0);
        }
        ledger
    }

    /// Applies the next operation of a journal to a ledger that is being recovered.
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
                self.amend(request, |holding| holding.stage = *stage)
            }
            Change::Act { request, activity } => {
                self.amend(request, |holding| holding.activity = *activity)
            }
            Change::Claim { request } => {
                self.amend(request, |holding| holding.terms.speculative = false)
            }
            Change::Raise { request, ordinal, bytes } => {
                self.amend(request, |h| raise(h, *ordinal, *bytes))
            }
            Change::Drop { request } => self.apply_drop(request),
            Change::DropCharges { request, ordinal } => self.apply_drop_charges(request, *ordinal),
            Change::Measure { node, ordinal, measured } => {
                self.apply_measure(node, *ordinal, *measured)
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
        (entry.measured, entry.leaving) = (measured, false);
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

    /// Sums a node's account anew from its holdings: after its facts changed, what is usable did too.
    pub(super) fn rebuild(&mut self, id: NodeId, node: Arc<Node>) {
        self.refresh_wholes(id, &node);
        let entry = self.entry(id);
        let mut room = NodeRoom::empty(&node, &entry.measured);
        for holding in &entry.holdings {
            room.add(&node, *holding, &self.holdings[holding]);
        }
        for promise in self.promises.values().filter(|promise| promise.placement.node == node.name)
        {
            room.promise(&node, &promise.charges, true);
        }
        self.put_view(id, Some(NodeView { node, room: Arc::new(room) }));
    }

    /// A node is as it says, or gone.
    fn put_view(&mut self, id: NodeId, view: Option<NodeView>) {
        self.views.set(id, view);
        self.facts += 1;
        self.changes.push(Changed { node: id, reads_anew: true });
    }

    /// Changes the account of a node.
    fn change_view(&mut self, id: NodeId, change: impl FnOnce(&mut NodeView)) {
        let reads_anew = self.views.change(id, change);
        self.changes.push(Changed { node: id, reads_anew });
    }

    /// What a whole device comes to has changed, and with it what its holders' accounts hold.
    fn refresh_wholes(&mut self, id: NodeId, node: &Node) {
        for id in self.entry(id).holdings.clone() {
            let mut holding = self.holdings.remove(&id).expect("listed holdings exist");
            self.book(id, &holding, false);
            refresh_whole(Arc::make_mut(&mut holding), node);
            self.book(id, &holding, true);
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
        // A node that is leaving does not go between a holder's old charge and its new one.
        let left = self.take_out(&holding.request);
        let id = HoldingId(self.next_holding);
        self.next_holding += 1;
        let mut holding = holding.bounded();
        refresh_whole(&mut holding, &self.view_at(node).node);
        self.change_view(node, |view| view.add(id, &holding));
        self.entry_mut(node).holdings.insert(id);
        self.book(id, &holding, true);
        self.by_request.insert(holding.request.clone(), id);
        self.holdings.insert(id, Arc::new(holding));
        if let Some(left) = left {
            self.vacate_if_empty(left);
        }
    }

    fn apply_drop(&mut self, request: &RequestId) {
        if let Some(left) = self.take_out(request) {
            self.vacate_if_empty(left);
        }
    }

    /// Takes off all that a request holds, and says which node it was on: it may have been the last to hold something there.
    fn take_out(&mut self, request: &RequestId) -> Option<NodeId> {
        let id = self.by_request.remove(request)?;
        let holding = self.holdings.remove(&id).expect("listed holdings exist");
        self.book(id, &holding, false);
        let node = self.by_name[&holding.node];
        self.change_view(node, |view| view.remove(id, &holding));
        self.entry_mut(node).holdings.remove(&id);
        Some(node)
    }

    fn apply_drop_charges(&mut self, request: &RequestId, ordinal: u16) {
        self.amend(request, |holding| {
            holding.charges.retain(|charge| charge.on != [ordinal]);
        });
        if self.of_request(request).is_some_and(|(_, holding)| holding.charges.is_empty()) {
            self.apply_drop(request);
        }
    }

    fn amend(&mut self, request: &RequestId, change: impl FnOnce(&mut Holding)) {
        let Some(&id) = self.by_request.get(request) else {
            return;
        };
        let mut holding = self.holdings.remove(&id).expect("listed holdings exist");
        let node = self.by_name[&holding.node];
        self.book(id, &holding, false);
        self.change_view(node, |view| {
            view.remove(id, &holding);
            change(Arc::make_mut(&mut holding));
            view.add(id, &holding);
        });
        self.book(id, &holding, true);
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
        if let Some(old) = self.promises.remove(request) {
            self.mark_promise(&old, false);
        }
        if let Some(new) = promise {
            self.mark_promise(new, true);
            self.promises.insert(request.clone(), new.clone());
        }
    }

    fn mark_promise(&mut self, promise: &Promise, made: bool) {
        let Some(&id) = self.by_name.get(&promise.placement.node) else {
            return;
        };
        self.change_view(id, |view| view.promise(&promise.charges, made));
    }

    pub(super) fn book(&mut self, id: HoldingId, holding: &Holding, more: bool) {
        let account = self.accounts.entry(holding.request.account.clone()).or_default();
        let bytes = holding.bytes().unwrap_or(Bytes::ZERO);
        let releasing = usize::from(holding.stage.is_releasing());
        if let Stage::Offered { until } = holding.stage {
            if more {
                self.offered.insert(id, until);
            } else {
                self.offered.remove(&id);
            }
        }
        if more {
            (account.bytes, account.holdings) = (account.bytes.plus(bytes), account.holdings + 1);
            self.releasing += releasing;
        } else {
            (account.bytes, account.holdings) = (account.bytes.less(bytes), account.holdings - 1);
            self.releasing -= releasing;
        }
        if account.holdings == 0 {
            self.accounts.remove(&holding.request.account);
        }
    }
}

fn rekey(charges: &mut [Charge], moved: impl Fn(u16) -> Option<u16>) {
    for charge in charges {
        for ordinal in &mut charge.on {
            *ordinal =
                moved(*ordinal).expect("a device that somebody is on stays, as gone if need be");
        }
        charge.on.sort_unstable();
    }
}

/// Moves a promise with its devices; false when one of them is gone, and the promise with it.
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

/// A whole device is what is usable of it now.
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

/// Only a share can grow: a whole device is all there is, a hardware slice bounds itself, and what nobody declared stays unknown.
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
