//! Gangs: members that are placed together or not at all, each with its own reason.
//!
//! Two searches, the cheap one first. `decide_in_turn` decides the members one after the other on a
//! draft, each with its best placement: one decision per member, and enough for most gangs. It can
//! fail although the gang fits, because an early member may take the only device that suits a later
//! one. Then `search` backtracks over the placements of all members, depth first, and leaves out as
//! few members as possible.
//!
//! The full search is exponential, so that all attempts together share `Policy::search_steps`; when
//! they run out, the answer is "not found in N steps" and never "impossible". Nodes with equal
//! facts and equal use are tried once per member, as are interchangeable devices, unless a member
//! names nodes or devices. It ends because each level of the recursion is one member. Deciding the
//! gang as one request over several nodes was rejected: `fit` and every explanation are about one
//! node.

use std::ops::ControlFlow;

use crate::candidate::{Judge, OutOfSteps};
use crate::decide::{Decision, Outcome, decide};
use crate::draft::{Draft, View};
use crate::fit::{AdmissionError, Placement};
use crate::ledger::Ledger;
use crate::policy::Policy;
use crate::reason::RequestReason;
use crate::request::Request;
use crate::room::NodeView;
use crate::rules::{NodeRules, Subject};
use crate::units::Name;
use crate::verdict::Candidate;

/// Requests that are placed together.
#[derive(Clone, Debug)]
pub struct Gang {
    pub name: Name,
    /// The number of members that must be placed together. More are placed if they fit.
    pub minimum: u32,
    /// In the order in which they are served.
    pub members: Vec<Request>,
}

impl Gang {
    /// Creates a draft without the promises to the members, which must not block the members
    /// themselves.
    pub fn draft<'a>(&self, ledger: &'a Ledger) -> Draft<'a> {
        let mut draft = Draft::new(ledger);
        for member in &self.members {
            draft.without_promise_to(&member.id);
        }
        draft
    }
}

/// The answer to a gang.
#[derive(Clone, Debug)]
#[must_use = "an unread decision explains nothing"]
pub struct GangDecision {
    /// One decision for each member, in their order. If the gang is not placed, no member is.
    pub decisions: Vec<Decision>,
    pub placed: bool,
    /// The search ran out of steps, so that a better or any placement may exist.
    pub cut_off: bool,
}

/// Decides a gang: places at least the minimum of members together, or none.
pub fn decide_gang(ledger: &Ledger, policy: &Policy, gang: &Gang) -> GangDecision {
    decide_gang_on(&gang.draft(ledger), policy, gang)
}

/// Decides a gang as [`decide_gang`] does, on a draft.
pub fn decide_gang_on(base: &Draft, policy: &Policy, gang: &Gang) -> GangDecision {
    let members = u32::try_from(gang.members.len()).unwrap_or(u32::MAX);
    let (decisions, placed) = decide_in_turn(base, policy, &gang.members);
    if placed == members && placed >= gang.minimum {
        return GangDecision { decisions, placed: true, cut_off: false };
    }
    let found = if members < gang.minimum { Ok(None) } else { search(base, policy, gang) };
    match found {
        Ok(Some(places)) => GangDecision {
            decisions: decide_placed(base, policy, &gang.members, places),
            placed: true,
            cut_off: false,
        },
        // The search was cut off, but serving the members in turn had already found enough places.
        Err(OutOfSteps) if placed >= gang.minimum => {
            GangDecision { decisions, placed: true, cut_off: true }
        }
        Ok(None) => {
            let (gang, minimum) = (gang.name.clone(), gang.minimum);
            let reason = RequestReason::GangIncomplete { gang, minimum, placed, members };
            GangDecision {
                decisions: reject_all(decisions, &reason),
                placed: false,
                cut_off: false,
            }
        }
        Err(OutOfSteps) => {
            let (gang, minimum, steps) = (gang.name.clone(), gang.minimum, policy.search_steps);
            let reason = RequestReason::GangNotFound { gang, minimum, placed, steps };
            GangDecision { decisions: reject_all(decisions, &reason), placed: false, cut_off: true }
        }
    }
}

/// Decides the members one after the other, each with its best placement beside the earlier ones.
/// Returns the decisions and the number of placed members.
fn decide_in_turn(base: &Draft, policy: &Policy, members: &[Request]) -> (Vec<Decision>, u32) {
    let mut draft = base.clone();
    let mut placed = 0;
    let decisions = members.iter().map(|member| {
        let decision = decide(&draft, policy, member);
        if let Some(placement) = decision.placement() {
            draft
                .place(member, placement)
                .expect("what decide proposes the draft admits, on the same rows");
            placed += 1;
        }
        decision
    });
    (decisions.collect(), placed)
}

/// Searches for placements of all members together, with as few members left out as possible.
fn search(
    base: &Draft,
    policy: &Policy,
    gang: &Gang,
) -> Result<Option<Vec<Option<Placement>>>, OutOfSteps> {
    let spare = gang.members.len().saturating_sub(gang.minimum as usize);
    let mut steps = policy.search_steps;
    for left_out in 0..=spare {
        let mut places = Vec::new();
        let names = NamedTargets::new(&gang.members);
        let mut search = Search { policy, members: &gang.members, names, steps: &mut steps };
        if search.place_rest(base, left_out, &mut places)?.is_break() {
            return Ok(Some(places));
        }
    }
    Ok(None)
}

