//! A number for all that a decision saw, so that an explanation made again can be told from the one that was given.

use std::hash::{Hash, Hasher};

use crate::decide::{Decision, Outcome};
use crate::mixer::Mixer;
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
