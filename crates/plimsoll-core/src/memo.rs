//! Reuse of earlier findings: a decision judges only the nodes that changed since an equal spec was
//! last decided.
//!
//! Front ends ask the same few specs again and again (replicas of a deployment, slots of a model),
//! and between two requests only a few nodes change. For each pair of spec and policy the memo
//! keeps the findings on all nodes and an ordered set of the nodes that fit. A decision reads the
//! ledger's change log, judges the nodes with changes that affect `fit`, and takes the first of the
//! ordered set: O(changed nodes × log nodes) instead of O(fleet).
//!
//! A kept finding is valid because judging is a function of the shape, the policy and the node's
//! view, and of the view it reads only the facts and `FitInput`s; a change of either is in the log
//! (`Changed::affects_fit`). If the log no longer reaches back far enough, everything is judged
//! again. The answer equals that of `decide::decide`, table included; a property test compares
//! them.
//!
//! Size: at most `VERDICTS_KEPT` findings over all specs, about a kilobyte each, and those of the
//! last spec, but always `SPECS_KEPT` specs, so that a fleet of any size keeps some benefit. Beyond
//! that the specs whose last use is longest ago are dropped before the next decision; `shrink_to`
//! ends because each round drops one.
//! Keeping only the best node per spec was rejected: the explanation needs the verdicts of all
//! nodes, and the best node is the very node that changes when a request is placed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::account::Allowance;
use crate::candidate::Judge;
use crate::decide::{Decision, JudgedShape, over_maximum, try_shapes};
use crate::draft::{Draft, View};
use crate::ledger::{Ledger, NodeId};
use crate::policy::Policy;
use crate::reason::RequestReason;
use crate::request::{Request, Spec};
use crate::units::Name;
use crate::verdict::{Candidate, Finding, Findings};

/// The most findings over all specs, about a kilobyte each.
const VERDICTS_KEPT: usize = 1 << 17;
/// The number of specs that are kept however large the fleet is.
const SPECS_KEPT: usize = 4;

/// The findings for recently decided specs.
#[derive(Clone, Debug, Default)]
pub struct Memo {
    specs: BTreeMap<Key, CachedSpec>,
    /// The keys of `specs` by their last use.
    by_last_use: BTreeMap<u64, Key>,
    /// The number of shapes over all specs.
    shapes: usize,
    /// Counts decisions; the clock of `CachedSpec::last_use`.
    uses: u64,
}

/// A spec without container names ([`Spec::nameless`]), and the policy with the request's
/// overrides.
type Key = Arc<(Spec, Policy)>;

#[derive(Clone, Debug)]
struct CachedSpec {
    /// 0 before the first use.
    last_use: u64,
    shapes: Vec<CachedShape>,
}

/// The findings for one shape of one spec.
#[derive(Clone, Debug, Default)]
struct CachedShape {
    /// The position in the ledger's change log up to which `findings` are valid; `None` before the
    /// first use.
    position: Option<u64>,
    findings: Findings,
    /// The nodes that fit, best first.
    ranked: BTreeSet<Rank>,
}

impl Memo {
    /// Decides a request on the ledger. Gives the same answer as `decide::decide`.
    pub fn decide(&mut self, ledger: &Ledger, policy: &Policy, request: &Request) -> Decision {
        self.decide_on(&Draft::new(ledger), policy, request)
    }

    /// Decides a request on a draft. The nodes that the draft changes are judged for this decision
    /// only; their findings are not kept.
    pub fn decide_on(&mut self, draft: &Draft, policy: &Policy, request: &Request) -> Decision {
        let ledger = draft.ledger();
        let policy = policy.with_hints(&request.spec.hints);
        let allowance = draft.allowance(&request.id);
        let cached = self.shapes_for(&request.spec, &policy, ledger.node_count());
        let tried = try_shapes((0_u16..).zip(cached).map(|(shape, cached)| {
            let judge = Judge::new(&policy, &request.spec, shape);
            cached.refresh(ledger, &judge);
            let (findings, best) = cached.with_draft(draft, &judge);
            let best = match allowance.is_unlimited() {
                true => Ok(best),
                false => cached.best_within(draft, &allowance, &request.spec, &findings),
            };
            JudgedShape { findings, best }
        }));
        Decision::new(draft, policy, request, tried)
    }

    /// Returns the cached shapes of a spec, creates them if necessary, and marks them as used.
    fn shapes_for(
        &mut self,
        spec: &Arc<Spec>,
        policy: &Policy,
        nodes: usize,
    ) -> &mut Vec<CachedShape> {
        // Before the insertion, so that one lookup is enough.
        self.shrink_to(VERDICTS_KEPT / nodes.max(1));
        let Memo { specs, by_last_use, shapes, uses } = self;
        let key = Arc::new((spec.nameless(), policy.clone()));
        *uses += 1;
        let cached = specs.entry(key.clone()).or_insert_with(|| CachedSpec {
            last_use: 0,
            shapes: vec![CachedShape::default(); spec.shapes().len()],
        });
        let last_use = std::mem::replace(&mut cached.last_use, *uses);
        if by_last_use.remove(&last_use).is_none() {
            *shapes += cached.shapes.len();
        }
        by_last_use.insert(*uses, key);
        &mut cached.shapes
    }

