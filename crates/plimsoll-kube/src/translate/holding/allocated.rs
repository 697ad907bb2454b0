//! The devices of a running pod, by HAMi's annotations.
//!
//! Users can write them too. They name the card of a container, if the pod's node has it, and they
//! raise the amount that the spec requests, but never lower it.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::charge::Slice;
use plimsoll_core::device::{Device, Span};
use plimsoll_core::request::{Amount, Compute, Need, Role};
use plimsoll_core::units::Bytes;

use crate::booking::ALLOCATED;
use crate::finding::{Contradiction, GivenBy};
use crate::hami::allocated::{
    self, AllocatedDevice, Containers, MIG_ALLOCATIONS, MigAllocation, NODE, VendorAllocations,
};
use crate::hami::vendor::{VENDORS, Vendor};
use crate::object::Pod;
use crate::quantity::quoted;

use super::super::pod::other_resources;
use super::cards::Cards;
use super::claim::{Allocation, Assignment, Claim, Held, held_by_need};
use super::findings::Findings;

/// Lists the annotations on a pod that only HAMi or Plimsoll should write.
pub(super) fn keys(pod: &Pod) -> impl Iterator<Item = &'static str> {
    let keys =
        VENDORS.iter().flat_map(|vendor| [Some(vendor.allocated), vendor.to_allocate]).flatten();
    let keys = keys.chain([ALLOCATED]);
    keys.filter(|key| pod.metadata.annotations.contains_key(key))
}

/// Merges the annotations into the claims of the spec.
pub(super) fn add(
    pod: &Pod,
    cards: Cards<'_>,
    claims: &mut Vec<Claim>,
    findings: &mut Findings<'_>,
) {
    let annotations = &pod.metadata.annotations;
    let Some(key) = keys(pod).next() else { return };
    // HAMi's resource names can be configured: an unknown resource can be what was allocated.
    if claims.is_empty() && other_resources(&pod.spec).is_empty() {
        return findings.annotation_by_user(key);
    }
    if let Some(node) = annotations.get(NODE).filter(|node| **node != *cards.node.name) {
        let (node, written) = (cards.node.name.clone(), quoted(node));
        return findings.contradicts(Contradiction::OtherNode { node, written });
    }
    let slices = slices(pod, findings);
    for VendorAllocations { vendor, allocated, to_allocate } in allocated::read_all(annotations) {
        let (key, read) = match (allocated, vendor.to_allocate, to_allocate) {
            (Some(allocated), ..) => (vendor.allocated, allocated),
            (None, Some(key), Some(left)) => (key, left),
            _ => continue,
        };
        match read {
            Ok(containers) => {
                let asking = containers_asking(vendor, claims);
                let places = ContainerPositions::new(pod, &containers, &asking);
                for (position, devices) in
                    containers.iter().enumerate().filter(|(_, devices)| !devices.is_empty())
                {
                    let book = VendorAnnotation { vendor, key, cards, slices: &slices };
                    book.container(&places, position, devices, claims, findings);
                }
                match_out_of_position(vendor, claims);
                left_out(vendor, key, claims, findings);
            }
            Err(error) => findings.allocation_unreadable(key, error),
        }
    }
    claims.sort_by_key(|claim| (claim.container, claim.lane));
}

/// The MIG instances of a pod, by container and device index.
type Slices = BTreeMap<(u32, u32), MigAllocation>;

fn slices(pod: &Pod, findings: &mut Findings<'_>) -> Slices {
    let Some(text) = pod.metadata.annotations.get(MIG_ALLOCATIONS) else {
        return Slices::new();
    };
    match allocated::decode_mig(text) {
        Ok(slices) => {
            slices.into_iter().map(|one| ((one.container_index, one.device_index), one)).collect()
        }
        Err(error) => {
            findings.allocation_unreadable(MIG_ALLOCATIONS, error);
            Slices::new()
        }
    }
}

