//! The devices that drivers publish in ResourceSlices, by pool and by node.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::units::Name;

use crate::object::{ClaimedDevice, ObjectRef, ResourceSlice, SliceDevice};

/// A pool of one driver. Device names are unique within it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::translate) struct PoolKey {
    driver: Name,
    pool: Name,
}

impl PoolKey {
    pub(super) fn of_claimed(device: &ClaimedDevice) -> PoolKey {
        PoolKey { driver: device.driver.as_str().into(), pool: device.pool.as_str().into() }
    }

    fn of_slice(slice: &ResourceSlice) -> PoolKey {
        let (driver, pool) = (slice.spec.driver.as_str(), slice.spec.pool.name.as_str());
        PoolKey { driver: driver.into(), pool: pool.into() }
    }
}

/// A published device.
#[derive(Clone, Copy, Debug)]
pub(in crate::translate) struct Published<'a> {
    slice: &'a ResourceSlice,
    pub(in crate::translate) device: &'a SliceDevice,
}

impl<'a> Published<'a> {
    pub(in crate::translate) fn driver(self) -> &'a str {
        &self.slice.spec.driver
    }

    pub(super) fn node(self) -> Option<&'a str> {
        self.slice.spec.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Returns the identity: the UUID, or the unique name of the device where its driver publishes
    /// no UUID.
    pub(in crate::translate) fn identity(self) -> Name {
        let named = || {
            let spec = &self.slice.spec;
            format!("{}/{}/{}", spec.driver, spec.pool.name, self.device.name).into()
        };
        self.uuid().map_or_else(named, Name::from)
    }

    pub(in crate::translate) fn uuid(self) -> Option<&'a str> {
        self.device.attribute("uuid")
    }

    /// Returns the UUID of the card that the device is a part of, as for MIG instances.
    pub(in crate::translate) fn parent(self) -> Option<&'a str> {
        ["parentUUID", "parentUuid"].iter().find_map(|name| self.device.attribute(name))
    }

    /// Returns true for accelerators. Drivers publish network cards and CPUs too, which have
    /// neither memory nor the UUID of a card.
    pub(in crate::translate) fn is_accelerator(self) -> bool {
        self.device.memory().is_some() || self.uuid().is_some() || self.driver().starts_with("gpu.")
    }
}

/// All slices of a cluster.
#[derive(Debug, Default)]
pub(in crate::translate) struct Pools {
    slices: BTreeMap<Name, ResourceSlice>,
    by_pool: BTreeMap<PoolKey, BTreeSet<Name>>,
    by_node: BTreeMap<Name, BTreeSet<Name>>,
}

/// The pools and nodes whose devices a change of a slice can have altered.
#[derive(Debug, Default)]
pub(in crate::translate) struct PoolChange {
    pub(in crate::translate) pools: BTreeSet<PoolKey>,
    pub(in crate::translate) nodes: BTreeSet<Name>,
}

impl Pools {
    /// Adds or replaces a slice.
    pub(in crate::translate) fn insert(&mut self, slice: ResourceSlice) -> PoolChange {
        let name = Name::from(slice.metadata.name.as_str());
        if self.slices.get(&name) == Some(&slice) {
            return PoolChange::default();
        }
        let mut change = self.take_out(&name);
        let pool = PoolKey::of_slice(&slice);
        self.by_pool.entry(pool.clone()).or_default().insert(name.clone());
        if let Some(node) = node_of(&slice) {
            self.by_node.entry(node.into()).or_default().insert(name.clone());
        }
        self.slices.insert(name, slice);
        self.touch(pool, &mut change);
        change
    }

    /// Removes a slice that matches the reference.
    pub(in crate::translate) fn remove(&mut self, object: &ObjectRef) -> PoolChange {
        match self.slices.get(&object.name) {
            Some(known) if object.can_be(known.metadata.known_uid()) => self.take_out(&object.name),
            _ => PoolChange::default(),
        }
    }

    /// Lists the devices of a node, in the order of their slices.
    pub(in crate::translate) fn on_node(&self, node: &str) -> Vec<Published<'_>> {
        let names = self.by_node.get(node).into_iter().flatten();
        let slices = names.filter_map(|name| self.slices.get(name));
        let current = slices.filter(|slice| self.is_current(slice));
        current.flat_map(devices).collect()
    }

    /// Lists the pools with devices on a node.
    pub(in crate::translate) fn pools_of(&self, node: &str) -> BTreeSet<PoolKey> {
        let names = self.by_node.get(node).into_iter().flatten();
        names.filter_map(|name| self.slices.get(name)).map(PoolKey::of_slice).collect()
    }

    /// Finds a device of a claim.
    pub(super) fn find(&self, claimed: &ClaimedDevice) -> Option<Published<'_>> {
        let names = self.by_pool.get(&PoolKey::of_claimed(claimed))?.iter();
        let slices = names.filter_map(|name| self.slices.get(name));
        let mut devices = slices.filter(|slice| self.is_current(slice)).flat_map(devices);
        devices.find(|one| one.device.name == claimed.device)
    }

    /// Returns the node of a claimed device by its pool, also where no slice lists the device any
    /// more; `None` if the pool has slices of several nodes, or of none.
    pub(super) fn node_of_pool(&self, claimed: &ClaimedDevice) -> Option<&str> {
        let names = self.by_pool.get(&PoolKey::of_claimed(claimed))?.iter();
        let mut nodes = names.filter_map(|name| self.slices.get(name)).map(node_of);
        let first = nodes.next()??;
        nodes.all(|node| node == Some(first)).then_some(first)
    }

    /// Returns true if no slice of the pool has a higher generation: its driver replaces those of
    /// lower ones.
    fn is_current(&self, slice: &ResourceSlice) -> bool {
        let names = self.by_pool.get(&PoolKey::of_slice(slice)).into_iter().flatten();
        let generations = names.filter_map(|name| self.slices.get(name));
        generations.map(|one| one.spec.pool.generation).max() == Some(slice.spec.pool.generation)
    }

    fn take_out(&mut self, name: &Name) -> PoolChange {
        let mut change = PoolChange::default();
        let Some(slice) = self.slices.remove(name) else { return change };
        let pool = PoolKey::of_slice(&slice);
        if let Some(node) = node_of(&slice) {
            drop_name(&mut self.by_node, &node.into(), name);
            change.nodes.insert(node.into());
        }
        drop_name(&mut self.by_pool, &pool, name);
        self.touch(pool, &mut change);
        change
    }

    /// Adds a pool, and the nodes of all its slices: another generation can count now.
    fn touch(&self, pool: PoolKey, change: &mut PoolChange) {
        let names = self.by_pool.get(&pool).into_iter().flatten();
        let slices = names.filter_map(|name| self.slices.get(name));
        change.nodes.extend(slices.filter_map(node_of).map(Name::from));
        change.pools.insert(pool);
    }
}

fn node_of(slice: &ResourceSlice) -> Option<&str> {
    slice.spec.node_name.as_deref().filter(|name| !name.is_empty())
}

fn devices(slice: &ResourceSlice) -> impl Iterator<Item = Published<'_>> {
    slice.spec.devices.iter().map(move |device| Published { slice, device })
}

fn drop_name<K: Ord>(names: &mut BTreeMap<K, BTreeSet<Name>>, key: &K, name: &Name) {
    if let Some(listed) = names.get_mut(key) {
        listed.remove(name);
        if listed.is_empty() {
            names.remove(key);
        }
    }
}
