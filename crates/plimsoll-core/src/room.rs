//! Usage of devices and nodes: held, releasing, foreign and free. The only sums in the program.
//!
//! A [`DeviceRoom`] is maintained by adding and removing whole charges; a [`NodeRoom`] does so for
//! all devices of a node. `fit`, the API, metrics and the log read these sums, and none computes
//! its own, so that an explanation can never show other numbers than the decision used.
//! `breach::audit` adds up the holdings a second time to check them.
//!
//! Updating in place costs O(charges of one holding) per change. Summing a node on demand was
//! rejected: judging reads every device of the fleet for every request, and that would multiply it
//! by the number of tenants.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::charge::{Booked, Charge, Holding, HoldingId, Stage};
use crate::device::{Device, Node, Telemetry};
use crate::mixer::Mixer;
use crate::request::NodeNeed;
use crate::units::{Bytes, MilliCpu, Name};

mod extended;
mod fit_input;
mod floating;
mod view;

pub(crate) use fit_input::FitInput;
pub use view::NodeView;

use extended::ExtendedUse;
use floating::{Meeting, TokenGroup};

/// The usage of one node: its own resources and each of its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRoom {
    cpu: u64,
    memory: Bytes,
    pods: u32,
    extended: ExtendedUse,
    /// The distinct kinds of the devices, sorted; `FitInput::kind` is an index into it.
    kinds: Vec<Name>,
    /// One per kind whose cards the device plugin chooses; most nodes have none.
    groups: Vec<TokenGroup>,
    fit_inputs: Vec<FitInput>,
    /// The digest of each device, by ordinal.
    digests: Vec<u64>,
    /// One `Arc` per device: decisions keep the rows they read, and a change copies only the device
    /// that it changes.
    devices: Vec<Arc<DeviceRoom>>,
}

/// The usage of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRoom {
    usable: Option<Bytes>,
    /// The slots of the device; `None` if they are not limited.
    slots_in_all: Option<u32>,
    held: Bytes,
    floating: Meeting,
    /// Slots of floating charges; `slots` includes them.
    floating_slots: u32,
    releasing: Bytes,
    foreign: Bytes,
    promised: Bytes,
    cores: u32,
    slots: u32,
    undeclared: u32,
    occupied: u64,
    closed: bool,
    telemetry: Telemetry,
    tenants: Vec<Tenant>,
}

/// A charge on a device as seen from the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    pub holding: HoldingId,
    /// The request, as `account/name`.
    pub name: Name,
    /// `None` if the amount is undeclared.
    pub bytes: Option<Bytes>,
    pub stage: Stage,
    /// The charge floats: it may be on another card instead.
    pub floating: bool,
    /// The charge is on the card of a token, together with nothing that has no token there.
    tokened: bool,
    slots: u32,
    /// The occupied hardware slices as a bit mask.
    slices: u64,
}

/// The latest measurement of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Memory in use that belongs to no holding.
    pub foreign: Bytes,
    pub telemetry: Telemetry,
    /// The device is closed to new work, because its measured use contradicts its charges.
    pub closed: bool,
}

impl DeviceRoom {
    fn empty(device: &Device, measured: Measured) -> Self {
        DeviceRoom {
            usable: device.memory.usable(),
            slots_in_all: device.slots,
            held: Bytes::ZERO,
            floating: Meeting::default(),
            floating_slots: 0,
            releasing: Bytes::ZERO,
            foreign: measured.foreign,
            promised: Bytes::ZERO,
            cores: 0,
            slots: 0,
            undeclared: 0,
            occupied: 0,
            closed: measured.closed,
            telemetry: measured.telemetry,
            tenants: Vec::new(),
        }
    }