/// The kinds of things that members name. Those are not interchangeable.
#[derive(Clone, Copy)]
struct NamedTargets {
    nodes: bool,
    devices: bool,
}

impl NamedTargets {
    fn new(members: &[Request]) -> Self {
        NamedTargets {
            nodes: members.iter().any(|member| names_nodes(&member.spec.rules)),
            devices: members
                .iter()
                .flat_map(|member| member.spec.needs())
                .any(|need| need.selector.names_devices()),
        }
    }
}

fn names_nodes(rules: &NodeRules) -> bool {
    let terms = rules.any.iter().chain(rules.preferred.iter().map(|(_, term)| term));
    let mut requirements = rules.all.iter().chain(terms.flat_map(|term| &term.0));
    rules.named.is_some()
        || requirements.any(|requirement| requirement.subject == Subject::NodeName)
}

/// The depth-first search over the placements of all members.
struct Search<'a> {
    policy: &'a Policy,
    members: &'a [Request],
    names: NamedTargets,
    steps: &'a mut u32,
}

impl Search<'_> {
    /// Places the members after `places`, leaving out at most `left_out` of them. Breaks with a
    /// complete solution in `places`.
    fn place_rest(
        &mut self,
        draft: &Draft,
        left_out: usize,
        places: &mut Vec<Option<Placement>>,
    ) -> Result<ControlFlow<()>, OutOfSteps> {
        let Some(member) = self.members.get(places.len()) else {
            return Ok(ControlFlow::Break(()));
        };
        let policy = self.policy.with_hints(&member.spec.hints);
        let shapes = u16::try_from(member.spec.shapes().len()).unwrap_or(u16::MAX);
        for shape in 0..shapes {
            let mut tried: Vec<&NodeView> = Vec::new();
            for (_, view) in draft.nodes() {
                if !self.names.nodes && tried.iter().any(|earlier| are_equal(earlier, view)) {
                    continue;
                }
                tried.push(view);
                for place in self.places(view, &policy, member, shape)? {
                    let mut next = draft.clone();
                    match next.place(member, &place) {
                        Ok(_) => {}
                        // Judging a node does not read the account's maximum.
                        Err(AdmissionError::Account(_)) => continue,
                        Err(error) => unreachable!("the draft admits what judging found: {error}"),
                    }
                    places.push(Some(place));
                    if self.place_rest(&next, left_out, places)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    places.pop();
                }
            }
        }
        if left_out > 0 {
            places.push(None);
            if self.place_rest(draft, left_out - 1, places)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            places.pop();
        }
        Ok(ControlFlow::Continue(()))
    }

    fn places(
        &mut self,
        view: &NodeView,
        policy: &Policy,
        member: &Request,
        shape: u16,
    ) -> Result<Vec<Placement>, OutOfSteps> {
        let mut found = Vec::new();
        *self.steps = self.steps.checked_sub(1).ok_or(OutOfSteps)?;
        let mut collect = |place| {
            found.push(place);
            ControlFlow::Continue(())
        };
        let judge = Judge::new(policy, &member.spec, shape);
        let judge = if self.names.devices { judge.with_distinct_devices() } else { judge };
        let _ = judge.each_placement(view, self.steps, &mut collect)?;
        Ok(found)
    }
}

/// Returns true if no member can distinguish the two nodes, so that trying one is enough.
fn are_equal(one: &NodeView, other: &NodeView) -> bool {
    one.node.labels == other.node.labels
        && one.node.taints == other.node.taints
        && one.node.files == other.node.files
        && one.node.failed_starts == other.node.failed_starts
        && one.node.unschedulable == other.node.unschedulable
        && one.node.silent_since == other.node.silent_since
        && one.node.allocatable == other.node.allocatable
        && one.node.choice == other.node.choice
        && one.node.missing_cards == other.node.missing_cards
        && one.node.unknown == other.node.unknown
        && one.node.devices == other.node.devices
        && one.room.same_fit_inputs(&other.room)
}

/// Returns the decisions of the members for placements that were found together.
fn decide_placed(
    base: &Draft,
    policy: &Policy,
    members: &[Request],
    places: Vec<Option<Placement>>,
) -> Vec<Decision> {
    let mut draft = base.clone();
    let decisions = members.iter().zip(places).map(|(member, place)| {
        let decision = decide(&draft, policy, member);
        let outcome = match place {
            Some(place) => {
                let view = base
                    .ledger()
                    .node_id(&place.node)
                    .and_then(|id| draft.node(id))
                    .expect("places are on nodes");
                let score =
                    Judge::new(&decision.policy, &member.spec, place.shape).score(view, &place);
                draft.place(member, &place).expect("the search tried these places in this order");
                Outcome::Placed(Candidate { placement: place, score })
            }
            None => Outcome::Rejected(None),
        };
        decision.with_outcome(outcome)
    });
    decisions.collect()
}

fn reject_all(decisions: Vec<Decision>, reason: &RequestReason) -> Vec<Decision> {
    let reject = |decision: Decision| match decision.outcome {
        Outcome::Rejected(Some(_)) => decision,
        _ => decision.with_outcome(Outcome::Rejected(Some(reason.clone()))),
    };
    decisions.into_iter().map(reject).collect()
}
