//! The use of a node's named resources.

use std::collections::BTreeMap;

use crate::resources::ResourceAmounts;
use crate::units::Name;

/// The amounts of named resources that the holdings of a node take.
///
/// Sums have 128 bits, so that no number of holdings overflows them and removing a holding always
/// restores the sum before it. An entry is removed with its last holder: accounts with equal
/// holdings are equal, whatever their histories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ExtendedUse(BTreeMap<Name, u128>);

impl ExtendedUse {
    /// Returns the amount of a resource in use.
    pub(super) fn get(&self, resource: &str) -> u128 {
        self.0.get(resource).copied().unwrap_or(0)
    }

    /// Iterates over the resources in use, ordered by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Name, u128)> {
        self.0.iter().map(|(resource, used)| (resource, *used))
    }

    pub(super) fn add(&mut self, amounts: &ResourceAmounts) {
        for (resource, amount) in amounts.iter() {
            *self.0.entry(resource.clone()).or_default() += u128::from(amount);
        }
    }

    /// Undoes [`ExtendedUse::add`].
    pub(super) fn remove(&mut self, amounts: &ResourceAmounts) {
        for (resource, amount) in amounts.iter() {
            let Some(used) = self.0.get_mut(resource) else { continue };
            *used = used.saturating_sub(u128::from(amount));
            if *used == 0 {
                self.0.remove(resource);
            }
        }
    }
}
