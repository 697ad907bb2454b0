//! The kinds that are read, and their types.

use crate::object::{Kind, PodGroupFields, PodGroupFlavor, WorkloadFields, WorkloadKind};

use super::Object;
use super::error::{FieldError, Problem};
use super::reader::Tree;

/// Builds the object of a kind from its tree.
pub(super) fn build<T: Tree>(kind: Kind, tree: T) -> Result<Object, FieldError> {
    Ok(match kind {
        Kind::Namespace => Object::Namespace(tree.typed()?),
        Kind::Node => Object::Node(tree.typed()?),
        Kind::Pod => Object::Pod(tree.typed()?),
        Kind::Workload(kind) => {
            Object::Workload(Box::new(tree.typed::<WorkloadFields>()?.into_workload(kind)))
        }
        Kind::PodGroup(flavor) => {
            Object::PodGroup(Box::new(tree.typed::<PodGroupFields>()?.into_group(flavor)))
        }
        Kind::PriorityClass => Object::PriorityClass(tree.typed()?),
        Kind::ResourceClaim => Object::ResourceClaim(tree.typed()?),
        Kind::ResourceSlice => Object::ResourceSlice(tree.typed()?),
        Kind::DeviceClass => Object::DeviceClass(tree.typed()?),
        Kind::BindRequest => Object::BindRequest(tree.typed()?),
    })
}

/// Finds a kind by its name; `None` if it is not read. A kind counts in its own API group only:
/// Volcano has a Job too. Without `apiVersion` the kind alone decides, where it is unambiguous.
pub(super) fn known(kind: &str, api_version: Option<&str>) -> Result<Option<Kind>, Problem> {
    let group = api_version.map(|version| version.split_once('/').map_or("", |(group, _)| group));
    let (home, known) = match kind {
        "Namespace" => ("", Kind::Namespace),
        "Node" => ("", Kind::Node),
        "Pod" => ("", Kind::Pod),
        "ReplicationController" => ("", Kind::Workload(WorkloadKind::ReplicationController)),
        "Deployment" => ("apps", Kind::Workload(WorkloadKind::Deployment)),
        "ReplicaSet" => ("apps", Kind::Workload(WorkloadKind::ReplicaSet)),
        "StatefulSet" => ("apps", Kind::Workload(WorkloadKind::StatefulSet)),
        "Job" => ("batch", Kind::Workload(WorkloadKind::Job)),
        "PriorityClass" => ("scheduling.k8s.io", Kind::PriorityClass),
        "ResourceClaim" => ("resource.k8s.io", Kind::ResourceClaim),
        "ResourceSlice" => ("resource.k8s.io", Kind::ResourceSlice),
        "DeviceClass" => ("resource.k8s.io", Kind::DeviceClass),
        "BindRequest" => ("scheduling.run.ai", Kind::BindRequest),
        "PodGroup" => {
            let group = group.ok_or_else(|| Problem::NoApiVersion { kind: kind.to_owned() })?;
            return Ok(PodGroupFlavor::from_api_group(group).map(Kind::PodGroup));
        }
        _ => return Ok(None),
    };
    Ok(group.is_none_or(|group| group == home).then_some(known))
}
