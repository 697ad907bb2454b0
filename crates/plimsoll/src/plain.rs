//! Whether another rule for requests without declared memory would let a refused pod in.
//!
//! The rule is one for all: pods that were placed before count by it too. So it is tried as the flag would do it, from
//! the beginning and for every pod, and not for the refused one alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_core::policy::Policy;
use plimsoll_core::remedy::{Kind, Remedy};
use plimsoll_core::request::{Amount, PlainRule, RequestId, Spec};
use plimsoll_kube::cluster::Cluster;

use crate::simulation::{Advice, Onlooker, Refused, Simulation, turns};

/// Proposes another rule to each refused pod that it would let in and that does not know of one yet.
pub(crate) fn propose(
    cluster: &Cluster,
    policy: &Policy,
    simulation: &mut Simulation,
    advise: &dyn Fn(&RequestId) -> bool,
) {
    for rule in [PlainRule::EqualShare, PlainRule::Whole] {
        let asks_otherwise = |refused: &Refused| {
            let told =
                refused.advice.would_fit_if.iter().any(|remedy| remedy.kind == Kind::PlainRule);
            let spec = &refused.decision.spec;
            !told
                && advise(&refused.decision.request)
                && spec
                    .needs()
                    .any(|need| matches!(need.amount, Amount::Plain(other) if other != rule))
        };
        if !simulation.refused.iter().any(asks_otherwise) {
            continue;
        }
        let placed = placed_under(cluster, policy, rule);
        let mut told: BTreeMap<*const Advice, Arc<Advice>> = BTreeMap::new();
        for refused in
            simulation.refused.iter_mut().filter(|refused| placed.contains(&refused.pending))
        {
            if asks_otherwise(refused) {
                let more = || Arc::new(with_rule(&refused.advice, rule));
                let shared = told.entry(Arc::as_ptr(&refused.advice)).or_insert_with(more);
                refused.advice = shared.clone();
            }
        }
    }
}

/// The pending pods that find a place when all requests without declared memory count by this rule.
fn placed_under(cluster: &Cluster, policy: &Policy, rule: PlainRule) -> BTreeSet<usize> {
    let mut changed = cluster.clone();
    let mut specs: BTreeMap<Arc<Spec>, Arc<Spec>> = BTreeMap::new();
    for pending in &mut changed.pending {
        let spec = &pending.request.spec;
        let by_rule = specs.entry(spec.clone()).or_insert_with(|| Arc::new(under(spec, rule)));
        pending.request.spec = by_rule.clone();
    }
    let mut onlooker = Onlooker { watch: &mut |_| {}, advise: &|_| false, patience: 0 };
    turns(&changed, policy, &mut onlooker).placed.iter().map(|placed| placed.pending).collect()
}

fn under(spec: &Spec, rule: PlainRule) -> Spec {
    let mut spec = spec.clone();
    spec.change_needs(|need| {
        if matches!(need.amount, Amount::Plain(_)) {
            need.amount = Amount::Plain(rule);
        }
    });
    spec
}

/// The same advice with the rule before it: it harms nobody who runs.
fn with_rule(advice: &Advice, rule: PlainRule) -> Advice {
    let remedy = Remedy {
        kind: Kind::PlainRule,
        text: format!("requests without declared memory counted as {rule} (--plain {rule})"),
        target: vec![rule.to_string().into()],
        amount: None,
    };
    let would_fit_if = [remedy].into_iter().chain(advice.would_fit_if.iter().cloned()).collect();
    Advice { would_fit_if, promised: advice.promised.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_rule_is_proposed_where_it_helps_all_who_ask_so() {
        let mut cluster = fixture::time_sliced(0);
        let plain =
            |i: usize| fixture::pending(&format!("plain-{i}"), Amount::Plain(PlainRule::Whole));
        cluster.pending = (0..5).map(plain).collect();
        let simulation = fixture::run(&cluster);
        assert_eq!((simulation.placed.len(), simulation.refused.len()), (1, 4));
        for refused in &simulation.refused {
            assert_eq!(refused.advice.would_fit_if[0].kind, Kind::PlainRule);
            assert_eq!(&*refused.advice.would_fit_if[0].target[0], "equal-share");
        }
        assert!(
            Arc::ptr_eq(&simulation.refused[0].advice, &simulation.refused[3].advice),
            "said once for all"
        );
    }
}
