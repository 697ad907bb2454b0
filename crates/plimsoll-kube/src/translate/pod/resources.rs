//! Resources of the node that a pod needs besides devices, as the peak over its containers' lives.

use std::collections::BTreeSet;

use plimsoll_core::fit::peak_bytes;
use plimsoll_core::request::{Misuse, NodeNeed};
use plimsoll_core::resources::ResourceAmounts;
use plimsoll_core::units::{Bytes, MilliCpu};

use crate::cluster::Reading;
use crate::hami::request;
use crate::hami::vendor::{VENDORS, Vendor};
use crate::object::{ContainerResources, PodSpec};
use crate::quantity::{Quantity, QuantityError};

use super::super::misuse::{misuse_of, resource};
use super::in_start_order;

/// Computes the peak, as far as it is readable, and the first unreadable amount.
pub(in crate::translate) fn peak(spec: &PodSpec, reading: &Reading) -> (NodeNeed, Option<Misuse>) {
    let mut fault = None;
    let cpu = total(spec, "cpu", Quantity::milli_ceil, &mut fault);
    let memory = total(spec, "memory", Quantity::bytes_ceil, &mut fault);
    let extended = extended(spec, reading, &mut fault);
    (NodeNeed { cpu: MilliCpu(cpu), memory: Bytes::new(memory), pods: 1, extended }, fault)
}

/// Sums every other resource that the pod names, understood or not: the kubelet admits a pod only
/// if its node advertises enough of each.
fn extended(spec: &PodSpec, reading: &Reading, fault: &mut Option<Misuse>) -> ResourceAmounts {
    let containers = in_start_order(spec).map(|(_, container)| &container.resources);
    let listed = containers.flat_map(|one| [&one.limits, &one.requests]);
    let of_pod = [&spec.resources.limits, &spec.resources.requests, &spec.overhead];
    let names: BTreeSet<&str> =
        listed.chain(of_pod).flat_map(|list| list.iter().map(|(name, _)| name)).collect();
    let counted = names.into_iter().filter(|name| !matches!(*name, "cpu" | "memory" | "pods"));
    let counts = |name: &str| !is_managed(name) && !reading.ignored_resources.contains(name);
    let mut amounts: ResourceAmounts = counted
        .filter(|name| counts(name))
        .map(|name| (name, total(spec, name, Quantity::bytes_ceil, fault)))
        .collect();
    for (name, devices) in implied(spec).filter(|(name, _)| counts(name)) {
        amounts.set(name, amounts.get(name).max(devices));
    }
    amounts
}

/// Returns true for a resource that HAMi's scheduler accounts for per device, or that is a setting
/// of its runtime: kube-scheduler is configured to ignore it.
pub(in crate::translate) fn is_managed(name: &str) -> bool {
    let is_part = |vendor: &Vendor| {
        vendor.memory.is_some_and(|memory| memory.name == name)
            || vendor.cores.is_some_and(|cores| cores.name == name)
            || vendor.percentage == Some(name)
    };
    name == RUNTIME_PRIORITY || VENDORS.iter().any(is_part)
}

/// Counts devices, including the device that HAMi's webhook adds to a container that requests only
/// memory or cores.
fn implied(spec: &PodSpec) -> impl Iterator<Item = (&'static str, u64)> {
    let defaulted = VENDORS.iter().filter(|vendor| vendor.count_defaults_to_one);
    defaulted.map(|vendor| {
        let devices = |resources: &ContainerResources| match request::read(vendor, resources) {
            Ok(Some(asked)) => asked.slices.or(asked.devices).unwrap_or(0),
            Ok(None) | Err(_) => 0,
        };
        let parts: Vec<_> = in_start_order(spec)
            .map(|(role, container)| (role, Bytes::new(devices(&container.resources))))
            .collect();
        (vendor.count, peak_bytes(parts).get())
    })
}

/// A setting of HAMi's runtime inside the container.
const RUNTIME_PRIORITY: &str = "nvidia.com/priority";

fn total(
    spec: &PodSpec,
    name: &str,
    read: fn(&Quantity) -> Result<u64, QuantityError>,
    fault: &mut Option<Misuse>,
) -> u64 {
    let mut amount = |quantity: Option<Result<&Quantity, &QuantityError>>,
                      field: &dyn Fn() -> String| {
        let amount =
            quantity.map_or(Ok(0), |quantity| quantity.map_err(Clone::clone).and_then(read));
        amount.unwrap_or_else(|error| {
            fault.get_or_insert_with(|| misuse_of(&field(), error));
            0
        })
    };
    let parts: Vec<_> = in_start_order(spec)
        .map(|(role, container)| {
            let resources = &container.resources;
            // A limit without a request is the request, as the API server would default it.
            let asked = resources.requests.get(name).or_else(|| resources.limits.get(name));
            let list = || {
                if resources.requests.contains_key(name) {
                    super::super::misuse::listed(container, "requests", name)
                } else {
                    resource(container, name)
                }
            };
            // The rule of peaks is the same for every amount, so the one for bytes is used.
            (role, Bytes::new(amount(asked, &list)))
        })
        .collect();
    let containers = peak_bytes(parts);
    let (limits, requests) = (&spec.resources.limits, &spec.resources.requests);
    // A limit of the pod is its request where no request is given, as the API server would default
    // it.
    let limit = limits.get(name).filter(|_| containers.is_zero()).map(|limit| ("limits", limit));
    let said = requests.get(name).map(|request| ("requests", request)).or(limit);
    let list = said.map_or("requests", |(list, _)| list);
    let whole =
        amount(said.map(|(_, said)| said), &|| format!("spec.resources.{list}[\"{name}\"]"));
    let overhead = amount(spec.overhead.get(name), &|| format!("spec.overhead[\"{name}\"]"));
    containers.max(Bytes::new(whole)).plus(Bytes::new(overhead)).get()
}
