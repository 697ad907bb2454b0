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
            (1_u8, &found.place.node, found.place.shape, &found.place.picks).hash(&mut hasher);
        }
        Outcome::Refused(reason) => {
            (0_u8, reason.as_ref().map(ToString::to_string)).hash(&mut hasher);
        }
    }
    decision.views.digest().hash(&mut hasher);
    decision.shapes.iter().for_each(|findings| findings.digest().hash(&mut hasher));
    hasher.finish()
}
