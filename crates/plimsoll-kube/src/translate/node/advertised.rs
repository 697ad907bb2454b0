//! The number of advertised devices. It counts tokens, so it is never a number of cards.

use std::collections::BTreeSet;

use crate::finding::{PluginProblem, UnreadableAmount};
use crate::hami::vendor::{VENDORS, Vendor};
use crate::object::{NodeStatus, Resources};
use crate::plugins::names_device;
use crate::quantity::{Quantity, QuantityError};

use super::mig;
use super::notes::Notes;

/// NVIDIA's resource for shared GPUs, where its plugin is configured to rename them.
pub(super) const SHARED: &str = "nvidia.com/gpu.shared";

/// The advertised amount of a resource; `None` where it is not listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Advertised {
    /// The capacity, or the allocatable amount where only that is listed.
    pub(super) capacity: Option<u64>,
    /// The healthy part of the capacity.
    pub(super) allocatable: Option<u64>,
}

/// Sums what is advertised under these names.
pub(super) fn sum(status: &NodeStatus, names: &[&str]) -> Result<Advertised, UnreadableAmount> {
    let allocatable = total("status.allocatable", &status.allocatable, names)?;
    Ok(match total("status.capacity", &status.capacity, names)? {
        Some(capacity) => Advertised { capacity: Some(capacity), allocatable },
        None => Advertised { capacity: allocatable, allocatable: None },
    })
}

/// Returns false for a node without any extended resource in its status, as in manifests: nothing
/// is known then about what it advertises.
pub(super) fn lists_extended(status: &NodeStatus) -> bool {
    let mut names = status.capacity.iter().chain(status.allocatable.iter());
    names.any(|(name, _)| name.contains('/'))
}

/// Sums the devices of all vendors, as far as readable; `None` if none are listed.
pub(super) fn all_devices(status: &NodeStatus) -> Option<u64> {
    let mut names: Vec<&str> = VENDORS.iter().map(|vendor| vendor.count).collect();
    names.push(SHARED);
    names.extend(mig::resources(status));
    let of_each = names.iter().filter_map(|name| sum(status, &[name]).ok()?.capacity);
    of_each.reduce(u64::saturating_add)
}

/// Reports device resources that are not known, on a node without known devices. Its devices are
/// then unknown: it has some.
pub(super) fn check_unknown(status: &NodeStatus, notes: &mut Notes) {
    let listed = status.capacity.iter().chain(status.allocatable.iter());
    let names: BTreeSet<&str> = listed.map(|(name, _)| name).collect();
    let known = |name: &str| {
        let of_vendor = |vendor: &Vendor| vendor.resource_names().any(|own| own == name);
        name == SHARED || name.starts_with(mig::RESOURCE_PREFIX) || VENDORS.iter().any(of_vendor)
    };
    for name in names.into_iter().filter(|name| names_device(name) && !known(name)) {
        if let Ok(Advertised { capacity: Some(advertised @ 1..), .. }) = sum(status, &[name]) {
            notes.add(PluginProblem::ResourceUnknown { resource: name.into(), advertised });
        }
    }
}

fn total(
    field: &'static str,
    resources: &Resources,
    names: &[&str],
) -> Result<Option<u64>, UnreadableAmount> {
    let mut total: Option<u64> = None;
    for name in names {
        if let Some(amount) = amount(resources, name) {
            let amount = amount.map_err(|error| UnreadableAmount {
                field,
                resource: (*name).into(),
                error: Box::new(error),
            })?;
            total = Some(total.unwrap_or(0).saturating_add(amount));
        }
    }
    Ok(total)
}

fn amount(resources: &Resources, name: &str) -> Option<Result<u64, QuantityError>> {
    resources.get(name).map(|amount| amount.map_err(Clone::clone).and_then(Quantity::whole))
}
