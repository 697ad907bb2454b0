//! How many devices the device plugin advertises: tokens and all, so never a number of cards.

use crate::hami::vendor::VENDORS;
use crate::object::{NodeStatus, Resources};
use crate::quantity::{Quantity, QuantityError};

use super::mig;

/// NVIDIA's resource for shared GPUs, where its plugin is told to rename them.
pub(super) const SHARED: &str = "nvidia.com/gpu.shared";

/// What is advertised of a resource; `None` where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Advertised {
    /// All there is. Where only what is allocatable is listed, that.
    pub(super) capacity: Option<u64>,
    /// What of it is healthy.
    pub(super) allocatable: Option<u64>,
}

/// What is advertised under these names together, or the field that cannot be read and why.
pub(super) fn of(status: &NodeStatus, names: &[&str]) -> Result<Advertised, String> {
    let total = |field: &str, resources: &Resources| {
        let mut total: Option<u64> = None;
        for name in names {
            if let Some(amount) = amount(resources, name) {
                let amount = amount.map_err(|error| format!("{field} {name}: {error}"))?;
                total = Some(total.unwrap_or(0).saturating_add(amount));
            }
        }
        Ok::<_, String>(total)
    };
    let allocatable = total("status.allocatable", &status.allocatable)?;
    Ok(match total("status.capacity", &status.capacity)? {
        Some(capacity) => Advertised { capacity: Some(capacity), allocatable },
        None => Advertised { capacity: allocatable, allocatable: None },
    })
}

/// All devices of all vendors that are advertised, as far as that can be read; `None` when none are listed.
pub(super) fn in_all(status: &NodeStatus) -> Option<u64> {
    let mut names: Vec<&str> = VENDORS.iter().map(|vendor| vendor.count).collect();
    names.push(SHARED);
    names.extend(mig::resources(status));
    let of_each = names.iter().filter_map(|name| of(status, &[name]).ok()?.capacity);
    of_each.reduce(u64::saturating_add)
}

fn amount(resources: &Resources, name: &str) -> Option<Result<u64, QuantityError>> {
    resources.get(name).map(|amount| amount.map_err(Clone::clone).and_then(Quantity::whole))
}
