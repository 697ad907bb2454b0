//! Identity of devices across reports of their node: decides which old device is which new one.
//!
//! Charges refer to devices by ordinal, and a node's list can change between two reports: cards are
//! reordered, added, removed, or get the UUIDs that were unknown before. Matching runs in three
//! passes, the surest evidence first, and each pass matches only what the earlier ones left over:
//!
//! 1. equal UUIDs;
//! 2. equal position among the devices of the kind, unless both have a UUID (then they differ);
//! 3. for devices with tenants, any unmatched device of the kind.
//!
//! The third pass may pick the wrong one of two cards. That is deliberate: the node's free memory
//! is then still right in sum, while a device with tenants that is taken for a new, empty one would
//! be overcommitted at once. For the same reason a device with tenants that matches nothing is
//! kept, as gone, until its last charge is removed; one without tenants is dropped.
//!
//! A pass compares each old device with each new one, so that a report costs O(devices²) on one
//! node. Indexes by UUID and kind were rejected: nodes have a handful of devices.

use crate::device::{Device, Health, Identity, Node, UNREPORTED};

/// A node's new facts, and the new ordinals of its old devices.
pub(crate) struct Merged {
    /// The node as reported. Devices that have tenants but are no longer reported follow at the
    /// end, as gone.
    pub node: Node,
    /// The new ordinal of each old device; `None` if it was dropped.
    pub moved: Vec<Option<u16>>,
}

/// Matches the devices of `old` with those of `new`. `in_use` tells which old devices have tenants.
pub(crate) fn merge(old: &Node, new: &Node, in_use: impl Fn(usize) -> bool) -> Merged {
    let mut matching = Matching {
        old,
        new,
        matched: vec![None; old.devices.len()],
        claimed: vec![false; new.devices.len()],
    };
    matching.by_uuid();
    matching.by_position();
    matching.by_kind(&in_use);
    let mut node = new.clone();
    let mut moved = Vec::with_capacity(old.devices.len());
    for (ordinal, matched) in matching.matched.iter().enumerate() {
        let now = match matched {
            Some(at) => Some(*at),
            None if in_use(ordinal) => Some(keep_as_gone(&mut node, &old.devices[ordinal])),
            None => None,
        };
        moved.push(now.map(to_ordinal));
    }
    Merged { node, moved }
}

/// Returns the node closed to new work, with every device gone.
pub(crate) fn all_gone(old: &Node) -> Node {
    let mut node = old.clone();
    node.unschedulable = true;
    for device in &mut node.devices {
        device.health = Health::Gone;
    }
    node
}

struct Matching<'a> {
    old: &'a Node,
    new: &'a Node,
    /// The index of the new device for each old one.
    matched: Vec<Option<usize>>,
    /// For each new device, true if an old one was matched with it.
    claimed: Vec<bool>,
}

impl Matching<'_> {
    fn by_uuid(&mut self) {
        for (ordinal, device) in self.old.devices.iter().enumerate() {
            if let Identity::Uuid(_) = device.identity {
                let same = |candidate: &Device| candidate.identity == device.identity;
                let found = self.new.devices.iter().position(same);
                self.match_unless_claimed(ordinal, found);
            }
        }
    }

    fn by_position(&mut self) {
        for ordinal in 0..self.old.devices.len() {
            let found = (0..self.new.devices.len())
                .find(|at| self.could_be(ordinal, *at) && self.same_position(ordinal, *at));
            self.match_unless_claimed(ordinal, found);
        }
    }

    fn by_kind(&mut self, in_use: &impl Fn(usize) -> bool) {
        for ordinal in (0..self.old.devices.len()).filter(|ordinal| in_use(*ordinal)) {
            let found = (0..self.new.devices.len()).find(|at| self.could_be(ordinal, *at));
            self.match_unless_claimed(ordinal, found);
        }
    }

    /// Compares positions within the kind. A placeholder has no kind yet; its ordinal was observed.
    fn same_position(&self, ordinal: usize, at: usize) -> bool {
        if &*self.old.devices[ordinal].kind == UNREPORTED {
            at == ordinal
        } else {
            position_in_kind(self.new, at) == position_in_kind(self.old, ordinal)
        }
    }

    /// Returns true if nothing contradicts that both are the same device. Two UUIDs do: equal ones
    /// are already matched.
    fn could_be(&self, ordinal: usize, at: usize) -> bool {
        let old = &self.old.devices[ordinal];
        let new = &self.new.devices[at];
        let without_uuid = old.identity == Identity::Ordinal || new.identity == Identity::Ordinal;
        self.matched[ordinal].is_none()
            && !self.claimed[at]
            && without_uuid
            && (old.kind == new.kind || &*old.kind == UNREPORTED)
    }

    fn match_unless_claimed(&mut self, ordinal: usize, at: Option<usize>) {
        if let Some(at) = at.filter(|at| self.matched[ordinal].is_none() && !self.claimed[*at]) {
            self.matched[ordinal] = Some(at);
            self.claimed[at] = true;
        }
    }
}

