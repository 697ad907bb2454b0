//! Findings about one running pod.

use plimsoll_core::units::{Bytes, Name};

use crate::finding::{Contradiction, Finding, GivenBy, PodProblem, Problem, UserAnnotation};
use crate::hami::allocated::AllocatedError;
use crate::object::Pod;

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

    fn name(&self) -> Name {
        self.pod.metadata.namespaced_name().into()
    }

    fn add(&mut self, device: Option<Name>, problem: PodProblem) {
        let node = self.node.clone();
        self.found.push(Finding { node, device, problem: Problem::Pod(problem) });
    }
}
