//! Facts about nodes and devices. Usage is kept in `room`, never here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::resources::ResourceAmounts;
use crate::rules::Taint;
use crate::units::{Bytes, Cores, MilliCpu, Millis, Name};

/// The kind of a placeholder device: a holding was observed on it before its node was reported.
pub(crate) const UNREPORTED: &str = "(not reported yet)";

/// The most devices a node may report. A larger number is a faulty report, and ordinals are `u16`.
pub(crate) const DEVICES_MAX: usize = 4096;

/// A machine with its devices, as the front end reported it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Unique. Ties between equally good nodes break by name.
    pub name: Name,
    pub labels: BTreeMap<Name, Name>,
    pub taints: Vec<Taint>,
    /// Paths of files on the node that requests can require, such as those of models.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub files: BTreeSet<Name>,
    /// The number of starts that failed in a row. The planner prefers nodes with fewer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_starts: u16,
    /// Cordoned by the operator.
    pub unschedulable: bool,
    /// The time of the last heartbeat, if that is too long ago. A silent node takes no new work.
    #[serde(default)]
    pub silent_since: Option<Millis>,
    pub allocatable: Allocatable,
    /// The physical devices; the index is the ordinal.
    pub devices: Vec<Device>,
    pub choice: DeviceChoice,
    /// Number of unhealthy cards where the node reports only the number, not the cards. That many
    /// cards fewer can be in use at a time.
    pub missing_cards: u16,
    /// The reason why the node's devices are not known. Such a node takes no device work.
    pub unknown: Option<Name>,
}

fn is_zero(number: &u16) -> bool {
    *number == 0
}

impl Node {
    /// Creates a schedulable node without devices.
    pub fn new(name: impl Into<Name>) -> Self {
        Node {
            name: name.into(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            files: BTreeSet::new(),
            failed_starts: 0,
            unschedulable: false,
            silent_since: None,
            allocatable: Allocatable::default(),
            devices: Vec::new(),
            choice: DeviceChoice::Owned,
            missing_cards: 0,
            unknown: None,
        }
    }

    /// Creates the placeholder of a node on which holdings were observed before it was reported.
    /// Its devices have unknown memory; the node's own report takes their charges over.
    pub(crate) fn unreported(name: Name, devices: usize) -> Self {
        let mut device = Device::new(UNREPORTED, Bytes::ZERO, Source::Declared);
        let missing = Name::from("the node has not been reported yet");
        device.memory.total = Capacity::Unknown { missing: missing.clone() };
        Node { devices: vec![device; devices], unknown: Some(missing), ..Node::new(name) }
    }

    /// Returns the problem if these facts cannot all be true.
    pub(crate) fn contradiction(&self) -> Option<Name> {
        if self.devices.len() > DEVICES_MAX {
            let count = self.devices.len();
            return Some(
                format!("the node reports {count} devices, more than {DEVICES_MAX}").into(),
            );
        }
        let mut seen = BTreeSet::new();
        let present = self.devices.iter().filter(|device| device.health != Health::Gone);
        let mut uuids = present.filter_map(|device| match &device.identity {
            Identity::Uuid(uuid) => Some(uuid),
            Identity::Ordinal => None,
        });
        uuids
            .find(|uuid| !seen.insert(*uuid))
            .map(|uuid| format!("two devices have the UUID {uuid}").into())
    }

    /// Returns the printed name of a device: its UUID, or `node/gpu-0` if no UUID is known.
    pub fn device_label(&self, ordinal: usize) -> String {
        match self.devices.get(ordinal).map(|device| &device.identity) {
            Some(Identity::Uuid(uuid)) => uuid.to_string(),
            Some(Identity::Ordinal) | None => format!("{}/gpu-{ordinal}", self.name),
        }
    }

    /// Returns the name of a device beside the name of its node: its UUID, or `gpu-0` if no UUID is
    /// known.
    pub fn device_name(&self, ordinal: usize) -> Name {
        match self.devices.get(ordinal).map(|device| &device.identity) {
            Some(Identity::Uuid(uuid)) => uuid.clone(),
            Some(Identity::Ordinal) | None => smol_str::format_smolstr!("gpu-{ordinal}"),
        }
    }

    /// Returns the node as if every device that it has were healthy and open, and as if the node
    /// itself accepted work.
    pub(crate) fn with_all_devices_healthy(&self) -> Node {
        let mut node = self.clone();
        node.unschedulable = false;
        node.silent_since = None;
        node.missing_cards = 0;
        node.taints.clear();
        for device in &mut node.devices {
            device.health = Health::Healthy;
            device.cordoned = false;
        }
        node
    }

    /// Finds a device by its printed name ([`Node::device_label`]).
    pub fn device_called(&self, label: &str) -> Option<usize> {
        (0..self.devices.len()).find(|&ordinal| self.device_label(ordinal) == label)
    }

    /// Returns true if charges on this kind of device float: the device plugin, not the scheduler,
    /// picks the card, and there are several shared cards to pick from.
    ///
    /// A floating charge counts against each card that the plugin may pick, as long as the card's
    /// tokens admit it beside larger ones (`room::floating`). Guessing one card instead would
    /// overcommit another whenever the guess is wrong; dividing the charge would overcommit the
    /// card that gets it.
    pub fn floats(&self, kind: &str) -> bool {
        self.choice == DeviceChoice::Plugin
            && self.devices.iter().filter(|d| &*d.kind == kind).count() > 1
            && self
                .devices
                .iter()
                .any(|d| &*d.kind == kind && matches!(d.sharing, Sharing::Tokens { .. }))
    }

    /// Returns the component that picks the card for a need of this kind.
    pub fn choice_for(&self, kind: &str) -> DeviceChoice {
        if self.floats(kind) { DeviceChoice::Plugin } else { DeviceChoice::Owned }
    }
}

/// Resources of a node other than devices; `None` means unlimited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocatable {
    pub cpu: Option<MilliCpu>,
    pub memory: Option<Bytes>,
    pub pods: Option<u32>,
    /// Named resources that the node advertises. One without an entry is not available.
    #[serde(default, skip_serializing_if = "ResourceAmounts::is_empty")]
    pub extended: ResourceAmounts,
}

