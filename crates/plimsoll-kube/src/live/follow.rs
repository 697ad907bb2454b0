//! From what a change affected to events of the core.

use plimsoll_core::charge::Holding;
use plimsoll_core::event::Event;
use plimsoll_core::front::Core;
use plimsoll_core::request::RequestId;

use super::{FindingKey, Topic, Watch};
use crate::finding::Finding;
use crate::translate::{Affected, PodState, Translation, claim_holding, holding, request};

impl Watch {
    /// Reports what a change affected: nodes before the pods on them.
    pub(super) fn follow(&mut self, core: &mut Core<'_>, affected: &Affected) {
        for name in &affected.nodes {
            self.report_node(core, name);
            let found = self.index.node(name).map(|node| node.findings.clone());
            self.find(FindingKey::Node(name.clone()), found.unwrap_or_default());
        }
        self.release_refuted(core);
        // What is released comes first, so that no device looks fuller than it ever was.
        let (gone, held): (Vec<&RequestId>, Vec<&RequestId>) =
            affected.pods.iter().partition(|id| self.index.pod(id).is_none());
        for id in gone.into_iter().chain(held) {
            self.follow_pod(core, id);
        }
        for id in &affected.claims {
            let held = self.index.claim(id).and_then(|claim| claim_holding(claim, &self.index));
            // One that lost its devices while no process watched is like a pod that vanished.
            if held.is_some() || !self.departed.contains_key(id) {
                self.report_holding(core, id, held);
            }
        }
    }

    fn follow_pod(&mut self, core: &mut Core<'_>, stored: &RequestId) {
        let departed = self.stored_departed.get(stored).cloned();
        // A pod that vanished is followed under the identity by which it is stored.
        if departed.is_none() && self.departed.contains_key(stored) {
            return;
        }
        let id = departed.unwrap_or_else(|| stored.clone());
        self.topics.insert(Topic::Pod(id.clone()));
        let Some(pod) = self.index.pod(stored) else {
            self.stored_departed.remove(stored);
            self.forget_waiting(&id);
            return self.report_holding(core, &id, None);
        };
        match PodState::from_pod(pod) {
            PodState::Pending => {
                let translated = request(pod, &self.index);
                self.wait(pod.clone(), translated);
                if self.guard.open_on(&id).is_none() {
                    self.release_holding(core, &id);
                }
            }
            PodState::Gated => {
                let gates = pod.spec.scheduling_gates.iter().map(|gate| gate.name.clone());
                let gates = gates.collect();
                self.forget_waiting(&id);
                self.gated.insert(id, gates);
            }
            PodState::Bound => {
                let held = holding(pod, &self.index);
                self.forget_waiting(&id);
                // Without its node nothing can be said about its charge: what is known stays.
                if held.is_some() {
                    self.report_holding(core, &id, held);
                }
            }
            PodState::Finished if self.guard.open_on(&id).is_some() => self.forget_waiting(&id),
            PodState::Finished | PodState::Reservation => {
                self.forget_waiting(&id);
                self.report_holding(core, &id, None);
            }
        }
    }

    fn report_holding(
        &mut self,
        core: &mut Core<'_>,
        id: &RequestId,
        held: Option<Translation<Holding>>,
    ) {
        let Some(Translation { value, findings }) = held else {
            self.find(FindingKey::Pod(id.clone()), Vec::new());
            return self.release_holding(core, id);
        };
        self.find(FindingKey::Pod(id.clone()), findings);
        let holding = Holding { request: id.clone(), ..value };
        let is_known =
            core.ledger().of_request(id).is_some_and(|(_, known)| is_same(known, &holding));
        if !is_known {
            core.step(Event::Observed { holding: Box::new(holding) });
        }
    }

    fn release_holding(&self, core: &mut Core<'_>, id: &RequestId) {
        if core.ledger().of_request(id).is_some() {
            core.step(Event::Freed { request: id.clone(), generation: None, ordinal: None });
        }
    }

    pub(super) fn find(&mut self, key: FindingKey, findings: Vec<Finding>) {
        if findings.is_empty() {
            self.findings.remove(&key);
        } else {
            self.findings.insert(key, findings);
        }
    }
}

/// Returns true if the ledger has a holding already: as it was observed, or bounded by the ledger.
fn is_same(known: &Holding, seen: &Holding) -> bool {
    known == seen
}