fn position_in_kind(node: &Node, ordinal: usize) -> usize {
    let kind = &node.devices[ordinal].kind;
    node.devices[..ordinal].iter().filter(|device| device.kind == *kind).count()
}

/// Appends a device as gone and returns its ordinal.
fn keep_as_gone(node: &mut Node, device: &Device) -> usize {
    node.devices.push(Device { health: Health::Gone, ..device.clone() });
    node.devices.len() - 1
}

fn to_ordinal(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Source;
    use crate::units::Bytes;

    fn node(devices: &[&str]) -> Node {
        let mut node = Node::new("n");
        for name in devices {
            let (kind, uuid) = name.split_once('/').unwrap_or(("GPU", name));
            let mut device = Device::new(kind, Bytes::gib(80), Source::Declared);
            if !uuid.is_empty() {
                device.identity = Identity::Uuid(uuid.into());
            }
            node.devices.push(device);
        }
        node
    }

    /// Merges two reports while all old devices are in use.
    fn moved(old: &[&str], new: &[&str]) -> Vec<Option<u16>> {
        merge(&node(old), &node(new), |_| true).moved
    }

    #[test]
    fn charges_follow_a_uuid_to_another_position() {
        assert_eq!(moved(&["a", "b"], &["b", "a"]), [Some(1), Some(0)]);
    }

    #[test]
    fn a_uuid_reported_later_takes_over_the_charges_of_its_position() {
        assert_eq!(moved(&["", ""], &["a", "b"]), [Some(0), Some(1)]);
        assert_eq!(
            moved(&["", "x"], &["x", "y"]),
            [Some(1), Some(0)],
            "the device without a UUID is left over"
        );
    }

    #[test]
    fn a_card_reported_without_its_uuid_is_not_a_second_card() {
        assert_eq!(moved(&["a"], &[""]), [Some(0)]);
    }

    #[test]
    fn a_replaced_card_keeps_its_charges_as_gone() {
        let merged = merge(&node(&["a"]), &node(&["b"]), |_| true);
        assert_eq!(merged.moved, [Some(1)]);
        assert_eq!(merged.node.devices[1].health, Health::Gone);
    }

    #[test]
    fn a_flapping_node_gets_its_cards_back() {
        let gone = all_gone(&node(&["", ""]));
        assert_eq!(merge(&gone, &node(&["", ""]), |_| true).moved, [Some(0), Some(1)]);
        let fewer = merge(&node(&["", ""]), &node(&[""]), |_| true).node;
        assert_eq!(merge(&fewer, &node(&["", ""]), |_| true).moved, [Some(0), Some(1)]);
    }

    #[test]
    fn a_position_is_counted_within_its_kind() {
        assert_eq!(moved(&["GPU/"], &["Z/", "GPU/"]), [Some(1)]);
    }

    #[test]
    fn a_device_without_tenants_that_is_no_longer_reported_is_dropped() {
        assert_eq!(merge(&node(&["a", "b"]), &node(&["b"]), |_| false).moved, [None, Some(0)]);
    }
}
