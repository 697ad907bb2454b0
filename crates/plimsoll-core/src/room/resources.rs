//! The use of a node's own resources: CPU, main memory, pods, and named resources.

use super::extended::ExtendedUse;
use crate::request::NodeNeed;
use crate::units::Bytes;

/// Sums of the resources of a node. Each sum is of all needs that were added and not removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourceUse {
    pub(super) cpu: u64,
    pub(super) memory: Bytes,
    pub(super) pods: u32,
    pub(super) extended: ExtendedUse,
}

impl ResourceUse {
    pub(super) fn add(&mut self, need: &NodeNeed) {
        self.cpu = self.cpu.saturating_add(need.cpu.0);
        self.memory = self.memory.plus(need.memory);
        self.pods = self.pods.saturating_add(need.pods);
        self.extended.add(&need.extended);
    }

    /// Undoes [`ResourceUse::add`].
    pub(super) fn remove(&mut self, need: &NodeNeed) {
        self.cpu = self.cpu.saturating_sub(need.cpu.0);
        self.memory = self.memory.less(need.memory);
        self.pods = self.pods.saturating_sub(need.pods);
        self.extended.remove(&need.extended);
    }
}

/// The resources of a node by their state. Those being released are part of those held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeResources {
    pub(super) held: ResourceUse,
    pub(super) releasing: ResourceUse,
    pub(super) promised: ResourceUse,
}

impl NodeResources {
    /// Returns the amount that a new request may take: free now, and not needed for promises later.
    /// Promises are covered first by the amount being released, as those of devices are
    /// (`DeviceRoom::open`).
    pub(super) fn open(&self, allocatable: u64, amount: impl Fn(&ResourceUse) -> u128) -> u64 {
        let (held, releasing) = (amount(&self.held), amount(&self.releasing));
        let free = u128::from(allocatable).saturating_sub(held);
        let stays = held.saturating_sub(releasing).saturating_add(amount(&self.promised));
        let later = u128::from(allocatable).saturating_sub(stays);
        u64::try_from(free.min(later)).unwrap_or(allocatable)
    }
}
