//! The claims that a pod names, and the device classes that serve extended resources.

use std::collections::BTreeMap;

use plimsoll_core::units::Name;

use crate::finding::ClaimProblem;
use crate::object::{ClaimAllocation, DeviceClass, Pod};

use super::super::index::{Index, PodKey};

/// Lists the claims of a pod that have no devices yet.
pub(in crate::translate) fn without_devices(pod: &Pod, index: &Index) -> Vec<ClaimProblem> {
    let of_pod = || Name::from(pod.metadata.namespaced_name());
    let entries = pod.spec.resource_claims.iter();
    let problems = entries.filter_map(|entry| {
        let name = match claim_name(pod, &entry.name, entry.resource_claim_name.as_deref()) {
            ClaimName::Known(name) => name,
            ClaimName::NotNeeded => return None,
            ClaimName::NotCreated => {
                let entry = entry.name.as_str().into();
                return Some(ClaimProblem::NotCreated { pod: of_pod(), entry });
            }
        };
        let claim = index.claims().get(&claim_key(pod, name))?;
        let name = || claim.metadata.namespaced_name().into();
        claim
            .status
            .allocation
            .is_none()
            .then(|| ClaimProblem::Unallocated { pod: of_pod(), claim: name() })
    });
    problems.collect()
}

/// Lists the allocations of a pod's claims, which restrict its nodes.
pub(in crate::translate) fn allocations<'a>(
    pod: &Pod,
    index: &'a Index,
) -> impl Iterator<Item = &'a ClaimAllocation> {
    let claims = claim_keys(pod).into_iter().filter_map(|key| index.claims().get(&key));
    claims.filter_map(|claim| claim.status.allocation.as_ref())
}

/// Lists the claims that a pod names, as far as their names are known.
pub(in crate::translate) fn claim_keys(pod: &Pod) -> Vec<PodKey> {
    let entries = pod.spec.resource_claims.iter();
    let names = entries.filter_map(|entry| {
        match claim_name(pod, &entry.name, entry.resource_claim_name.as_deref()) {
            ClaimName::Known(name) => Some(name),
            ClaimName::NotCreated | ClaimName::NotNeeded => None,
        }
    });
    let extended = pod.status.extended_resource_claim_status.as_ref();
    let extended = extended.map(|status| status.resource_claim_name.as_str());
    names.chain(extended).map(|name| claim_key(pod, name)).collect()
}

/// Lists the claims of a running pod that were not read, as `namespace/name`: their devices are
/// unknown.
pub(in crate::translate) fn unread_claims(pod: &Pod, index: &Index) -> Vec<Name> {
    let keys = claim_keys(pod).into_iter().filter(|key| index.claims().get(key).is_none());
    keys.map(|key| format!("{}/{}", key.namespace, key.name).into()).collect()
}

/// Returns true if a claim serves this extended resource of a container, so that the claim and not
/// the pod holds the devices.
pub(in crate::translate) fn is_served_by_claim(pod: &Pod, container: &str, resource: &str) -> bool {
    let served = pod.status.extended_resource_claim_status.iter();
    let mut served = served.flat_map(|status| &status.request_mappings);
    served.any(|one| one.container_name == container && one.resource_name == resource)
}

enum ClaimName<'a> {
    Known(&'a str),
    NotCreated,
    NotNeeded,
}

fn claim_name<'a>(pod: &'a Pod, entry: &str, direct: Option<&'a str>) -> ClaimName<'a> {
    if let Some(name) = direct {
        return ClaimName::Known(name);
    }
    match pod.status.resource_claim_statuses.iter().find(|status| status.name == entry) {
        Some(status) => {
            status.resource_claim_name.as_deref().map_or(ClaimName::NotNeeded, ClaimName::Known)
        }
        None => ClaimName::NotCreated,
    }
}

fn claim_key(pod: &Pod, name: &str) -> PodKey {
    PodKey { namespace: pod.metadata.namespace_or_default().into(), name: name.into() }
}

/// The extended resources that claims serve, by device class.
#[derive(Debug, Default)]
pub(in crate::translate) struct DeviceClasses(BTreeMap<Name, Option<String>>);

impl DeviceClasses {
    /// Adds or replaces a class. Returns true if that changed what it serves.
    pub(in crate::translate) fn insert(&mut self, class: &DeviceClass) -> bool {
        let serves = class.spec.extended_resource_name.clone().filter(|name| !name.is_empty());
        let before = self.0.insert(class.metadata.name.as_str().into(), serves.clone());
        before.flatten() != serves
    }

    /// Removes a class. Returns true if it served a resource.
    pub(in crate::translate) fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).flatten().is_some()
    }

    /// Finds the class that serves an extended resource.
    pub(in crate::translate) fn serving(&self, resource: &str) -> Option<&Name> {
        self.0.iter().find(|(_, serves)| serves.as_deref() == Some(resource)).map(|(name, _)| name)
    }
}
