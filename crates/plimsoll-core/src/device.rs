//! Devices and nodes as facts: what they are, never who holds them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::rules::Taint;
use crate::units::{Bytes, Cores, MilliCpu, Millis, Name};

/// The kind of a device that somebody was seen on before its node was reported.
pub(crate) const UNREPORTED: &str = "(not reported yet)";

/// A machine with its devices, as the front end reported it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The name that people know it by; ties between nodes break by it.
    pub name: Name,
    /// Labels that rules select by.
    pub labels: BTreeMap<Name, Name>,
    /// Marks that keep work away unless it tolerates them.
    pub taints: Vec<Taint>,
    /// Closed to new work by its operator.
    pub unschedulable: bool,
    /// When something was heard from it last, where that is too long ago; it then takes nothing new.
    #[serde(default)]
    pub silent_since: Option<Millis>,
    /// What the node offers besides devices.
    pub allocatable: Allocatable,
    /// The physical devices, by ordinal: `devices[i]` is the i-th card.
    pub devices: Vec<Device>,
    /// Who decides which card a new tenant gets.
    pub choice: DeviceChoice,
    /// Whole cards that are unhealthy without anybody saying which: so many fewer can be in use.
    pub missing_cards: u16,
    /// Why what this node has cannot be known, where that is so; it then takes no device work.
    pub unknown: Option<Name>,
}

impl Node {
    /// A node with nothing but a name, to be filled in.
    pub fn new(name: impl Into<Name>) -> Self {
        Node {
            name: name.into(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            unschedulable: false,
            silent_since: None,
            allocatable: Allocatable::default(),
            devices: Vec::new(),
            choice: DeviceChoice::Owned,
            missing_cards: 0,
            unknown: None,
        }
    }

    /// A node that nobody has reported yet, with so many devices that somebody was seen on.
    pub(crate) fn unreported(name: Name, devices: usize) -> Self {
        let mut device = Device::new(UNREPORTED, Bytes::ZERO, Source::Declared);
        let missing = Name::from("the node has not been reported yet");
        device.memory.total = Capacity::Unknown { missing: missing.clone() };
        Node { devices: vec![device; devices], unknown: Some(missing), ..Node::new(name) }
    }

    /// Why these facts cannot be true, where that is so.
    pub(crate) fn contradiction(&self) -> Option<Name> {
        const MOST: usize = 4096;
        if self.devices.len() > MOST {
            return Some(
                format!("{} devices are reported, more than {MOST}", self.devices.len()).into(),
            );
        }
        let mut seen = std::collections::BTreeSet::new();
        let uuids = self.devices.iter().filter(|device| device.health != Health::Gone);
        let twice = uuids.filter_map(|device| match &device.identity {
            Identity::Uuid(uuid) => Some(uuid),
            Identity::Ordinal => None,
        });
        twice
            .into_iter()
            .find(|uuid| !seen.insert(*uuid))
            .map(|uuid| format!("two devices have the UUID {uuid}").into())
    }

    /// How device `ordinal` is called in front of people: its UUID, or `node/gpu-0` where only its place is known.
    pub fn device_label(&self, ordinal: usize) -> String {
        match self.devices.get(ordinal).map(|device| &device.identity) {
            Some(Identity::Uuid(uuid)) => uuid.to_string(),
            Some(Identity::Ordinal) | None => format!("{}/gpu-{ordinal}", self.name),
        }
    }

    /// The ordinal of the device that has this UUID, or that is called so.
    pub fn device_called(&self, label: &str) -> Option<usize> {
        (0..self.devices.len()).find(|&ordinal| self.device_label(ordinal) == label)
    }

    /// Whether the device plugin, and not the scheduler, picks among several shared cards of this kind.
    pub fn floats(&self, kind: &str) -> bool {
        self.choice == DeviceChoice::Plugin
            && self.devices.iter().filter(|d| &*d.kind == kind).count() > 1
            && self
                .devices
                .iter()
                .any(|d| &*d.kind == kind && matches!(d.sharing, Sharing::Tokens { .. }))
    }
}

/// What a node offers besides devices; `None` is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocatable {
    /// Processor time.
    pub cpu: Option<MilliCpu>,
    /// Main memory.
    pub memory: Option<Bytes>,
    /// Pods.
    pub pods: Option<u32>,
}

