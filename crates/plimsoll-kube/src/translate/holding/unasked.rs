//! Pods that use devices without asking for them: by a variable or an annotation that the runtime
//! obeys, or by reaching every device of their node.
//!
//! Agents of a node, which are pods of a DaemonSet or critical for the system, are trusted: device
//! plugins and exporters see every device and hold no memory of it.

use std::collections::BTreeSet;

use plimsoll_core::charge::Charge;
use plimsoll_core::request::Role;

use crate::booking::ALLOCATED;
use crate::finding::{Finding, PodProblem, Problem, UnaskedUse};
use crate::object::Pod;

use super::super::pod::in_start_order;
use super::cards::Cards;
use super::claim::Claim;
use super::findings::Findings;

/// The annotations by which NVIDIA's runtime gives devices to a container, whose name follows.
const CDI: &str = "nvidia.cdi.k8s.io/";

/// The kind of the devices that the variable and the annotation mean.
const KIND: &str = "NVIDIA";

/// A use of devices by one container, which holds an unknown amount of them.
struct Named<'a> {
    container: &'a str,
    role: Role,
    /// The devices as written, by UUID or index, or `all`.
    devices: Vec<&'a str>,
    by: UnaskedUse,
}

/// Returns true if a pod names devices that it may not have asked for.
pub(super) fn names_devices(pod: &Pod) -> bool {
    !is_agent(pod) && named(pod).next().is_some()
}

/// Returns true if a pod may use devices that it did not ask for.
pub(super) fn may_use(pod: &Pod) -> bool {
    !is_agent(pod) && (named(pod).next().is_some() || privileged(pod).is_some())
}

/// Charges an unknown amount to the devices that a pod on this node names without asking.
pub(super) fn charge(
    pod: &Pod,
    claims: &[Claim],
    cards: Cards<'_>,
    charges: &mut Vec<Charge>,
    findings: &mut Findings<'_>,
) {
    if is_agent(pod) || cards.node.devices.is_empty() {
        return;
    }
    let asks = |name: &str| {
        let mut containers = in_start_order(&pod.spec);
        let position = containers.position(|(_, container)| container.name == name);
        claims.iter().any(|claim| Some(claim.container) == position)
    };
    let mut is_named = false;
    for named in named(pod).filter(|named| !asks(named.container)) {
        is_named = true;
        for on in on_cards(&named.devices, cards) {
            let is_held = charges.iter().any(|charge| charge.on == on);
            if !is_held {
                charges.push(Charge::undeclared(on, named.container.into(), named.role));
            }
        }
        findings.gpu_without_request(named.by);
    }
    let reaches_all = privileged(pod).filter(|_| !is_named && claims.is_empty());
    if let Some(use_) = reaches_all {
        findings.gpu_without_request(use_);
    }
}

/// Reports devices that a pod without a node names without asking for any.
pub(in super::super) fn found_pending(pod: &Pod) -> Vec<Finding> {
    let asks_at_all = super::may_ask(pod);
    if asks_at_all || is_agent(pod) {
        return Vec::new();
    }
    let finding = |named: Named<'_>| {
        let (pod, by) = (pod.metadata.namespaced_name().into(), named.by);
        let problem = Problem::Pod(PodProblem::GpuWithoutRequest { pod, by });
        Finding { node: None, device: None, problem }
    };
    named(pod).map(finding).collect()
}

fn is_agent(pod: &Pod) -> bool {
    let class = pod.spec.priority_class_name.as_deref().unwrap_or_default();
    let is_of_set = pod.metadata.controller().is_some_and(|owner| owner.kind == "DaemonSet");
    is_of_set || class.starts_with("system-")
}

fn named(pod: &Pod) -> impl Iterator<Item = Named<'_>> {
    let is_booked = pod.metadata.annotations.contains_key(ALLOCATED);
    let by_variable = in_start_order(&pod.spec).filter_map(|(role, container)| {
        let value = container.visible_devices.as_deref()?;
        let devices: Vec<&str> =
            value.split(',').map(str::trim).filter(|one| is_device(one)).collect();
        let by =
            UnaskedUse::Variable { container: container.name.as_str().into(), value: value.into() };
        let container = container.name.as_str();
        (!devices.is_empty()).then_some(Named { container, role, devices, by })
    });
    let by_annotation = in_start_order(&pod.spec).filter_map(move |(role, container)| {
        let key = format!("{CDI}container.{}", container.name);
        let value = pod.metadata.annotations.get(&key).filter(|_| !is_booked)?;
        let names = value.split(',').filter_map(|name| name.trim().split_once('='));
        let devices = names.map(|(_, device)| device).collect();
        let by = UnaskedUse::Annotation { key: key.into(), value: value.into() };
        Some(Named { container: container.name.as_str(), role, devices, by })
    });
    by_variable.chain(by_annotation)
}

fn is_device(text: &str) -> bool {
    !matches!(text, "" | "none" | "void")
}

fn privileged(pod: &Pod) -> Option<UnaskedUse> {
    let mut containers = in_start_order(&pod.spec).map(|(_, container)| container);
    let found = containers.find(|container| container.is_privileged)?;
    Some(UnaskedUse::Privileged { container: found.name.as_str().into() })
}

/// Returns the sets of cards to charge: each card that is named, and all cards together for names
/// that are not known.
fn on_cards(devices: &[&str], cards: Cards<'_>) -> Vec<Vec<u16>> {
    let all = cards.of_kind(KIND);
    let mut known: BTreeSet<u16> = BTreeSet::new();
    let mut is_unknown = false;
    for device in devices {
        let by_index = || all.get(device.parse::<usize>().ok()?).copied();
        match cards.by_uuid(KIND, device).or_else(by_index) {
            Some(ordinal) => drop(known.insert(ordinal)),
            None if *device == "all" => known.extend(&all),
            None => is_unknown = true,
        }
    }
    let mut on: Vec<Vec<u16>> = known.into_iter().map(|ordinal| vec![ordinal]).collect();
    if is_unknown && !all.is_empty() {
        on.push(all);
    }
    on
}
