//! MIG instances that a pod requests by KAI's older annotations, `nvidia.com/mig-1g.5gb: "1"`.

use std::num::NonZeroU16;

use plimsoll_core::request::{Amount, Container, Misuse, Need, Role};

use crate::kai;
use crate::object::Pod;
use crate::quantity::Quantity;

use super::super::misuse::{annotation, misuse, misuse_of};
use super::in_start_order;
use super::needs::MIG_PREFIX;

/// Returns true if the pod has such an annotation.
pub(in crate::translate) fn is_asked(pod: &Pod) -> bool {
    keys(pod).next().is_some()
}

/// Adds the instances to the first app container. A resource of the same name counts instead.
pub(super) fn add(pod: &Pod, containers: &mut [Container]) -> Result<(), Misuse> {
    for (key, text) in keys(pod) {
        let field = annotation(key);
        reject_beside_share(pod, key)?;
        let number = Quantity::parse(text).and_then(|number| number.whole());
        let number = number.map_err(|error| misuse_of(&field, error))?;
        let too_many = || misuse_of(&field, format_args!("{number} is more than any node has"));
        let count = u16::try_from(number).map_err(|_| too_many())?;
        let first = containers.iter_mut().find(|container| container.role == Role::App);
        if let (Some(count), Some(first)) = (NonZeroU16::new(count), first) {
            first.needs.push(Need { count, ..Need::one(key, Amount::Whole) });
        }
    }
    Ok(())
}

/// Rejects instances together with a share of a GPU: it would be open which of them is meant.
fn reject_beside_share(pod: &Pod, key: &str) -> Result<(), Misuse> {
    let mut shares = [kai::GPU_MEMORY, kai::GPU_FRACTION].into_iter();
    let Some(share) = shares.find(|share| pod.metadata.annotations.contains_key(share)) else {
        return Ok(());
    };
    let problem = format!(
        "annotation {share} asks for a share of a GPU, and annotation {key} for instances; set \
         one of them"
    );
    Err(misuse([annotation(share), annotation(key)], problem))
}

fn keys(pod: &Pod) -> impl Iterator<Item = (&str, &str)> {
    let annotations = pod.metadata.annotations.iter();
    let asked = annotations.filter(|(key, _)| key.starts_with(MIG_PREFIX));
    asked.filter(|(key, _)| !is_resource(pod, key))
}

fn is_resource(pod: &Pod, key: &str) -> bool {
    in_start_order(&pod.spec).any(|(_, container)| {
        let resources = &container.resources;
        resources.limits.contains_key(key) || resources.requests.contains_key(key)
    })
}
