//! Which device is which when a node reports its devices again: by UUID, never by place where a UUID is known.

use crate::device::{Device, Health, Identity, Node};

/// A node's new facts with its old devices recognised.
pub(crate) struct Merged {
    /// The node as it is now; devices that somebody is on and that are not reported any more stand behind the rest, as gone.
    pub node: Node,
    /// For each old ordinal, where that device is now; `None` when it was dropped.
    pub moved: Vec<Option<u16>>,
}

/// Recognises the devices of `old` in `new`. A UUID learnt for a place takes over what was at that place.
pub(crate) fn merge(old: &Node, new: &Node, in_use: impl Fn(usize) -> bool) -> Merged {
    let mut node = new.clone();
    let mut moved = Vec::with_capacity(old.devices.len());
    for (ordinal, device) in old.devices.iter().enumerate() {
        let now = match &device.identity {
            Identity::Uuid(_) => {
                new.devices.iter().position(|candidate| candidate.identity == device.identity)
            }
            Identity::Ordinal => same_place(old, new, ordinal),
        };
        moved.push(now.or_else(|| in_use(ordinal).then(|| keep_as_gone(&mut node, device))).map(narrow));
    }
    Merged { node, moved }
}

/// The node with every device gone and closed to new work.
pub(crate) fn all_gone(old: &Node) -> Node {
    let mut node = old.clone();
    node.unschedulable = true;
    for device in &mut node.devices {
        device.health = Health::Gone;
    }
    node
}

fn same_place(old: &Node, new: &Node, ordinal: usize) -> Option<usize> {
    let there = new.devices.get(ordinal)?;
    let known_elsewhere = matches!(there.identity, Identity::Uuid(_))
        && old.devices.iter().any(|device| device.identity == there.identity);
    (!known_elsewhere && old.devices[ordinal].health != Health::Gone).then_some(ordinal)
}

fn keep_as_gone(node: &mut Node, device: &Device) -> usize {
    node.devices.push(Device { health: Health::Gone, ..device.clone() });
    node.devices.len() - 1
}

fn narrow(ordinal: usize) -> u16 {
    u16::try_from(ordinal).expect("a node has fewer than 2^16 devices")
}
