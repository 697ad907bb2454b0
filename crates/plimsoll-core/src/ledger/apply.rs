//! Applying operations: total, and the same for a fresh decision and for recovery.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Change, Entry, Ledger, NodeId, Operation, Promise};
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
            Change::Restage { request, stage } => self.amend(request, |holding| holding.stage = *stage),
            Change::Act { request, activity } => self.amend(request, |holding| holding.activity = *activity),
            Change::Claim { request } => self.amend(request, |holding| holding.terms.speculative = false),
            Change::Raise { request, ordinal, bytes } => self.amend(request, |h| raise(h, *ordinal, *bytes)),
            Change::Drop { request } => self.apply_drop(request),
            Change::DropCharges { request, ordinal } => self.apply_drop_charges(request, *ordinal),
            Change::Measure { node, ordinal, measured } => self.apply_measure(node, *ordinal, *measured),
            Change::Promise { request, promise } => self.apply_promise(request, Some(promise)),
            Change::Unpromise { request } => self.apply_promise(request, None),
        }
    }

    fn apply_put(&mut self, node: &Node) {
        let Some(&id) = self.by_name.get(&node.name) else {
            return self.apply_put_new(node);
        };
        let entry = self.nodes[id.index()].as_mut().expect("every named node has an entry");
        entry.leaving = false;
        let in_use = |ordinal: usize| !entry.view.room.devices()[ordinal].tenants().is_empty();
        let merged = identity::merge(&entry.view.node, node, in_use);
        let moved = |old: u16| merged.moved.get(usize::from(old)).copied().flatten();
        let mut measured = vec![Measured::default(); merged.node.devices.len()];
        for (old, row) in (0_u16..).zip(&entry.measured) {
            if let Some(new) = moved(old) {
                measured[usize::from(new)] = *row;
            }
        }
        (entry.view.node, entry.measured) = (Arc::new(merged.node), measured);
        for holding in &entry.holdings {
            let holding = self.holdings.get_mut(holding).expect("listed holdings exist");
            rekey(&mut Arc::make_mut(holding).charges, moved);
        }
        self.promises
            .retain(|_, promise| promise.placement.node != node.name || rekey_promise(promise, moved));
        self.rebuild(id);
    }

    pub(super) fn apply_put_new(&mut self, node: &Node) {
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            NodeId(u32::try_from(self.nodes.len() - 1).expect("fewer nodes than 2^32"))
        });
        let view = NodeView { node: Arc::new(node.clone()), room: Arc::new(NodeRoom::empty(node, &[])) };
        let measured = vec![Measured::default(); node.devices.len()];
        self.nodes[id.index()] = Some(Entry { view, measured, holdings: BTreeSet::new(), leaving: false });
        self.by_name.insert(node.name.clone(), id);
        self.changes.push(id);
    }

    /// Sums a node's account anew from its holdings: after its facts changed, what is usable did too.
    pub(super) fn rebuild(&mut self, id: NodeId) {
        self.refresh_wholes(id);
        let entry = self.nodes[id.index()].as_mut().expect("rebuilt nodes exist");
        let node = &entry.view.node;
        let mut room = NodeRoom::empty(node, &entry.measured);
        for holding in &entry.holdings {
            room.add(node, *holding, &self.holdings[holding]);
        }
        for promise in self.promises.values().filter(|promise| promise.placement.node == node.name) {
            room.promise(node, &promise.charges, true);
        }
        entry.view.room = Arc::new(room);
        self.changes.push(id);
    }

    /// What a whole device comes to has changed, and with it what its holders' accounts hold.
    fn refresh_wholes(&mut self, id: NodeId) {
        let entry = self.entry(id);
        let (node, holdings) = (entry.view.node.clone(), entry.holdings.clone());
        for id in holdings {
            let mut holding = self.holdings.remove(&id).expect("listed holdings exist");
            self.book(id, &holding, false);
            refresh_whole(Arc::make_mut(&mut holding), &node);
            self.book(id, &holding, true);
            self.holdings.insert(id, holding);
        }
    }

    fn apply_drop_node(&mut self, name: &Name) {
        let Some(&id) = self.by_name.get(name) else { return };
        let entry = self.nodes[id.index()].as_mut().expect("every named node has an entry");
        entry.leaving = true;
        entry.view.node = Arc::new(identity::all_gone(&entry.view.node));
        self.rebuild(id);
        self.vacate_if_empty(id);
    }

    fn vacate_if_empty(&mut self, id: NodeId) {
        let entry = self.entry(id);
        if entry.leaving && entry.holdings.is_empty() {
            let name = entry.view.node.name.clone();
            self.nodes[id.index()] = None;
            self.by_name.remove(&name);
            self.promises.retain(|_, promise| promise.placement.node != name);
            self.vacant.push(id);
            self.changes.push(id);
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
        let entry = self.nodes[node.index()].as_mut().expect("every named node has an entry");
        refresh_whole(&mut holding, &entry.view.node);
        entry.view.add(id, &holding);
        entry.holdings.insert(id);
        self.book(id, &holding, true);
        self.by_request.insert(holding.request.clone(), id);
        self.holdings.insert(id, Arc::new(holding));
        self.changes.push(node);
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
        let entry = self.nodes[node.index()].as_mut().expect("every named node has an entry");
        entry.view.remove(id, &holding);
        entry.holdings.remove(&id);
        self.changes.push(node);
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
        let entry = self.nodes[node.index()].as_mut().expect("every named node has an entry");
        entry.view.remove(id, &holding);
        change(Arc::make_mut(&mut holding));
        entry.view.add(id, &holding);
        self.book(id, &holding, true);
        self.holdings.insert(id, holding);
        self.changes.push(node);
    }

    fn apply_measure(&mut self, name: &Name, ordinal: u16, measured: Measured) {
        let Some(&id) = self.by_name.get(name) else { return };
        let entry = self.nodes[id.index()].as_mut().expect("every named node has an entry");
        if let Some(row) = entry.measured.get_mut(usize::from(ordinal)) {
            *row = measured;
            entry.view.measure(usize::from(ordinal), measured);
            self.changes.push(id);
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
        let entry = self.nodes[id.index()].as_mut().expect("every named node has an entry");
        entry.view.promise(&promise.charges, made);
        self.changes.push(id);
    }

    pub(super) fn book(&mut self, id: HoldingId, holding: &Holding, more: bool) {
        let account = self.accounts.entry(holding.request.account.clone()).or_default();
        let bytes = holding.bytes().unwrap_or(Bytes::ZERO);
        let releasing = usize::from(holding.stage.is_releasing());
        if matches!(holding.stage, Stage::Offered { .. }) {
            if more {
                self.offered.insert(id);
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
            *ordinal = moved(*ordinal).expect("a device that somebody is on stays, as gone if need be");
        }
        charge.on.sort_unstable();
    }
}

/// Moves a promise with its devices; false when one of them is gone, and the promise with it.
fn rekey_promise(promise: &mut Promise, moved: impl Fn(u16) -> Option<u16>) -> bool {
    let charged = promise.charges.iter_mut().flat_map(|charge| &mut charge.on);
    charged.chain(promise.placement.picks.iter_mut().flatten()).all(|ordinal| match moved(*ordinal) {
        Some(now) => {
            *ordinal = now;
            true
        }
        None => false,
    })
}

/// A whole device is what is usable of it now.
fn refresh_whole(holding: &mut Holding, node: &Node) {
    for charge in &mut holding.charges {
        if let Booked::Whole { bytes } = &mut charge.amount {
            let usable =
                |ordinal: &u16| node.devices.get(usize::from(*ordinal)).and_then(|d| d.memory.usable());
            *bytes = charge.on.iter().filter_map(usable).max();
        }
    }
}

/// Only a share can grow: a whole device is all there is, a hardware slice bounds itself, and what nobody declared stays unknown.
fn raise(holding: &mut Holding, ordinal: u16, bytes: Bytes) {
    let shares =
        holding.charges.iter_mut().filter(|charge| charge.on.contains(&ordinal) && charge.slice.is_none());
    for charge in shares {
        if let Booked::Share(booked) = charge.amount
            && Bytes::new(booked.get()) < bytes
        {
            charge.amount = Booked::share(bytes);
        }
    }
}
