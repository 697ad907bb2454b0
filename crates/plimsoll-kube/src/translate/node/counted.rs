//! Devices of which a node tells only the number.

use plimsoll_core::device::{Capacity, Device, Sharing, Source, Strategy};

use crate::declared::DEVICES;
use crate::finding::LabelProblem;
use crate::hami::capacity::MAX_DEVICES;
use crate::object;
use crate::plugins::{COUNTED, CountedResource, PluginSharing};

use super::advertised::{self, Advertised};
use super::notes::Notes;
use super::tokens::missing;
use super::{NodeDevices, memory};

/// Reads the devices of plugins that only count, except kinds that are `taken` by a stronger
/// source.
pub(super) fn devices(
    node: &object::Node,
    taken: &std::collections::BTreeSet<String>,
    notes: &mut Notes,
) -> Vec<(&'static str, NodeDevices)> {
    let open = COUNTED.iter().filter(|resource| !taken.contains(resource.kind));
    let found = open.filter_map(|resource| {
        let advertised = match advertised::sum(&node.status, &[resource.name]) {
            Ok(advertised) => advertised,
            Err(amount) => {
                notes.add(LabelProblem::DeviceCountUnreadable(amount));
                return None;
            }
        };
        let number = advertised.capacity.filter(|number| *number > 0)?;
        if number > MAX_DEVICES {
            let resource = resource.name.into();
            notes.add(LabelProblem::CountTooLarge { resource, count: number });
            return None;
        }
        Some((resource.kind, of_resource(resource, number, advertised, notes)))
    });
    found.collect()
}

fn of_resource(
    resource: &CountedResource,
    number: u64,
    advertised: Advertised,
    notes: &mut Notes,
) -> NodeDevices {
    let unknown = memory::unknown(format!(
        "nothing on the node says how much memory a device of {} has; annotation {DEVICES} can",
        resource.name
    ));
    if number > 1 && resource.sharing == PluginSharing::Possible {
        return maybe_shared(resource.name, resource.kind, number, unknown, notes);
    }
    let cards = u16::try_from(number).unwrap_or(u16::MAX);
    let missing = missing(resource.name, number, 1, advertised, notes).filter(|gone| *gone > 0);
    NodeDevices {
        devices: vec![Device::with_capacity(resource.kind, unknown); usize::from(cards)],
        physical: cards,
        tokens: Some(1),
        missing: missing.map(|gone| (resource.kind.into(), gone)).into_iter().collect(),
        plugin_picks: true,
        sources: [Source::Capacity].into(),
        ..NodeDevices::default()
    }
}

/// Describes devices that can be shares of one card: one card of unknown memory, so that one
/// whole-device request at a time is placed.
pub(super) fn maybe_shared(
    resource: &str,
    kind: &str,
    advertised: u64,
    memory: Capacity,
    notes: &mut Notes,
) -> NodeDevices {
    notes.add(LabelProblem::CardsUncounted { resource: resource.into(), advertised });
    let replicas = u32::try_from(advertised).unwrap_or(u32::MAX);
    let sharing = Sharing::Tokens { replicas, strategy: Strategy::TimeSlicing };
    NodeDevices {
        devices: vec![Device {
            slots: Some(replicas),
            sharing,
            ..Device::with_capacity(kind, memory)
        }],
        physical: 1,
        tokens: Some(replicas),
        plugin_picks: true,
        sources: [Source::Capacity].into(),
        ..NodeDevices::default()
    }
}
