//! Resources of the node that a pod needs besides devices, as the peak over its containers' lives.

use plimsoll_core::fit::peak_bytes;
use plimsoll_core::request::{Misuse, NodeNeed};
use plimsoll_core::units::{Bytes, MilliCpu};

use crate::object::PodSpec;
use crate::quantity::{Quantity, QuantityError};

use super::super::misuse::{misuse_of, resource};
use super::in_start_order;

/// Computes the peak, as far as it is readable, and the first unreadable amount.
pub(in crate::translate) fn peak(spec: &PodSpec) -> (NodeNeed, Option<Misuse>) {
    let mut fault = None;
    let cpu = total(spec, "cpu", Quantity::milli_ceil, &mut fault);
    let memory = total(spec, "memory", Quantity::bytes_ceil, &mut fault);
    (
        NodeNeed { cpu: MilliCpu(cpu), memory: Bytes::new(memory), pods: 1, ..NodeNeed::default() },
        fault,
    )
}

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
