//! The devices of a Kubernetes node, by the best source: a declaration, HAMi's register, NVIDIA's
//! labels, or the node's capacity.
//!
//! A declaration overrides all other sources for the vendors it names. Contradictory or unreadable
//! facts are never replaced by a guess: the node's devices are then unknown, with the reason, and
//! accept no work.

mod advertised;
mod basics;
mod cloud;
mod counted;
mod declared;
mod discovered;
mod memory;
mod mig;
mod notes;
mod published;
mod registered;
mod scaled;
mod shortfall;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::device::{
    Device, DeviceChoice, Health, Identity, Node, Sharing, Source, Strategy,
};
use plimsoll_core::units::{Bytes, Name};

use crate::cluster::NodeFacts;
use crate::declared::{DEVICE_CHOICE, DeviceChoice as Annotated};
use crate::finding::{AnnotationProblem, CountProblem, LabelProblem};
use crate::hami::capacity::MAX_DEVICES;
use crate::hami::register::{CORDON, decode_cordon};
use crate::object;

use super::Translation;
use super::dra::Published;

use notes::Notes;

pub(super) use published::vendor_of_driver;

/// HAMi's name of NVIDIA, and the kind of its cards.
const NVIDIA: &str = "NVIDIA";

/// Translates a node for which no driver publishes devices.
pub fn node(node: &object::Node) -> Translation<NodeFacts> {
    node_with(node, &[])
}

/// Translates a node, with the devices that drivers publish for it.
pub(super) fn node_with(
    node: &object::Node,
    published: &[Published<'_>],
) -> Translation<NodeFacts> {
    let mut notes = Notes::new(node.metadata.name.as_str());
    let annotated = annotated_choice(node, &mut notes);
    let mut shown = devices(node, annotated, &mut notes);
    published::add(&mut shown, &node.status, published, &mut notes);
    published::check_other_plugins(&shown, &node.status, &mut notes);
    if shown.devices.is_empty() && !notes.closes_node() {
        advertised::check_unknown(&node.status, &mut notes);
    }
    check_identities(&mut shown, &mut notes);
    cordon(node, &mut shown.devices, &mut notes);
    let choice = match annotated {
        Some(Annotated::Owned) => DeviceChoice::Owned,
        Some(Annotated::Plugin) => DeviceChoice::Plugin,
        None if shown.plugin_picks => DeviceChoice::Plugin,
        None => DeviceChoice::Owned,
    };
    if annotated == Some(Annotated::Plugin) {
        shown.devices.iter_mut().for_each(share_by_tokens);
    }
    let mut allocatable = basics::allocatable(node, &mut notes);
    if !advertised::lists_extended(&node.status) {
        allocatable.extended = basics::tokens_of(&shown.devices);
    }
    let core = Node {
        labels: basics::labels(node),
        taints: basics::taints(node, &mut notes),
        unschedulable: node.spec.unschedulable,
        allocatable,
        choice,
        missing_cards: resolve_missing_cards(&mut shown, &mut notes),
        ..Node::new(node.metadata.name.as_str())
    };
    let capacity_source = shown.source();
    let advertised = advertised::all_devices(&node.status)
        .map(|devices| devices.saturating_sub(mig::all_stale(node)));
    let (findings, unknown) = notes.into_parts();
    let facts = NodeFacts {
        node: Node { devices: shown.devices, unknown, ..core },
        advertised,
        replicas: shown.tokens,
        physical: shown.physical,
        foreign: shown.foreign,
        capacity_source,
        choice,
    };
    Translation { value: facts, findings }
}

/// The devices of a node as far as they are known.
#[derive(Default)]
struct NodeDevices {
    devices: Vec<Device>,
    /// Physical cards. More than the devices where labels count cards that are cut into slices.
    physical: u16,
    /// Tokens per card, where known.
    tokens: Option<u32>,
    /// The number of unhealthy cards by kind, where it is unknown which they are.
    missing: BTreeMap<Name, u16>,
    /// True if a device plugin that does not know bookings picks the card.
    plugin_picks: bool,
    /// The sources of the devices. The number of devices can be known without their memory.
    sources: BTreeSet<Source>,
    /// Memory declared to be in use by processes without a booking, by ordinal.
    foreign: Vec<(u16, Bytes)>,
}

impl NodeDevices {
    fn add(&mut self, more: NodeDevices) {
        let before = narrow(self.devices.len());
        self.devices.extend(more.devices);
        self.physical = self.physical.saturating_add(more.physical);
        self.tokens = self.tokens.or(more.tokens);
        self.missing.extend(more.missing);
        self.plugin_picks |= more.plugin_picks;
        self.sources.extend(more.sources);
        self.foreign
            .extend(more.foreign.into_iter().map(|(at, bytes)| (before.saturating_add(at), bytes)));
    }

    /// Returns the strongest source.
    fn source(&self) -> &'static str {
        let order =
            [Source::Declared, Source::Register, Source::Label, Source::Capacity, Source::Slice];
        let strongest = order.into_iter().find(|source| self.sources.contains(source));
        match strongest.filter(|_| !self.devices.is_empty()) {
            Some(Source::Declared) => "declared",
            Some(Source::Register) => "register",
            Some(Source::Label) => "label",
            Some(Source::Capacity) => "capacity",
            Some(Source::Slice) => "slice",
            Some(Source::Nvml) | None => "none",
        }
    }
}

