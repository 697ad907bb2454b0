//! Claims of dynamic resource allocation that are given back while a pod may still use them.
//!
//! A claim loses its devices once its pods are gone as objects. That a pod is gone is no evidence
//! that its containers are, so the claim keeps its devices here until the pod's charge ends.

use plimsoll_core::front::Core;

use super::{Watch, merge};
use crate::object::{Kind, ObjectRef};
use crate::read::Object;
use crate::translate::Affected;

/// A change of a claim that is made later.
#[derive(Clone, Debug)]
pub(super) struct GivenBack {
    claim: ObjectRef,
    /// Its form without devices; `None` if it was deleted.
    after: Option<Object>,
}

impl Watch {
    /// Applies a claim, or remembers that it was given back.
    pub(super) fn apply_claim(&mut self, object: Object, affected: &mut Affected) {
        let claim = object.reference();
        self.forget_given_back(&claim);
        let has_devices =
            matches!(&object, Object::ResourceClaim(one) if one.status.allocation.is_some());
        if !has_devices && self.index.claim_is_in_use(&claim) {
            self.given_back.push(GivenBack { claim, after: Some(object) });
        } else {
            merge(affected, self.index.apply(object));
        }
    }

    /// Removes a claim, or remembers that it is gone.
    pub(super) fn remove_claim(&mut self, claim: &ObjectRef, affected: &mut Affected) {
        debug_assert_eq!(claim.kind, Kind::ResourceClaim);
        self.forget_given_back(claim);
        if self.index.claim_is_in_use(claim) {
            self.given_back.push(GivenBack { claim: claim.clone(), after: None });
        } else {
            merge(affected, self.index.remove(claim));
        }
    }

    fn forget_given_back(&mut self, claim: &ObjectRef) {
        self.given_back.retain(|one| {
            (&one.claim.namespace, &one.claim.name) != (&claim.namespace, &claim.name)
        });
    }

    /// Makes the changes of claims that no pod uses any more.
    pub(super) fn give_back(&mut self, core: &mut Core<'_>) {
        if self.given_back.is_empty() {
            return;
        }
        let index = &self.index;
        let free = self.given_back.extract_if(.., |one| !index.claim_is_in_use(&one.claim));
        let free: Vec<GivenBack> = free.collect();
        let mut affected = Affected::default();
        for GivenBack { claim, after } in free {
            merge(
                &mut affected,
                match after {
                    Some(object) => self.index.apply(object),
                    None => self.index.remove(&claim),
                },
            );
        }
        self.follow(core, &affected);
    }
}
