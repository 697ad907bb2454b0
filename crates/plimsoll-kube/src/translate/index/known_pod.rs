//! A pod of the index, with what is derived from it.

use plimsoll_core::request::RequestId;

use crate::object::Pod;

use super::super::gang::{self, GroupName};
use super::super::pod::id;
use super::super::{PodState, holding};

/// A pod, with facts derived when it was applied.
#[derive(Debug)]
pub(super) struct KnownPod {
    /// With the node that a bind request gives it.
    pub(super) pod: Box<Pod>,
    /// The pod as it was applied, if a bind request changed it.
    applied: Option<Box<Pod>>,
    pub(super) id: RequestId,
    pub(super) state: PodState,
    pub(super) group: Option<GroupName>,
    pub(super) concerns_devices: bool,
}

impl KnownPod {
    pub(super) fn new(pod: Box<Pod>, applied: Option<Box<Pod>>) -> KnownPod {
        KnownPod {
            id: id(&pod),
            state: PodState::from_pod(&pod),
            group: gang::named_by(&pod),
            concerns_devices: holding::concerns_devices(&pod),
            pod,
            applied,
        }
    }

    /// Replaces the version, where nothing else has changed.
    pub(super) fn set_version(&mut self, version: Option<String>) {
        if let Some(applied) = &mut self.applied {
            applied.metadata.resource_version.clone_from(&version);
        }
        self.pod.metadata.resource_version = version;
    }

    pub(super) fn as_applied(&self) -> &Pod {
        self.applied.as_deref().unwrap_or(&self.pod)
    }
}
