//! The check whether any empty node could hold a request, with a cache.
//!
//! The answer depends on the spec, the nodes' facts and the policy, and on no holding. Finding it
//! judges every node as if it were empty, until one fits, so that an impossible request costs a
//! judgement of each node. A workload of equal pods asks once per pod; without the cache that would
//! be most of the time of a simulation.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Scheduler, Step};
use crate::candidate::Judge;
use crate::decide;
use crate::policy::Policy;
use crate::reason::NodeReason;
use crate::request::{Asks, Request, Spec};
use crate::room::{NodeRoom, NodeView};
use crate::rules::NodeRules;

/// The most specs with a cached answer. When there are more, all are dropped: a fleet asks for few
/// specs, and a queue of many different ones would not gain from a better choice.
const SPECS_KEPT: usize = 1024;

/// Answers by spec, and the facts and the policy that they are valid for.
#[derive(Clone, Debug, Default)]
pub(super) struct Possible {
    facts: u64,
    policy: Policy,
    by_spec: BTreeMap<Arc<Spec>, bool>,
}

impl Step<'_> {
    /// Returns true if the request is malformed, or if no node could hold it even when empty. A
    /// fleet without nodes proves nothing: they may not have registered yet.
    pub(super) fn is_impossible(&mut self, request: &Request) -> bool {
        decide::malformed(&request.spec).is_some()
            || (self.scheduler.ledger.node_count() > 0 && !self.is_possible(request))
    }

    /// Returns true if some node could hold the request when it is empty, or if its needs are not
    /// known yet.
    pub(super) fn is_possible(&mut self, request: &Request) -> bool {
        if matches!(request.spec.asks, Asks::Waiting(_)) {
            return true;
        }
        let Scheduler { ledger, settings, possible, .. } = &mut *self.scheduler;
        let is_valid = possible.facts == ledger.facts()
            && possible.policy == settings.policy
            && possible.by_spec.len() < SPECS_KEPT;
        if !is_valid {
            let policy = settings.policy.clone();
            *possible = Possible { facts: ledger.facts(), policy, by_spec: BTreeMap::new() };
        }
        if let Some(known) = possible.by_spec.get(&request.spec) {
            return *known;
        }
        let answer = self.scheduler.could_ever_fit(request);
        self.scheduler.possible.by_spec.insert(request.spec.clone(), answer);
        answer
    }
}

impl Scheduler {
    /// Judges the request on every node as if the node were empty, healthy and open, and as if the
    /// request accepted any node. A search that runs out of steps counts as possible.
    fn could_ever_fit(&self, request: &Request) -> bool {
        let spec = Spec { rules: NodeRules::default(), ..Spec::clone(&request.spec) };
        let shapes = u16::try_from(spec.shapes().len()).unwrap_or(u16::MAX);
        self.ledger.nodes().any(|(_, view)| {
            let node = view.node.with_all_devices_healthy();
            let room = Arc::new(NodeRoom::empty(&node, &[]));
            let empty = NodeView { node: Arc::new(node), room };
            (0..shapes).any(|shape| {
                let finding = Judge::new(&self.settings.policy, &spec, shape).judge(&empty);
                finding.fits() || matches!(finding.reason, Some(NodeReason::NotFound { .. }))
            })
        })
    }
}
