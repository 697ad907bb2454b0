//! Read-only queries of the ledger.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Ledger, NodeId, Promise, Views};
use crate::account::{Account, Allowance, Shares};
use crate::charge::{Holding, HoldingId};
use crate::request::RequestId;
use crate::room::{Measured, NodeView};
use crate::units::Name;

impl Ledger {
    /// Returns the number of operations applied so far.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns a number that grows whenever the facts of any node change.
    pub(crate) fn facts(&self) -> u64 {
        self.facts
    }

    /// Iterates over the nodes by name.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeView)> {
        self.by_name.values().map(|&id| (id, self.view_at(id)))
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.by_name.len()
    }

    /// Returns one more than the largest [`NodeId::index`] ever used.
    pub fn node_slots(&self) -> usize {
        self.nodes.len()
    }

    /// Finds a node by name.
    pub fn node_id(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// Returns the view of a node; `None` after it was removed.
    pub fn view(&self, id: NodeId) -> Option<&NodeView> {
        self.views.get(id)
    }

    /// Returns the views of all nodes.
    pub fn views(&self) -> &Views {
        &self.views
    }

    /// Returns the view of a node by name.
    pub fn view_of(&self, name: &str) -> Option<&NodeView> {
        self.view(self.node_id(name)?)
    }

    /// Returns the labels of some devices of a node, each once, by ordinal; none for an unknown
    /// node.
    pub fn device_labels(
        &self,
        node: &str,
        ordinals: impl IntoIterator<Item = u16>,
    ) -> Vec<String> {
        let Some(view) = self.view_of(node) else { return Vec::new() };
        let ordinals: BTreeSet<u16> = ordinals.into_iter().collect();
        ordinals.into_iter().map(|ordinal| view.node.device_label(usize::from(ordinal))).collect()
    }

    /// Returns the device labels of each charge of a promise; several where the device plugin picks
    /// the card.
    pub fn promised_device_labels(&self, promise: &Promise) -> Vec<Vec<String>> {
        let node = &promise.placement.node;
        let charges = promise.charges.iter();
        charges.map(|charge| self.device_labels(node, charge.on.iter().copied())).collect()
    }

    /// Returns the last measurement of each device of a node.
    pub fn measured(&self, id: NodeId) -> &[Measured] {
        self.nodes.get(id.index()).and_then(Option::as_ref).map_or(&[], |entry| &entry.measured)
    }

    /// Iterates over the holdings on a node in order of arrival.
    pub fn holdings_on(&self, id: NodeId) -> impl Iterator<Item = (HoldingId, &Holding)> {
        self.held_on(id).map(|id| (id, &*self.holdings[&id]))
    }

    /// Iterates over all holdings in order of arrival.
    pub fn holdings(&self) -> impl Iterator<Item = (HoldingId, &Holding)> {
        self.holdings.iter().map(|(id, holding)| (*id, &**holding))
    }

    /// Iterates over the holdings that are offers, in order of arrival.
    pub fn offered(&self) -> impl Iterator<Item = &Holding> {
        self.offered.keys().map(|id| &*self.holdings[id])
    }

    /// Iterates over the holdings whose start is queued, in order of arrival.
    pub fn queued(&self) -> impl Iterator<Item = &Holding> {
        self.queued.iter().map(|id| &*self.holdings[id])
    }

    /// Iterates over the queued holdings on a node, in order of arrival.
    pub fn queued_on(&self, id: NodeId) -> impl Iterator<Item = &Holding> {
        let queued = self.held_on(id).filter(|id| self.queued.contains(id));
        queued.map(|id| &*self.holdings[&id])
    }

    fn held_on(&self, id: NodeId) -> impl Iterator<Item = HoldingId> + '_ {
        let entry = self.nodes.get(id.index()).and_then(Option::as_ref);
        entry.into_iter().flat_map(|entry| &entry.holdings).copied()
    }

    /// Returns the id that the next holding gets.
    pub(crate) fn next_holding(&self) -> u64 {
        self.next_holding
    }

    /// Returns a holding by id.
    pub fn holding(&self, id: HoldingId) -> Option<&Holding> {
        self.holdings.get(&id).map(|holding| &**holding)
    }

    /// Returns the holding of a request.
    pub fn of_request(&self, request: &RequestId) -> Option<(HoldingId, &Holding)> {
        let id = *self.by_request.get(request)?;
        Some((id, &self.holdings[&id]))
    }

    /// Returns true if no device of a holding is overcommitted. None was when the holding was
    /// placed, but its node may since have been reported with less memory, or another charge may
    /// have been raised. Work that has not started must then not start.
    pub fn may_start(&self, holding: &Holding) -> bool {
        let Some(view) = self.view_of(&holding.node) else { return false };
        let mut devices = holding.charges.iter().flat_map(|charge| &charge.on);
        devices.all(|ordinal| {
            let room = view.room.devices().get(usize::from(*ordinal));
            room.is_some_and(|room| room.usable().is_none_or(|usable| room.load() <= usable))
        })
    }

    /// Returns true if any holding is releasing.
    pub fn has_releasing(&self) -> bool {
        !self.releasing.is_empty()
    }

    /// Iterates over the holdings that are being released.
    pub fn releasing(&self) -> impl Iterator<Item = &Holding> {
        self.releasing.iter().map(|id| &*self.holdings[id])
    }

    /// Iterates over the open promises by request.
    pub fn promises(&self) -> impl ExactSizeIterator<Item = (&RequestId, &Promise)> {
        self.promises.iter()
    }

    /// Returns the promise that a holder is retired for.
    pub fn retired_for(&self, holder: &RequestId) -> Option<(&RequestId, &Promise)> {
        self.promises().find(|(_, promise)| promise.retired.contains(holder))
    }

    /// Returns the promise to a request.
    pub fn promise_to(&self, request: &RequestId) -> Option<&Promise> {
        self.promises.get(request)
    }

    /// Returns the shares of accounts.
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Replaces the shares of accounts. No operation: the settings are journalled with the
    /// scheduler, which sets them here.
    pub fn set_shares(&mut self, shares: Shares) {
        self.shares = Arc::new(shares);
    }

    /// Returns the maxima that apply to a request, beside everything else that its account holds.
    pub fn allowance(&self, request: &RequestId) -> Allowance {
        let none = BTreeSet::new();
        self.shares.allowance(&request.account, |row| self.committed(row, request, &none))
    }

    /// Returns what an account holds or is promised, without the promises to `unpromised`, and
    /// without the offer and the promise to `request`, which a new holding replaces. Promises count
    /// so that the requests behind a large one cannot use up its account's maximum piece by piece.
    pub(crate) fn committed(
        &self,
        row: &Name,
        request: &RequestId,
        unpromised: &BTreeSet<RequestId>,
    ) -> Account {
        let promised = self
            .promises
            .iter()
            .filter(|(id, _)| id.account == *row && *id != request && !unpromised.contains(id))
            .map(|(_, promise)| Account::of_charges(&promise.charges));
        let all = promised.fold(self.account(row), Account::plus);
        let own = self.of_request(request).map(|(_, own)| own);
        let replaced = own.filter(|own| own.stage.is_before_start() && request.account == *row);
        replaced.map_or(all, |own| all.less(Account::of_holding(own)))
    }

    /// Returns the usage of an account with a share, or of any other account.
    pub fn usage(&self, account: &Name) -> Account {
        self.shares.usage(account, |row| self.account(row))
    }

    /// Returns the sums of an account; zero if it holds nothing.
    pub fn account(&self, name: &str) -> Account {
        self.accounts.get(name).copied().unwrap_or_default()
    }

    /// Returns the nodes that changed since a position in the change log, and the current position.
    /// `None` if the log no longer reaches back that far, so that every node may have changed.
    pub fn changed_since(&self, position: u64) -> (Option<impl Iterator<Item = NodeId> + '_>, u64) {
        let changed = self.changes.since(position);
        (changed.map(|changed| changed.map(|changed| changed.node)), self.changes.end())
    }

    /// Returns the nodes with changes that may change a verdict, like [`Ledger::changed_since`].
    pub(crate) fn fit_changed_since(
        &self,
        position: u64,
    ) -> (Option<impl Iterator<Item = NodeId> + '_>, u64) {
        let changed = self.changes.since(position);
        let affected = changed.map(|changed| changed.filter(|changed| changed.affects_fit));
        (affected.map(|affected| affected.map(|changed| changed.node)), self.changes.end())
    }
}
