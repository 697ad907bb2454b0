//! The claims, slices and device classes of an index: what a change of them affects.

use std::collections::BTreeSet;

use plimsoll_core::request::RequestId;

use crate::object::{ObjectRef, Pod, ResourceClaim};

use super::super::PodState;
use super::super::dra::{self, Claims, DeviceClasses, PoolChange, Pools, claim_id};
use super::super::workload::Expansion;
use super::Index;
use super::affected::{NodeChange, Touched};
use super::key::PodKey;

impl Index {
    /// Finds a claim; `None` if it is unknown, or if the claim of its name has another uid.
    pub fn claim(&self, id: &RequestId) -> Option<&ResourceClaim> {
        let claim = self.claims.get(&dra::claim_key(id)?)?;
        (claim_id(&claim.metadata) == *id).then_some(claim)
    }

    /// Returns true if a claim has devices, and a pod on a node uses it.
    pub(crate) fn claim_is_in_use(&self, claim: &ObjectRef) -> bool {
        let key = PodKey { namespace: claim.namespace.clone(), name: claim.name.clone() };
        let known = self.claims.get(&key).filter(|known| claim.can_be(known.metadata.known_uid()));
        let mut users = self.claims.users(&key).filter_map(|user| self.pods.get(user));
        known.is_some_and(|known| known.status.allocation.is_some())
            && users.any(|user| user.state == PodState::Bound)
    }

    pub(in crate::translate) fn pools(&self) -> &Pools {
        &self.pools
    }

    pub(in crate::translate) fn claims(&self) -> &Claims {
        &self.claims
    }

    pub(in crate::translate) fn device_classes(&self) -> &DeviceClasses {
        &self.device_classes
    }

    pub(super) fn store_claim(&mut self, claim: ResourceClaim, touched: &mut Touched) {
        let key = PodKey::new(&claim.metadata);
        let affected = self.claims.insert(claim);
        touched.claim(key, affected);
    }

    pub(super) fn delete_claim(&mut self, object: &ObjectRef, touched: &mut Touched) {
        let key = PodKey { namespace: object.namespace.clone(), name: object.name.clone() };
        let affected = self.claims.remove(object);
        touched.claim(key, affected);
    }

    pub(super) fn link_claims(&mut self, key: &PodKey, pod: &Pod) {
        dra::claim_keys(pod).into_iter().for_each(|claim| self.claims.add_user(claim, key));
    }

    pub(super) fn unlink_claims(&mut self, key: &PodKey, pod: &Pod) {
        dra::claim_keys(pod).iter().for_each(|claim| self.claims.remove_user(claim, key));
    }

    /// Describes the nodes again whose published devices changed.
    pub(super) fn describe_published(&mut self, touched: &mut Touched) {
        for name in std::mem::take(&mut touched.published) {
            let published = self.pools.on_node(&name);
            if let Some(site) = self.sites.get_mut(&name) {
                touched.node(&name, site.publish(&published));
            }
        }
    }

    /// Adds the claims whose devices or node changed, and the pods of changed claims and classes.
    pub(super) fn affect_by_claims(&mut self, touched: &mut Touched) {
        let changed = touched.nodes.iter().filter(|(_, change)| **change != NodeChange::Same);
        for (node, _) in changed {
            touched.affected.claims.extend(self.claims.on_node(node));
            touched.pools.extend(self.pools.pools_of(node));
        }
        for pool in &touched.pools {
            touched.affected.claims.extend(self.claims.on_pool(pool));
        }
        for claim in &touched.claims {
            let users = self.claims.users(claim).filter_map(|pod| self.pods.get(pod));
            touched.affected.pods.extend(users.map(|known| known.id.clone()));
        }
        if touched.device_classes {
            let waits = |state| matches!(state, PodState::Pending | PodState::Gated);
            let waiting = self.pods.values().filter(|known| waits(known.state));
            touched.affected.pods.extend(waiting.map(|known| known.id.clone()));
            touched.affected.pods.extend(self.expansions.iter().flat_map(Expansion::ids));
        }
    }
}

impl Touched {
    fn claim(&mut self, key: PodKey, affected: BTreeSet<RequestId>) {
        if !affected.is_empty() {
            self.claims.insert(key);
            self.affected.claims.extend(affected);
        }
    }

    pub(super) fn slices(&mut self, change: PoolChange) {
        self.published.extend(change.nodes);
        self.pools.extend(change.pools);
    }
}
