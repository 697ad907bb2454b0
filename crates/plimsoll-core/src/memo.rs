//! What was found before: a memo for each spec, so that a decision judges only the nodes that changed since the last one.
//!
//! The answer is the same as [`crate::decide::decide`] gives, table and all; a property test holds the two together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use crate::candidate::Judge;
use crate::decide::{Decision, Outcome, refusal};
use crate::draft::{Draft, View};
use crate::ledger::{Ledger, NodeId};
use crate::policy::Policy;
use crate::request::{Request, Spec};
use crate::units::Name;
use crate::verdict::{Candidate, Finding, Findings};

/// Verdicts that are remembered over all specs, about a kilobyte each; the spec asked longest ago makes room.
const VERDICTS_KEPT: usize = 1 << 17;
/// Specs that are remembered however large the fleet is.
const SPECS_KEPT: usize = 4;

/// What was found before, for the specs that were asked lately. How containers are called changes no verdict, and so specs that
/// differ only in that share theirs.
#[derive(Clone, Debug, Default)]
pub struct Memo {
    specs: BTreeMap<Asked, Remembered>,
    /// The specs by when they were asked last.
    turns: BTreeMap<u64, Asked>,
    /// How many shapes all of them have.
    shapes: usize,
    clock: u64,
}

type Asked = (Arc<Spec>, Policy);

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
    ranked: BTreeSet<Rank>,
}

impl Memo {
    /// Decides a request on the ledger, as [`crate::decide::decide`] would, judging only what changed.
    pub fn decide(&mut self, ledger: &Ledger, policy: &Policy, request: &Request) -> Decision {
        self.decide_on(&Draft::of(ledger), policy, request)
    }

    /// The same on a draft, judging besides what that changes.
    pub fn decide_on(&mut self, draft: &Draft, policy: &Policy, request: &Request) -> Decision {
        let ledger = draft.ledger();
        let policy = policy.leaning(&request.spec.leaning);
        let refusal = refusal(&request.spec, ledger.node_count() == 0);
        let found = self.remember(&request.spec, &policy, ledger.node_count());
        let mut shapes = Vec::new();
        let mut outcome = Outcome::Refused(refusal);
        for (shape, found) in (0_u16..).zip(found) {
            let judge = Judge::new(&policy, &request.spec, shape);
            found.refresh(ledger, &judge);
            let (findings, best) = found.on(draft, &judge);
            shapes.push(findings);
            if let Some(best) = best {
                outcome = Outcome::Placed(best);
                break;
            }
        }
        let (request, spec) = (request.id.clone(), request.spec.clone());
        let (revision, views) = (draft.revision(), draft.views());
        Decision {
            request,
            spec,
            revision,
            policy,
            views,
            shapes,
            outcome,
            sentence: OnceLock::new(),
        }
    }

    fn remember(&mut self, spec: &Arc<Spec>, policy: &Policy, nodes: usize) -> &mut Vec<Found> {
        let key = (Arc::new(spec.nameless()), policy.clone());
        self.clock += 1;
        let unseen =
            || Remembered { asked: 0, shapes: vec![Found::default(); spec.shapes().len()] };
        let known = self.specs.entry(key.clone()).or_insert_with(unseen);
        let (asked, shapes) = (std::mem::replace(&mut known.asked, self.clock), known.shapes.len());
        if self.turns.remove(&asked).is_none() {
            self.shapes += shapes;
        }
        self.turns.insert(self.clock, key.clone());
        self.forget(VERDICTS_KEPT / nodes.max(1));
        &mut self.specs.get_mut(&key).expect("what was asked last is not forgotten").shapes
    }

    /// Forgets the specs asked longest ago until so many shapes are left; a few specs stay in any case.
    fn forget(&mut self, shapes_kept: usize) {
        while self.shapes > shapes_kept
            && self.turns.len() > SPECS_KEPT
            && let Some((_, oldest)) = self.turns.pop_first()
        {
            let gone = self.specs.remove(&oldest);
            self.shapes -= gone.map_or(0, |gone| gone.shapes.len());
        }
    }
}

impl Found {
    fn refresh(&mut self, ledger: &Ledger, judge: &Judge) {
        let (changed, point) = ledger.reads_anew_since(self.point.unwrap_or_default());
        match changed.filter(|_| self.point.is_some()) {
            Some(changed) => {
                let changed: BTreeSet<NodeId> = changed.collect();
                for id in changed {
                    self.rejudge(ledger, judge, id);
                }
            }
            None => {
                *self = Found::default();
                for (id, _) in ledger.nodes() {
                    self.rejudge(ledger, judge, id);
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

    /// What is found once a draft's changes are judged too, and the best place.
    fn on(&self, draft: &Draft, judge: &Judge) -> (Findings, Option<Candidate>) {
        let mut findings = self.findings.clone();
        let mut drafted: Option<Rank> = None;
        for id in draft.changed() {
            let finding = draft.node(id).map(|view| judge.judge(view));
            let best = finding.as_ref().and_then(|finding| finding.best.as_ref());
            drafted = drafted.into_iter().chain(best.map(|best| rank(best, id))).min();
            findings.set(id, finding);
        }
        let kept = self.ranked.iter().find(|(_, _, id)| !draft.has_changed(*id));
        let best =
            drafted.iter().chain(kept).min().and_then(|(_, _, id)| findings.get(*id)?.best.clone());
        (findings, best)
    }
}

/// The nodes that fit in the order in which they are taken: the best first, of equals the first by name.
type Rank = (Reverse<i64>, Name, NodeId);

fn rank(best: &Candidate, id: NodeId) -> Rank {
    (Reverse(best.score.total()), best.place.node.clone(), id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Node, Source};
    use crate::request::{Amount, Need, RequestId, Shape, Terms};
    use crate::units::Bytes;

    fn request(gib: u64, shapes: usize) -> Request {
        let need = Need::one("NVIDIA", Amount::bytes(Bytes::gib(gib)));
        let spec = Arc::new(Spec::of(vec![Shape::single("main", need); shapes]));
        Request { id: RequestId::new("a", "p"), spec, terms: Terms::default() }
    }

    fn grow(ledger: &mut Ledger, nodes: usize) {
        for number in ledger.node_count()..nodes {
            let mut node = Node::new(format!("n{number}"));
            node.devices.push(Device::new("NVIDIA", Bytes::gib(80), Source::Declared));
            ledger.put_node(node);
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_however_the_fleet_grows_and_whatever_is_asked() {
        let (mut ledger, mut memo, policy) = (Ledger::default(), Memo::default(), Policy::pack());
        grow(&mut ledger, 1);
        for gib in 1..=100 {
            let _ = memo.decide(&ledger, &policy, &request(100 + gib, 3));
        }
        assert_eq!((memo.specs.len(), memo.shapes), (100, 300));
        grow(&mut ledger, 1024);
        let _ = memo.decide(&ledger, &policy, &request(150, 3));
        assert_eq!((memo.specs.len(), memo.shapes), (42, 126), "128 shapes on 1024 nodes");
        assert_eq!(memo.specs.len(), memo.turns.len());
        assert!(memo.specs.keys().any(|(spec, _)| **spec == request(150, 3).spec.nameless()));
        grow(&mut ledger, 1 << 15);
        let _ = memo.decide(&ledger, &policy, &request(150, 3));
        assert_eq!(memo.specs.len(), SPECS_KEPT);
    }
}
