//! The request of a pod: devices, resources of the node, and scheduling rules.

mod claims;
mod legacy_mig;
mod metax;
mod needs;
mod resources;
mod selection;
mod share;

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_core::request::{Asks, Misuse, Request, RequestId, Role, Spec, Terms};
use plimsoll_core::units::Name;

use crate::cluster::Reading;
use crate::object::{self, Pod, PodSpec};

use super::index::Index;
use super::{Translation, gang, holding, rules};

pub(super) use legacy_mig::is_asked as asks_legacy_mig;
pub(super) use needs::{asks_devices, kind_asked, shape};
use resources::is_managed;
pub(super) use resources::peak;

/// The request of a pod, and facts that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRequest {
    pub request: Request,
    /// The gang, as `namespace/name`; [`Index::gang`] describes it.
    pub gang: Option<Name>,
    /// Features that the pod uses and that are not considered.
    pub not_considered: Vec<Name>,
}

/// Translates the request of a pod. The index need not know the pod.
pub fn request(pod: &Pod, index: &Index) -> Translation<PodRequest> {
    request_as(id(pod), pod, index)
}

/// Translates the request of a pod under another identity, as for the missing pods of a workload.
pub(super) fn request_as(id: RequestId, pod: &Pod, index: &Index) -> Translation<PodRequest> {
    let (priority, unknown_class) = index.classes().priority(&pod.spec);
    let mut not_considered = not_considered(&pod.spec, index.reading());
    not_considered.extend(metax::not_considered(pod));
    not_considered.extend(claims::served_by_class(pod, index));
    not_considered
        .extend(unknown_class.map(|class| format!("the unknown priority class {class}").into()));
    let terms = Terms { priority, ..Terms::default() };
    let request = Request { id, spec: Arc::new(spec(pod, index)), terms };
    let group = gang::named_by(pod);
    let membership = group.map(|group| index.groups().membership(&group, &request.id));
    let (gang, assumed) = membership.map_or((None, None), |one| (one.gang, one.assumed));
    not_considered.extend(assumed);
    let by_user = holding::written_by_user(pod).into_iter();
    let unasked = holding::found_pending(pod);
    let findings = by_user.chain(unasked).chain(claims::findings(pod, index)).collect();
    Translation { value: PodRequest { request, gang, not_considered }, findings }
}

/// Returns the pod's identity: namespace, name and uid.
pub(crate) fn id(pod: &Pod) -> RequestId {
    let metadata = &pod.metadata;
    let id =
        RequestId::new(metadata.namespace.as_deref().unwrap_or("default"), metadata.name.as_str());
    match metadata.uid.as_deref().filter(|uid| !uid.is_empty()) {
        Some(uid) => id.with_uid(uid),
        None => id,
    }
}

/// Iterates over the containers in start order, each with its role.
pub(super) fn in_start_order(spec: &PodSpec) -> impl Iterator<Item = (Role, &object::Container)> {
    let init = spec.init_containers.iter().map(|container| {
        let role = if container.is_sidecar() { Role::Sidecar } else { Role::Init };
        (role, container)
    });
    init.chain(spec.containers.iter().map(|container| (Role::App, container)))
}

fn spec(pod: &Pod, index: &Index) -> Spec {
    let reading = index.reading();
    let (resources, unreadable) = peak(&pod.spec, reading);
    let read = || -> Result<Spec, Misuse> {
        let mut shape = shape(pod, reading)?;
        metax::without_compute_of_online(pod, &mut shape);
        let hints = selection::placement_hints(&pod.metadata.annotations, &shape)?;
        let mut rules = rules::rules(pod, reading)?;
        claims::restrict(pod, index, &mut rules)?;
        if let Some(misuse) = unreadable {
            return Err(misuse);
        }
        let mut spec =
            Spec { resources: resources.clone(), rules, hints, ..Spec::from_shapes(vec![shape]) };
        if let Some(claim) = claims::waits_for(pod, index) {
            spec.asks = Asks::Waiting(claim);
        }
        Ok(spec)
    };
    read().unwrap_or_else(|misuse| Spec {
        asks: Asks::Malformed(misuse),
        resources,
        ..Spec::from_shapes(Vec::new())
    })
}

/// Lists the features that a pod uses and that are not considered.
fn not_considered(spec: &PodSpec, reading: &Reading) -> Vec<Name> {
    let affinity = spec.affinity.as_ref();
    let containers = || in_start_order(spec).map(|(_, container)| container);
    let host_port = |port: &object::ContainerPort| port.host_port.is_some_and(|port| port > 0);
    let uses = [
        (
            spec.volumes.iter().any(|volume| volume.persistent_volume_claim.is_some()),
            "volume claims",
        ),
        (spec.volumes.iter().any(|volume| volume.ephemeral.is_some()), "ephemeral volumes"),
        (affinity.is_some_and(|affinity| affinity.pod_affinity.is_some()), "affinity to pods"),
        (
            affinity.is_some_and(|affinity| affinity.pod_anti_affinity.is_some()),
            "anti-affinity to pods",
        ),
        (!spec.topology_spread_constraints.is_empty(), "topology spread constraints"),
        (containers().flat_map(|one| &one.ports).any(host_port), "host ports"),
    ];
    let used = uses.into_iter().filter(|(used, _)| *used).map(|(_, what)| Name::from(what));
    let tolerations = spec.tolerations.iter().filter_map(rules::unknown_toleration);
    let ignored = other_resources(spec).into_iter();
    let ignored = ignored.filter(|name| reading.ignored_resources.contains(*name));
    let others = ignored.map(|name| format!("the resource {name}").into());
    used.chain(tolerations).chain(others).collect()
}

/// Lists extended resources that are not known here, such as network cards or devices under
/// configured names.
pub(super) fn other_resources(spec: &PodSpec) -> BTreeSet<&str> {
    let lists =
        in_start_order(spec).flat_map(|(_, one)| [&one.resources.limits, &one.resources.requests]);
    let names = lists.flat_map(|list| list.iter().map(|(name, _)| name));
    let known = |name: &str| is_managed(name) || asks_devices(name);
    names
        .filter(|name| name.contains('/') && !name.contains("kubernetes.io/") && !known(name))
        .collect()
}
