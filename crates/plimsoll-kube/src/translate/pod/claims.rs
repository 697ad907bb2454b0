//! The claims of a pod that is to be placed. kube-scheduler allocates claims: a pod waits until its
//! claims have devices, and then goes where they are.

use plimsoll_core::request::Misuse;
use plimsoll_core::rules::NodeRules;
use plimsoll_core::units::Name;

use crate::finding::{Finding, PodProblem, Problem};
use crate::object::Pod;

use super::super::dra;
use super::super::index::Index;
use super::super::misuse::misuse_of;
use super::super::rules;
use super::in_start_order;

/// Returns what a pod waits for: a claim without devices, or one that was not read.
pub(super) fn waits_for(pod: &Pod, index: &Index) -> Option<Misuse> {
    let unread = || {
        let claim = dra::unread_claims(pod, index).into_iter().next()?;
        Some(format!("claim {claim} was not read; read resourceclaims and resourceslices too"))
    };
    let problem = match dra::without_devices(pod, index).first() {
        Some(problem) => Some(format!("{problem}; kube-scheduler allocates claims")),
        None => unread(),
    };
    problem.map(|problem| misuse_of("spec.resourceClaims", problem))
}

/// Restricts a pod to the nodes of its allocated claims.
pub(super) fn restrict(pod: &Pod, index: &Index, rules: &mut NodeRules) -> Result<(), Misuse> {
    for selector in dra::allocations(pod, index).filter_map(|one| one.node_selector.as_ref()) {
        if !selector.node_selector_terms.is_empty() {
            rules::restrict(rules, selector)?;
        }
    }
    Ok(())
}

/// Reports claims of a pod without a node that have no devices.
pub(super) fn findings(pod: &Pod, index: &Index) -> impl Iterator<Item = Finding> {
    dra::without_devices(pod, index).into_iter().map(|problem| {
        let problem = Problem::Pod(PodProblem::Claim(problem));
        Finding { node: None, device: None, problem }
    })
}

/// Names the device classes by which claims can serve the pod's extended resources, which is not
/// considered: device plugins that advertise the resource are.
pub(super) fn served_by_class(pod: &Pod, index: &Index) -> Vec<Name> {
    let containers = in_start_order(&pod.spec).map(|(_, container)| &container.resources);
    let names = containers.flat_map(|one| one.limits.iter().chain(one.requests.iter()));
    let classes = names.filter_map(|(name, _)| {
        let class = index.device_classes().serving(name)?;
        Some(Name::from(format!("claims of device class {class} for {name}")))
    });
    let mut classes: Vec<Name> = classes.collect();
    classes.sort();
    classes.dedup();
    classes
}