/// Who decides which of a node's cards a new tenant gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceChoice {
    /// The scheduler names the card and the node obeys.
    Owned,
    /// The device plugin picks when the container starts; nobody is asked.
    Plugin,
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceChoice::Owned => "owned",
            DeviceChoice::Plugin => "plugin",
        })
    }
}

/// One physical device (or one fixed hardware slice of one).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// What it is known by.
    pub identity: Identity,
    /// What kind of need it can serve: `NVIDIA`, `Ascend910B3`, `nvidia.com/mig-1g.5gb`.
    pub kind: Name,
    /// The model's name, for wishes by type and for people.
    pub model: Option<Name>,
    /// How much memory it has, and who says so.
    pub memory: Memory,
    /// Its compute in its own unit; `None` is not accounted.
    pub cores: Option<Cores>,
    /// How many tenants it admits at once; `None` is not limited.
    pub slots: Option<u32>,
    /// How its plugin hands it out.
    pub sharing: Sharing,
    /// The NUMA node it hangs on.
    pub numa: Option<u16>,
    /// The isolation mode it runs in: `hami-core`, `mig`, `mps`.
    pub mode: Option<Name>,
    /// Whether it works.
    pub health: Health,
    /// Closed to new tenants by its operator.
    pub cordoned: bool,
    /// How it can be cut into hardware slices, where it can.
    pub geometry: Option<Arc<Geometry>>,
    /// How well it is linked to other devices of its node, by their ordinal; higher is better.
    pub links: BTreeMap<u16, u32>,
}

impl Device {
    /// A healthy, exclusive device of `kind` with so much memory, known only by its place.
    pub fn new(kind: impl Into<Name>, total: Bytes, source: Source) -> Self {
        Device {
            identity: Identity::Ordinal,
            kind: kind.into(),
            model: None,
            memory: Memory {
                total: Capacity::Known { bytes: total, source },
                reserve: Bytes::ZERO,
                cap: None,
            },
            cores: None,
            slots: None,
            sharing: Sharing::Exclusive,
            numa: None,
            mode: None,
            health: Health::Healthy,
            cordoned: false,
            geometry: None,
            links: BTreeMap::new(),
        }
    }
}

/// What a device is known by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// Its UUID: it stays the same device wherever it is listed.
    Uuid(Name),
    /// Only its place on the node: assumed, until a UUID is learnt.
    Ordinal,
}

/// How much memory a device has and how much of it may be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What the device has.
    pub total: Capacity,
    /// What the driver keeps for itself.
    pub reserve: Bytes,
    /// The most that the operator lets anybody use, where that is less.
    pub cap: Option<Bytes>,
}

impl Memory {
    /// What may be used: total less reserve, at most the cap. `None` when the total is not known.
    pub fn usable(&self) -> Option<Bytes> {
        let open = self.total.bytes()?.less(self.reserve);
        Some(self.cap.map_or(open, |cap| cap.min(open)).min(Bytes::DEVICE_MAX))
    }
}

/// The memory of a device, or why nobody knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capacity {
    /// So much, by this source.
    Known {
        /// How much.
        bytes: Bytes,
        /// Who says so.
        source: Source,
    },
    /// Not known, and what is missing.
    Unknown {
        /// What to provide.
        missing: Name,
    },
}

impl Capacity {
    /// The amount, where it is known.
    pub fn bytes(&self) -> Option<Bytes> {
        match self {
            Capacity::Known { bytes, .. } => Some(*bytes),
            Capacity::Unknown { .. } => None,
        }
    }
}

/// Who says how much memory a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// An operator declared it.
    Declared,
    /// The driver reported it.
    Nvml,
    /// Feature-discovery labels say so.
    Label,
    /// HAMi's register says so.
    Register,
    /// The vendor's resource counts say so.
    Capacity,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Declared => "declared",
            Source::Nvml => "nvml",
            Source::Label => "label",
            Source::Register => "register",
            Source::Capacity => "capacity",
        })
    }
}

