//! Named resources of a node that are only counted: extended resources such as `nvidia.com/gpu`, huge
//! pages, ephemeral storage.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units::Name;

/// Amounts of resources by name, in the unit of each resource. A resource without an entry has the
/// amount 0: a node does not advertise it, a request does not ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceAmounts(BTreeMap<Name, u64>);

impl ResourceAmounts {
    /// Returns the amount of a resource.
    pub fn get(&self, resource: &str) -> u64 {
        self.0.get(resource).copied().unwrap_or(0)
    }

    /// Replaces the amount of a resource. An amount of 0 removes the entry, so that equal amounts
    /// are equal values.
    pub fn set(&mut self, resource: impl Into<Name>, amount: u64) {
        let resource = resource.into();
        if amount == 0 {
            self.0.remove(&resource);
        } else {
            self.0.insert(resource, amount);
        }
    }

    /// Iterates over the resources with an amount, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.0.iter().map(|(resource, amount)| (resource, *amount))
    }

    /// Returns true if every amount is 0.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Raises each amount to that of `other` where `other` has more.
    pub(crate) fn raise_to(&mut self, other: &ResourceAmounts) {
        for (resource, amount) in other.iter() {
            let own = self.0.entry(resource.clone()).or_default();
            *own = amount.max(*own);
        }
    }
}

impl<N: Into<Name>> FromIterator<(N, u64)> for ResourceAmounts {
    fn from_iter<I: IntoIterator<Item = (N, u64)>>(amounts: I) -> Self {
        let mut all = ResourceAmounts::default();
        amounts.into_iter().for_each(|(resource, amount)| all.set(resource, amount));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_of_zero_equals_no_entry() {
        let mut amounts = ResourceAmounts::from_iter([("nvidia.com/gpu", 8), ("rdma/hca", 0)]);
        assert_eq!(amounts, ResourceAmounts::from_iter([("nvidia.com/gpu", 8)]));
        assert_eq!((amounts.get("nvidia.com/gpu"), amounts.get("rdma/hca")), (8, 0));
        amounts.set("nvidia.com/gpu", 0);
        assert!(amounts.is_empty());
    }
}
