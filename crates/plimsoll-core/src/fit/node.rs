//! The checks of a node itself, before any of its devices.

use crate::reason::NodeReason;
use crate::request::{Shape, Spec};
use crate::room::NodeView;
use crate::rules::Taint;

/// Returns the first reason for which the node itself cannot take the request, whatever its
/// devices.
pub fn fit_node(view: &NodeView, spec: &Spec, shape: &Shape) -> Option<NodeReason> {
    let node = &*view.node;
    let rules = &spec.rules;
    if let Some(wanted) = rules.named.as_ref().filter(|wanted| **wanted != node.name) {
        return Some(NodeReason::NotNamed { wanted: wanted.clone() });
    }
    if node.unschedulable && !rules.tolerates(&Taint::unschedulable()) {
        return Some(NodeReason::Unschedulable);
    }
    if let Some(since) = node.silent_since {
        return Some(NodeReason::Silent { since });
    }
    if let Some(failed) =
        rules.all.iter().find(|requirement| !requirement.holds(&node.name, &node.labels))
    {
        return Some(NodeReason::SelectorMismatch { wanted: failed.to_string().into() });
    }
    if !rules.any.is_empty() && !rules.any.iter().any(|term| term.holds(&node.name, &node.labels)) {
        return Some(NodeReason::AffinityMismatch);
    }
    if let Some(file) = rules.files.iter().find(|file| !node.files.contains(*file)) {
        return Some(NodeReason::FileMissing { file: file.clone() });
    }
    if let Some(taint) = rules.barred_by(&node.taints) {
        return Some(NodeReason::TaintNotTolerated { taint: taint.to_string().into() });
    }
    if let Some(missing) = node.unknown.as_ref().filter(|_| shape.device_count() > 0) {
        return Some(NodeReason::CapacityUnknown { missing: missing.clone() });
    }
    fit_resources(view, spec)
}

fn fit_resources(view: &NodeView, spec: &Spec) -> Option<NodeReason> {
    let node = &*view.node;
    let room = &*view.room;
    let need = &spec.resources;
    if let Some(free) = room.free_cpu(node).filter(|free| need.cpu > *free) {
        return Some(NodeReason::ShortOfCpu { need: need.cpu, free });
    }
    if let Some(free) = room.free_memory(node).filter(|free| need.memory > *free) {
        return Some(NodeReason::ShortOfNodeMemory { need: need.memory, free });
    }
    if room.free_pods(node).is_some_and(|free| need.pods > free) {
        let pods = node.allocatable.pods.unwrap_or_default();
        return Some(NodeReason::PodsExhausted { pods });
    }
    need.extended.iter().find_map(|(resource, need)| {
        let free = room.free_extended(node, resource);
        (need > free).then(|| NodeReason::ShortOfResource {
            resource: resource.clone(),
            need,
            free,
            allocatable: node.allocatable.extended.get(resource),
        })
    })
}