/// The component that picks the card of a new tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceChoice {
    /// The scheduler names the card, and the node obeys.
    Owned,
    /// The device plugin picks a card when the container starts, without asking the scheduler.
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

/// One physical device, or one fixed hardware slice of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub identity: Identity,
    /// Matched against a need's kind: `NVIDIA`, `Ascend910B3`, `nvidia.com/mig-1g.5gb`.
    pub kind: Name,
    pub model: Option<Name>,
    pub memory: Memory,
    /// Compute in the device's own unit; `None` if it is not accounted.
    pub cores: Option<Cores>,
    /// The most tenants at a time; `None` means unlimited.
    pub slots: Option<u32>,
    pub sharing: Sharing,
    pub numa: Option<u16>,
    /// The physical card, where one card carries several devices (dies). A request that accepts
    /// only a device without tenants accepts none of a card with tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board: Option<Name>,
    /// The isolation mode: `hami-core`, `mig`, `mps`.
    pub mode: Option<Name>,
    pub health: Health,
    /// Closed to new tenants by the operator.
    pub cordoned: bool,
    /// The hardware slices that the device can be partitioned into; `None` if it is not
    /// partitioned.
    pub geometry: Option<Arc<Geometry>>,
    /// Link quality to other devices of the node by ordinal; higher is better.
    pub links: BTreeMap<u16, u32>,
}

impl Device {
    /// Creates a healthy, exclusive device without a UUID.
    pub fn new(kind: impl Into<Name>, total: Bytes, source: Source) -> Self {
        Device::with_capacity(kind, Capacity::Known { bytes: total, source })
    }

    /// Creates a healthy, exclusive device without a UUID, whose capacity may be unknown.
    pub fn with_capacity(kind: impl Into<Name>, total: Capacity) -> Self {
        Device {
            identity: Identity::Ordinal,
            kind: kind.into(),
            model: None,
            memory: Memory { total, reserve: Bytes::ZERO, cap: None },
            cores: None,
            slots: None,
            sharing: Sharing::Exclusive,
            numa: None,
            board: None,
            mode: None,
            health: Health::Healthy,
            cordoned: false,
            geometry: None,
            links: BTreeMap::new(),
        }
    }
}

/// The identity of a device across reports of its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// The same device wherever it is listed.
    Uuid(Name),
    /// Only the position on the node is known. Assumed to stay the same until a UUID is reported.
    Ordinal,
}