/// Reads the devices from all sources, strongest first.
fn devices(node: &object::Node, annotated: Option<Annotated>, notes: &mut Notes) -> NodeDevices {
    let mut shown = NodeDevices::default();
    let declared = match declared::devices(node, annotated, notes) {
        Ok(declared) => declared,
        Err(()) => return shown,
    };
    let mut taken: BTreeSet<String> =
        declared.devices.iter().map(|device| vendor_of(&device.kind).to_owned()).collect();
    shown.add(declared);
    for (word, registered) in registered::devices(node, &taken, notes) {
        taken.insert(word.to_owned());
        shown.add(registered);
    }
    if !taken.contains(NVIDIA) {
        shown.add(discovered::devices(node, notes));
    }
    for (kind, counted) in counted::devices(node, &taken, notes) {
        taken.insert(kind.to_owned());
        shown.add(counted);
    }
    registered::check_listed(node, &taken, &shown.devices, notes);
    registered::check_unread(node, &shown.devices, notes);
    shown
}

/// Returns the vendor of a kind. MIG instances are NVIDIA's.
pub(super) fn vendor_of(kind: &str) -> &str {
    if kind.starts_with(mig::RESOURCE_PREFIX) { NVIDIA } else { kind }
}

fn annotated_choice(node: &object::Node, notes: &mut Notes) -> Option<Annotated> {
    let text = node.metadata.annotations.get(DEVICE_CHOICE)?;
    Some(Annotated::parse(text).unwrap_or_else(|error| {
        notes.add(AnnotationProblem::DeviceChoiceUnreadable(error));
        Annotated::Plugin
    }))
}

/// Turns shares into tokens of any card, where the operator states that the plugin picks the card,
/// whatever the register says.
fn share_by_tokens(device: &mut Device) {
    if device.sharing == Sharing::Shares && device.slots != Some(1) {
        let replicas = device.slots.unwrap_or(1);
        device.sharing = Sharing::Tokens { replicas, strategy: Strategy::TimeSlicing };
    }
}

/// Closes a node that lists a device twice: it would be counted twice.
fn check_identities(shown: &mut NodeDevices, notes: &mut Notes) {
    let listed = shown.devices.len() as u64;
    if listed > MAX_DEVICES {
        *shown = NodeDevices::default();
        notes.add(LabelProblem::TooManyDevices { listed });
    }
    let mut seen: BTreeSet<&Name> = BTreeSet::new();
    let twice = shown.devices.iter().find_map(|device| match &device.identity {
        Identity::Uuid(uuid) if !seen.insert(uuid) => Some(uuid),
        _ => None,
    });
    if let Some(uuid) = twice {
        notes.add(AnnotationProblem::DeviceListedTwice { uuid: uuid.clone() });
    }
}

/// Returns the number of cards that are unhealthy without being named. On a node with cards of
/// several kinds the number would not tell which kind they are of: then either all cards of the
/// kind are faulty, or the devices are unknown.
fn resolve_missing_cards(shown: &mut NodeDevices, notes: &mut Notes) -> u16 {
    let kinds: BTreeSet<Name> = shown.devices.iter().map(|device| device.kind.clone()).collect();
    let missing = std::mem::take(&mut shown.missing);
    if kinds.len() <= 1 {
        return missing.values().copied().fold(0, u16::saturating_add);
    }
    for (kind, missing) in missing {
        let of_kind = |device: &&mut Device| device.kind == kind;
        let has = shown.devices.iter_mut().filter(of_kind).count();
        if usize::from(missing) >= has {
            shown
                .devices
                .iter_mut()
                .filter(of_kind)
                .for_each(|device| device.health = Health::Faulty);
            continue;
        }
        let (missing, devices) = (u64::from(missing), has as u64);
        notes.add(CountProblem::UnhealthyOfKind { kind, missing, devices });
    }
    0
}

/// Closes the devices that HAMi's annotation lists.
fn cordon(node: &object::Node, devices: &mut [Device], notes: &mut Notes) {
    let Some(text) = node.metadata.annotations.get(CORDON) else { return };
    for id in decode_cordon(text) {
        let is_named = |device: &&mut Device| matches!(&device.identity, Identity::Uuid(uuid) if **uuid == *id);
        match devices.iter_mut().find(is_named) {
            Some(device) => device.cordoned = true,
            None => notes.add(AnnotationProblem::CordonUnknown { id }),
        }
    }
}

fn narrow(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
