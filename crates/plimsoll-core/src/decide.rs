//! Decisions: judges all nodes, chooses the best candidate, and keeps everything that was read.

use std::sync::{Arc, OnceLock};

use crate::account::Allowance;
use crate::candidate::Judge;
use crate::draft::View;
use crate::fit::{self, AdmissionError, Placement};
use crate::ledger::{NodeId, Views};
use crate::policy::Policy;
use crate::reason::RequestReason;
use crate::rejection::Rejection;
use crate::request::{Asks, Misuse, Request, RequestId, Spec};
use crate::room::NodeView;
use crate::verdict::{Candidate, Findings, Table};

mod summary;

/// The answer to a request, with everything that it was made from.
#[derive(Clone, Debug)]
#[must_use = "an unread decision explains nothing"]
pub struct Decision {
    pub request: RequestId,
    pub spec: Arc<Spec>,
    /// The revision of the ledger that was read.
    pub revision: u64,
    /// The policy with the request's hints applied.
    pub policy: Policy,
    /// The nodes as they were read.
    pub views: Views,
    /// The findings for each shape that was tried, in order.
    pub shapes: Vec<Findings>,
    pub outcome: Outcome,
    /// Computed on first use; see [`Decision::rejection`].
    pub(crate) rejection: OnceLock<Arc<Rejection>>,
}

/// The outcome of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The best placement.
    Placed(Candidate),
    /// No placement; the reason of the request as a whole, if it is not one of nodes and devices.
    Rejected(Option<RequestReason>),
}

impl Decision {
    /// Returns the same views and findings with another outcome: that of a gang, where each member
    /// gets what is best for all.
    pub(crate) fn with_outcome(self, outcome: Outcome) -> Decision {
        Decision { outcome, rejection: OnceLock::new(), ..self }
    }

    /// Returns the chosen candidate, if the request is placed.
    pub fn chosen(&self) -> Option<&Candidate> {
        match &self.outcome {
            Outcome::Placed(candidate) => Some(candidate),
            Outcome::Rejected(_) => None,
        }
    }

    /// Returns the chosen placement, if the request is placed.
    pub fn placement(&self) -> Option<&Placement> {
        self.chosen().map(|candidate| &candidate.placement)
    }

    /// Returns the verdicts that decided: those of the chosen shape, or of the last one tried.
    pub fn table(&self) -> Option<Table<'_>> {
        self.tables().last()
    }

    /// Iterates over the verdicts of each shape that was tried, in order.
    pub fn tables(&self) -> impl Iterator<Item = Table<'_>> {
        self.shapes.iter().map(|findings| Table { views: &self.views, findings })
    }
}

/// Decides a request. Changes nothing; the commit asks the same `fit` again.
pub fn decide(view: &impl View, policy: &Policy, request: &Request) -> Decision {
    let policy = policy.with_hints(&request.spec.hints);
    let allowance = view.allowance(&request.id);
    let shapes = (0_u16..).zip(request.spec.shapes());
    let tried = try_shapes(shapes.map(|(shape, _)| {
        let judge = Judge::new(&policy, &request.spec, shape);
        judge_all(view.nodes(), &judge, &request.spec, &allowance)
    }));
    Decision::new(view, policy, request, tried)
}

/// The result of judging all nodes for one shape of a request.
pub(crate) struct JudgedShape {
    pub findings: Findings,
    /// The best candidate within the account's maximum, or the account's reason if only its maximum
    /// is in the way.
    pub best: Result<Option<Candidate>, RequestReason>,
}

/// The shapes of a request up to the first one that can be placed.
pub(crate) struct TriedShapes {
    findings: Vec<Findings>,
    outcome: Outcome,
}

/// Tries shapes in order until one can be placed; the rest are not judged.
pub(crate) fn try_shapes(shapes: impl Iterator<Item = JudgedShape>) -> TriedShapes {
    let mut tried = TriedShapes { findings: Vec::new(), outcome: Outcome::Rejected(None) };
    for JudgedShape { findings, best } in shapes {
        tried.findings.push(findings);
        match best {
            Ok(None) => {}
            Ok(Some(best)) => {
                tried.outcome = Outcome::Placed(best);
                break;
            }
            Err(reason) => tried.outcome = Outcome::Rejected(Some(reason)),
        }
    }
    tried
}

impl Decision {
    /// Creates the decision that these shapes amount to. `policy` has the request's hints applied.
    pub(crate) fn new(
        view: &impl View,
        policy: Policy,
        request: &Request,
        tried: TriedShapes,
    ) -> Decision {
        let no_nodes = || view.nodes().next().is_none().then_some(RequestReason::NoNodes);
        let outcome = match tried.outcome {
            Outcome::Rejected(None) => Outcome::Rejected(unjudged(&request.spec).or_else(no_nodes)),
            outcome => outcome,
        };
        Decision {
            request: request.id.clone(),
            spec: request.spec.clone(),
            revision: view.revision(),
            policy,
            views: view.views(),
            shapes: tried.findings,
            outcome,
            rejection: OnceLock::new(),
        }
    }
}

/// Returns the reason of a request whose needs are not known: it is malformed, or waits.
fn unjudged(spec: &Spec) -> Option<RequestReason> {
    match &spec.asks {
        Asks::Waiting(misuse) => Some(RequestReason::Waiting(misuse.clone())),
        _ => malformed(spec),
    }
}

/// Returns the reason of a request that no fleet could serve, because it is malformed.
pub(crate) fn malformed(spec: &Spec) -> Option<RequestReason> {
    match &spec.asks {
        Asks::Malformed(misuse) => Some(RequestReason::Malformed(misuse.clone())),
        Asks::Shapes(shapes) if shapes.is_empty() => {
            Some(RequestReason::Malformed(Misuse::no_shape()))
        }
        Asks::Shapes(_) | Asks::Waiting(_) => None,
    }
}

/// Judges every node and chooses the best; of equals the first by name.
fn judge_all<'v>(
    nodes: impl Iterator<Item = (NodeId, &'v NodeView)>,
    judge: &Judge,
    spec: &Spec,
    allowance: &Allowance,
) -> JudgedShape {
    let mut findings = Findings::default();
    let mut best: Option<Candidate> = None;
    // With the score of its candidate: the best one speaks, as in `memo`.
    let mut over: Option<(i64, RequestReason)> = None;
    for (id, view) in nodes {
        let finding = judge.judge(view);
        if let Some(found) = &finding.best
            && best.as_ref().is_none_or(|best| found.score.total() > best.score.total())
        {
            match over_maximum(view, allowance, spec, found) {
                None => best = Some(found.clone()),
                Some(reason) => {
                    let score = found.score.total();
                    if over.as_ref().is_none_or(|(best, _)| score > *best) {
                        over = Some((score, reason));
                    }
                }
            }
        }
        findings.set(id, Some(finding));
    }
    let best = match (best, over) {
        (None, Some((_, reason))) => Err(reason),
        (best, _) => Ok(best),
    };
    JudgedShape { findings, best }
}

/// Returns the reason of the request's account against a candidate, as the commit would give it.
pub(crate) fn over_maximum(
    view: &NodeView,
    allowance: &Allowance,
    spec: &Spec,
    found: &Candidate,
) -> Option<RequestReason> {
    if allowance.is_unlimited() {
        return None;
    }
    match fit::admit(view, allowance, spec, &found.placement) {
        Err(AdmissionError::Account(reason)) => Some(reason),
        _ => None,
    }
}