/// The memory of a device and the limits on its use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    pub total: Capacity,
    /// Memory that the driver keeps for itself.
    pub reserve: Bytes,
    /// The operator's limit on the usable memory.
    pub cap: Option<Bytes>,
}

impl Memory {
    /// Returns `total - reserve`, at most `cap`; `None` if the total is unknown.
    pub fn usable(&self) -> Option<Bytes> {
        let open = self.total.bytes()?.less(self.reserve);
        Some(self.cap.map_or(open, |cap| cap.min(open)).min(Bytes::DEVICE_MAX))
    }
}

/// The total memory of a device. Unknown is not zero: it is a value that names the missing fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capacity {
    Known { bytes: Bytes, source: Source },
    Unknown { missing: Name },
}

impl Capacity {
    /// Returns the amount if it is known.
    pub fn bytes(&self) -> Option<Bytes> {
        match self {
            Capacity::Known { bytes, .. } => Some(*bytes),
            Capacity::Unknown { .. } => None,
        }
    }
}

/// The source of a device's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Declared by the operator.
    Declared,
    /// Reported by the driver.
    Nvml,
    /// Labels of GPU feature discovery.
    Label,
    /// HAMi's register annotation.
    Register,
    /// Derived from the vendor's resource counts.
    Capacity,
    /// A ResourceSlice of dynamic resource allocation.
    Slice,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Declared => "declared",
            Source::Nvml => "nvml",
            Source::Label => "label",
            Source::Register => "register",
            Source::Capacity => "capacity",
            Source::Slice => "slice",
        })
    }
}

/// The sharing mode of a device.
///
/// Replicas are access tokens, never capacity. A node with 2 cards and 10 replicas each advertises
/// 20 GPUs to Kubernetes, but has the memory of 2. Counting replicas as devices would place 10
/// tenants on a card without looking at its memory, which is how cards get overcommitted under
/// time-slicing; so a token limits only the number of tenants, and memory is always counted per
/// physical card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// One tenant per card.
    Exclusive,
    /// Several access tokens per card. A token grants access to the whole card; time-slicing does
    /// not limit the memory of its holder, MPS limits it to an equal part.
    Tokens { replicas: u32, strategy: Strategy },
    /// Shares with a memory limit that a runtime enforces (HAMi-core).
    Shares,
    /// Shares that the hardware makes equal (Kunlun's vXPU): the first tenant decides their size.
    EqualShares,
}

/// The mechanism behind several tokens of one card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
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
            Sharing::EqualShares => "equal-shares",
        })
    }
}

/// The health of a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    Healthy,
    Faulty,
    /// No longer reported. The device stays in the ledger while charges are on it.
    Gone,
}

/// The age of a device's memory measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Telemetry {
    /// The device is not measured; only charges count.
    #[default]
    None,
    Fresh {
        at: Millis,
    },
    /// The last measurement, taken at `since`, is too old to place new work by.
    Stale {
        since: Millis,
    },
}

/// The hardware slices that a device can be partitioned into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    pub profiles: Vec<Profile>,
}

/// One size of hardware slice (a MIG profile).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// For example `1g.5gb`.
    pub name: Name,
    pub memory: Bytes,
    pub cores: Cores,
    /// The positions that the hardware allows.
    pub placements: Vec<Span>,
}

/// A range of memory slices on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    pub start: u8,
    pub size: u8,
}

impl Span {
    /// Returns the slices as a bit mask; slices beyond the 64th are cut off.
    pub fn mask(self) -> u64 {
        let ones = 1_u64.checked_shl(u32::from(self.size)).map_or(u64::MAX, |bit| bit - 1);
        ones.checked_shl(u32::from(self.start)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usable_is_total_minus_reserve_and_at_most_the_cap() {
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
    fn a_span_masks_its_slices() {
        assert_eq!(Span { start: 0, size: 4 }.mask(), 0b1111);
        assert_eq!(Span { start: 6, size: 1 }.mask(), 0b100_0000);
        assert_eq!(Span { start: 0, size: 64 }.mask(), u64::MAX);
        assert_eq!(Span { start: 200, size: 1 }.mask(), 0);
    }

    #[test]
    fn charges_float_only_where_a_plugin_picks_among_several_shared_cards() {
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