/// Lists the containers that request devices of a vendor, in start order.
fn containers_asking(vendor: &Vendor, claims: &[Claim]) -> BTreeSet<usize> {
    let of_vendor = claims.iter().filter(|claim| is_of_vendor(claim, vendor));
    of_vendor.map(|claim| claim.container).collect()
}

/// Maps positions in an annotation to containers.
struct ContainerPositions {
    /// The role of each container, in start order.
    roles: Vec<Role>,
    /// The number of containers before the first one listed.
    skipped: usize,
    /// The containers of positions that are those of other containers; empty if none are.
    moved: BTreeMap<usize, usize>,
}

impl ContainerPositions {
    /// Init containers come first. HAMi up to 2.8 left them out, which shows where only as many
    /// containers are listed as the pod has apps. Where an entry is at the position of a container
    /// that requests no device, and there are as many entries as containers that do, the entries
    /// are theirs, in order.
    fn new(pod: &Pod, listed: &Containers, asking: &BTreeSet<usize>) -> ContainerPositions {
        let roles: Vec<Role> =
            super::super::pod::in_start_order(&pod.spec).map(|(role, _)| role).collect();
        let filled: Vec<usize> = listed
            .iter()
            .enumerate()
            .filter(|(_, one)| !one.is_empty())
            .map(|(at, _)| at)
            .collect();
        // A last semicolon makes an empty container that the pod does not have.
        let ends_empty = listed.last().is_none_or(Vec::is_empty);
        let listed = listed.len() - usize::from(ends_empty);
        let (init, apps) = (pod.spec.init_containers.len(), pod.spec.containers.len());
        let skipped = if init > 0 && listed == apps { init } else { 0 };
        let is_shifted = filled.iter().any(|at| !asking.contains(&(at + skipped)));
        let moved = if is_shifted && filled.len() == asking.len() {
            filled.into_iter().zip(asking.iter().copied()).collect()
        } else {
            BTreeMap::new()
        };
        ContainerPositions { roles, skipped, moved }
    }

    fn get(&self, position: usize) -> (usize, Role) {
        let container = self.moved.get(&position).copied().unwrap_or(position + self.skipped);
        (container, self.roles.get(container).copied().unwrap_or(Role::App))
    }
}

/// One vendor's annotation while it is merged into claims.
struct VendorAnnotation<'a> {
    vendor: &'static Vendor,
    key: &'static str,
    cards: Cards<'a>,
    slices: &'a Slices,
}

impl VendorAnnotation<'_> {
    fn container(
        &self,
        places: &ContainerPositions,
        position: usize,
        devices: &[AllocatedDevice],
        claims: &mut Vec<Claim>,
        findings: &mut Findings<'_>,
    ) {
        let (container, role) = places.get(position);
        let mine = |claim: &Claim| {
            claim.container == container && *claim.kind == *self.vendor.kind() && claim.slots > 0
        };
        for (at, device) in devices.iter().enumerate() {
            let given = Allocation {
                bytes: Bytes::mib(device.memory_mib),
                whole: false,
                cores: u32::try_from(device.cores).unwrap_or(u32::MAX),
                slice: self.slice(position, at),
            };
            let place = self.place(device, given.bytes, findings);
            if let Some(claim) = claims
                .iter_mut()
                .filter(|claim| mine(claim))
                .find(|claim| claim.allocation.is_none())
            {
                (claim.assignment, claim.allocation) = (place, Some(given));
                self.compare(claim, findings);
            } else {
                let lane = claims.iter().filter(|claim| claim.container == container).count();
                let kind = self.vendor.kind().into();
                claims.push(Claim {
                    container,
                    role,
                    lane,
                    kind,
                    assignment: place,
                    need: None,
                    allocation: Some(given),
                    slots: 1,
                });
            }
        }
    }

    fn place(
        &self,
        device: &AllocatedDevice,
        bytes: Bytes,
        findings: &mut Findings<'_>,
    ) -> Assignment {
        match self.cards.by_uuid(self.vendor.kind(), &device.uuid) {
            Some(ordinal) => Assignment::Card(ordinal),
            None => {
                findings.unknown_device(
                    GivenBy::Annotation(self.key),
                    &quoted(&device.uuid),
                    bytes,
                );
                Assignment::Unknown
            }
        }
    }

    fn slice(&self, container: usize, device: usize) -> Option<Slice> {
        let position = (u32::try_from(container).ok()?, u32::try_from(device).ok()?);
        let one = self.slices.get(&position)?;
        let (start, size) =
            (u8::try_from(one.placement.start).ok()?, u8::try_from(one.placement.size).ok()?);
        Some(Slice { profile: one.profile.as_str().into(), span: Span { start, size } })
    }

    /// Reports an annotation with less than the spec requests, or with more than HAMi rounds that
    /// up to.
    fn compare(&self, claim: &Claim, findings: &mut Findings<'_>) {
        let (Some(need), Some(given), Assignment::Card(ordinal)) =
            (&claim.need, &claim.allocation, &claim.assignment)
        else {
            return;
        };
        let Some(device) = self.cards.node.devices.get(usize::from(*ordinal)) else {
            return;
        };
        let asked = match held_by_need(need, device) {
            Held::Share(bytes) => Some(bytes),
            Held::Whole => device.memory.usable(),
            Held::Undeclared => None,
        };
        let differs =
            |asked: &Bytes| *asked > given.bytes || is_too_much(need, device, given.bytes);
        if let Some(asked) = asked.filter(differs) {
            let (key, written) = (self.key, given.bytes);
            findings.contradicts(Contradiction::Memory { key, asked, written });
        }
    }
}

