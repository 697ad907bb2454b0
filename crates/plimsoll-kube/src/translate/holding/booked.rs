//! The devices of a running pod, by the booking that was written with its node.
//!
//! It names the card of a container, if the pod's node has it, and raises the amount that the spec
//! requests, but never lowers it: where the annotation is not protected, a user can write it too.

use plimsoll_core::device::Node;
use plimsoll_core::units::Bytes;

use crate::booking::{ALLOCATED, BookedCard, BookedDevice, Booking};
use crate::finding::{Contradiction, GivenBy};
use crate::hami::allocated::AllocatedError;
use crate::object::Pod;
use crate::quantity::quoted;

use super::super::pod::in_start_order;
use super::cards::Cards;
use super::claim::{Allocation, Assignment, Claim};
use super::findings::Findings;

/// Merges the booking into the claims. What another scheduler's annotation says about a claim goes
/// first: its device plugin obeys that.
pub(super) fn add(
    pod: &Pod,
    cards: Cards<'_>,
    claims: &mut Vec<Claim>,
    findings: &mut Findings<'_>,
) {
    let Some(text) = pod.metadata.annotations.get(ALLOCATED) else { return };
    let booking = match Booking::decode(text) {
        Ok(booking) => booking,
        Err(error) => {
            let error = AllocatedError::Booking(error.to_string());
            return findings.allocation_unreadable(ALLOCATED, error);
        }
    };
    if booking.node != *cards.node.name {
        let (node, written) = (cards.node.name.clone(), quoted(&booking.node));
        return findings.contradicts(Contradiction::OtherNode { node, written });
    }
    for (position, (role, container)) in in_start_order(&pod.spec).enumerate() {
        let devices = booking.containers.get(&container.name).into_iter().flatten();
        for device in devices {
            let open = claims.iter_mut().find(|claim| {
                claim.container == position
                    && *claim.kind == *device.kind
                    && claim.allocation.is_none()
            });
            match open {
                Some(claim) => apply(device, cards, claim, findings),
                None => {
                    let lane = claims.iter().filter(|claim| claim.container == position).count();
                    let mut claim = Claim {
                        container: position,
                        role,
                        lane,
                        kind: device.kind.as_str().into(),
                        assignment: Assignment::Unknown,
                        need: None,
                        allocation: None,
                        slots: 0,
                    };
                    apply(device, cards, &mut claim, findings);
                    claims.push(claim);
                }
            }
        }
    }
}

fn apply(device: &BookedDevice, cards: Cards<'_>, claim: &mut Claim, findings: &mut Findings<'_>) {
    let bytes = device.bytes.map_or(Bytes::ZERO, Bytes::new);
    claim.allocation = Some(Allocation { bytes, whole: device.whole, cores: 0, slice: None });
    if let BookedCard::Device(name) = &device.card {
        match ordinal(&claim.kind, name, cards) {
            Some(ordinal) => claim.assignment = Assignment::Card(ordinal),
            None => {
                findings.unknown_device(GivenBy::Annotation(ALLOCATED), &quoted(name), bytes);
            }
        }
    }
}

/// Finds a device by its UUID, or by its position. A device keeps the name `gpu-0` in bookings from
/// before its UUID was known.
fn ordinal(kind: &str, name: &str, cards: Cards<'_>) -> Option<u16> {
    let by_position = || {
        let ordinal: u16 = name.strip_prefix("gpu-")?.parse().ok()?;
        is_of_kind(cards.node, ordinal, kind).then_some(ordinal)
    };
    cards.by_uuid(kind, name).or_else(by_position)
}

fn is_of_kind(node: &Node, ordinal: u16, kind: &str) -> bool {
    node.devices.get(usize::from(ordinal)).is_some_and(|device| *device.kind == *kind)
}
