//! A number for all that a decision saw, so that an explanation made again can be told from the one that was given.

use std::hash::{Hash, Hasher};

use crate::decide::{Decision, Outcome};
use crate::mixer::Mixer;

/// The digest of a decision: of its answer and of every verdict behind it. Stable within one version of this crate.
pub fn digest(decision: &Decision) -> u64 {
    let mut hasher = Mixer::default();
    decision.request.hash(&mut hasher);
    decision.policy.hash(&mut hasher);
    match &decision.outcome {
        Outcome::Placed(found) => {
            let placement = &found.placement;
            (1_u8, &placement.node, placement.shape, &placement.picks).hash(&mut hasher);
        }
        Outcome::Rejected(reason) => (0_u8, reason).hash(&mut hasher),
    }
    decision.views.digest().hash(&mut hasher);
    decision.shapes.iter().for_each(|findings| findings.digest().hash(&mut hasher));
    hasher.finish()
}