/// Returns true if HAMi never gives this much of a device to such a request. Requests are already
/// rounded up to templates; a whole card has no more than its memory; and a slice is as large as
/// its profile.
fn is_too_much(need: &Need, device: &Device, given: Bytes) -> bool {
    let most = match &need.amount {
        Amount::Bytes(bytes) if need.compute != Compute::All => Some(Bytes::new(bytes.get())),
        // HAMi takes the percentage of the total, without reserve.
        Amount::Portion(portion) => {
            device.memory.total.bytes().and_then(|total| portion.share_of(total))
        }
        _ => None,
    };
    let profiles = device.geometry.iter().flat_map(|geometry| &geometry.profiles);
    most.is_some_and(|most| given > most)
        && !profiles.map(|profile| profile.memory).any(|size| size == given)
}

/// Gives allocations at the position of a container that requests no such device to containers that
/// do, so that the device is not counted twice. Versions of HAMi differ in how they count init
/// containers.
fn match_out_of_position(vendor: &Vendor, claims: &mut Vec<Claim>) {
    let extra = |claim: &Claim| is_of_vendor(claim, vendor) && claim.need.is_none();
    let open = |claim: &Claim| {
        is_of_vendor(claim, vendor) && claim.need.is_some() && claim.allocation.is_none()
    };
    while let (Some(from), Some(to)) = (claims.iter().position(extra), claims.iter().position(open))
    {
        let (assignment, allocation) =
            (claims[from].assignment.clone(), claims[from].allocation.take());
        (claims[to].assignment, claims[to].allocation) = (assignment, allocation);
        claims.remove(from);
    }
}

fn is_of_vendor(claim: &Claim, vendor: &Vendor) -> bool {
    *claim.kind == *vendor.kind() && claim.slots > 0
}

/// Reports devices that a container requests and the annotation does not list.
fn left_out(vendor: &Vendor, key: &'static str, claims: &[Claim], findings: &mut Findings<'_>) {
    let of_vendor =
        |claim: &&Claim| *claim.kind == *vendor.kind() && claim.slots > 0 && claim.need.is_some();
    let asked = claims.iter().filter(of_vendor).count();
    let listed = claims.iter().filter(of_vendor).filter(|claim| claim.allocation.is_some()).count();
    if listed < asked {
        findings.contradicts(Contradiction::TooFewDevices { key, asked, listed });
    }
}
