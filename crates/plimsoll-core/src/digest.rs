//! A number for all that a decision saw, so that an explanation made again can be told from the one that was given.

use std::hash::{Hash, Hasher};

use crate::decide::{Decision, Outcome};
use crate::room::DeviceRoom;
use crate::verdict::NodeVerdict;

/// The digest of a decision: of its answer and of every verdict behind it, in no order. Stable within one version of this crate.
pub fn digest(decision: &Decision) -> u64 {
    let mut hasher = Mixer::default();
    decision.request.hash(&mut hasher);
    decision.policy.hash(&mut hasher);
    match &decision.outcome {
        Outcome::Placed(found) => {
            (1_u8, &found.place.node, found.place.shape, &found.place.picks).hash(&mut hasher);
        }
        Outcome::Refused(reason) => (0_u8, reason.as_ref().map(ToString::to_string)).hash(&mut hasher),
    }
    let verdicts = decision.shapes.iter().enumerate();
    let sum =
        verdicts.flat_map(|(shape, table)| table.unordered().map(move |verdict| of_verdict(shape, verdict)));
    sum.fold(hasher.finish(), u64::wrapping_add)
}

/// A verdict's own digest, made once: a verdict that stands in many tables is not read again for each.
fn of_verdict(shape: usize, verdict: &NodeVerdict) -> u64 {
    *verdict.digest.get_or_init(|| read_verdict(shape, verdict))
}

fn read_verdict(shape: usize, verdict: &NodeVerdict) -> u64 {
    let mut hasher = Mixer::default();
    (shape, &verdict.view.node.name, &verdict.reason).hash(&mut hasher);
    for need in &verdict.needs {
        (need.container, need.wanted, need.passed).hash(&mut hasher);
        for device in &need.devices {
            let room = &verdict.view.room.devices()[usize::from(device.ordinal)];
            (device.ordinal, device.need, &device.reason, room.digest()).hash(&mut hasher);
        }
    }
    if let Some(best) = &verdict.best {
        (&best.place.picks, best.score.total()).hash(&mut hasher);
    }
    hasher.finish()
}

/// The digest of what a decision sees of a device's account.
pub(crate) fn of_room(room: &DeviceRoom) -> u64 {
    let mut hasher = Mixer::default();
    (room.usable(), room.held(), room.floating(), room.releasing(), room.foreign(), room.promised())
        .hash(&mut hasher);
    (room.cores(), room.slots(), room.tenants().len()).hash(&mut hasher);
    for tenant in room.tenants() {
        (&tenant.name, tenant.bytes, tenant.stage.name()).hash(&mut hasher);
    }
    hasher.finish()
}

/// Rotate, add, multiply, a word at a time: the same on every machine and in every run, which the standard hasher is not, and quick,
/// since every node that changed is read again for every request that looks at it.
#[derive(Default)]
struct Mixer(u64);

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(ODD);
        mixed ^ (mixed >> 29)
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(ODD);
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.write_u64(word.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            self.write_u64(
                rest.iter().rev().fold(rest.len() as u64, |number, byte| number << 8 | u64::from(*byte)),
            );
        }
    }
}
