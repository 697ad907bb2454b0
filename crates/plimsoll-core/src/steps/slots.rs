//! The steps about the slots that a node already holds: what the decision counted, and its result.

use std::collections::BTreeMap;

use super::{Fact, Renderer, Step, loads};
use crate::charge::HoldingId;
use crate::room::Tenant;
use crate::units::Bytes;
use crate::verdict::NodeVerdict;

/// The charges of one slot on the devices of a node.
struct SlotOnNode<'a> {
    name: &'a str,
    charges: Vec<(u16, &'a Tenant)>,
}

impl Renderer<'_> {
    /// Returns the steps about the slots of a node in the order of their ids. The sums are the
    /// ledger's; nothing is added up here.
    pub(super) fn slots_on(&self, verdict: NodeVerdict) -> Vec<Step> {
        let Some(first) = verdict.needs.iter().find_map(|need| need.devices.first()) else {
            return Vec::new();
        };
        let slots = slots_of(verdict);
        let count = u64::try_from(slots.len()).ok();
        let counting = [("slots", Fact::Number(count))];
        let mut steps = vec![self.about(verdict, first, "calculating_allocated_memory", counting)];
        for slot in slots.values() {
            steps.push(self.slot_found(verdict, slot));
        }
        let result = [("allocated_per_gpu", Fact::Sizes(loads(verdict, |_| Bytes::ZERO)))];
        steps.push(self.about(verdict, first, "memory_calculation_result", result));
        steps
    }

    fn slot_found(&self, verdict: NodeVerdict, slot: &SlotOnNode<'_>) -> Step {
        let devices = verdict.needs.iter().flat_map(|need| need.devices.iter());
        let own = |ordinal: u16| slot.charges.iter().any(|(charged, _)| *charged == ordinal);
        let mut devices = devices.peekable();
        let first = devices.peek().copied();
        let device = devices.find(|device| own(device.ordinal)).or(first);
        let code = match slot.charges.len() {
            1 => "single_gpu_slot_found",
            _ => "multi_gpu_slot_found",
        };
        let sizes = slot.charges.iter().map(|(ordinal, tenant)| {
            let label = verdict.view.node.device_label(usize::from(*ordinal));
            (label, tenant.bytes.map(Bytes::get))
        });
        let is_releasing = slot.charges.iter().any(|(_, tenant)| tenant.stage.is_releasing());
        let facts = [
            ("slot", Fact::Text(slot.name.to_string())),
            ("memory_per_gpu", Fact::Sizes(sizes.collect())),
            ("slot_releasing", Fact::Flag(is_releasing)),
        ];
        let device = device.expect("a node with steps has a judged device");
        self.about(verdict, device, code, facts)
    }
}

fn slots_of(verdict: NodeVerdict<'_>) -> BTreeMap<HoldingId, SlotOnNode<'_>> {
    let mut slots: BTreeMap<HoldingId, SlotOnNode<'_>> = BTreeMap::new();
    for (ordinal, room) in (0_u16..).zip(verdict.view.room.devices()) {
        for tenant in room.tenants() {
            let empty = SlotOnNode { name: &tenant.name, charges: Vec::new() };
            slots.entry(tenant.holding).or_insert(empty).charges.push((ordinal, tenant));
        }
    }
    slots
}
