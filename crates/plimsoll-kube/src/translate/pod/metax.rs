//! The classes of applications that share a Metax sGPU.

use plimsoll_core::request::{Compute, Shape};
use plimsoll_core::units::Name;

use crate::object::Pod;

const SGPU: &str = "Metax-SGPU";
/// Pod annotation: `online` or `offline`.
const APP_CLASS: &str = "metax-tech.com/sgpu-app-class";
/// Pod annotation: how the compute of a device is shared out.
const QOS_POLICY: &str = "metax-tech.com/sgpu-qos-policy";

/// Removes the compute of an online application: Metax gives it what the others leave.
pub(super) fn without_compute_of_online(pod: &Pod, shape: &mut Shape) {
    if pod.metadata.annotations.get(APP_CLASS) != Some("online") {
        return;
    }
    let needs = shape.containers.iter_mut().flat_map(|container| &mut container.needs);
    for need in needs.filter(|need| &*need.kind == SGPU) {
        need.compute = Compute::Any;
    }
}

/// Names the rules of HAMi about applications on one device that are not considered: those of
/// another class, or with another policy, are not kept apart.
pub(super) fn not_considered(pod: &Pod) -> impl Iterator<Item = Name> {
    let set = move |key: &&str| pod.metadata.annotations.contains_key(key);
    [APP_CLASS, QOS_POLICY].into_iter().filter(set).map(|key| format!("annotation {key}").into())
}
