//! Advice for rejected pods, searched on the ledger that rejected them.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::decide::{Decision, Outcome};
use plimsoll_core::gang::Gang;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::policy::Policy;
use plimsoll_core::reason::RequestReason;
use plimsoll_core::remedy::{self, Remedy, RemedyKind};
use plimsoll_core::request::{Request, RequestId, Spec};
use plimsoll_core::units::Name;
use plimsoll_kube::cluster::Cluster;

use super::{Advice, Advising, Promised, Simulation};

/// Searches advice, and shares it between equal rejections.
pub(super) struct Advisor<'a> {
    advising: &'a Advising,
    policy: Policy,
    /// The advice found on one revision of the ledger: 400 equal rejections cost one search. A
    /// promise changes the ledger, so that advice with a promise is never shared.
    revision: u64,
    by_spec: BTreeMap<Arc<Spec>, Arc<Advice>>,
    by_gang: BTreeMap<Name, Vec<Remedy>>,
}

impl<'a> Advisor<'a> {
    pub(super) fn new(advising: &'a Advising, policy: &Policy) -> Self {
        let policy = Policy { search_steps: advising.search_steps, ..policy.clone() };
        Advisor {
            advising,
            policy,
            revision: 0,
            by_spec: BTreeMap::new(),
            by_gang: BTreeMap::new(),
        }
    }

    /// Advises a pod that the machine has just rejected, alone or with its gang.
    pub(super) fn advise(
        &mut self,
        ledger: &Ledger,
        request: &Request,
        rejected: &Decision,
        gang: Option<&Gang>,
    ) -> Arc<Advice> {
        if self.revision != ledger.revision() {
            self.revision = ledger.revision();
            self.by_spec.clear();
            self.by_gang.clear();
        }
        match gang.filter(|_| is_rejected_with_its_gang(rejected)) {
            Some(gang) => {
                let would_fit_if = self.gang_remedies(ledger, gang);
                Arc::new(Advice { would_fit_if, promised: promised(ledger, &request.id) })
            }
            None => self.advise_alone(ledger, request, rejected),
        }
    }

    fn advise_alone(
        &mut self,
        ledger: &Ledger,
        request: &Request,
        rejected: &Decision,
    ) -> Arc<Advice> {
        if let Some(promised) = promised(ledger, &request.id) {
            let would_fit_if = self.remedies(ledger, request, rejected);
            return Arc::new(Advice { would_fit_if, promised: Some(promised) });
        }
        if !self.advising.includes(&request.id) {
            return Arc::default();
        }
        if let Some(known) = self.by_spec.get(&request.spec) {
            return known.clone();
        }
        let would_fit_if = self.remedies(ledger, request, rejected);
        let advice = Arc::new(Advice { would_fit_if, promised: None });
        self.by_spec.insert(request.spec.clone(), advice.clone());
        advice
    }

    fn remedies(&self, ledger: &Ledger, request: &Request, rejected: &Decision) -> Vec<Remedy> {
        if !self.advising.includes(&request.id) {
            return Vec::new();
        }
        let mut remedies = remedy::remedies(ledger, &self.policy, request, rejected);
        // The rule applies to all pods, and `plain` tries it for all. Changing it for this pod
        // alone proves nothing.
        remedies.retain(|remedy| remedy.kind != RemedyKind::PlainRule);
        remedies
    }

    fn gang_remedies(&mut self, ledger: &Ledger, gang: &Gang) -> Vec<Remedy> {
        if !gang.members.iter().any(|member| self.advising.includes(&member.id)) {
            return Vec::new();
        }
        let search = || remedy::gang_remedies(ledger, &self.policy, gang);
        self.by_gang.entry(gang.name.clone()).or_insert_with(search).clone()
    }
}

/// Returns true if a member was rejected with its gang, and not left out and decided by itself.
fn is_rejected_with_its_gang(decision: &Decision) -> bool {
    matches!(
        &decision.outcome,
        Outcome::Rejected(Some(
            RequestReason::GangIncomplete { .. } | RequestReason::GangNotFound { .. }
        ))
    )
}

/// Sets the promises to those at the end of a simulation: a pod that came later may have taken one
/// over.
pub(super) fn update_promises(cluster: &Cluster, simulation: &mut Simulation) {
    let ledger = simulation.scheduler.ledger();
    for rejected in &mut simulation.rejected {
        let promised = promised(ledger, &cluster.pending[rejected.pending].request.id);
        if promised.is_some() || rejected.advice.promised.is_some() {
            Arc::make_mut(&mut rejected.advice).promised = promised;
        }
    }
}

fn promised(ledger: &Ledger, request: &RequestId) -> Option<Promised> {
    let promise = ledger.promise_to(request)?.clone();
    let devices = ledger.promised_device_labels(&promise);
    Some(Promised { promise, devices })
}
