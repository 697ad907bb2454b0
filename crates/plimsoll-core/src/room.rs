//! What is held and what is free on a device and on a node, as `fit` sees it. The only sums there are.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::charge::{Booked, Charge, Holding, HoldingId, Stage};
use crate::device::{Device, Node, Telemetry};
use crate::mixer::Mixer;
use crate::request::NodeNeed;
use crate::units::{Bytes, MilliCpu, Name};

mod gauge;

pub(crate) use gauge::Gauge;

/// The account of one node: what its tenants hold of it and of each of its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRoom {
    cpu: u64,
    memory: Bytes,
    pods: u32,
    kinds: Vec<Name>,
    gauges: Vec<Gauge>,
    /// The digests of its devices' accounts, by ordinal.
    digests: Vec<u64>,
    /// Each shared by itself: a decision keeps the rows it saw, and a change copies only the device that it is about.
    devices: Vec<Arc<DeviceRoom>>,
}

/// The account of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRoom {
    usable: Option<Bytes>,
    held: Bytes,
    floating: Bytes,
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

/// One tenant of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// The holding.
    pub holding: HoldingId,
    /// Who it is, as `account/name`.
    pub name: Name,
    /// What it holds here; `None` when undeclared.
    pub bytes: Option<Bytes>,
    /// Where it is in its life.
    pub stage: Stage,
    /// Whether it may be on another card instead.
    pub floating: bool,
    /// The hardware slices it sits in, as bits.
    slices: u64,
}

/// What was measured on a device and belongs to no holding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Memory in use that nobody here placed.
    pub foreign: Bytes,
    /// How fresh that is.
    pub telemetry: Telemetry,
    /// Whether the device is closed because its books and its memory disagree.
    pub closed: bool,
}

