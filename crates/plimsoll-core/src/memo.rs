//! What was found before: a memo for each spec, so that a decision judges only the nodes that changed since the last one.
//!
//! The answer is the same as [`crate::decide::decide`] gives, table and all; a property test holds the two together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use crate::candidate::Judge;
use crate::decide::{Decision, Outcome, refusal};
use crate::ledger::{Ledger, NodeId};
use crate::policy::Policy;
use crate::request::{Request, Spec};
use crate::units::Name;
use crate::verdict::{Candidate, Finding, Findings};

/// Verdicts that are remembered over all specs, about a kilobyte each; the spec asked longest ago makes room.
const VERDICTS_KEPT: usize = 1 << 16;
/// Specs that are remembered however large the fleet is.
const SPECS_KEPT: usize = 4;

/// What was found before, for the specs that were asked lately. How containers are called changes no verdict, and so specs that
/// differ only in that share theirs.
#[derive(Clone, Debug, Default)]
pub struct Memo {
    specs: BTreeMap<(Arc<Spec>, Policy), Remembered>,
    clock: u64,
}

/// What was found for one spec.
#[derive(Clone, Debug)]
struct Remembered {
    asked: u64,
    shapes: Vec<Found>,
}

/// What was found for one shape of one spec.
#[derive(Clone, Debug, Default)]
struct Found {
    point: Option<u64>,
    findings: Findings,
    /// The nodes that fit, best first.
    ranked: BTreeSet<(Reverse<i64>, Name, NodeId)>,
}

impl Memo {
    /// Decides a request on the ledger, as [`crate::decide::decide`] would, judging only what changed.
    pub fn decide(&mut self, ledger: &Ledger, policy: &Policy, request: &Request) -> Decision {
        let policy = policy.leaning(&request.spec.leaning);
        let refusal = refusal(&request.spec, ledger.node_count() == 0);
        let found = self.remember(&request.spec, &policy, ledger.node_count());
        let mut shapes = Vec::new();
        let mut outcome = Outcome::Refused(refusal);
        for (shape, found) in (0_u16..).zip(found) {
            found.refresh(ledger, &policy, &request.spec, shape);
            shapes.push(found.findings.clone());
            if let Some(best) = found.best() {
                outcome = Outcome::Placed(best.clone());
                break;
            }
        }
        let (request, spec) = (request.id.clone(), request.spec.clone());
        let (revision, views) = (ledger.revision(), ledger.views().clone());
        Decision { request, spec, revision, policy, views, shapes, outcome, sentence: OnceLock::new() }
    }

    fn remember(&mut self, spec: &Arc<Spec>, policy: &Policy, nodes: usize) -> &mut Vec<Found> {
        let key = (Arc::new(spec.nameless()), policy.clone());
        self.clock += 1;
        let kept = (VERDICTS_KEPT / nodes.max(1)).max(SPECS_KEPT);
        while self.specs.len() >= kept
            && !self.specs.contains_key(&key)
            && let Some(oldest) = self.specs.iter().min_by_key(|(_, known)| known.asked)
        {
            let oldest = oldest.0.clone();
            self.specs.remove(&oldest);
        }
        let unseen = || Remembered { asked: 0, shapes: vec![Found::default(); spec.shapes().len()] };
        let known = self.specs.entry(key).or_insert_with(unseen);
        known.asked = self.clock;
        &mut known.shapes
    }
}

impl Found {
    fn refresh(&mut self, ledger: &Ledger, policy: &Policy, spec: &Spec, shape: u16) {
        let judge = Judge::new(policy, spec, shape);
        let (changed, point) = ledger.reads_anew_since(self.point.unwrap_or_default());
        match changed.filter(|_| self.point.is_some()) {
            Some(changed) => {
                let changed: BTreeSet<NodeId> = changed.collect();
                for id in changed {
                    self.rejudge(ledger, &judge, id);
                }
            }
            None => {
                *self = Found::default();
                for (id, _) in ledger.nodes() {
                    self.rejudge(ledger, &judge, id);
                }
            }
        }
        self.point = Some(point);
    }

    fn rejudge(&mut self, ledger: &Ledger, judge: &Judge, id: NodeId) {
        let finding = ledger.view(id).map(|view| judge.judge(view));
        let rank = |finding: &Finding| finding.best.as_ref().map(|best| rank(best, id));
        let before = self.findings.get(id).and_then(rank);
        let after = finding.as_ref().and_then(rank);
        if before != after {
            if let Some(before) = before {
                self.ranked.remove(&before);
            }
            self.ranked.extend(after);
        }
        self.findings.set(id, finding);
    }

    fn best(&self) -> Option<&Candidate> {
        let (_, _, id) = self.ranked.first()?;
        self.findings.get(*id)?.best.as_ref()
    }
}

fn rank(best: &Candidate, id: NodeId) -> (Reverse<i64>, Name, NodeId) {
    (Reverse(best.score.total()), best.place.node.clone(), id)
}
