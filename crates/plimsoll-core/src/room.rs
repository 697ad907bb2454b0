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

use std::sync::Arc;

use crate::charge::{Charge, Holding, HoldingId};
use crate::device::Node;
use crate::request::NodeNeed;
use crate::units::{Bytes, MilliCpu, Name};

mod device;
mod extended;
mod fit_input;
mod floating;
mod resources;
mod view;

pub use device::{DeviceRoom, Measured, Tenant};
pub(crate) use fit_input::FitInput;
pub use view::NodeView;

use floating::TokenGroup;
use resources::{NodeResources, ResourceUse};

/// The usage of one node: its own resources and each of its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRoom {
    resources: NodeResources,
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
            resources: NodeResources::default(),
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

    /// Returns the CPU that is free and not promised; `None` if it is not limited.
    pub fn free_cpu(&self, node: &Node) -> Option<MilliCpu> {
        let open = |cpu: MilliCpu| MilliCpu(self.resources.open(cpu.0, |sum| sum.cpu.into()));
        node.allocatable.cpu.map(open)
    }

    /// Returns the main memory that is free and not promised; `None` if it is not limited.
    pub fn free_memory(&self, node: &Node) -> Option<Bytes> {
        let amount = |sum: &ResourceUse| u128::from(sum.memory.get());
        let open = |memory: Bytes| Bytes::new(self.resources.open(memory.get(), amount));
        node.allocatable.memory.map(open)
    }

    /// Returns the number of pods that the node can still take beside those that are promised a
    /// place; `None` if it is not limited.
    pub fn free_pods(&self, node: &Node) -> Option<u32> {
        let open = |pods: u32| self.resources.open(pods.into(), |sum| sum.pods.into());
        node.allocatable.pods.map(|pods| u32::try_from(open(pods)).unwrap_or(pods))
    }

    /// Returns the amount of a named resource that is free and not promised: zero if the node does
    /// not advertise it.
    pub fn free_extended(&self, node: &Node, resource: &str) -> u64 {
        let allocatable = node.allocatable.extended.get(resource);
        self.resources.open(allocatable, |sum| sum.extended.get(resource))
    }

    /// Iterates over the named resources in use, ordered by name.
    pub fn extended_in_use(&self) -> impl Iterator<Item = (&Name, u128)> {
        self.resources.held.extended.iter()
    }

    /// Returns true if `fit` and the score give equal results on both, given equal node facts.
    pub(crate) fn same_fit_inputs(&self, other: &NodeRoom) -> bool {
        let mut devices = self.devices.iter().zip(&other.devices);
        self.resources == other.resources
            && self.fit_inputs == other.fit_inputs
            && (self.groups.is_empty()
                || devices.all(|(one, two)| one.meetable() == two.meetable()))
    }

    /// Adds the charges and node resources of a holding. Only the ledger and its drafts call this.
    pub(crate) fn add(&mut self, node: &Node, id: HoldingId, holding: &Holding) {
        self.change_resources(holding, ResourceUse::add);
        for charge in &holding.charges {
            self.change_floating_slots(charge, u64::saturating_add);
            self.change_each(node, charge, |device| device.add(id, holding, charge));
        }
    }

    /// Removes the charges and node resources of a holding: undoes [`NodeRoom::add`].
    pub(crate) fn remove(&mut self, node: &Node, id: HoldingId, holding: &Holding) {
        self.change_resources(holding, ResourceUse::remove);
        for charge in &holding.charges {
            self.change_floating_slots(charge, u64::saturating_sub);
            self.change_each(node, charge, |device| device.remove(id, holding, charge));
        }
    }

    /// Earmarks memory and node resources for a pending request.
    pub(crate) fn add_promise(&mut self, node: &Node, charges: &[Charge], resources: &NodeNeed) {
        self.resources.promised.add(resources);
        for charge in charges {
            let bytes = charge.bytes().unwrap_or(Bytes::ZERO);
            self.change_each(node, charge, |device| device.promised = device.promised.plus(bytes));
        }
    }

    /// Removes an earmark: undoes [`NodeRoom::add_promise`].
    pub(crate) fn remove_promise(&mut self, node: &Node, charges: &[Charge], resources: &NodeNeed) {
        self.resources.promised.remove(resources);
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

    /// Changes the sums of the node's own resources by those of a holding.
    fn change_resources(
        &mut self,
        holding: &Holding,
        change: impl Fn(&mut ResourceUse, &NodeNeed),
    ) {
        change(&mut self.resources.held, &holding.resources);
        if holding.stage.is_releasing() {
            change(&mut self.resources.releasing, &holding.resources);
        }
    }
}

fn kind_index(kinds: &[Name], kind: &Name) -> Option<u16> {
    kinds.iter().position(|known| known == kind).and_then(|index| u16::try_from(index).ok())
}

#[cfg(test)]
mod tests;