impl DeviceRoom {
    fn empty(device: &Device, measured: Measured) -> Self {
        DeviceRoom {
            usable: device.memory.usable(),
            held: Bytes::ZERO,
            floating: Bytes::ZERO,
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

    /// The digest of all that a decision sees here.
    fn digest(&self) -> u64 {
        let mut hasher = Mixer::default();
        (self.usable, self.held, self.floating, self.releasing, self.foreign, self.promised)
            .hash(&mut hasher);
        (self.cores, self.slots, self.tenants.len()).hash(&mut hasher);
        for tenant in &self.tenants {
            (&tenant.name, tenant.bytes, tenant.stage.name()).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// What may be used when empty; `None` when unknown.
    pub fn usable(&self) -> Option<Bytes> {
        self.usable
    }

    /// What is booked to this very device and not on its way back.
    pub fn held(&self) -> Bytes {
        self.held
    }

    /// What is booked to one of several devices, this among them.
    pub fn floating(&self) -> Bytes {
        self.floating
    }

    /// What is on its way back, and not free yet.
    pub fn releasing(&self) -> Bytes {
        self.releasing
    }

    /// What is in use and was placed by nobody here.
    pub fn foreign(&self) -> Bytes {
        self.foreign
    }

    /// What is promised to somebody who waits for a release.
    pub fn promised(&self) -> Bytes {
        self.promised
    }

    /// Compute booked, in the device's unit.
    pub fn cores(&self) -> u32 {
        self.cores
    }

    /// Slots taken.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Slices of a partitioned device that are taken, as bits.
    pub fn occupied(&self) -> u64 {
        self.occupied
    }

    /// Whether somebody is there whose use nothing bounds.
    pub fn has_undeclared(&self) -> bool {
        self.undeclared > 0
    }

    /// Whether the device is closed because its books and its memory disagree.
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// How fresh the measurements are.
    pub fn telemetry(&self) -> Telemetry {
        self.telemetry
    }

    /// Who is there, in the order of arrival.
    pub fn tenants(&self) -> &[Tenant] {
        &self.tenants
    }

    /// Everything that counts against the line: held, floating, releasing and foreign.
    pub fn load(&self) -> Bytes {
        self.held.plus(self.floating).plus(self.releasing).plus(self.foreign) // mutant: releasing-counts
    }

    /// What is free now; nothing when the device is over-full, `None` when unknown.
    pub fn free(&self) -> Option<Bytes> {
        if self.undeclared > 0 {
            return None;
        }
        Some(self.usable?.less(self.load()))
    }

    /// What a new request may have: free now, and not needed later for what was promised.
    pub fn open(&self) -> Option<Bytes> {
        let free = self.free()?;
        if self.promised.is_zero() {
            return Some(free);
        }
        let later = self.usable?.less(self.load().less(self.releasing)).less(self.promised);
        Some(free.min(later))
    }

    /// How far what is surely here exceeds the line.
    pub fn over_by(&self) -> Bytes {
        let sure =
            self.tenants.iter().filter(|tenant| !tenant.floating).filter_map(|tenant| tenant.bytes);
        let surely = sure.fold(self.foreign, Bytes::plus);
        self.usable.map_or(Bytes::ZERO, |usable| surely.less(usable))
    }

    /// Whether a breach keeps new work away: its books and its memory disagree, or what is surely here exceeds the line.
    pub fn takes_nothing(&self) -> bool {
        self.closed || !self.over_by().is_zero()
    }

    /// Whether nobody is there and nothing foreign is seen.
    pub fn is_idle(&self) -> bool {
        self.tenants.is_empty() && self.foreign.is_zero()
    }

    fn add(&mut self, id: HoldingId, holding: &Holding, charge: &Charge) {
        let bytes = charge.bytes();
        *self.column(holding.stage, charge) =
            self.column(holding.stage, charge).plus(bytes.unwrap_or(Bytes::ZERO));
        self.cores = self.cores.saturating_add(charge.cores.0);
        self.slots = self.slots.saturating_add(charge.slots);
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
            slices,
        };
        // By arrival, also for one that was taken off to be changed: the order must not tell how a state was reached.
        let at = self.tenants.partition_point(|other| other.holding <= id);
        self.tenants.insert(at, tenant);
    }

    fn remove(&mut self, id: HoldingId, holding: &Holding, charge: &Charge) {
        let bytes = charge.bytes().unwrap_or(Bytes::ZERO);
        let column = self.column(holding.stage, charge);
        *column = column.less(bytes);
        self.cores = self.cores.saturating_sub(charge.cores.0);
        self.slots = self.slots.saturating_sub(charge.slots);
        self.undeclared -= u32::from(charge.amount == Booked::Undeclared);
        self.tenants.retain(|tenant| tenant.holding != id);
        self.occupied = self.tenants.iter().fold(0, |mask, tenant| mask | tenant.slices);
    }

    fn column(&mut self, stage: Stage, charge: &Charge) -> &mut Bytes {
        if stage.is_releasing() {
            &mut self.releasing
        } else if charge.floats() {
            &mut self.floating
        } else {
            &mut self.held
        }
    }
}

impl NodeRoom {
    /// The account of a node without tenants.
    pub fn empty(node: &Node, measured: &[Measured]) -> Self {
        let of = |ordinal: usize| measured.get(ordinal).copied().unwrap_or_default();
        let empty = |(i, device): (usize, &Device)| Arc::new(DeviceRoom::empty(device, of(i)));
        let devices: Vec<Arc<DeviceRoom>> = node.devices.iter().enumerate().map(empty).collect();
        let mut kinds: Vec<Name> = node.devices.iter().map(|device| device.kind.clone()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let gauges =
            (0..devices.len()).map(|i| Gauge::read(node, &kinds, i, &devices[i])).collect();
        let digests = devices.iter().map(|device| device.digest()).collect();
        NodeRoom { cpu: 0, memory: Bytes::ZERO, pods: 0, kinds, gauges, digests, devices }
    }

    /// The short rows of its devices, by ordinal.
    pub(crate) fn gauges(&self) -> &[Gauge] {
        &self.gauges
    }

    /// The place of a kind in the node's list of kinds, as the short rows name it.
    pub(crate) fn kind(&self, kind: &Name) -> Option<u8> {
        self.kinds.iter().position(|known| known == kind).and_then(|place| u8::try_from(place).ok())
    }

    /// The accounts of its devices, by ordinal.
    pub fn devices(&self) -> &[Arc<DeviceRoom>] {
        &self.devices
    }

    /// What is free of the node besides devices; `None` where it is not limited.
    pub fn free_cpu(&self, node: &Node) -> Option<MilliCpu> {
        node.allocatable.cpu.map(|cpu| MilliCpu(cpu.0.saturating_sub(self.cpu)))
    }

    /// Main memory that is free; `None` where it is not limited.
    pub fn free_memory(&self, node: &Node) -> Option<Bytes> {
        node.allocatable.memory.map(|memory| memory.less(self.memory))
    }

    /// Pods that may still come; `None` where they are not limited.
    pub fn free_pods(&self, node: &Node) -> Option<u32> {
        node.allocatable.pods.map(|pods| pods.saturating_sub(self.pods))
    }

    /// Whether whoever judges finds the same on both.
    pub(crate) fn reads_like(&self, other: &NodeRoom) -> bool {
        self.sums() == other.sums() && self.gauges == other.gauges
    }

    /// What is held of the node besides its devices.
    fn sums(&self) -> (u64, Bytes, u32) {
        (self.cpu, self.memory, self.pods)
    }

    /// Adds all that a holding has here. Only the ledger and its drafts do so.
    pub(crate) fn add(&mut self, node: &Node, id: HoldingId, holding: &Holding) {
        self.shift(holding.resources, true);
        for charge in &holding.charges {
            self.each(node, charge, |device| device.add(id, holding, charge));
        }
    }

    /// Takes off all that a holding has here.
    pub(crate) fn remove(&mut self, node: &Node, id: HoldingId, holding: &Holding) {
        self.shift(holding.resources, false);
        for charge in &holding.charges {
            self.each(node, charge, |device| device.remove(id, holding, charge));
        }
    }

    /// Marks memory as promised to somebody who waits, or takes the mark off again.
    pub(crate) fn promise(&mut self, node: &Node, charges: &[Charge], made: bool) {
        for charge in charges {
            let bytes = charge.bytes().unwrap_or(Bytes::ZERO);
            self.each(node, charge, |device| {
                device.promised =
                    if made { device.promised.plus(bytes) } else { device.promised.less(bytes) };
            });
        }
    }

    /// Replaces what was measured on a device.
    pub(crate) fn measure(&mut self, node: &Node, ordinal: usize, measured: Measured) {
        self.change(node, ordinal, |device| {
            (device.foreign, device.telemetry, device.closed) =
                (measured.foreign, measured.telemetry, measured.closed);
        });
    }

    fn each(&mut self, node: &Node, charge: &Charge, mut change: impl FnMut(&mut DeviceRoom)) {
        for ordinal in charge.on.iter().map(|ordinal| usize::from(*ordinal)) {
            self.change(node, ordinal, &mut change);
        }
    }

    /// Changes the account of one device, and what is read off it.
    fn change(&mut self, node: &Node, ordinal: usize, change: impl FnOnce(&mut DeviceRoom)) {
        if let Some(device) = self.devices.get_mut(ordinal).map(Arc::make_mut) {
            change(device);
            self.gauges[ordinal] = Gauge::read(node, &self.kinds, ordinal, device);
            self.digests[ordinal] = device.digest();
        }
    }

    fn shift(&mut self, need: NodeNeed, more: bool) {
        if more {
            self.cpu = self.cpu.saturating_add(need.cpu.0);
            self.memory = self.memory.plus(need.memory);
            self.pods = self.pods.saturating_add(need.pods);
        } else {
            self.cpu = self.cpu.saturating_sub(need.cpu.0);
            self.memory = self.memory.less(need.memory);
            self.pods = self.pods.saturating_sub(need.pods);
        }
    }
}

/// A node with its account: what `fit` looks at. Shared, so that a decision can keep the very rows it saw.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// What the node is.
    pub node: Arc<Node>,
    /// What is held there.
    pub room: Arc<NodeRoom>,
}

impl NodeView {
    /// The digest of all that a decision sees here, what the node's facts say aside.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = Mixer::default();
        (&self.node.name, &self.room.digests).hash(&mut hasher);
        hasher.finish()
    }

    /// Makes a change, and says whether whoever judges may find something else from here on.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut NodeView)) -> bool {
        let (sums, gauges) = (self.room.sums(), self.room.gauges.clone());
        change(self);
        self.room.sums() != sums || self.room.gauges != gauges
    }
}

/// Changing the account of a node; only the ledger and its drafts do so. Rows that a decision keeps are copied first.
impl NodeView {
    pub(crate) fn add(&mut self, id: HoldingId, holding: &Holding) {
        Arc::make_mut(&mut self.room).add(&self.node, id, holding);
    }

    pub(crate) fn remove(&mut self, id: HoldingId, holding: &Holding) {
        Arc::make_mut(&mut self.room).remove(&self.node, id, holding);
    }

    pub(crate) fn promise(&mut self, charges: &[Charge], made: bool) {
        Arc::make_mut(&mut self.room).promise(&self.node, charges, made);
    }

    pub(crate) fn measure(&mut self, ordinal: usize, measured: Measured) {
        Arc::make_mut(&mut self.room).measure(&self.node, ordinal, measured);
    }
}

#[cfg(test)]
mod tests;
