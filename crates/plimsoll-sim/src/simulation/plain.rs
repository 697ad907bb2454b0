//! The remedy that counts requests without declared memory by another rule.
//!
//! The rule applies to all pods, also to those that were placed before. So it is tried as the flag
//! would apply it: from the beginning and for every pod, not for the rejected one alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_core::remedy::{Remedy, RemedyKind};
use plimsoll_core::request::{Amount, PlainRule, Spec};
use plimsoll_kube::cluster::Cluster;

use super::run::run;
use super::{Advice, Advising, Rejected, Simulation};

/// Proposes another rule for each rejected pod that would then fit and has no such proposal yet.
pub(super) fn propose(cluster: &Cluster, simulation: &mut Simulation, advising: &Advising) {
    for rule in [PlainRule::EqualShare, PlainRule::Whole] {
        if !simulation.rejected.iter().any(|rejected| is_open_to(rejected, rule, advising)) {
            continue;
        }
        let placed = placed_under(cluster, simulation, rule);
        let mut extended: BTreeMap<*const Advice, Arc<Advice>> = BTreeMap::new();
        for rejected in &mut simulation.rejected {
            if placed.contains(&rejected.pending) && is_open_to(rejected, rule, advising) {
                let extend = || Arc::new(with_rule(&rejected.advice, rule));
                let shared = extended.entry(Arc::as_ptr(&rejected.advice)).or_insert_with(extend);
                rejected.advice = shared.clone();
            }
        }
    }
}

/// Returns true if a rejected pod gets advice, has another rule now, and no rule proposed yet.
fn is_open_to(rejected: &Rejected, rule: PlainRule, advising: &Advising) -> bool {
    let mut known = rejected.advice.would_fit_if.iter();
    let mut needs = rejected.decision.spec.needs();
    advising.includes(&rejected.decision.request)
        && !known.any(|remedy| remedy.kind == RemedyKind::PlainRule)
        && needs.any(|need| matches!(need.amount, Amount::Plain(other) if other != rule))
}

/// The pending pods that are placed when all requests without declared memory count by this rule.
fn placed_under(cluster: &Cluster, simulation: &Simulation, rule: PlainRule) -> BTreeSet<usize> {
    let mut changed = cluster.clone();
    let mut specs: BTreeMap<Arc<Spec>, Arc<Spec>> = BTreeMap::new();
    for pending in &mut changed.pending {
        let spec = &pending.request.spec;
        let by_rule = specs.entry(spec.clone()).or_insert_with(|| Arc::new(under(spec, rule)));
        pending.request.spec = by_rule.clone();
    }
    let again = run(&changed, simulation.scheduler.settings(), &Advising::none(), &mut |_| {});
    again.placed.iter().map(|placed| placed.pending).collect()
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

/// Puts the rule before the other remedies: it harms nothing that runs.
fn with_rule(advice: &Advice, rule: PlainRule) -> Advice {
    let remedy = Remedy {
        kind: RemedyKind::PlainRule,
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
    fn the_rule_is_proposed_to_all_pods_that_it_lets_in() {
        let mut cluster = fixture::time_sliced(0);
        let plain =
            |i: usize| fixture::pending(&format!("plain-{i}"), Amount::Plain(PlainRule::Whole));
        cluster.pending = (0..5).map(plain).collect();
        let simulation = fixture::run(&cluster);
        assert_eq!((simulation.placed.len(), simulation.rejected.len()), (1, 4));
        for rejected in &simulation.rejected {
            assert_eq!(rejected.advice.would_fit_if[0].kind, RemedyKind::PlainRule);
            assert_eq!(&*rejected.advice.would_fit_if[0].target[0], "equal-share");
        }
        assert!(
            Arc::ptr_eq(&simulation.rejected[0].advice, &simulation.rejected[3].advice),
            "equal advice is shared"
        );
    }
}
