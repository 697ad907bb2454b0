//! Which kinds are read, and as what.

use crate::object::{PodGroupFields, PodGroupFlavor, WorkloadFields, WorkloadKind};

use super::Object;
use super::error::{FieldError, Problem};
use super::reader::Tree;

/// A kind that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Node,
    Pod,
    Workload(WorkloadKind),
    PodGroup(PodGroupFlavor),
    PriorityClass,
}

impl Known {
    pub(super) fn build<T: Tree>(self, tree: T) -> Result<Object, FieldError> {
        Ok(match self {
            Known::Node => Object::Node(tree.typed()?),
            Known::Pod => Object::Pod(tree.typed()?),
            Known::Workload(kind) => {
                Object::Workload(Box::new(tree.typed::<WorkloadFields>()?.of_kind(kind)))
            }
            Known::PodGroup(flavor) => {
                Object::PodGroup(Box::new(tree.typed::<PodGroupFields>()?.of_flavor(flavor)))
            }
            Known::PriorityClass => Object::PriorityClass(tree.typed()?),
        })
    }
}

/// What a kind is read as; `None` if it is not read. A kind counts in its own API group only: Volcano has a Job too.
/// Manifests that leave `apiVersion` out are taken by their kind, where that says enough.
pub(super) fn known(kind: &str, api_version: Option<&str>) -> Result<Option<Known>, Problem> {
    let group = api_version.map(|version| version.split_once('/').map_or("", |(group, _)| group));
    let (home, known) = match kind {
        "Node" => ("", Known::Node),
        "Pod" => ("", Known::Pod),
        "ReplicationController" => ("", Known::Workload(WorkloadKind::ReplicationController)),
        "Deployment" => ("apps", Known::Workload(WorkloadKind::Deployment)),
        "ReplicaSet" => ("apps", Known::Workload(WorkloadKind::ReplicaSet)),
        "StatefulSet" => ("apps", Known::Workload(WorkloadKind::StatefulSet)),
        "Job" => ("batch", Known::Workload(WorkloadKind::Job)),
        "PriorityClass" => ("scheduling.k8s.io", Known::PriorityClass),
        "PodGroup" => {
            let group = group.ok_or_else(|| Problem::NoApiVersion { kind: kind.to_owned() })?;
            return Ok(PodGroupFlavor::of_api_group(group).map(Known::PodGroup));
        }
        _ => return Ok(None),
    };
    Ok(group.is_none_or(|group| group == home).then_some(known))
}