/// How a device is handed out. Replicas are access tokens, never capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// One token a card.
    Exclusive,
    /// Several tokens to the same card, with nothing that bounds their memory.
    Tokens {
        /// Tokens a card.
        replicas: u32,
        /// What makes them.
        strategy: Strategy,
    },
    /// Shares whose memory a runtime limits.
    Shares,
}

/// What makes several tokens of one card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Tenants take turns.
    TimeSlicing,
    /// NVIDIA's multi-process service.
    Mps,
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sharing::Exclusive => "none",
            Sharing::Tokens { strategy: Strategy::TimeSlicing, .. } => "time-slicing",
            Sharing::Tokens { strategy: Strategy::Mps, .. } => "mps",
            Sharing::Shares => "shares",
        })
    }
}

/// Whether a device works.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It does.
    Healthy,
    /// It was reported faulty.
    Faulty,
    /// It was there and is not reported any more; its charges stay.
    Gone,
}

/// What is known of a device's real memory use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Telemetry {
    /// Nobody measures: bookings are all there is.
    #[default]
    None,
    /// Measured at this time.
    Fresh {
        /// When it was measured.
        at: Millis,
    },
    /// The last measurement is too old to place by.
    Stale {
        /// When it was measured.
        since: Millis,
    },
}

/// The ways in which a device can be cut into hardware slices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// The profiles it offers.
    pub profiles: Vec<Profile>,
}

/// One size of hardware slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Its name, such as `1g.5gb`.
    pub name: Name,
    /// The memory a slice has.
    pub memory: Bytes,
    /// The compute a slice has, in the device's unit.
    pub cores: Cores,
    /// Where it may start, and how many memory slices it covers.
    pub placements: Vec<Span>,
}

/// A run of memory slices on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// The first slice.
    pub start: u8,
    /// How many.
    pub size: u8,
}

impl Span {
    /// The slices as bits.
    pub fn mask(self) -> u64 {
        let ones = 1_u64.checked_shl(u32::from(self.size)).map_or(u64::MAX, |bit| bit - 1);
        ones.checked_shl(u32::from(self.start)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usable_is_total_less_reserve_and_at_most_the_cap() {
        let known = |bytes| Capacity::Known { bytes, source: Source::Declared };
        let memory = |reserve, cap| Memory { total: known(Bytes::gib(80)), reserve, cap };
        assert_eq!(memory(Bytes::ZERO, None).usable(), Some(Bytes::gib(80)));
        assert_eq!(memory(Bytes::gib(1), None).usable(), Some(Bytes::gib(79)));
        assert_eq!(memory(Bytes::gib(1), Some(Bytes::gib(60))).usable(), Some(Bytes::gib(60)));
        assert_eq!(memory(Bytes::gib(90), None).usable(), Some(Bytes::ZERO));
        let unknown = Memory {
            total: Capacity::Unknown { missing: "a label".into() },
            reserve: Bytes::ZERO,
            cap: None,
        };
        assert_eq!(unknown.usable(), None);
    }

    #[test]
    fn a_span_is_its_bits() {
        assert_eq!(Span { start: 0, size: 4 }.mask(), 0b1111);
        assert_eq!(Span { start: 6, size: 1 }.mask(), 0b100_0000);
        assert_eq!(Span { start: 0, size: 64 }.mask(), u64::MAX);
        assert_eq!(Span { start: 200, size: 1 }.mask(), 0);
    }

    #[test]
    fn only_several_shared_cards_of_a_plugin_float() {
        let mut node = Node::new("n");
        node.choice = DeviceChoice::Plugin;
        let mut card = Device::new("NVIDIA", Bytes::gib(32), Source::Label);
        card.sharing = Sharing::Tokens { replicas: 100, strategy: Strategy::TimeSlicing };
        node.devices.push(card.clone());
        assert!(!node.floats("NVIDIA"), "a single card leaves no choice");
        node.devices.push(card);
        assert!(node.floats("NVIDIA"));
        assert!(!node.floats("AMD"));
        node.choice = DeviceChoice::Owned;
        assert!(!node.floats("NVIDIA"));
    }
}
