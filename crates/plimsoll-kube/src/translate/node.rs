//! What a Kubernetes node has, by whoever says so best: a declaration, HAMi's register, NVIDIA's labels, its capacity.
//!
//! A declaration wins over everything for the vendors that it names. What contradicts itself or cannot be read is never
//! replaced by a guess: the node's devices are then unknown, with the reason, and take no device work.

mod advertised;
mod basics;
mod declared;
mod discovered;
mod memory;
mod mig;
mod notes;
mod registered;
mod scaled;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::device::{
    Device, DeviceChoice, Health, Identity, Node, Sharing, Source, Strategy,
};
use plimsoll_core::units::{Bytes, Name};

use crate::cluster::NodeFacts;
use crate::declared::{DEVICE_CHOICE, DEVICES, DeviceChoice as Annotated};
use crate::hami::capacity::MAX_DEVICES;
use crate::hami::register::{CORDON, decode_cordon};
use crate::object;

use super::Translation;

use notes::{Note, Notes};

/// HAMi's word for NVIDIA, and the kind of its cards.
const NVIDIA: &str = "NVIDIA";

/// What a node has, and what is wrong with what it says.
pub fn node(node: &object::Node) -> Translation<NodeFacts> {
    let mut notes = Notes::new(node.metadata.name.as_str());
    let annotated = annotated_choice(node, &mut notes);
    let mut shown = devices(node, annotated, &mut notes);
    check_identities(&mut shown, &mut notes);
    cordon(node, &mut shown.devices, &mut notes);
    let choice = match annotated {
        Some(Annotated::Owned) => DeviceChoice::Owned,
        Some(Annotated::Plugin) => DeviceChoice::Plugin,
        None if shown.plugin_picks => DeviceChoice::Plugin,
        None => DeviceChoice::Owned,
    };
    if annotated == Some(Annotated::Plugin) {
        shown.devices.iter_mut().for_each(hand_out_blindly);
    }
    let core = Node {
        labels: basics::labels(node),
        taints: basics::taints(node, &mut notes),
        unschedulable: node.spec.unschedulable,
        allocatable: basics::allocatable(node, &mut notes),
        choice,
        missing_cards: settle_missing(&mut shown, &mut notes),
        ..Node::new(node.metadata.name.as_str())
    };
    let capacity_source = shown.source();
    let advertised = advertised::in_all(&node.status);
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

/// The devices of a node as far as they are known, and what goes with them.
#[derive(Default)]
struct Shown {
    devices: Vec<Device>,
    /// Physical cards; more than the devices where labels count cards that are cut into slices.
    physical: u16,
    /// Tokens a card, where they are known.
    tokens: Option<u32>,
    /// Whole cards that are unhealthy without anybody saying which, by kind.
    missing: BTreeMap<Name, u16>,
    /// Whether a device plugin that knows nothing of bookings picks the card.
    plugin_picks: bool,
    /// Where the devices are known from; it may be known how many there are and not how much memory they have.
    sources: BTreeSet<Source>,
    /// Memory that is declared to be in use by nobody's booking, by ordinal.
    foreign: Vec<(u16, Bytes)>,
}

impl Shown {
    fn add(&mut self, more: Shown) {
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

    /// The strongest of the sources, in a word.
    fn source(&self) -> &'static str {
        let order = [Source::Declared, Source::Register, Source::Label, Source::Capacity];
        let strongest = order.into_iter().find(|source| self.sources.contains(source));
        match strongest.filter(|_| !self.devices.is_empty()) {
            Some(Source::Declared) => "declared",
            Some(Source::Register) => "register",
            Some(Source::Label) => "label",
            Some(Source::Capacity) => "capacity",
            Some(Source::Nvml) | None => "none",
        }
    }
}

/// Whatever the sources say, in the order of their authority.
fn devices(node: &object::Node, annotated: Option<Annotated>, notes: &mut Notes) -> Shown {
    let mut shown = Shown::default();
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
    registered::check_listed(node, &taken, shown.devices.is_empty(), notes);
    shown
}

/// The vendor whose word a kind is, where a MIG instance is NVIDIA's.
fn vendor_of(kind: &str) -> &str {
    if kind.starts_with(mig::RESOURCE_PREFIX) { NVIDIA } else { kind }
}

fn annotated_choice(node: &object::Node, notes: &mut Notes) -> Option<Annotated> {
    let text = node.metadata.annotations.get(DEVICE_CHOICE)?;
    Some(Annotated::parse(text).unwrap_or_else(|error| {
        let message = format!("{error}; it is taken as \"plugin\", which promises less");
        notes.add(
            Note::error("device-choice-unreadable", message)
                .remedy("write \"owned\" or \"plugin\""),
        );
        Annotated::Plugin
    }))
}

/// Where the operator says that the plugin picks, shares of a card are tokens to any card, whatever register lists them.
fn hand_out_blindly(device: &mut Device) {
    if device.sharing == Sharing::Shares && device.slots != Some(1) {
        let replicas = device.slots.unwrap_or(1);
        device.sharing = Sharing::Tokens { replicas, strategy: Strategy::TimeSlicing };
    }
}

/// One device is one device: listed twice it would be counted twice.
fn check_identities(shown: &mut Shown, notes: &mut Notes) {
    let listed = shown.devices.len() as u64;
    if listed > MAX_DEVICES {
        *shown = Shown::default();
        let message =
            format!("{listed} devices are listed, and no node has more than {MAX_DEVICES}");
        notes.close(
            Note::error("too-many-devices", message)
                .with([("listed", listed), ("most", MAX_DEVICES)])
                .remedy("correct what lists the devices of this node"),
        );
    }
    let mut seen: BTreeSet<&Name> = BTreeSet::new();
    let twice = shown.devices.iter().find_map(|device| match &device.identity {
        Identity::Uuid(uuid) if !seen.insert(uuid) => Some(uuid),
        _ => None,
    });
    if let Some(uuid) = twice {
        let message = format!(
            "device {uuid} is listed for two vendors, so that what this node has cannot be counted"
        );
        let remedy = format!("correct the lists, or declare the devices in annotation {DEVICES}");
        notes.close(Note::error("device-listed-twice", message).on(uuid).remedy(remedy));
    }
}

/// Cards that are missing without a name: so many fewer to book where all are of one kind. Beside other kinds the number
/// would not say whose they are, so that then all of a kind are missing or it is unknown.
fn settle_missing(shown: &mut Shown, notes: &mut Notes) -> u16 {
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
        let message = format!(
            "{missing} of {has} devices of kind {kind} are unhealthy, and nobody says which"
        );
        let numbers = [("missing", u64::from(missing)), ("devices", has as u64)];
        let remedy = format!(
            "repair them, or declare the devices with their health in annotation {DEVICES}"
        );
        notes.close(Note::warning("cards-unhealthy", message).with(numbers).remedy(remedy));
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
            None => {
                let message = format!(
                    "annotation {CORDON} names {id}, which is no known device of this node"
                );
                let note = Note::remark("cordon-unknown", message).on(&id);
                notes.add(note.remedy("correct the UUID, or remove it from the annotation"));
            }
        }
    }
}

fn narrow(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
