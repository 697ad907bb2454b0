//! The claims of a cluster, by the pools and nodes that they depend on.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::request::RequestId;
use plimsoll_core::units::Name;

use crate::object::{ClaimAllocation, Metadata, ObjectRef, ResourceClaim};

use super::super::index::PodKey;
use super::pools::PoolKey;

/// The prefix of a claim's name among the holders. No pod can have such a name.
const PREFIX: &str = "resourceclaims/";

/// The only field of a node that Kubernetes selects by.
const NAME_FIELD: &str = "metadata.name";

/// Returns the identity of a claim as a holder.
pub(in crate::translate) fn claim_id(metadata: &Metadata) -> RequestId {
    let name = format!("{PREFIX}{}", metadata.name);
    let id = RequestId::new(metadata.namespace_or_default(), name.as_str());
    match metadata.known_uid() {
        Some(uid) => id.with_uid(uid),
        None => id,
    }
}

/// Returns the key of a claim by its identity; `None` if it is not that of a claim.
pub(in crate::translate) fn claim_key(id: &RequestId) -> Option<PodKey> {
    let name = id.name.strip_prefix(PREFIX)?;
    Some(PodKey { namespace: id.account.clone(), name: name.into() })
}

/// All claims of a cluster.
#[derive(Debug, Default)]
pub(in crate::translate) struct Claims {
    claims: BTreeMap<PodKey, ResourceClaim>,
    by_pool: BTreeMap<PoolKey, BTreeSet<PodKey>>,
    by_node: BTreeMap<Name, BTreeSet<PodKey>>,
    /// The pods that name each claim, whether or not it was read.
    users: BTreeMap<PodKey, BTreeSet<PodKey>>,
}

impl Claims {
    /// Adds or replaces a claim. Returns the identities that are affected: with another uid it is
    /// another claim.
    pub(in crate::translate) fn insert(&mut self, claim: ResourceClaim) -> BTreeSet<RequestId> {
        let key = PodKey::new(&claim.metadata);
        if self.claims.get(&key) == Some(&claim) {
            return BTreeSet::new();
        }
        let mut affected = self.take_out(&key);
        affected.insert(claim_id(&claim.metadata));
        for pool in pools(&claim) {
            self.by_pool.entry(pool).or_default().insert(key.clone());
        }
        if let Some(node) = claim.status.allocation.as_ref().and_then(selected_node) {
            self.by_node.entry(node.into()).or_default().insert(key.clone());
        }
        self.claims.insert(key, claim);
        affected
    }

    /// Removes a claim that matches the reference.
    pub(in crate::translate) fn remove(&mut self, object: &ObjectRef) -> BTreeSet<RequestId> {
        let key = PodKey { namespace: object.namespace.clone(), name: object.name.clone() };
        match self.claims.get(&key) {
            Some(known) if object.can_be(known.metadata.known_uid()) => self.take_out(&key),
            _ => BTreeSet::new(),
        }
    }

    pub(in crate::translate) fn get(&self, key: &PodKey) -> Option<&ResourceClaim> {
        self.claims.get(key)
    }

    pub(in crate::translate) fn iter(&self) -> impl Iterator<Item = &ResourceClaim> {
        self.claims.values()
    }

    /// Lists the claims with devices of a pool.
    pub(in crate::translate) fn on_pool(&self, pool: &PoolKey) -> impl Iterator<Item = RequestId> {
        self.ids(self.by_pool.get(pool))
    }

    /// Lists the claims whose allocation names a node.
    pub(in crate::translate) fn on_node(&self, node: &str) -> impl Iterator<Item = RequestId> {
        self.ids(self.by_node.get(node))
    }

    /// Iterates over the pods that name a claim.
    pub(in crate::translate) fn users(&self, claim: &PodKey) -> impl Iterator<Item = &PodKey> {
        self.users.get(claim).into_iter().flatten()
    }

    pub(in crate::translate) fn add_user(&mut self, claim: PodKey, pod: &PodKey) {
        self.users.entry(claim).or_default().insert(pod.clone());
    }

    pub(in crate::translate) fn remove_user(&mut self, claim: &PodKey, pod: &PodKey) {
        drop_key(&mut self.users, claim, pod);
    }

    fn ids(&self, keys: Option<&BTreeSet<PodKey>>) -> impl Iterator<Item = RequestId> {
        let claims = keys.into_iter().flatten().filter_map(|key| self.claims.get(key));
        claims.map(|claim| claim_id(&claim.metadata))
    }

    fn take_out(&mut self, key: &PodKey) -> BTreeSet<RequestId> {
        let Some(claim) = self.claims.remove(key) else { return BTreeSet::new() };
        for pool in pools(&claim) {
            drop_key(&mut self.by_pool, &pool, key);
        }
        if let Some(node) = claim.status.allocation.as_ref().and_then(selected_node) {
            drop_key(&mut self.by_node, &node.into(), key);
        }
        [claim_id(&claim.metadata)].into()
    }
}

/// Returns the node that an allocation is bound to, if it names exactly one.
pub(super) fn selected_node(allocation: &ClaimAllocation) -> Option<&str> {
    let [term] = allocation.node_selector.as_ref()?.node_selector_terms.as_slice() else {
        return None;
    };
    let named = term.match_fields.iter().find(|one| one.key == NAME_FIELD && one.operator == "In");
    match named?.values.as_slice() {
        [only] => Some(only.as_str()),
        _ => None,
    }
}

fn pools(claim: &ResourceClaim) -> BTreeSet<PoolKey> {
    let allocation = claim.status.allocation.as_ref();
    let results = allocation.into_iter().flat_map(|allocation| &allocation.devices.results);
    results.map(PoolKey::of_claimed).collect()
}

fn drop_key<K: Ord>(keys: &mut BTreeMap<K, BTreeSet<PodKey>>, of: &K, key: &PodKey) {
    if let Some(listed) = keys.get_mut(of) {
        listed.remove(key);
        if listed.is_empty() {
            keys.remove(of);
        }
    }
}