    /// Hashes everything that an explanation shows of this device.
    fn digest(&self) -> u64 {
        let mut hasher = Mixer::default();
        (self.usable, self.held, self.floating.bytes, self.releasing, self.foreign, self.promised)
            .hash(&mut hasher);
        (self.cores, self.slots, self.tenants.len()).hash(&mut hasher);
        for tenant in &self.tenants {
            (&tenant.name, tenant.bytes, tenant.stage.name()).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Returns the usable memory of the empty device; `None` if unknown.
    pub fn usable(&self) -> Option<Bytes> {
        self.usable
    }

    /// Returns the memory charged to this device and not being released.
    pub fn held(&self) -> Bytes {
        self.held
    }

    /// Returns the most memory of charges on one of several devices that can be on this one: all of
    /// them, or as many of the largest as the device has tokens.
    pub fn floating(&self) -> Bytes {
        self.floating.bytes
    }

    /// Returns the memory being released. It is not free until there is evidence of the release.
    pub fn releasing(&self) -> Bytes {
        self.releasing
    }

    /// Returns the measured memory that belongs to no holding.
    pub fn foreign(&self) -> Bytes {
        self.foreign
    }

    /// Returns the memory promised to pending requests.
    pub fn promised(&self) -> Bytes {
        self.promised
    }

    /// Returns the charged compute in the device's unit.
    pub fn cores(&self) -> u32 {
        self.cores
    }

    /// Returns the number of occupied slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the occupied hardware slices as a bit mask.
    pub fn occupied(&self) -> u64 {
        self.occupied
    }

    /// Returns true if a tenant's memory is undeclared, so that nothing bounds its use.
    pub fn has_undeclared(&self) -> bool {
        self.undeclared > 0
    }

    /// Returns true if the device was closed because its measured use contradicts its charges.
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// Returns the age of the measurements.
    pub fn telemetry(&self) -> Telemetry {
        self.telemetry
    }

    /// Returns the charges on the device in order of arrival.
    pub fn tenants(&self) -> &[Tenant] {
        &self.tenants
    }

    /// Returns all memory that counts against the device: held, floating, releasing and foreign.
    pub fn load(&self) -> Bytes {
        let charged = self.held.plus(self.floating.bytes);
        charged.plus(self.releasing).plus(self.foreign) // mutant: releasing-counts
    }

    /// Returns the free memory: zero if the device is overcommitted, `None` if it is unknown.
    pub fn free(&self) -> Option<Bytes> {
        if self.undeclared > 0 {
            return None;
        }
        Some(self.usable?.less(self.load()))
    }

    /// Returns the memory that a new request may take: free now, and not needed for promises later.
    ///
    /// Promises are covered first by the memory being released and only then by free memory, so
    /// that a promise does not block more of the device than it needs: after all releases `usable -
    /// (load - releasing) - promised` must stay free.
    pub fn open(&self) -> Option<Bytes> {
        let free = self.free()?;
        if self.promised.is_zero() {
            return Some(free);
        }
        let later = self.usable?.less(self.load().less(self.releasing)).less(self.promised);
        Some(free.min(later))
    }

    /// Returns the part of a new charge with a token of this device that takes the place of another
    /// charge: the rest must be open. Memory is promised to charges that will have tokens too, so
    /// that a device with promises displaces nothing.
    fn displaced(&self) -> Bytes {
        let over = self.usable.is_some_and(|usable| self.load() > usable);
        if over || !self.promised.is_zero() { Bytes::ZERO } else { self.floating.displaced }
    }

    /// Returns the memory that a new request with a token of this device may take.
    pub(crate) fn open_with_token(&self) -> Option<Bytes> {
        Some(self.open()?.plus(self.displaced()).min(self.usable?))
    }

    /// Returns the excess of the memory that is certainly on this device over its usable memory.
    /// Floating charges do not count: they may be on another card.
    pub fn over_by(&self) -> Bytes {
        let fixed = self.tenants.iter().filter(|tenant| !tenant.floating);
        let certain = fixed.filter_map(|tenant| tenant.bytes).fold(self.foreign, Bytes::plus);
        self.usable.map_or(Bytes::ZERO, |usable| certain.less(usable))
    }

    /// Returns true if a breach closes the device to new work: its measured use contradicts its
    /// charges, or its certain load exceeds its usable memory.
    pub fn takes_nothing(&self) -> bool {
        self.closed || !self.over_by().is_zero()
    }

    /// Returns true if the device has no tenants and no foreign memory.
    pub fn is_idle(&self) -> bool {
        self.tenants.is_empty() && self.foreign.is_zero()
    }

    fn add(&mut self, id: HoldingId, holding: &Holding, charge: &Charge) {
        let bytes = charge.bytes();
        if let Some(column) = self.column(holding.stage, charge) {
            *column = column.plus(bytes.unwrap_or(Bytes::ZERO));
        }
        self.cores = self.cores.saturating_add(charge.cores.0);
        self.slots = self.slots.saturating_add(charge.slots);
        if charge.floats() {
            self.floating_slots = self.floating_slots.saturating_add(charge.slots);
        }
        self.undeclared += u32::from(charge.amount == Booked::Undeclared);
        let slices = match (&charge.slice, charge.amount) {
            (Some(slice), _) => slice.span.mask(),
            (None, Booked::Whole { .. }) => u64::MAX,
            (None, _) => 0,
        };
        self.occupied |= slices;
        let name = Name::from(holding.request.to_string());
        let tenant = Tenant {
            holding: id,
            name,
            bytes,
            stage: holding.stage,
            floating: charge.floats(),
            tokened: charge.slots > 0 && charge.parts.len() < 2,
            slots: charge.slots,
            slices,
        };
        // Sorted by arrival even for a holding that `Ledger::amend` removes and adds again.
        // Otherwise two ledgers with equal holdings but different histories would have different
        // digests.
        let at = self.tenants.partition_point(|other| other.holding <= id);
        self.tenants.insert(at, tenant);
        self.refresh_floating();
    }

    fn remove(&mut self, id: HoldingId, holding: &Holding, charge: &Charge) {
        let bytes = charge.bytes().unwrap_or(Bytes::ZERO);
        if let Some(column) = self.column(holding.stage, charge) {
            *column = column.less(bytes);
        }
        self.cores = self.cores.saturating_sub(charge.cores.0);
        self.slots = self.slots.saturating_sub(charge.slots);
        if charge.floats() {
            self.floating_slots = self.floating_slots.saturating_sub(charge.slots);
        }
        self.undeclared -= u32::from(charge.amount == Booked::Undeclared);
        self.tenants.retain(|tenant| tenant.holding != id);
        self.occupied = self.tenants.iter().fold(0, |mask, tenant| mask | tenant.slices);
        self.refresh_floating();
    }

    /// Returns the sum that a charge counts in; `None` for a floating charge that stays, which
    /// counts only together with the others (`floating`).
    fn column(&mut self, stage: Stage, charge: &Charge) -> Option<&mut Bytes> {
        if stage.is_releasing() {
            Some(&mut self.releasing)
        } else if charge.floats() {
            None
        } else {
            Some(&mut self.held)
        }
    }

    /// Sums the floating charges again. A device without them and with a free slot has nothing to
    /// sum; one without a free slot takes no new charge, whatever it weighs.
    fn refresh_floating(&mut self) {
        let full = self.slots_in_all.is_some_and(|slots| self.slots >= slots);
        self.floating = if full || self.tenants.iter().any(|tenant| tenant.floating) {
            Meeting::of(self.slots_in_all, self.usable, &self.tenants)
        } else {
            Meeting::default()
        };
    }
}

impl NodeRoom {
    /// Creates the usage of a node without tenants. Devices without a measurement are unmeasured.
    pub fn empty(node: &Node, measured: &[Measured]) -> Self {
        let mut devices = Vec::with_capacity(node.devices.len());
        for (ordinal, device) in node.devices.iter().enumerate() {
            let measured = measured.get(ordinal).copied().unwrap_or_default();
            devices.push(Arc::new(DeviceRoom::empty(device, measured)));
        }
        let mut kinds: Vec<Name> = node.devices.iter().map(|device| device.kind.clone()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let fit_inputs =
            (0..devices.len()).map(|i| FitInput::read(node, &kinds, i, &devices[i])).collect();
        let digests = devices.iter().map(|device| device.digest()).collect();
        let floats = |kind: &u16| node.floats(&kinds[usize::from(*kind)]);
        let groups = (0_u16..).take(kinds.len()).filter(floats);
        let groups = groups.map(|kind| TokenGroup { kind, floating: 0 }).collect();
        let mut room = NodeRoom {
            cpu: 0,
            memory: Bytes::ZERO,
            pods: 0,
            extended: ExtendedUse::default(),
            kinds,
            groups,
            fit_inputs,
            digests,
            devices,
        };
        room.refresh_groups(node);
        room
    }

    /// Returns the compact rows that judging reads, by ordinal.
    pub(crate) fn fit_inputs(&self) -> &[FitInput] {
        &self.fit_inputs
    }

    /// Returns the value of [`FitInput::kind`] for a kind; `None` if no device is of that kind.
    pub(crate) fn kind_index(&self, kind: &Name) -> Option<u16> {
        kind_index(&self.kinds, kind)
    }

    /// Returns the usage of each device, by ordinal.
    pub fn devices(&self) -> &[Arc<DeviceRoom>] {
        &self.devices
    }

    /// Returns the free CPU; `None` if it is not limited.
    pub fn free_cpu(&self, node: &Node) -> Option<MilliCpu> {
        node.allocatable.cpu.map(|cpu| MilliCpu(cpu.0.saturating_sub(self.cpu)))
    }

    /// Returns the free main memory; `None` if it is not limited.
    pub fn free_memory(&self, node: &Node) -> Option<Bytes> {
        node.allocatable.memory.map(|memory| memory.less(self.memory))
    }

    /// Returns the number of pods that the node can still take; `None` if it is not limited.
    pub fn free_pods(&self, node: &Node) -> Option<u32> {
        node.allocatable.pods.map(|pods| pods.saturating_sub(self.pods))
    }

    /// Returns the free amount of a named resource: zero if the node does not advertise it.
    pub fn free_extended(&self, node: &Node, resource: &str) -> u64 {
        self.extended.free(node.allocatable.extended.get(resource), resource)
    }

    /// Iterates over the named resources in use, ordered by name.
    pub fn extended_in_use(&self) -> impl Iterator<Item = (&Name, u128)> {
        self.extended.iter()
    }

    /// Returns true if `fit` and the score give equal results on both, given equal node facts.
    pub(crate) fn same_fit_inputs(&self, other: &NodeRoom) -> bool {
        self.node_sums() == other.node_sums() && self.fit_inputs == other.fit_inputs
    }

    fn node_sums(&self) -> (u64, Bytes, u32, &ExtendedUse) {
        (self.cpu, self.memory, self.pods, &self.extended)
    }

    /// Adds the charges and node resources of a holding. Only the ledger and its drafts call this.
    pub(crate) fn add(&mut self, node: &Node, id: HoldingId, holding: &Holding) {
        self.add_resources(&holding.resources);
        for charge in &holding.charges {
            self.change_floating_slots(charge, u64::saturating_add);
            self.change_each(node, charge, |device| device.add(id, holding, charge));
        }
    }

    /// Removes the charges and node resources of a holding: undoes [`NodeRoom::add`].
    pub(crate) fn remove(&mut self, node: &Node, id: HoldingId, holding: &Holding) {
        self.remove_resources(&holding.resources);
        for charge in &holding.charges {
            self.change_floating_slots(charge, u64::saturating_sub);
            self.change_each(node, charge, |device| device.remove(id, holding, charge));
        }
    }

    /// Earmarks memory for a pending request.
    pub(crate) fn add_promise(&mut self, node: &Node, charges: &[Charge]) {
        for charge in charges {
            let bytes = charge.bytes().unwrap_or(Bytes::ZERO);
            self.change_each(node, charge, |device| device.promised = device.promised.plus(bytes));
        }
    }

    /// Removes an earmark: undoes [`NodeRoom::add_promise`].
    pub(crate) fn remove_promise(&mut self, node: &Node, charges: &[Charge]) {
        for charge in charges {
            let bytes = charge.bytes().unwrap_or(Bytes::ZERO);
            self.change_each(node, charge, |device| device.promised = device.promised.less(bytes));
        }
    }

    /// Replaces the measurement of a device.
    pub(crate) fn measure(&mut self, node: &Node, ordinal: usize, measured: Measured) {
        self.change(node, ordinal, |device| {
            device.foreign = measured.foreign;
            device.telemetry = measured.telemetry;
            device.closed = measured.closed;
        });
    }

    /// Changes every device that a charge may be on.
    fn change_each(
        &mut self,
        node: &Node,
        charge: &Charge,
        mut change: impl FnMut(&mut DeviceRoom),
    ) {
        for ordinal in charge.on.iter().map(|ordinal| usize::from(*ordinal)) {
            self.change(node, ordinal, &mut change);
        }
    }

    /// Changes one device and refreshes what is derived from it. Every change goes through here, so
    /// that `fit_inputs` and `digests` cannot fall behind `devices`.
    fn change(&mut self, node: &Node, ordinal: usize, change: impl FnOnce(&mut DeviceRoom)) {
        if let Some(device) = self.devices.get_mut(ordinal).map(Arc::make_mut) {
            change(device);
            self.fit_inputs[ordinal] = FitInput::read(node, &self.kinds, ordinal, device);
            self.digests[ordinal] = device.digest();
            self.refresh_groups(node);
        }
    }

    fn add_resources(&mut self, need: &NodeNeed) {
        self.cpu = self.cpu.saturating_add(need.cpu.0);
        self.memory = self.memory.plus(need.memory);
        self.pods = self.pods.saturating_add(need.pods);
        self.extended.add(&need.extended);
    }

    fn remove_resources(&mut self, need: &NodeNeed) {
        self.cpu = self.cpu.saturating_sub(need.cpu.0);
        self.memory = self.memory.less(need.memory);
        self.pods = self.pods.saturating_sub(need.pods);
        self.extended.remove(&need.extended);
    }
}

fn kind_index(kinds: &[Name], kind: &Name) -> Option<u16> {
    kinds.iter().position(|known| known == kind).and_then(|index| u16::try_from(index).ok())
}

#[cfg(test)]
mod tests;
