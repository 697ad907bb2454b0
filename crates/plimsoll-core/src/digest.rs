//! A number for all that a decision saw, so that an explanation made again can be told from the one that was given.

use std::hash::{Hash, Hasher};

use crate::decide::{Decision, Outcome};
use crate::verdict::NodeVerdict;

/// The digest of a decision: of its answer and of every verdict behind it, in no order. Stable within one version of this crate.
pub fn digest(decision: &Decision) -> u64 {
    let mut hasher = Fnv::default();
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
    let mut hasher = Fnv::default();
    (shape, &verdict.view.node.name, &verdict.reason).hash(&mut hasher);
    for need in &verdict.needs {
        (need.container, need.wanted, need.passed).hash(&mut hasher);
        for device in &need.devices {
            let room = &verdict.view.room.devices()[usize::from(device.ordinal)];
            (device.ordinal, device.need, &device.reason, room.usable()).hash(&mut hasher);
            (room.held(), room.floating(), room.releasing(), room.foreign(), room.promised())
                .hash(&mut hasher);
            (room.cores(), room.slots(), room.tenants().len()).hash(&mut hasher);
            for tenant in room.tenants() {
                (&tenant.name, tenant.bytes, tenant.stage.name()).hash(&mut hasher);
            }
        }
    }
    if let Some(best) = &verdict.best {
        (&best.place.picks, best.score.total()).hash(&mut hasher);
    }
    hasher.finish()
}

/// FNV-1a: the same on every machine and in every run, which the standard hasher is not.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
