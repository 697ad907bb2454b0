//! Which device is which when a node reports its devices again: by UUID where one is known, else by its place among
//! the devices of its kind. A device that somebody is on is never mistaken for a new, empty one.

use crate::device::{Device, Health, Identity, Node, UNREPORTED};

/// A node's new facts with its old devices recognised.
pub(crate) struct Merged {
    /// The node as it is now; devices that somebody is on and that are not reported any more stand behind the rest, as gone.
    pub node: Node,
    /// For each old ordinal, where that device is now; `None` when it was dropped.
    pub moved: Vec<Option<u16>>,
}

/// Recognises the devices of `old` in `new`. A UUID learnt for a place takes over what was at that place.
pub(crate) fn merge(old: &Node, new: &Node, in_use: impl Fn(usize) -> bool) -> Merged {
    let mut matching = Matching {
        old,
        new,
        now: vec![None; old.devices.len()],
        taken: vec![false; new.devices.len()],
    };
    matching.by_uuid();
    matching.by_place();
    matching.by_kind(&in_use);
    let mut node = new.clone();
    let keep = |(ordinal, now): (usize, &Option<usize>)| {
        now.or_else(|| in_use(ordinal).then(|| keep_as_gone(&mut node, &old.devices[ordinal])))
            .map(narrow)
    };
    let moved = matching.now.iter().enumerate().map(keep).collect();
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

struct Matching<'a> {
    old: &'a Node,
    new: &'a Node,
    /// Where each old device is now.
    now: Vec<Option<usize>>,
    /// Which new devices are recognised.
    taken: Vec<bool>,
}

impl Matching<'_> {
    fn by_uuid(&mut self) {
        for (ordinal, device) in self.old.devices.iter().enumerate() {
            if let Identity::Uuid(_) = device.identity {
                let same = self
                    .new
                    .devices
                    .iter()
                    .position(|candidate| candidate.identity == device.identity);
                self.settle(ordinal, same);
            }
        }
    }

    /// The same place among the devices of its kind.
    fn by_place(&mut self) {
        for ordinal in 0..self.old.devices.len() {
            let place = place_in_kind(self.old, ordinal);
            let there =
                |at: &usize| self.could_be(ordinal, *at) && self.same_place(ordinal, place, *at);
            let found = (0..self.new.devices.len()).find(there);
            self.settle(ordinal, found);
        }
    }

    /// Any device of its kind that nobody else claims: better the wrong one of two than an empty twin.
    fn by_kind(&mut self, in_use: &impl Fn(usize) -> bool) {
        for ordinal in (0..self.old.devices.len()).filter(|ordinal| in_use(*ordinal)) {
            let found = (0..self.new.devices.len()).find(|at| self.could_be(ordinal, *at));
            self.settle(ordinal, found);
        }
    }

    fn same_place(&self, ordinal: usize, place: usize, at: usize) -> bool {
        if &*self.old.devices[ordinal].kind == UNREPORTED {
            at == ordinal
        } else {
            place_in_kind(self.new, at) == place
        }
    }

    /// Whether nothing speaks against the two being one device: two different UUIDs do.
    fn could_be(&self, ordinal: usize, at: usize) -> bool {
        let (old, new) = (&self.old.devices[ordinal], &self.new.devices[at]);
        let nameless = old.identity == Identity::Ordinal || new.identity == Identity::Ordinal;
        self.now[ordinal].is_none()
            && !self.taken[at]
            && nameless
            && (old.kind == new.kind || &*old.kind == UNREPORTED)
    }

    fn settle(&mut self, ordinal: usize, at: Option<usize>) {
        if let Some(at) = at.filter(|at| self.now[ordinal].is_none() && !self.taken[*at]) {
            (self.now[ordinal], self.taken[at]) = (Some(at), true);
        }
    }
}

fn place_in_kind(node: &Node, ordinal: usize) -> usize {
    let kind = &node.devices[ordinal].kind;
    node.devices[..ordinal].iter().filter(|device| device.kind == *kind).count()
}

fn keep_as_gone(node: &mut Node, device: &Device) -> usize {
    node.devices.push(Device { health: Health::Gone, ..device.clone() });
    node.devices.len() - 1
}

fn narrow(ordinal: usize) -> u16 {
    u16::try_from(ordinal).unwrap_or(u16::MAX)
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

    /// Where the old devices are now, all of them in use.
    fn moved(old: &[&str], new: &[&str]) -> Vec<Option<u16>> {
        merge(&node(old), &node(new), |_| true).moved
    }

    #[test]
    fn charges_follow_a_uuid_to_another_place() {
        assert_eq!(moved(&["a", "b"], &["b", "a"]), [Some(1), Some(0)]);
    }

    #[test]
    fn a_uuid_learnt_later_takes_over_its_place() {
        assert_eq!(moved(&["", ""], &["a", "b"]), [Some(0), Some(1)]);
        assert_eq!(
            moved(&["", "x"], &["x", "y"]),
            [Some(1), Some(0)],
            "the nameless one is the one that is left"
        );
    }

    #[test]
    fn a_card_that_is_reported_without_its_uuid_is_not_a_second_card() {
        assert_eq!(moved(&["a"], &[""]), [Some(0)]);
    }

    #[test]
    fn a_card_that_was_replaced_keeps_its_charges_as_gone() {
        let merged = merge(&node(&["a"]), &node(&["b"]), |_| true);
        assert_eq!(merged.moved, [Some(1)]);
        assert_eq!(merged.node.devices[1].health, Health::Gone);
    }

    #[test]
    fn a_node_that_flaps_finds_its_cards_again() {
        let gone = all_gone(&node(&["", ""]));
        assert_eq!(merge(&gone, &node(&["", ""]), |_| true).moved, [Some(0), Some(1)]);
        let fewer = merge(&node(&["", ""]), &node(&[""]), |_| true).node;
        assert_eq!(merge(&fewer, &node(&["", ""]), |_| true).moved, [Some(0), Some(1)]);
    }

    #[test]
    fn a_place_is_counted_within_its_kind() {
        assert_eq!(moved(&["GPU/"], &["Z/", "GPU/"]), [Some(1)]);
    }

    #[test]
    fn a_device_that_nobody_is_on_and_nobody_reports_is_dropped() {
        assert_eq!(merge(&node(&["a", "b"]), &node(&["b"]), |_| false).moved, [None, Some(0)]);
    }
}
