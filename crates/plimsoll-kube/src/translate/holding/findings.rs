//! Findings about one running pod.

use std::collections::BTreeSet;

use plimsoll_core::device::Node;
use plimsoll_core::units::{Bytes, Name};

use crate::finding::{
    ClaimProblem, Contradiction, Finding, GivenBy, PodProblem, Problem, UnaskedUse, UserAnnotation,
};
use crate::hami::allocated::AllocatedError;
use crate::hami::vendor::Vendor;
use crate::object::Pod;

use super::super::dra;
use super::super::index::Index;
use super::claim::Claim;

/// Collects the findings about one pod.
pub(super) struct Findings<'a> {
    pod: &'a Pod,
    node: Option<Name>,
    pub(super) found: Vec<Finding>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(pod: &'a Pod, node: &Name) -> Findings<'a> {
        Findings { pod, node: Some(node.clone()), found: Vec::new() }
    }

    pub(super) fn unknown_device(&mut self, by: GivenBy, uuid: &str, given: Bytes) {
        let (pod, uuid) = (self.name(), Name::from(uuid));
        let device = Some(uuid.clone());
        self.add(device, PodProblem::UnknownDevice { pod, by, uuid, given });
    }

    pub(super) fn allocation_unreadable(&mut self, key: &'static str, error: AllocatedError) {
        self.add(None, PodProblem::AllocationUnreadable { pod: self.name(), key, error });
    }

    pub(super) fn request_invalid(&mut self, problem: &str) {
        let problem = problem.into();
        self.add(None, PodProblem::RequestInvalid { pod: self.name(), problem });
    }

    pub(super) fn contradicts(&mut self, contradiction: Contradiction) {
        let pod = self.name();
        self.add(None, PodProblem::AnnotationContradicts { pod, contradiction });
    }

    pub(super) fn annotation_by_user(&mut self, key: &'static str) {
        let annotation = UserAnnotation::PodRequestsNoDevice;
        self.add(None, PodProblem::AnnotationByUser { pod: self.name(), key, annotation });
    }

    pub(super) fn device_resource_unknown(&mut self, resources: &[Name]) {
        let (pod, resources) = (self.name(), resources.to_vec());
        self.add(None, PodProblem::DeviceResourceUnknown { pod, resources });
    }

    pub(super) fn gpu_without_request(&mut self, by: UnaskedUse) {
        self.add(None, PodProblem::GpuWithoutRequest { pod: self.name(), by });
    }

    /// Reports kinds of devices that the pod has claims on and its node does not list. A node whose
    /// devices are unknown is reported itself.
    pub(super) fn kinds_missing(&mut self, claims: &[Claim], node: &Node) {
        let is_listed = |kind: &Name| node.devices.iter().any(|device| device.kind == *kind);
        let kinds: BTreeSet<&Name> = claims.iter().map(|claim| &claim.kind).collect();
        let missing = kinds.into_iter().filter(|kind| node.unknown.is_none() && !is_listed(kind));
        for kind in missing {
            let resource = Vendor::by_name(kind).map_or(kind.clone(), |vendor| vendor.count.into());
            self.add(None, PodProblem::DeviceKindMissing { pod: self.name(), resource });
        }
    }

    pub(super) fn claim_unread(&mut self, claim: Name) {
        let problem = ClaimProblem::Unread { pod: self.name(), claim };
        self.add(None, PodProblem::Claim(problem));
    }

    /// Reports claims of the pod that have no devices, although it has a node.
    pub(super) fn claims_without_devices(&mut self, index: &Index) {
        for problem in dra::without_devices(self.pod, index) {
            self.add(None, PodProblem::Claim(problem));
        }
    }

    fn name(&self) -> Name {
        self.pod.metadata.namespaced_name().into()
    }

    fn add(&mut self, device: Option<Name>, problem: PodProblem) {
        let node = self.node.clone();
        self.found.push(Finding { node, device, problem: Problem::Pod(problem) });
    }
}
