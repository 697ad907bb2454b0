//! Device selection and scheduling policies of a pod, by HAMi's annotations.

use plimsoll_core::request::{
    Container, DeviceSelector, Misuse, Need, Order, PlacementHints, Shape, Weights,
};
use plimsoll_core::units::Name;

use crate::hami::selection::{DeviceSelection, SelectionError};
use crate::hami::vendor::{SPLIT_MODE, VENDORS, Vendor};
use crate::hami::weights::{DevicePolicy, NodePolicy};
use crate::object::StringMap;

use super::super::misuse::{annotation, misuse};

/// Adds the device selection of a pod to all its needs.
pub(super) fn add(annotations: &StringMap, containers: &mut [Container]) -> Result<(), Misuse> {
    if annotations.is_empty() {
        return Ok(());
    }
    for need in containers.iter_mut().flat_map(|container| &mut container.needs) {
        let read = DeviceSelection::read(vendor_of(need), annotations)
            .map_err(|error| unreadable(&error))?;
        need.selector = device_selector(need, read, annotations);
    }
    Ok(())
}

/// Reads the scheduling policies of a pod. They apply only to pods with device needs.
pub(super) fn placement_hints(
    annotations: &StringMap,
    shape: &Shape,
) -> Result<PlacementHints, Misuse> {
    if shape.device_count() == 0 || annotations.is_empty() {
        return Ok(PlacementHints::default());
    }
    let read =
        DeviceSelection::read(&VENDORS[0], annotations).map_err(|error| unreadable(&error))?;
    let device = |policy: &DevicePolicy| match policy {
        DevicePolicy::Binpack => Some(Order::Pack),
        DevicePolicy::Spread => Some(Order::Spread),
        DevicePolicy::TopologyAware | DevicePolicy::Mutex | DevicePolicy::Numa => None,
    };
    Ok(PlacementHints {
        nodes: read.node_policy.map(|policy| match policy {
            NodePolicy::Binpack => Order::Pack,
            NodePolicy::Spread => Order::Spread,
        }),
        devices: read.device_policy.iter().find_map(device),
        weights: read.weights.map(|weights| Weights {
            slots: weights.slot,
            cores: weights.core,
            memory: weights.memory,
        }),
    })
}

/// Returns the vendor of a kind. MIG instances are NVIDIA's.
fn vendor_of(need: &Need) -> &'static Vendor {
    VENDORS.iter().find(|vendor| vendor.kind() == &*need.kind).unwrap_or(&VENDORS[0])
}

fn device_selector(need: &Need, read: DeviceSelection, annotations: &StringMap) -> DeviceSelector {
    let names = |names: Vec<String>| -> Vec<Name> { names.into_iter().map(Name::from).collect() };
    let excluded = need.selector.not_models.iter().cloned();
    let asked = |policy| read.device_policy.contains(&policy);
    let (alone, linked) =
        (need.selector.alone || asked(DevicePolicy::Mutex), asked(DevicePolicy::TopologyAware));
    // Each vendor has an annotation of its own for modes.
    let vendor = vendor_of(need);
    let soft = annotations.get(SPLIT_MODE).filter(|_| vendor.has_soft_split());
    let modes = read.mode.filter(|_| vendor.kind() == "NVIDIA");
    let modes = modes.or_else(|| soft.map(str::to_owned)).unwrap_or_default();
    let modes = modes.split(',').map(str::trim).filter(|mode| !mode.is_empty());
    DeviceSelector {
        modes: modes.map(Name::from).collect(),
        models: names(read.models.wanted),
        not_models: excluded.chain(names(read.models.unwanted)).collect(),
        uuids: names(read.uuids.wanted),
        not_uuids: names(read.uuids.unwanted),
        ordinals: Vec::new(),
        one_numa: read.numa_bind,
        alone,
        linked,
    }
}

fn unreadable(error: &SelectionError) -> Misuse {
    let key = match error {
        SelectionError::Policy { key, .. } | SelectionError::NotABool { key, .. } => *key,
    };
    misuse([annotation(key)], error.to_string())
}
