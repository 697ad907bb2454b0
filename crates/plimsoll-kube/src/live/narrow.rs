//! Pods that have a node and no devices, without the fields that are not read of them: most pods of
//! a large cluster are of this kind.

use crate::object::{Container, Pod};
use crate::read::Object;
use crate::translate::{PodState, concerns_devices, is_grouped};

/// Drops the fields of an object that a watch does not read.
pub fn narrow(object: Object) -> Object {
    match object {
        Object::Pod(pod) if is_narrow(&pod) => Object::Pod(Box::new(narrowed(*pod))),
        other => other,
    }
}

/// Returns true for a pod that holds only resources of its node. A pod of a group is read by its
/// labels and annotations.
fn is_narrow(pod: &Pod) -> bool {
    let is_read_whole = concerns_devices(pod)
        || is_grouped(pod)
        || PodState::from_pod(pod) == PodState::Reservation;
    pod.node_name().is_some() && !is_read_whole
}

fn narrowed(pod: Pod) -> Pod {
    let mut narrow = Pod::default();
    let (metadata, spec) = (pod.metadata, pod.spec);
    narrow.metadata.name = metadata.name;
    narrow.metadata.namespace = metadata.namespace;
    narrow.metadata.uid = metadata.uid;
    narrow.metadata.resource_version = metadata.resource_version;
    narrow.metadata.creation_timestamp = metadata.creation_timestamp;
    narrow.metadata.deletion_timestamp = metadata.deletion_timestamp;
    narrow.spec.node_name = spec.node_name;
    narrow.spec.priority = spec.priority;
    narrow.spec.priority_class_name = spec.priority_class_name;
    narrow.spec.resources = spec.resources;
    narrow.spec.overhead = spec.overhead;
    narrow.spec.containers = spec.containers.into_iter().map(container).collect();
    narrow.spec.init_containers = spec.init_containers.into_iter().map(container).collect();
    narrow.status.phase = pod.status.phase;
    narrow.status.reason = pod.status.reason;
    narrow
}

fn container(container: Container) -> Container {
    let Container { name, resources, restart_policy, .. } = container;
    Container { name, resources, restart_policy, ..Container::default() }
}

#[cfg(test)]
mod tests {
    use crate::read;
    use crate::translate::{Change, Index, holding};

    use super::*;

    fn objects(yaml: &str) -> Vec<Object> {
        let mut objects = Vec::new();
        read::read("test.yaml", yaml, &mut objects).expect("the test's own text is sound");
        objects.into_iter().map(|(_, object)| object).collect()
    }

    const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n\
        status: {allocatable: {cpu: \"8\", memory: 8Gi}, capacity: {cpu: \"8\", memory: 8Gi}}\n---\n";

    fn pod(metadata: &str, spec: &str) -> Object {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, uid: u, {metadata}}}\n\
             spec: {{nodeName: n, {spec}}}\nstatus: {{phase: Running, conditions: [{{type: Ready}}]}}\n"
        );
        objects(&text).remove(0)
    }

    #[test]
    fn a_pod_without_devices_holds_the_same_without_the_fields_that_are_dropped() {
        let spec = "tolerations: [{operator: Exists}], overhead: {cpu: 100m}, \
            initContainers: [{name: i, restartPolicy: Always, resources: {requests: {cpu: 2}}}], \
            containers: [{name: c, ports: [{hostPort: 80}], resources: {requests: {cpu: 1, memory: 1Gi}}}]";
        let whole = pod("labels: {app: web}", spec);
        let narrow = narrow(whole.clone());
        assert_ne!(whole, narrow);
        let held = |object: &Object| {
            let mut index = Index::new(crate::cluster::Reading::default());
            let mut changes: Vec<Change> = objects(NODE).into_iter().map(Change::Applied).collect();
            changes.push(Change::Applied(object.clone()));
            index.update(changes);
            let Object::Pod(pod) = object else { panic!("a pod") };
            holding(pod, &index).expect("it holds resources").value
        };
        assert_eq!(held(&whole), held(&narrow));
    }

    #[test]
    fn a_pod_with_devices_or_of_a_group_is_kept_whole() {
        let asks = "containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]";
        let plain = "containers: [{name: c}]";
        let group = "labels: {scheduling.x-k8s.io/pod-group: g}";
        for (metadata, spec) in
            [("", asks), ("annotations: {gpu-memory: \"1\"}", plain), (group, plain)]
        {
            let whole = pod(metadata, spec);
            assert_eq!(narrow(whole.clone()), whole, "{metadata} {spec}");
        }
    }
}
