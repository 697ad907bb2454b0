//! Registers that list more than their node advertises.

use crate::finding::AnnotationProblem;
use crate::hami::register::RegisteredDevice;
use crate::hami::vendor::Vendor;
use crate::object;

use super::advertised::{self, Advertised};
use super::notes::Notes;
use super::{NVIDIA, narrow};

/// Reports a register that lists more tokens than the node advertises: the kubelet hands out no
/// more than that. Returns the number of unhealthy cards where it is unknown which they are.
pub(super) fn missing_cards(
    vendor: &Vendor,
    key: &'static str,
    node: &object::Node,
    listed: &[RegisteredDevice],
    notes: &mut Notes,
) -> u16 {
    let status = &node.status;
    if !advertised::lists_extended(status) {
        return 0;
    }
    let mut names = vec![vendor.count];
    if vendor.name == NVIDIA {
        names.push(advertised::SHARED);
    }
    let Ok(said) = advertised::sum(status, &names) else { return 0 };
    let advertised = said.allocatable.or(said.capacity).unwrap_or(0);
    let healthy = listed.iter().filter(|device| device.healthy);
    let registered = healthy.fold(0_u64, |sum, device| sum.saturating_add(device.slots.max(1)));
    if advertised >= registered {
        return 0;
    }
    let unhealthy = unhealthy_cards(listed, said);
    notes.add(AnnotationProblem::RegisterAboveAdvertised {
        resource: vendor.count.into(),
        key,
        registered,
        advertised,
        unhealthy: unhealthy as u64,
        cards: listed.len() as u64,
    });
    narrow(unhealthy)
}

/// Counts the whole cards whose tokens are missing from allocatable, those included that the
/// register itself calls unhealthy. Zero if these are all, or if the cards have different numbers
/// of tokens: the tokens are a bound in any case.
fn unhealthy_cards(listed: &[RegisteredDevice], said: Advertised) -> usize {
    let (Some(capacity), Some(allocatable)) = (said.capacity, said.allocatable) else { return 0 };
    let tokens = listed.first().map_or(1, |device| device.slots.max(1));
    if listed.iter().any(|device| device.slots.max(1) != tokens) {
        return 0;
    }
    let cards =
        usize::try_from(capacity.saturating_sub(allocatable) / tokens).unwrap_or(usize::MAX);
    let named = listed.iter().filter(|device| !device.healthy).count();
    if cards > named { cards.min(listed.len()) } else { 0 }
}
