//! Kubernetes objects, narrowed to the fields that placement reads.
//!
//! Unknown fields are ignored, missing ones have their default, and `null` is accepted wherever
//! Kubernetes may print it. Fields that are read are read strictly: a wrong type or a duplicate key
//! is an error with its path.

mod affinity;
mod bind_request;
mod dra;
mod group;
mod map;
mod metadata;
mod namespace;
mod node;
mod pod;
mod reference;
mod scalar;
mod strict;
mod workload;

pub use affinity::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredTerm,
};
pub use bind_request::{BindRequest, BindRequestSpec, BindRequestStatus};
pub use dra::{
    ClaimAllocation, ClaimDevices, ClaimedDevice, DeviceClass, DeviceClassSpec, DeviceFacts,
    ExtendedClaimStatus, ExtendedRequest, PodClaim, PodClaimStatus, ResourceClaim,
    ResourceClaimStatus, ResourcePool, ResourceSlice, ResourceSliceSpec, SliceDevice,
};
pub(crate) use group::PodGroupFields;
pub use group::{PodGroup, PodGroupFlavor, PriorityClass};
pub use map::{Resources, StringMap};
pub use metadata::{Metadata, OwnerReference};
pub use namespace::Namespace;
pub use node::{Condition, Node, NodeInfo, NodeSpec, NodeStatus, Taint};
pub use pod::{
    Container, ContainerPort, ContainerResources, ContainerState, ContainerStatus, Pod, PodSpec,
    PodStatus, SchedulingGate, SchedulingGroup, Toleration, Volume,
};
pub use reference::{Kind, ObjectRef};
pub(crate) use workload::WorkloadFields;
pub use workload::{Ordinals, PodTemplate, Workload, WorkloadKind, WorkloadSpec, WorkloadStatus};

use serde::{Deserialize, Deserializer};

pub(crate) use scalar::Scalar;
pub(crate) use strict::{NoLists, nullable};

/// A field of which only the presence is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present;

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Present, D::Error> {
        serde::de::IgnoredAny::deserialize(from).map(|_| Present)
    }
}
