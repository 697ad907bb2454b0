//! KAI's bind requests: pods that have a node in all but name.
//!
//! Between KAI's decision and the binding the pod has no node, but its memory is spoken for: KAI
//! itself counts it there. So it counts as if it had that node already, until the request fails or
//! the pod gets a node.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::units::Name;

use crate::kai;
use crate::object::{BindRequest, ObjectRef, Pod};

use super::affected::Touched;
use super::{Index, PodKey};

/// All bind requests, by their own key and by that of their pod.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    requests: BTreeMap<PodKey, BindRequest>,
    of_pods: BTreeMap<PodKey, BTreeSet<PodKey>>,
}

impl Bindings {
    /// Returns a pod with the node and the GPU groups that a bind request gives it; `None` if it
    /// has a node, or no valid request.
    pub(super) fn bound(&self, key: &PodKey, pod: &Pod) -> Option<Pod> {
        if pod.node_name().is_some() {
            return None;
        }
        let mut requests = self.of_pods.get(key)?.iter().filter_map(|key| self.requests.get(key));
        let request = requests.find(|request| {
            let has_node = !request.spec.selected_node.is_empty();
            has_node && !request.has_failed() && request.is_for(&pod.metadata)
        })?;
        let mut bound = pod.clone();
        bound.spec.node_name = Some(request.spec.selected_node.clone());
        let groups = request.spec.selected_gpu_groups.iter().map(String::as_str);
        kai::join_gpu_groups(&mut bound.metadata.labels, groups);
        Some(bound)
    }

    fn insert(&mut self, request: BindRequest) -> [Option<PodKey>; 2] {
        let key = PodKey::new(&request.metadata);
        let before = self.remove(&key);
        let pod = pod_of(&request);
        self.of_pods.entry(pod.clone()).or_default().insert(key.clone());
        self.requests.insert(key, request);
        [before, Some(pod)]
    }

    /// Removes a request, and returns its pod.
    fn remove(&mut self, key: &PodKey) -> Option<PodKey> {
        let pod = pod_of(&self.requests.remove(key)?);
        let others = self.of_pods.get_mut(&pod)?;
        others.remove(key);
        if others.is_empty() {
            self.of_pods.remove(&pod);
        }
        Some(pod)
    }
}

fn pod_of(request: &BindRequest) -> PodKey {
    let namespace = Name::from(request.metadata.namespace_or_default());
    PodKey { namespace, name: request.spec.pod_name.as_str().into() }
}

impl Index {
    pub(super) fn store_bind_request(&mut self, request: BindRequest, touched: &mut Touched) {
        let pods = self.bindings.insert(request);
        pods.into_iter().flatten().for_each(|pod| self.bind_again(pod, touched));
    }

    pub(super) fn delete_bind_request(&mut self, object: &ObjectRef, touched: &mut Touched) {
        let key = PodKey { namespace: object.namespace.clone(), name: object.name.clone() };
        if let Some(pod) = self.bindings.remove(&key) {
            self.bind_again(pod, touched);
        }
    }

    fn bind_again(&mut self, key: PodKey, touched: &mut Touched) {
        if let Some(known) = self.pods.get(&key) {
            let pod = Box::new(known.as_applied().clone());
            self.replace_pod(key, pod, touched);
        }
    }
}