    /// Drops the specs used longest ago until at most `shapes` shapes or [`SPECS_KEPT`] specs are
    /// left.
    fn shrink_to(&mut self, shapes: usize) {
        while self.shapes > shapes
            && self.by_last_use.len() > SPECS_KEPT
            && let Some((_, oldest)) = self.by_last_use.pop_first()
        {
            let dropped = self.specs.remove(&oldest);
            self.shapes -= dropped.map_or(0, |dropped| dropped.shapes.len());
        }
    }
}

impl CachedShape {
    /// Judges the nodes that changed since the last call; all nodes at the first call, or if the
    /// change log no longer reaches back.
    fn refresh(&mut self, ledger: &Ledger, judge: &Judge) {
        let (changed, position) = ledger.fit_changed_since(self.position.unwrap_or_default());
        match changed.filter(|_| self.position.is_some()) {
            Some(changed) => {
                let changed: BTreeSet<NodeId> = changed.collect();
                for id in changed {
                    self.rejudge(ledger, judge, id);
                }
            }
            None => {
                *self = CachedShape::default();
                for (id, _) in ledger.nodes() {
                    self.rejudge(ledger, judge, id);
                }
            }
        }
        self.position = Some(position);
    }

    fn rejudge(&mut self, ledger: &Ledger, judge: &Judge, id: NodeId) {
        let finding = ledger.view(id).map(|view| judge.judge(view));
        let before = self.findings.get(id).and_then(|finding| rank_of(finding, id));
        let after = finding.as_ref().and_then(|finding| rank_of(finding, id));
        if before != after {
            if let Some(before) = before {
                self.ranked.remove(&before);
            }
            self.ranked.extend(after);
        }
        self.findings.set(id, finding);
    }

    /// Judges the nodes that a draft changes; returns the findings with them, and the best
    /// candidate.
    fn with_draft(&self, draft: &Draft, judge: &Judge) -> (Findings, Option<Candidate>) {
        let mut findings = self.findings.clone();
        let mut drafted: Option<Rank> = None;
        for id in draft.changed() {
            let finding = draft.node(id).map(|view| judge.judge(view));
            let rank = finding.as_ref().and_then(|finding| rank_of(finding, id));
            drafted = drafted.into_iter().chain(rank).min();
            findings.set(id, finding);
        }
        let unchanged = self.ranked.iter().find(|(_, _, id)| !draft.has_changed(*id));
        let first = drafted.iter().chain(unchanged).min();
        let best = first.and_then(|(_, _, id)| findings.get(*id)?.best.clone());
        (findings, best)
    }
}

impl CachedShape {
    /// Returns the best candidate that the account's maximum allows, or the account's reason if
    /// only its maximum is in the way. Fractions and whole devices differ in bytes by device, so
    /// that each candidate is asked.
    fn best_within(
        &self,
        draft: &Draft,
        allowance: &Allowance,
        spec: &Spec,
        findings: &Findings,
    ) -> Result<Option<Candidate>, RequestReason> {
        let rank = |id: NodeId| rank_of(findings.get(id)?, id);
        let drafted: BTreeSet<Rank> = draft.changed().filter_map(rank).collect();
        let mut drafted = drafted.iter().peekable();
        let mut unchanged =
            self.ranked.iter().filter(|(_, _, id)| !draft.has_changed(*id)).peekable();
        let mut over = None;
        loop {
            let next = match (drafted.peek(), unchanged.peek()) {
                (Some(one), Some(other)) if one < other => drafted.next(),
                (Some(_), None) => drafted.next(),
                _ => unchanged.next(),
            };
            let Some((_, _, id)) = next else { break };
            let (Some(view), Some(found)) =
                (draft.node(*id), findings.get(*id).and_then(|finding| finding.best.as_ref()))
            else {
                continue;
            };
            match over_maximum(view, allowance, spec, found) {
                None => return Ok(Some(found.clone())),
                Some(reason) => over = over.or(Some(reason)),
            }
        }
        over.map_or(Ok(None), Err)
    }
}

/// The order of nodes that fit: the highest score first, then by name.
type Rank = (Reverse<i64>, Name, NodeId);

fn rank_of(finding: &Finding, id: NodeId) -> Option<Rank> {
    let best = finding.best.as_ref()?;
    Some((Reverse(best.score.total()), best.placement.node.clone(), id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Node, Source};
    use crate::request::{Amount, Need, RequestId, Shape, Terms};
    use crate::units::Bytes;

    fn request(gib: u64, shapes: usize) -> Request {
        let need = Need::one("NVIDIA", Amount::bytes(Bytes::gib(gib)));
        let spec = Arc::new(Spec::from_shapes(vec![Shape::single("main", need); shapes]));
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
    fn the_memo_is_bounded_for_any_fleet_and_any_requests() {
        let mut ledger = Ledger::default();
        let mut memo = Memo::default();
        let policy = Policy::pack();
        grow(&mut ledger, 1);
        for gib in 1..=100 {
            let _ = memo.decide(&ledger, &policy, &request(100 + gib, 3));
        }
        assert_eq!((memo.specs.len(), memo.shapes), (100, 300));
        grow(&mut ledger, 1024);
        let _ = memo.decide(&ledger, &policy, &request(150, 3));
        assert_eq!((memo.specs.len(), memo.shapes), (43, 129), "128 shapes on 1024 nodes, and 3");
        assert_eq!(memo.specs.len(), memo.by_last_use.len());
        assert!(memo.specs.keys().any(|key| key.0 == request(150, 3).spec.nameless()));
        grow(&mut ledger, 1 << 15);
        let _ = memo.decide(&ledger, &policy, &request(150, 3));
        assert!(memo.specs.len() <= SPECS_KEPT + 1);
    }
}
