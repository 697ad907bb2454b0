//! Nodes and devices in the witness's books: what they are, and which is which when a node is reported again.

use plimsoll_core::charge::Holding;
use plimsoll_core::device::{Capacity, Device, Identity, Node, Source};
use plimsoll_core::units::Bytes;

/// A node as it was reported, with devices that are gone and still held behind the rest.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub node: Node,
    pub foreign: Vec<u128>,
    /// When each device was last measured.
    pub measured: Vec<Option<u64>>,
    pub leaving: bool,
}

/// The kind of a device that somebody was seen on before its node was reported.
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

    /// A node of which nothing is known but that somebody runs there.
    pub(crate) fn unreported(holding: &Holding) -> Self {
        let highest = holding.charges.iter().flat_map(|charge| &charge.on).max();
        let mut device = Device::new(UNREPORTED, Bytes::ZERO, Source::Declared);
        device.memory.total = Capacity::Unknown { missing: "a report".into() };
        let mut node = Node::new(holding.node.clone());
        node.devices = vec![device; highest.map_or(0, |ordinal| usize::from(*ordinal) + 1)];
        Place::reported(&node)
    }
}

/// What may be used of a device.
pub(crate) fn usable(device: &Device) -> Option<u128> {
    let Capacity::Known { bytes, .. } = device.memory.total else { return None };
    let open = u128::from(bytes.get()).saturating_sub(u128::from(device.memory.reserve.get()));
    Some(device.memory.cap.map_or(open, |cap| open.min(u128::from(cap.get()))))
}

/// Where the old devices are among the new: by UUID, then by place among their kind, then anywhere where one is in use.
pub(crate) fn recognised(
    old: &Node,
    new: &Node,
    in_use: impl Fn(usize) -> bool,
) -> Vec<Option<usize>> {
    let uuid = |device: &Device| match &device.identity {
        Identity::Uuid(uuid) => Some(uuid.clone()),
        Identity::Ordinal => None,
    };
    let place = |node: &Node, at: usize| {
        node.devices[..at].iter().filter(|device| device.kind == node.devices[at].kind).count()
    };
    let same_uuid = |from: usize, to: usize| {
        let known = uuid(&old.devices[from]);
        known.is_some() && known == uuid(&new.devices[to])
    };
    let could_be = |from: usize, to: usize| {
        let (one, other) = (&old.devices[from], &new.devices[to]);
        let kind = one.kind == other.kind || &*one.kind == UNREPORTED;
        kind && (uuid(one).is_none() || uuid(other).is_none())
    };
    let same_place = |from: usize, to: usize| {
        let unreported = &*old.devices[from].kind == UNREPORTED;
        could_be(from, to)
            && if unreported { from == to } else { place(old, from) == place(new, to) }
    };
    let any = |from: usize, to: usize| could_be(from, to) && in_use(from);
    let mut now_at: Vec<Option<usize>> = vec![None; old.devices.len()];
    let rules: [&dyn Fn(usize, usize) -> bool; 3] = [&same_uuid, &same_place, &any];
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

/// What a whole device comes to; of several the largest.
pub(crate) fn whole(node: &Node, on: &[usize]) -> Option<u128> {
    on.iter().filter_map(|at| usable(node.devices.get(*at)?)).max()
}
