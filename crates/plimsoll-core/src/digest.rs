//! A digest of everything that a decision read, to detect that an explanation made again differs
//! from the recorded one.
//!
//! The journal keeps one number per decision instead of the verdicts, which are megabytes on a
//! large fleet. The digest covers request, policy, outcome, and all views and findings. Each view
//! and finding caches its own digest, so that a decision that reuses most findings hashes only what
//! changed. `Mixer` is not cryptographic: the digest detects bugs and lost facts, not forgery.

use std::hash::{Hash, Hasher};

use crate::decide::{Decision, Outcome};
use crate::mixer::Mixer;

/// Returns the digest of a decision's outcome and of all verdicts behind it. Stable within one
/// version of this crate.
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
