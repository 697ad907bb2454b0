//! Answers of [`Step::could_ever_fit`], kept while they hold.
//!
//! The answer depends on the spec, on the nodes' facts and on the policy, and on nothing that is held. To find it every
//! node is judged empty until one fits, so an impossible request costs a judgement of each. A workload of equal
//! pods asks once for each pod, and without the answers kept here that would be most of the time of a simulation.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Step;
use crate::policy::Policy;
use crate::request::{Request, Spec};

/// Specs whose answer is kept. When there are more, all are forgotten: a fleet asks for few specs, and a queue
/// of many different ones would not gain from any choice of which to forget.
const KEPT: usize = 1024;

/// Answers by spec, and the facts and the policy that they hold for.
#[derive(Clone, Debug, Default)]
pub(super) struct Possible {
    facts: u64,
    policy: Policy,
    by_spec: BTreeMap<Arc<Spec>, bool>,
}

impl Step<'_> {
    /// Tells whether a request could be placed if nothing were held; see [`Step::could_ever_fit`].
    pub(super) fn is_possible(&mut self, request: &Request) -> bool {
        let (facts, policy) = (self.machine.ledger.facts(), &self.machine.settings.policy);
        let kept = &self.machine.possible;
        if kept.facts != facts || kept.policy != *policy || kept.by_spec.len() >= KEPT {
            let policy = policy.clone();
            self.machine.possible = Possible { facts, policy, by_spec: BTreeMap::new() };
        }
        if let Some(known) = self.machine.possible.by_spec.get(&request.spec) {
            return *known;
        }
        let possible = self.could_ever_fit(request);
        self.machine.possible.by_spec.insert(request.spec.clone(), possible);
        possible
    }
}
