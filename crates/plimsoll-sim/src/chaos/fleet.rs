//! Small fleets of all kinds, and how the machine over them behaves, drawn from a seed.

use std::sync::Arc;

use plimsoll_core::device::{
    Capacity, Device, DeviceChoice, Geometry, Health, Identity, Node, Profile, Sharing, Source,
    Span, Strategy,
};
use plimsoll_core::event::Settings;
use plimsoll_core::policy::Policy;
use plimsoll_core::units::{Bytes, Cores, MilliCpu, Timespan};

use super::chance::Chance;

/// Where cards come from: each has a number of its own, by which the simulation knows it whatever it is called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stock(u64);

impl Stock {
    /// The next card's number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// What kind of machine it is: all its cards are of one make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Make {
    /// Cards known by UUID, that the scheduler names.
    Named,
    /// Cards known by their place.
    Placed,
    /// Shared cards among which a plugin picks.
    Plugin,
    /// Cards cut into hardware slices.
    Sliced,
}

impl Make {
    /// Whether the cards have UUIDs.
    pub(crate) fn has_uuids(self) -> bool {
        matches!(self, Make::Named | Make::Sliced)
    }
}

/// How the machine under test behaves.
pub(crate) fn settings(chance: &mut Chance) -> Settings {
    let mut policy: Policy = chance.pick(&Policy::all()).clone();
    policy.search_steps = *chance.pick(&[100, 300, 1_000]);
    Settings {
        policy,
        offer_for: Timespan::millis(*chance.pick(&[5_000, 30_000, 120_000])),
        telemetry_for: Some(Timespan::seconds(600)),
        residency: Timespan::millis(*chance.pick(&[0, 30_000, 300_000])),
        serial_starts: chance.percent(40),
    }
}

/// What a machine is.
pub(crate) fn make(chance: &mut Chance) -> Make {
    match chance.below(10) {
        0..6 => Make::Named,
        6 => Make::Plugin,
        7 => Make::Sliced,
        _ => Make::Placed,
    }
}

/// A node of this name with so many cards, and the numbers of its cards.
pub(crate) fn node(
    chance: &mut Chance,
    stock: &mut Stock,
    name: &str,
    make: Make,
    cards: u64,
) -> (Node, Vec<u64>) {
    let mut node = Node::new(name);
    node.allocatable.cpu = chance.percent(30).then(|| MilliCpu(chance.between(4, 64) * 1000));
    node.allocatable.pods = chance.percent(20).then_some(12);
    if make == Make::Plugin {
        node.choice = DeviceChoice::Plugin;
    }
    let model = card_model(chance, make);
    let mut serials = Vec::new();
    for _ in 0..cards {
        let serial = stock.next();
        // Most machines have cards of one size, some have not.
        let like = if chance.percent(80) { model.clone() } else { card_model(chance, make) };
        node.devices.push(card(&like, make, serial));
        serials.push(serial);
    }
    (node, serials)
}

/// One card of this make with this number.
pub(crate) fn card(model: &Device, make: Make, serial: u64) -> Device {
    let mut device = model.clone();
    if make.has_uuids() {
        device.identity = Identity::Uuid(format!("GPU-{serial}").into());
    }
    device
}

/// What a card is, but for its name.
pub(crate) fn card_model(chance: &mut Chance, make: Make) -> Device {
    if make == Make::Sliced {
        return sliced_card(chance);
    }
    let gib = *chance.pick(&[16, 24, 40, 48, 80]);
    let odd = *chance.pick(&[0, 0, 0, 1, 123_457]);
    let kind = if make == Make::Named && chance.percent(8) { "AMD" } else { "NVIDIA" };
    let mut device = Device::new(kind, Bytes::new((gib << 30) + odd), Source::Nvml);
    device.memory.reserve = Bytes::mib(*chance.pick(&[0, 0, 500, 1_024]));
    device.memory.cap = chance.percent(20).then(|| Bytes::gib(chance.between(gib / 2, gib)));
    device.cores = chance.percent(30).then_some(Cores(100));
    device.slots = chance.percent(20).then(|| u32::try_from(chance.between(1, 6)).expect("small"));
    device.numa = chance.percent(40).then(|| u16::try_from(chance.below(2)).expect("small"));
    if make == Make::Plugin {
        let replicas = *chance.pick(&[2, 4, 10]);
        device.sharing = Sharing::Tokens { replicas, strategy: Strategy::TimeSlicing };
    } else if chance.percent(30) {
        device.sharing = Sharing::Shares;
    }
    if make == Make::Placed && chance.percent(5) {
        device.memory.total = Capacity::Unknown { missing: "a label".into() };
    }
    device
}

/// A card of four slices.
fn sliced_card(chance: &mut Chance) -> Device {
    let profile = |name: &str, gib, size: u8, starts: &[u8]| Profile {
        name: name.into(),
        memory: Bytes::gib(gib),
        cores: Cores(u32::from(size)),
        placements: starts.iter().map(|start| Span { start: *start, size }).collect(),
    };
    let profiles = vec![
        profile("1g", 10, 1, &[0, 1, 2, 3]),
        profile("2g", 20, 2, &[0, 2]),
        profile("4g", 40, 4, &[0]),
    ];
    let mut card = Device::new("NVIDIA", Bytes::gib(40), Source::Nvml);
    card.geometry = Some(Arc::new(Geometry { profiles }));
    card.memory.cap = chance.percent(20).then_some(Bytes::gib(25));
    card
}

/// What an operator does to a node's facts: one card fails or is closed, or is mended and opened; the node is closed or
/// opened; a cap is moved where caps do.
pub(crate) fn tend(chance: &mut Chance, node: &mut Node, caps_move: bool) {
    if chance.percent(15) {
        node.unschedulable = !node.unschedulable;
        return;
    }
    if node.devices.is_empty() {
        return;
    }
    let at = chance.index(node.devices.len());
    let device = &mut node.devices[at];
    match chance.below(3) {
        0 => {
            device.health =
                if device.health == Health::Healthy { Health::Faulty } else { Health::Healthy };
        }
        1 => device.cordoned = !device.cordoned,
        _ if caps_move && device.geometry.is_none() => {
            device.memory.cap = chance.percent(70).then(|| Bytes::gib(chance.between(8, 80)));
        }
        _ => {}
    }
}

/// What nobody but the card itself bounds: all of it less what its driver keeps.
pub(crate) fn physical_line(device: &Device, caps_move: bool) -> Option<u64> {
    let total = device.memory.total.bytes()?.get();
    let open = total.saturating_sub(device.memory.reserve.get());
    let cap = device.memory.cap.filter(|_| !caps_move).map_or(u64::MAX, Bytes::get);
    Some(open.min(cap))
}
