//! The facts of a node that do not depend on devices: labels, taints, CPU, memory and pods.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::device::{Allocatable, Device};
use plimsoll_core::resources::ResourceAmounts;
use plimsoll_core::rules::{Effect, Taint};
use plimsoll_core::units::{Bytes, MilliCpu, Name};

use crate::finding::{LabelProblem, UnreadableAmount};
use crate::hami::vendor::Vendor;
use crate::object::{self, NodeStatus};
use crate::quantity::{Quantity, QuantityError, quoted};

use super::notes::Notes;

pub(super) fn labels(node: &object::Node) -> BTreeMap<Name, Name> {
    node.metadata.labels.iter().map(|(key, value)| (key.into(), value.into())).collect()
}

/// Reads the taints. One with an unknown effect counts as `NoSchedule`, the strictest.
pub(super) fn taints(node: &object::Node, notes: &mut Notes) -> Vec<Taint> {
    let taint = |taint: &object::Taint| {
        let effect = match taint.effect.as_str() {
            "NoSchedule" => Effect::NoSchedule,
            "NoExecute" => Effect::NoExecute,
            "PreferNoSchedule" => Effect::PreferNoSchedule,
            other => {
                let (key, effect) = (quoted(&taint.key), quoted(other));
                notes.add(LabelProblem::TaintEffectUnknown { key, effect });
                Effect::NoSchedule
            }
        };
        Taint { key: taint.key.as_str().into(), value: taint.value.as_str().into(), effect }
    };
    node.spec.taints.iter().map(taint).collect()
}

/// Reads the node's allocatable amounts. An amount that is not listed is unlimited, as in
/// manifests.
pub(super) fn allocatable(node: &object::Node, notes: &mut Notes) -> Allocatable {
    let mut amount = |name: &str, read: fn(&Quantity) -> Result<u64, QuantityError>| {
        let (field, said) = listed(&node.status, name)?;
        let error = match said.and_then(read) {
            Ok(amount) => return Some(amount),
            Err(error) => error,
        };
        let amount = UnreadableAmount { field, resource: name.into(), error: Box::new(error) };
        notes.add(LabelProblem::AllocatableUnreadable(amount));
        None
    };
    Allocatable {
        cpu: amount("cpu", Quantity::milli_ceil).map(MilliCpu),
        memory: amount("memory", Quantity::bytes_ceil).map(Bytes::new),
        pods: amount("pods", Quantity::whole).map(|pods| u32::try_from(pods).unwrap_or(u32::MAX)),
        extended: extended(&node.status),
    }
}

type Listed<'a> = (&'static str, Result<&'a Quantity, QuantityError>);

fn listed<'a>(status: &'a NodeStatus, name: &str) -> Option<Listed<'a>> {
    let allocatable = status.allocatable.get(name).map(|amount| ("status.allocatable", amount));
    let said =
        allocatable.or_else(|| status.capacity.get(name).map(|amount| ("status.capacity", amount)));
    said.map(|(field, amount)| (field, amount.map_err(Clone::clone)))
}

/// Reads every other resource that the node advertises. An unreadable amount counts as 0; the
/// reader of a device resource reports it.
fn extended(status: &NodeStatus) -> ResourceAmounts {
    let lists = [&status.capacity, &status.allocatable];
    let names: BTreeSet<&str> =
        lists.into_iter().flat_map(|list| list.iter().map(|(name, _)| name)).collect();
    let counted = names.into_iter().filter(|name| !matches!(*name, "cpu" | "memory" | "pods"));
    let amount = |name: &str| {
        let (_, said) = listed(status, name)?;
        said.and_then(Quantity::bytes_ceil).ok()
    };
    counted.filter_map(|name| Some((name, amount(name)?))).collect()
}

/// Returns the tokens of devices, by the resource that their pods request. They stand for what a
/// node without a status would advertise, as in manifests.
pub(super) fn tokens_of(devices: &[Device]) -> ResourceAmounts {
    let mut tokens = ResourceAmounts::default();
    for device in devices {
        let vendor = Vendor::by_name(&device.kind).map(|vendor| vendor.count);
        let resource = vendor.unwrap_or(&device.kind);
        let own = u64::from(device.slots.unwrap_or(1));
        tokens.set(resource, tokens.get(resource).saturating_add(own));
    }
    tokens
}
