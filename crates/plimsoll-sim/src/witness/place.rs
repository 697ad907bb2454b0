//! Nodes and devices in the witness's books, and the identity of devices across reports.

use plimsoll_core::charge::Holding;
use plimsoll_core::device::{Capacity, Device, Identity, Node, Source};
use plimsoll_core::units::{Bytes, Name};

/// A node as it was reported. Devices that are gone but still held follow at the end.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub node: Node,
    pub foreign: Vec<u128>,
    /// The time of the last measurement of each device.
    pub measured: Vec<Option<u64>>,
    pub leaving: bool,
}

/// The kind of a device that work was observed on before its node was reported.
const UNREPORTED: &str = "(not reported yet)";

impl Place {
    pub(crate) fn reported(node: &Node) -> Self {
        let devices = node.devices.len();
        Place {
            node: node.clone(),
            foreign: vec![0; devices],
            measured: vec![None; devices],
            leaving: false,
        }
    }

    /// Creates a node of which only the work that runs on it is known.
    pub(crate) fn unreported(holding: &Holding) -> Self {
        let highest = holding.charges.iter().flat_map(|charge| &charge.on).max();
        let mut device = Device::new(UNREPORTED, Bytes::ZERO, Source::Declared);
        device.memory.total = Capacity::Unknown { missing: "a report".into() };
        let mut node = Node::new(holding.node.clone());
        node.devices = vec![device; highest.map_or(0, |ordinal| usize::from(*ordinal) + 1)];
        Place::reported(&node)
    }
}

/// Returns the usable memory of a device.
pub(crate) fn usable(device: &Device) -> Option<u128> {
    let Capacity::Known { bytes, .. } = device.memory.total else { return None };
    let open = u128::from(bytes.get()).saturating_sub(u128::from(device.memory.reserve.get()));
    Some(device.memory.cap.map_or(open, |cap| open.min(u128::from(cap.get()))))
}

/// Returns the new position of each old device: by UUID, then by position within its kind, then, if
/// it is in use, any device of its kind. Each rule only matches devices that the earlier ones left.
pub(crate) fn match_devices(
    old: &Node,
    new: &Node,
    in_use: impl Fn(usize) -> bool,
) -> Vec<Option<usize>> {
    let any = |from: usize, to: usize| could_be(old, from, new, to) && in_use(from);
    let rules: [&dyn Fn(usize, usize) -> bool; 3] = [
        &|from, to| same_uuid(&old.devices[from], &new.devices[to]),
        &|from, to| could_be(old, from, new, to) && same_position(old, from, new, to),
        &any,
    ];
    let mut now_at: Vec<Option<usize>> = vec![None; old.devices.len()];
    for rule in rules {
        for from in 0..old.devices.len() {
            if now_at[from].is_none() {
                let free = |to: &usize| !now_at.contains(&Some(*to)) && rule(from, *to);
                now_at[from] = (0..new.devices.len()).find(free);
            }
        }
    }
    now_at
}

fn uuid(device: &Device) -> Option<&Name> {
    match &device.identity {
        Identity::Uuid(uuid) => Some(uuid),
        Identity::Ordinal => None,
    }
}

fn same_uuid(one: &Device, other: &Device) -> bool {
    uuid(one).is_some() && uuid(one) == uuid(other)
}

/// Returns true if nothing contradicts that both are the same device; two UUIDs do.
fn could_be(old: &Node, from: usize, new: &Node, to: usize) -> bool {
    let (one, other) = (&old.devices[from], &new.devices[to]);
    let same_kind = one.kind == other.kind || &*one.kind == UNREPORTED;
    same_kind && (uuid(one).is_none() || uuid(other).is_none())
}

/// Compares positions within the kind. A device that was not reported yet has only its ordinal.
fn same_position(old: &Node, from: usize, new: &Node, to: usize) -> bool {
    if &*old.devices[from].kind == UNREPORTED {
        return from == to;
    }
    position_in_kind(old, from) == position_in_kind(new, to)
}

fn position_in_kind(node: &Node, at: usize) -> usize {
    node.devices[..at].iter().filter(|device| device.kind == node.devices[at].kind).count()
}

/// Returns the memory that a whole device counts as; of several the largest.
pub(crate) fn whole_bytes(node: &Node, on: &[usize]) -> Option<u128> {
    on.iter().filter_map(|at| usable(node.devices.get(*at)?)).max()
}
