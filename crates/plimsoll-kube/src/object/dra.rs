//! Dynamic resource allocation (`resource.k8s.io`): devices that drivers publish, and claims on
//! them. The fields that are read have the same names in v1beta1, v1beta2 and v1, except that
//! v1beta1 nests those of a device under `basic`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Metadata, NodeSelector, Resources, nullable};

/// A `ResourceSlice`: devices of one pool, as their driver publishes them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceSlice {
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    pub spec: ResourceSliceSpec,
}

/// The content of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceSliceSpec {
    #[serde(deserialize_with = "nullable")]
    pub driver: String,
    /// The node of the devices; `None` if several nodes reach them.
    pub node_name: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub pool: ResourcePool,
    #[serde(deserialize_with = "nullable")]
    pub devices: Vec<SliceDevice>,
}

/// The pool that a slice belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourcePool {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Only the slices of the highest generation of a pool count.
    #[serde(deserialize_with = "nullable")]
    pub generation: i64,
}

/// A device of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SliceDevice {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// The facts of the device in v1beta1.
    pub basic: Option<DeviceFacts>,
    #[serde(deserialize_with = "nullable")]
    attributes: BTreeMap<String, DeviceAttribute>,
    #[serde(deserialize_with = "nullable")]
    capacity: BTreeMap<String, Resources>,
    allow_multiple_allocations: Option<bool>,
}

/// The facts of a device, where its version nests them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceFacts {
    #[serde(deserialize_with = "nullable")]
    attributes: BTreeMap<String, DeviceAttribute>,
    /// Each capacity is a map of which only `value` is an amount.
    #[serde(deserialize_with = "nullable")]
    capacity: BTreeMap<String, Resources>,
    allow_multiple_allocations: Option<bool>,
}

/// An attribute of a device. Only texts are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct DeviceAttribute {
    string: Option<String>,
}

impl SliceDevice {
    /// Returns the text of an attribute, whatever domain its name has.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let attributes =
            self.basic.as_ref().map_or(&self.attributes, |facts| &facts.attributes).iter();
        let mut named = attributes.filter(|(key, _)| local(key) == name);
        named.find_map(|(_, value)| {
            value.string.as_deref().map(str::trim).filter(|text| !text.is_empty())
        })
    }

    /// Returns the memory in bytes; `None` if the driver states none, or one that is unreadable.
    pub fn memory(&self) -> Option<u64> {
        let capacity = self.basic.as_ref().map_or(&self.capacity, |facts| &facts.capacity);
        let memory = capacity.iter().find(|(key, _)| local(key) == MEMORY)?.1;
        memory.get("value")?.ok()?.bytes_ceil().ok()
    }

    /// Returns true if several claims can share the device by its capacity.
    pub fn is_shared(&self) -> bool {
        let nested = self.basic.as_ref().and_then(|facts| facts.allow_multiple_allocations);
        nested.or(self.allow_multiple_allocations).unwrap_or(false)
    }
}

/// The capacity that is the memory of a device.
const MEMORY: &str = "memory";

/// Returns the part of a qualified name after its domain.
fn local(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}

/// A `ResourceClaim`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceClaim {
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    pub status: ResourceClaimStatus,
}

/// The state of a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceClaimStatus {
    /// Present once devices are allocated.
    pub allocation: Option<ClaimAllocation>,
}

/// The devices of a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimAllocation {
    #[serde(deserialize_with = "nullable")]
    pub devices: ClaimDevices,
    /// The nodes where the devices can be used; `None` for all.
    pub node_selector: Option<NodeSelector>,
}

/// `devices` of an allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimDevices {
    #[serde(deserialize_with = "nullable")]
    pub results: Vec<ClaimedDevice>,
}

/// One device of an allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimedDevice {
    #[serde(deserialize_with = "nullable")]
    pub driver: String,
    #[serde(deserialize_with = "nullable")]
    pub pool: String,
    #[serde(deserialize_with = "nullable")]
    pub device: String,
    /// True for monitoring access, which holds nothing.
    pub admin_access: Option<bool>,
    /// The consumed part of the capacity, where the device is shared by capacity.
    #[serde(deserialize_with = "nullable")]
    pub consumed_capacity: Resources,
}

impl ClaimedDevice {
    /// Returns the consumed memory in bytes; `None` if the claim is not for a part of the memory.
    pub fn consumed_memory(&self) -> Option<u64> {
        let mut consumed = self.consumed_capacity.iter();
        let (_, amount) = consumed.find(|(key, _)| local(key) == MEMORY)?;
        amount.ok()?.bytes_ceil().ok()
    }
}

/// A `DeviceClass`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceClass {
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    pub spec: DeviceClassSpec,
}

/// The content of a device class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceClassSpec {
    /// The extended resource that is served by claims of this class.
    pub extended_resource_name: Option<String>,
}

/// `spec.resourceClaims[]` of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodClaim {
    /// The name by which the containers refer to it.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// The claim itself; `None` if it is created from a template.
    pub resource_claim_name: Option<String>,
}

/// `status.resourceClaimStatuses[]` of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodClaimStatus {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// The claim that was created from the template; `None` if none was needed.
    pub resource_claim_name: Option<String>,
}

/// `status.extendedResourceClaimStatus` of a pod: the claim that serves its extended resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtendedClaimStatus {
    #[serde(deserialize_with = "nullable")]
    pub resource_claim_name: String,
    #[serde(deserialize_with = "nullable")]
    pub request_mappings: Vec<ExtendedRequest>,
}

/// The extended resource of one container that a claim serves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtendedRequest {
    #[serde(deserialize_with = "nullable")]
    pub container_name: String,
    #[serde(deserialize_with = "nullable")]
    pub resource_name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_states_the_same_facts_in_every_version() {
        let facts = r#""attributes":{"gpu.example.com/uuid":{"string":"GPU-a"},"index":{"int":0}},
            "capacity":{"memory":{"value":"40Gi","requestPolicy":{"default":"1Gi"}}}"#;
        for json in [
            format!(r#"{{"name":"gpu-0","basic":{{{facts}}}}}"#),
            format!(r#"{{"name":"gpu-0",{facts}}}"#),
        ] {
            let device: SliceDevice = serde_json::from_str(&json).unwrap();
            assert_eq!(device.attribute("uuid"), Some("GPU-a"), "{json}");
            assert_eq!((device.attribute("index"), device.attribute("type")), (None, None));
            assert_eq!((device.memory(), device.is_shared()), (Some(40 << 30), false));
        }
        let unreadable = r#"{"name":"x","capacity":{"memory":{"value":"much"}}}"#;
        assert_eq!(serde_json::from_str::<SliceDevice>(unreadable).unwrap().memory(), None);
    }

    #[test]
    fn consumed_memory_is_a_part_of_the_capacity() {
        let json = r#"{"driver":"d","pool":"p","device":"gpu-0","consumedCapacity":{"d/memory":"10Gi","cores":"30"}}"#;
        let device: ClaimedDevice = serde_json::from_str(json).unwrap();
        assert_eq!(device.consumed_memory(), Some(10 << 30));
    }
}
