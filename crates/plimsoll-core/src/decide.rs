//! Look, judge, choose: a decision, with all that it was made from.

use std::sync::{Arc, OnceLock};

use crate::candidate::Judge;
use crate::draft::View;
use crate::ledger::{NodeId, Views};
use crate::policy::Policy;
use crate::reason::{Reason, RequestReason};
use crate::request::{Asks, Misuse, Request, RequestId, Spec};
use crate::room::NodeView;
use crate::units::{Bytes, Name};
use crate::verdict::{Candidate, DeviceVerdict, Finding, Findings, Table};

/// The answer to a request, and everything it was made from.
#[derive(Clone, Debug)]
#[must_use = "an unread decision explains nothing"]
pub struct Decision {
    /// Who asked.
    pub request: RequestId,
    /// What was asked.
    pub spec: Arc<Spec>,
    /// The ledger's revision that was looked at.
    pub revision: u64,
    /// The policy that chose, as the request leans.
    pub policy: Policy,
    /// The rows that were looked at.
    pub views: Views,
    /// What was found there, for each shape that was tried, in order.
    pub shapes: Vec<Findings>,
    /// The answer.
    pub outcome: Outcome,
    /// The answer in one sentence, once somebody asked for it.
    pub(crate) sentence: OnceLock<String>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The best place.
    Placed(Candidate),
    /// No place; the reason where it is not one of nodes and devices.
    Refused(Option<RequestReason>),
}

impl Decision {
    /// The same rows and verdicts with another answer: that of a gang, where each gets what is best for all.
    pub(crate) fn answered(self, outcome: Outcome) -> Decision {
        Decision { outcome, sentence: OnceLock::new(), ..self }
    }

    /// The place, where there is one.
    pub fn place(&self) -> Option<&Candidate> {
        match &self.outcome {
            Outcome::Placed(candidate) => Some(candidate),
            Outcome::Refused(_) => None,
        }
    }

    /// The verdicts that answered: those of the shape taken, or of the last one tried.
    pub fn table(&self) -> Option<Table<'_>> {
        self.tables().last()
    }

    /// The verdicts for each shape that was tried, in order.
    pub fn tables(&self) -> impl Iterator<Item = Table<'_>> {
        self.shapes.iter().map(|findings| Table { views: &self.views, findings })
    }

    /// The refusal that came nearest: the node and device that lacked the least memory, first among those that would do if they
    /// were empty.
    pub fn nearest_miss(&self) -> Option<Miss> {
        let table = self.table()?;
        table
            .unordered()
            .filter(|verdict| verdict.reason.is_none())
            .filter_map(|v| nearest_on(v.finding))
            .min()
    }
}

/// A device that would have done, but for so much memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Miss {
    /// Whether it would not do even if nobody held anything of it.
    pub too_small: bool,
    /// What was lacking.
    pub short_by: Bytes,
    /// The node.
    pub node: Name,
    /// The device, by ordinal.
    pub ordinal: u16,
    /// What was needed.
    pub need: Bytes,
    /// What was free.
    pub free: Bytes,
}

fn nearest_on(finding: &Finding) -> Option<Miss> {
    let miss = |device: &DeviceVerdict| {
        let (too_small, need, free) = match device.reason.as_ref()? {
            Reason::ShortOfMemory { need, free, .. } => (false, *need, *free),
            Reason::PromisedAway { need, open, .. } => (false, *need, *open),
            Reason::TooSmall { need, free, .. } => (true, *need, *free),
            _ => return None,
        };
        let (node, ordinal) = (finding.node.clone(), device.ordinal);
        Some(Miss { too_small, short_by: need.less(free), node, ordinal, need, free })
    };
    // Every need must be served, so a node is as far off as the need that is furthest from a device.
    let failed = finding.needs.iter().filter(|need| !need.passed);
    failed.filter_map(|need| need.devices.iter().filter_map(miss).min()).max()
}

/// Decides a request on nodes as they stand. Changes nothing; the commit asks the same `fit` again.
pub fn decide(view: &impl View, policy: &Policy, request: &Request) -> Decision {
    let policy = policy.leaning(&request.spec.leaning);
    let mut shapes = Vec::new();
    let refusal = refusal(&request.spec, view.nodes().next().is_none());
    let mut outcome = Outcome::Refused(refusal);
    for shape in (0_u16..).zip(request.spec.shapes()).map(|(shape, _)| shape) {
        let (findings, best) = judge_all(view.nodes(), &policy, &request.spec, shape);
        shapes.push(findings);
        if let Some(best) = best {
            outcome = Outcome::Placed(best);
            break;
        }
    }
    Decision {
        request: request.id.clone(),
        spec: request.spec.clone(),
        revision: view.revision(),
        policy,
        views: view.views(),
        shapes,
        outcome,
        sentence: OnceLock::new(),
    }
}

/// Why a request is refused before any node is looked at.
pub(crate) fn refusal(spec: &Spec, no_nodes: bool) -> Option<RequestReason> {
    match &spec.asks {
        Asks::Malformed(misuse) => Some(RequestReason::Malformed(misuse.clone())),
        Asks::Shapes(shapes) if shapes.is_empty() => {
            Some(RequestReason::Malformed(Misuse::no_shape()))
        }
        Asks::Shapes(_) => no_nodes.then_some(RequestReason::NoNodes),
    }
}

/// Judges every node, and chooses the best; of equals the first by name.
fn judge_all<'v>(
    nodes: impl Iterator<Item = (NodeId, &'v NodeView)>,
    policy: &Policy,
    spec: &Spec,
    shape: u16,
) -> (Findings, Option<Candidate>) {
    let mut findings = Findings::default();
    let mut best: Option<Candidate> = None;
    let judge = Judge::new(policy, spec, shape);
    for (id, view) in nodes {
        let finding = judge.judge(view);
        if let Some(found) = &finding.best
            && best.as_ref().is_none_or(|best| found.score.total() > best.score.total())
        {
            best = Some(found.clone());
        }
        findings.set(id, Some(finding));
    }
    (findings, best)
}
