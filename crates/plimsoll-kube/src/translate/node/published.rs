//! Devices that drivers of dynamic resource allocation publish, beside those of device plugins.
//!
//! A published device with the UUID of a known card is that card. Others are devices of their own,
//! of their driver's kind: only claims use them, which kube-scheduler allocates, so that no other
//! request is placed there.

use std::collections::BTreeSet;

use plimsoll_core::device::{Capacity, Device, Identity, Sharing, Source};
use plimsoll_core::units::{Bytes, Name};

use crate::finding::PluginProblem;
use crate::object::NodeStatus;
use crate::plugins::names_device;

use super::super::dra::Published;
use super::notes::Notes;
use super::{NVIDIA, NodeDevices, advertised, memory, narrow, vendor_of};

/// Drivers by the vendor whose device plugin lists the same cards.
const DRIVERS: &[(&str, &str)] = &[("nvidia.com", NVIDIA), ("hami", NVIDIA), ("amd.com", "AMD")];

/// Resources of plugins that hand out the cards of another plugin, by the beginning of the kind
/// under which those are listed.
const SAME_CARDS: &[(&str, &str)] =
    &[("huawei.com/Ascend910", "Ascend910"), ("nvidia.com/vgpu", NVIDIA)];

/// Schedulers that share NVIDIA's cards by resources of their own, by the domain of these.
const SHARING_DOMAINS: &[&str] = &["volcano.sh", "aliyun.com", "koordinator.sh"];

/// Returns the vendor whose cards a driver publishes, if it is known.
pub(in crate::translate) fn vendor_of_driver(driver: &str) -> Option<&'static str> {
    DRIVERS.iter().find(|(part, _)| driver.contains(part)).map(|(_, vendor)| *vendor)
}

/// Adds the published devices that are not known yet.
pub(super) fn add(
    shown: &mut NodeDevices,
    status: &NodeStatus,
    published: &[Published<'_>],
    notes: &mut Notes,
) {
    let cards = || published.iter().copied().filter(|one| one.is_accelerator());
    let listed: BTreeSet<Name> = cards().map(Published::identity).collect();
    let known: BTreeSet<Name> = shown.devices.iter().filter_map(uuid).collect();
    let is_part = |one: &Published<'_>| {
        one.parent().is_some_and(|parent| known.contains(parent) || listed.contains(parent))
    };
    let fresh: Vec<Published<'_>> =
        cards().filter(|one| !known.contains(&one.identity()) && !is_part(one)).collect();
    for driver in fresh.iter().map(|one| one.driver()).collect::<BTreeSet<_>>() {
        let of_driver = fresh.iter().filter(|one| one.driver() == driver);
        if let Some(kind) = unnamed_beside(shown, driver) {
            if !is_described_only(shown, &kind, status) {
                notes.add(PluginProblem::AdvertisedTwice { kind, by: driver.into() });
                continue;
            }
            shown.devices.retain(|device| vendor_of(&device.kind) != vendor_of(&kind));
            shown.physical = narrow(shown.devices.len());
        }
        let devices: Vec<Device> = of_driver.map(|one| device(*one)).collect();
        shown.add(NodeDevices {
            physical: narrow(devices.len()),
            devices,
            sources: [Source::Slice].into(),
            ..NodeDevices::default()
        });
    }
}

/// Closes a node where another plugin advertises the cards that are known already. A pod that is
/// placed by its resource takes an unknown part of these cards, which no charge would show.
pub(super) fn check_other_plugins(shown: &NodeDevices, status: &NodeStatus, notes: &mut Notes) {
    let names: BTreeSet<&str> =
        status.capacity.iter().chain(status.allocatable.iter()).map(|(name, _)| name).collect();
    for resource in names {
        let Some(kind) = hands_out(resource) else { continue };
        let known = shown.devices.iter().find(|device| device.kind.starts_with(kind));
        let advertised = advertised::sum(status, &[resource]).ok();
        let advertised = advertised.and_then(|one| one.allocatable.or(one.capacity)).unwrap_or(0);
        // A register of HAMi's that is named like the resource is the same plugin.
        let Some(device) = known.filter(|device| advertised > 0 && *resource != *device.kind)
        else {
            continue;
        };
        let (kind, resource) = (device.kind.clone(), Name::from(resource));
        notes.add(PluginProblem::SecondPlugin { kind, resource });
        return;
    }
}

/// Returns the beginning of the kind of the cards that the plugin of a resource hands out, where it
/// is not the plugin that lists them.
fn hands_out(resource: &str) -> Option<&'static str> {
    let listed = SAME_CARDS.iter().find(|(name, _)| *name == resource).map(|(_, kind)| *kind);
    let domain = resource.split_once('/').map_or("", |(domain, _)| domain);
    let shares = SHARING_DOMAINS.contains(&domain) && names_device(resource);
    listed.or_else(|| shares.then_some(NVIDIA))
}

fn uuid(device: &Device) -> Option<Name> {
    match &device.identity {
        Identity::Uuid(uuid) => Some(uuid.clone()),
        Identity::Ordinal => None,
    }
}

/// Returns the kind of known cards without UUID that a driver's devices can be.
fn unnamed_beside(shown: &NodeDevices, driver: &str) -> Option<Name> {
    let vendor = vendor_of_driver(driver);
    let mut unnamed = shown.devices.iter().filter(|device| device.identity == Identity::Ordinal);
    let same = unnamed.find(|device| vendor.is_none_or(|vendor| vendor_of(&device.kind) == vendor));
    same.map(|device| device.kind.clone())
}

/// Returns true if only labels describe these cards and no plugin advertises them: then the driver
/// is the only one that hands them out, and its list replaces theirs.
fn is_described_only(shown: &NodeDevices, kind: &str, status: &NodeStatus) -> bool {
    vendor_of(kind) == NVIDIA
        && shown.sources.iter().all(|source| *source == Source::Label)
        && advertised::all_devices(status).unwrap_or(0) == 0
}

fn device(one: Published<'_>) -> Device {
    let missing = || memory::unknown(format!("its slice lists no memory of {}", one.device.name));
    let bytes = one
        .device
        .memory()
        .map(Bytes::new)
        .filter(|bytes| !bytes.is_zero() && *bytes <= Bytes::DEVICE_MAX);
    let total =
        bytes.map_or_else(missing, |bytes| Capacity::Known { bytes, source: Source::Slice });
    Device {
        identity: Identity::Uuid(one.identity()),
        model: one.device.attribute("productName").map(Name::from),
        memory: memory::memory(total),
        sharing: if one.device.is_shared() { Sharing::Shares } else { Sharing::Exclusive },
        ..Device::new(one.driver(), Bytes::ZERO, Source::Slice)
    }
}
